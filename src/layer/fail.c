/*
 * The layer fail: calls that fail on demand.
 *
 * ACLMEM_FAIL is PATTERN:WHEN or PATTERN:WHEN=CODE.  The pattern is a function's name, with
 * * for any text; WHEN is N for the Nth call that matches, N+ for that and all after it,
 * or "list": none fails, and each is written down for the command.  A call that fails is
 * not passed on and changes nothing; its code and the start of its message are those of
 * memory that is used up, unless a code is given.  A pattern with a * does not match what
 * gives something back: a program has no way to go on when that fails.
 */
#include <fnmatch.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/options.h"
#include "layer/args.h"
#include "layer/effects.h"
#include "layer/finding.h"
#include "layer/layers.h"
#include "layer/stacks.h"

static const struct am_api *_Atomic below;

static struct {
    atomic_bool matches[AM_API_COUNT];
    _Atomic uint64_t first; /* the call that fails */
    atomic_bool is_lasting; /* and all after it */
    atomic_bool is_list;
    _Atomic aclError code; /* 0: the function's own */
    _Atomic uint64_t n;    /* calls so far that match */
} fail;

static const unsigned short effects[AM_API_COUNT] = {
#define AM_CALL(name_, effect_, ...) [AM_API_##name_] = effect_,
#include "layer/calls.def"
#undef AM_CALL
};

/* How a function fails when there is no memory, or no more of what it makes. */
static aclError code_of(enum am_api_id id)
{
    if (fail.code != ACL_SUCCESS)
        return fail.code;
    if (strncmp(am_api_names[id], "aclrtCreateStream", 17) == 0)
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    if (strncmp(am_api_names[id], "aclrtCreateEvent", 16) == 0)
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    if (effects[id] & (AM_MAKES | AM_RETAINS | AM_READS | AM_WRITES | AM_QUEUES))
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    return ACL_ERROR_RT_INTERNAL_ERROR;
}

/* Whether this call fails; counts it. */
static bool is_due(enum am_api_id id)
{
    struct am_site site = {.api = (uint16_t)id};
    uint64_t n;
    bool is_it;

    if (!fail.matches[id])
        return false;
    n = atomic_fetch_add(&fail.n, 1) + 1;
    is_it = !fail.is_list && (fail.is_lasting ? n >= fail.first : n == fail.first);
    if (fail.is_list || is_it) {
        site.stack = am_stack_take();
        site.thread = (uint32_t)syscall(SYS_gettid);
        am_findings_call(fail.is_list ? "call" : "failed", n, site);
    }
    return is_it;
}

static aclError refuse(enum am_api_id id)
{
    aclError code = code_of(id);

    am_error_function = am_api_names[id];
    return am_fail(code, "%sthis call fails on demand (ACLMEM_FAIL=%s)",
                   code == ACL_ERROR_RT_MEMORY_ALLOCATION ? "Failed to allocate: " : "",
                   am_option_text(AM_OPTION_fail));
}

#define AM_API(ret_, name_, params_, args_, sig_) \
    static aclError fail_##name_ params_ \
    { \
        return is_due(AM_API_##name_) ? refuse(AM_API_##name_) : below->name_ args_; \
    }
#define AM_API_RET(...)
#include "api/api.def"

/* What returns no code cannot fail in a way that a program could see. */
static const struct am_api fail_table = {
#define AM_API(ret_, name_, ...) .name_ = fail_##name_,
#define AM_API_RET(...)
#include "api/api.def"
};

/* ---- ACLMEM_FAIL ---- */

/* False: it is wrong, or matches no function. */
static bool fail_parse(const char *text)
{
    const char *colon = strrchr(text, ':');
    char pattern[128];
    char *end = NULL;
    bool is_any = false;

    if (colon == NULL || (size_t)(colon - text) >= sizeof pattern)
        return text[0] == '\0';
    memcpy(pattern, text, (size_t)(colon - text));
    pattern[colon - text] = '\0';
    fail.is_list = strncmp(colon + 1, "list", 4) == 0;
    fail.first = strtoull(colon + 1, &end, 10);
    if (fail.is_list)
        end = (char *)colon + 5;
    else if (fail.first == 0)
        return false;
    fail.is_lasting = *end == '+';
    end += fail.is_lasting;
    fail.code = *end == '=' ? (aclError)strtol(end + 1, &end, 10) : ACL_SUCCESS;
    if (*end != '\0')
        return false;
    for (int id = 0; id < AM_API_COUNT; id++) {
        bool is_exact = strcmp(pattern, am_api_names[id]) == 0;

        fail.matches[id] = is_exact || (fnmatch(pattern, am_api_names[id], 0) == 0 &&
                                        !(effects[id] & AM_FREES));
        is_any |= fail.matches[id];
    }
    return is_any;
}

static void attach(const struct am_api *table)
{
    below = table;
    fail.n = 0;
    am_stacks_open();
    am_findings_open(am_option_text(AM_OPTION_findings));
}

const struct am_layer am_fail_layer = {
    .name = "fail", .api = &fail_table, .attach = attach};

aclError am_layers_configure(void)
{
    const char *wrong;
    size_t n;

    AM_REQUIRE(am_kinds_choose(am_option_text(AM_OPTION_check), &wrong, &n),
               ACL_ERROR_INVALID_PARAM,
               "ACLMEM_CHECK is \"%s\", and there is no kind of finding \"%.*s\"",
               am_option_text(AM_OPTION_check), (int)n, wrong);
    AM_REQUIRE(fail_parse(am_option_text(AM_OPTION_fail)), ACL_ERROR_INVALID_PARAM,
               "ACLMEM_FAIL is \"%s\"; it takes FUNCTION:N, FUNCTION:N+ or "
               "FUNCTION:N=CODE, with * for any text of names that exist",
               am_option_text(AM_OPTION_fail));
    return ACL_SUCCESS;
}

bool am_layers_are_for_us(void)
{
    int64_t pid = am_option_number(AM_OPTION_layers_pid);

    return pid == 0 || pid == getpid();
}
