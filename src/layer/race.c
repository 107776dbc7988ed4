/* Findings about work that nothing orders. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layer/hooks.h"
#include "layer/order.h"

static const char *verb(struct am_site site, bool is_write, bool is_past)
{
    if (site.api == AM_API_aclrtMemPoolMallocAsync)
        return is_past ? "allocated" : "allocates";
    if (is_past)
        return is_write ? "wrote" : "read";
    return is_write ? "writes" : "reads";
}

static void agent_text(uint32_t agent, bool is_captured, char *text, size_t n)
{
    char stream[48];

    snprintf(text, n, "%s%s", is_captured ? "a model captured on " : "",
             am_agent_text(agent, stream, sizeof stream));
}

void am_report_race(const struct am_piece *piece, uint64_t at, const struct am_work *work,
                    const struct am_access *other)
{
    static struct am_finding f; /* under am_check.lock */
    uint32_t number = work->agent != NULL ? work->agent->number : 0;
    bool is_free = work->type == AM_WORK_FREE;
    char who[80];
    char before[80];
    char size[32];
    struct am_site captured;
    bool is_captured = am_models_captured(other->site, piece->addr - piece->at + at, 1,
                                          other->is_write, &captured);

    am_agent_text(number, who, sizeof who);
    am_agent_text(other->agent, before, sizeof before);
    if (number != other->agent &&
        strcmp(who, before) == 0) { /* replayed on other streams */
        agent_text(number, work->is_replay, who, sizeof who);
        agent_text(other->agent, is_captured, before, sizeof before);
    }
    am_finding_begin(&f, is_free ? AM_KIND_free_in_use : AM_KIND_race,
                     "%s %s byte %" PRIu64 " of the %s of %s at 0x%" PRIx64
                     " which %s %s, and nothing orders the two",
                     who, is_free ? "frees" : verb(work->site, piece->is_write, false),
                     at, am_object_rows[piece->bytes->kind].name,
                     am_size_text(piece->bytes->size, size, sizeof size),
                     piece->addr - piece->at, before,
                     verb(other->site, other->is_write, true));
    f.advice =
        number != 0 && other->agent != 0
            ? "record an event behind the first and let the other stream wait for it"
            : "let the host wait for the stream first";
    am_finding_at(&f, is_free ? "freed here" : "this work", work->site);
    if (work->is_replay)
        am_finding_at(&f, "captured here", work->captured);
    am_finding_at(&f, "the other work", other->site);
    if (is_captured)
        am_finding_at(&f, "the other work was captured here", captured);
    am_finding_at(&f, "made here", piece->bytes->made);
    am_finding_report(&f);
}
