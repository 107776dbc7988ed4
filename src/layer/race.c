/* Findings about work that nothing orders. */
#include <inttypes.h>

#include "layer/hooks.h"
#include "layer/order.h"

static const char *verb(bool is_write, bool is_past)
{
    if (is_past)
        return is_write ? "wrote" : "read";
    return is_write ? "writes" : "reads";
}

void am_report_race(const struct am_piece *piece, uint64_t at, const struct am_work *work,
                    const struct am_access *other)
{
    static struct am_finding f; /* under am_check.lock */
    uint32_t number = work->agent != NULL ? work->agent->number : 0;
    bool is_free = work->type == AM_WORK_FREE;
    char who[48];
    char before[48];
    char size[32];
    struct am_site captured;

    am_agent_text(number, who, sizeof who);
    am_agent_text(other->agent, before, sizeof before);
    am_finding_begin(&f, is_free ? AM_KIND_free_in_use : AM_KIND_race,
                     "%s %s byte %" PRIu64 " of the %s of %s at 0x%" PRIx64
                     " which %s %s, and nothing orders the two",
                     who, is_free ? "frees" : verb(piece->is_write, false), at,
                     am_object_name(piece->bytes->kind),
                     am_size_text(piece->bytes->size, size, sizeof size),
                     piece->addr - piece->at, before, verb(other->is_write, true));
    f.advice =
        number != 0 && other->agent != 0
            ? "record an event behind the first and let the other stream wait for it"
            : "let the host wait for the stream first";
    am_finding_at(&f, is_free ? "freed here" : "this work", work->site);
    if (work->is_replay)
        am_finding_at(&f, "captured here", work->captured);
    am_finding_at(&f, "the other work", other->site);
    if (am_models_captured(other->site, piece->addr - piece->at + at, other->is_write,
                           &captured))
        am_finding_at(&f, "the other work was captured here", captured);
    am_finding_at(&f, "made here", piece->bytes->made);
    am_finding_report(&f);
}
