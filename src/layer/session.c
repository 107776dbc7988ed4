/*
 * A session: what the layer check finds between two moments, for a program that runs tests
 * (aclmem_check_begin and aclmem_check_end of aclmem.h).
 *
 * Inside a session findings are collected and returned as JSON instead of being printed.
 * A finding that an earlier session had is reported again, and device memory may have a limit.
 */
#include <dlfcn.h>
#include <jansson.h>
#include <string.h>

#include "aclmem/aclmem.h"
#include "api/api.h"
#include "base/error.h"
#include "layer/metadata.h"
#include "layer/finding.h"
#include "layer/layers.h"
#include "layer/modules.h"
#include "layer/python.h"
#include "layer/stacks.h"

static struct {
    uint32_t number; /* of the session that is on; 0: none */
    uint32_t n;      /* sessions so far */
    uint64_t limit;  /* 0: none */
    uint64_t base;   /* am_check.device_bytes at the begin */
    uint64_t serial; /* objects up to this one are older */
    bool is_over;    /* the limit was exceeded, and reported */
    json_t *findings;
} session; /* am_check.lock */

uint32_t am_session_number(void)
{
    return session.number;
}

/* ---- a finding as JSON ---- */

static json_t *native_frame(uintptr_t addr, uint32_t era)
{
    int number = am_module_find(addr, era);
    const struct am_module *module = number >= 0 ? am_module_get(number) : NULL;
    json_t *frame = json_object();
    Dl_info info;

    if (dladdr((void *)addr, &info) != 0 && info.dli_sname != NULL)
        json_object_set_new(frame, "function", json_string(info.dli_sname));
    if (module != NULL)
        json_object_set_new(frame, "module", json_string(module->path));
    json_object_set_new(
        frame, "offset",
        json_integer((json_int_t)(addr - (module != NULL ? module->base : 0))));
    return frame;
}

/* The frames of Python where there are any, as `aclmem run` prints them. */
static json_t *stack_of(const struct am_site *site)
{
    json_t *list = am_python_frames(site->python);
    const uintptr_t *frame;
    uint32_t era;
    size_t n;

    if (json_array_size(list) > 0)
        return list;
    frame = am_stack_frames(site->stack, &n, &era);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, native_frame(frame[i] - 1, era));
    return list;
}

void am_session_add(const struct am_finding *finding)
{
    json_array_append_new(session.findings, am_finding_json(finding, stack_of, false));
}

/* ---- begin and end ---- */

/* Replaces the list; the one before is the caller's. */
static json_t *findings_swap(json_t *list)
{
    json_t *old = session.findings;

    session.findings = list;
    return old;
}

AM_LAYER_EXPORT aclError aclmem_check_begin(uint64_t limit)
{
    AM_TRY(am_check_state(__func__));
    am_check_lock();
    json_decref(findings_swap(json_array()));
    session.limit = limit;
    session.base = am_counter_sum(&am_check.device_bytes);
    session.serial = am_serial_last();
    session.is_over = false;
    session.number = ++session.n;
    am_check_unlock();
    return ACL_SUCCESS;
}

/* The list as text; frees the list. */
static aclError list_give(json_t *list, char **ret_text)
{
    char *text = list != NULL ? json_dumps(list, JSON_COMPACT) : strdup("[]");

    json_decref(list);
    AM_REQUIRE(text != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the findings");
    *ret_text = text;
    return ACL_SUCCESS;
}

AM_LAYER_EXPORT aclError aclmem_check_findings(char **findings)
{
    json_t *list;

    AM_TRY(am_check_state(__func__));
    AM_REQUIRE(findings != NULL, ACL_ERROR_INVALID_PARAM, "findings is NULL");
    am_check_lock();
    list = findings_swap(am_session_number() != 0 ? json_array() : NULL);
    am_check_unlock();
    return list_give(list, findings);
}

AM_LAYER_EXPORT aclError aclmem_check_end(int leaks, char **findings)
{
    json_t *list;

    AM_TRY(am_check_state(__func__));
    AM_REQUIRE(findings != NULL, ACL_ERROR_INVALID_PARAM, "findings is NULL");
    am_check_lock();
    if (leaks != 0 && am_session_number() != 0)
        am_leaks_report(-1, session.serial, "the end of the test");
    session.number = 0;
    list = findings_swap(NULL);
    session.limit = 0;
    am_check_unlock();
    return list_give(list, findings);
}

bool am_session_has_limit(void)
{
    return session.limit != 0 && !session.is_over && am_session_number() != 0;
}

void am_session_grown(const struct am_call *call)
{
    static struct am_finding f; /* under am_check.lock */
    char held[32];
    char limit[32];
    uint64_t bytes;

    if (!am_session_has_limit())
        return;
    bytes = am_counter_sum(&am_check.device_bytes);
    if (bytes <= session.base || bytes - session.base <= session.limit)
        return;
    session.is_over = true;
    am_finding_begin(
        &f, AM_KIND_over_limit,
        "with this call the test holds %s of device memory, and its limit is %s",
        am_size_text(bytes - session.base, held, sizeof held),
        am_size_text(session.limit, limit, sizeof limit));
    f.advice = "free memory before this call, or raise the limit";
    am_finding_at(&f, "allocated here", call->site);
    am_finding_report(&f);
}
