/* A run's choices, its log, its reports, and what every call's outcome is checked for. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source source_of_seed(uint64_t seed)
{
    return (struct source){.state = seed};
}

struct source source_of_bytes(const uint8_t *bytes, size_t n_bytes)
{
    return (struct source){.bytes = bytes, .n_bytes = n_bytes};
}

bool source_is_dry(const struct source *src)
{
    return src->bytes != NULL && src->at >= src->n_bytes;
}

/* splitmix64: every seed, zero included, starts a sequence of its own. */
static uint64_t draw(struct source *src)
{
    uint64_t z = src->state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/*
 * As few bytes as the choice needs, so that a fuzzer's change of one byte changes one
 * choice.
 */
static uint64_t take(struct source *src, uint32_t n)
{
    uint64_t value = 0;

    for (uint32_t left = n - 1; left > 0; left >>= 8)
        value = value << 8 | (src->at < src->n_bytes ? src->bytes[src->at++] : 0);
    return value;
}

/* A number below n. */
uint32_t pick(struct run *r, uint32_t n)
{
    if (n <= 1)
        return 0;
    return (uint32_t)((r->src->bytes != NULL ? take(r->src, n) : draw(r->src) >> 16) % n);
}

bool chance(struct run *r, uint32_t percent)
{
    return pick(r, 100) < percent;
}

void run_log(struct run *r, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(r->log[r->n_logged++ % RUN_LOG], RUN_LINE, fmt, args);
    va_end(args);
}

static void log_outcome(struct run *r, aclError rc)
{
    char *line = r->log[(r->n_logged - 1) % RUN_LOG];
    size_t length = strlen(line);

    snprintf(line + length, RUN_LINE - length, " = %d", rc);
}

void difference(struct run *r, const char *fmt, ...)
{
    unsigned first = r->n_logged > RUN_LOG ? r->n_logged - RUN_LOG : 0;
    const char *message = aclGetRecentErrMsg();
    va_list args;

    flockfile(stderr);
    fprintf(stderr, "\nThe library and the model differ: %s, step %llu\n", r->label,
            (unsigned long long)r->step);
    for (unsigned i = first; i < r->n_logged; i++)
        fprintf(stderr, "    %s\n", r->log[i % RUN_LOG]);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nrecent message: %s\n", message != NULL ? message : "none");
    funlockfile(stderr);
    r->give_up();
    abort();
}

static void list_codes(const struct verdict *v, char *text, size_t size)
{
    size_t at = 0;

    if (v->n_hard == 0)
        at += (size_t)snprintf(text, size, "0");
    for (unsigned i = 0; i < v->n_hard; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", at > 0 ? " or " : "",
                               v->hard[i]);
    for (unsigned i = 0; i < v->n_soft; i++)
        at += (size_t)snprintf(text + at, size - at, " or %d", v->soft[i]);
}

/* Takes the message, so that the next call starts with none. */
static void check_message(struct run *r, aclError rc, const struct verdict *v)
{
    const char *message = aclGetRecentErrMsg();
    bool is_strict_only = verdict_is_refusal(v) && !v->is_common;

    /* Refused for something else that both rule sets leave room for. */
    for (unsigned i = 0; i < v->n_soft; i++)
        is_strict_only = is_strict_only && v->soft[i] != rc;

    if (rc == ACL_SUCCESS) {
        expect(r, message == NULL, "a call that succeeded left a message: %s", message);
        return;
    }
    expect(r, message != NULL && message[0] != '\0', "%d left no message", rc);
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        expect(r,
               strncmp(message, "EL0004", 6) == 0 &&
                   strstr(message, "Failed to allocate"),
               "the message of 207001 is: %s", message);
    if (is_strict_only)
        expect(r, strstr(message, "strict") != NULL,
               "only the strict rules refuse this, and the message hides it: %s",
               message);
}

bool settle(struct run *r, aclError rc, const struct verdict *v)
{
    char codes[256];

    log_outcome(r, rc);
    if (!verdict_allows(v, rc)) {
        list_codes(v, codes, sizeof(codes));
        difference(r, "expected %s, got %d", codes, rc);
    }
    if (rc != ACL_SUCCESS)
        r->last_error = rc;
    check_message(r, rc, v);
    return rc == ACL_SUCCESS;
}

void settle_ok(struct run *r, aclError rc)
{
    static const struct verdict fine;

    settle(r, rc, &fine);
}

void remember_stale(struct run *r, void *handle)
{
    r->stale[r->n_stale++ % RUN_STALE] = handle;
}

void remember_gone(struct run *r, uintptr_t start)
{
    r->gone[r->n_gone++ % RUN_GONE] = start;
}

void remember_leaving(struct run *r, uintptr_t start)
{
    remember_gone(r, start);
    r->leaving[r->n_leaving++ % RUN_GONE] = start;
}

bool is_leaving(const struct run *r, uintptr_t start)
{
    for (unsigned i = 0; i < RUN_GONE && i < r->n_leaving; i++)
        if (r->leaving[i] == start)
            return true;
    return false;
}

bool is_stale(const struct run *r, const void *handle)
{
    for (unsigned i = 0; i < RUN_STALE && i < r->n_stale; i++)
        if (r->stale[i] == handle)
            return true;
    return false;
}
