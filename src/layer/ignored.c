/*
 * error-ignored: a call that should have returned an object failed, the program did not
 * query the error, and passes the variable to a call that the library refuses.
 */
#include <inttypes.h>

#include "layer/thread.h"

void am_ignored_note(struct am_call *call, void *const *out)
{
    struct am_thread *thread = am_thread_get();
    struct am_failure *note;

    if (out == NULL || !am_kind_is_on(AM_KIND_error_ignored))
        return;
    note = &thread->failure[thread->next_failure++ % AM_FAILURES_MAX];
    note->is_set = true;
    note->value = (uintptr_t)*out;
    note->rc = call->rc;
    note->site = call->site;
}

void am_ignored_forget(void)
{
    struct am_thread *thread = am_thread_get();

    for (unsigned i = 0; thread != NULL && i < AM_FAILURES_MAX; i++)
        thread->failure[i].is_set = false;
}

void am_ignored_check(struct am_call *call, uint64_t value, const char *argument)
{
    struct am_thread *thread = am_thread_get();

    if (value == 0 && call->is_free)
        return; /* cleaning up after a failure is handling it */
    for (unsigned i = 0; i < AM_FAILURES_MAX; i++) {
        struct am_failure *note = &thread->failure[i];
        struct am_finding *f;

        if (!note->is_set || note->value != value)
            continue;
        f = am_call_finding(call);
        am_finding_begin(f, AM_KIND_error_ignored,
                         "%s is 0x%" PRIx64 ", which is what was left where a call that "
                         "failed with %d should have put its result",
                         argument, value, note->rc);
        f->needs_refusal = true; /* the program may have put a good value there */
        f->advice =
            "check the code of every call; aclGetRecentErrMsg() returns the reason";
        am_finding_at(f, "used here", call->site);
        am_finding_at(f, "failed here", note->site);
        am_call_report(call, f);
        note->is_set = false;
        return;
    }
}

bool am_ignored_null(uint64_t addr, struct am_site site)
{
    static struct am_finding f; /* under am_check.lock */
    struct am_thread *thread = am_thread_get();

    for (unsigned i = 0; thread != NULL && i < AM_FAILURES_MAX; i++) {
        const struct am_failure *note =
            &thread->failure[(thread->next_failure - 1 - i) % AM_FAILURES_MAX];

        if (!note->is_set || note->value != 0)
            continue;
        am_finding_begin(&f, AM_KIND_error_ignored,
                         "the program dereferenced NULL + %" PRIu64
                         ", which is what a call that failed with %d left",
                         addr, note->rc);
        f.advice = "check the code of every call";
        am_finding_at(&f, "dereferenced here", site);
        am_finding_at(&f, "failed here", note->site);
        am_finding_report(&f);
        am_findings_close(am_counter_sum(&am_check.n_calls), am_check.n_refused);
        return true;
    }
    return false;
}
