/*
 * error-ignored: a call that should have given something failed, the program did not ask
 * why, and uses the variable as if it had been given it.
 */
#include <inttypes.h>

#include "layer/check.h"

#define NOTES 8

/* What failed in this thread, and what the program has where the result should be. */
struct note {
    bool is_set;
    uint64_t value;
    aclError rc;
    struct am_place place;
};

static _Thread_local struct {
    struct note note[NOTES];
    unsigned next;
} failed;

void am_ignored_note(struct am_call *call, void *const *out)
{
    struct note *note = &failed.note[failed.next++ % NOTES];

    if (out == NULL || !am_kind_is_on(AM_KIND_error_ignored))
        return;
    note->is_set = true;
    note->value = (uintptr_t)*out;
    note->rc = call->rc;
    note->place = am_here(call);
}

void am_ignored_forget(void)
{
    for (unsigned i = 0; i < NOTES; i++)
        failed.note[i].is_set = false;
}

void am_ignored_look(struct am_call *call, uint64_t value, const char *argument)
{
    for (unsigned i = 0; i < NOTES; i++) {
        struct note *note = &failed.note[i];
        struct am_finding *f;

        if (!note->is_set || note->value != value)
            continue;
        f = am_call_finding(call);
        am_finding_begin(f, AM_KIND_error_ignored,
                         "%s is 0x%" PRIx64 ", which is what was left where a call that "
                         "failed with %d should have put its result",
                         argument, value, note->rc);
        f->advice = "look at the code of every call; aclGetRecentErrMsg() says why";
        am_finding_at(f, "used here", am_here(call));
        am_finding_at(f, "failed here", note->place);
        am_call_tell(call, f);
        note->is_set = false;
        return;
    }
}
