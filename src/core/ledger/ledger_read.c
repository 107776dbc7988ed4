/*
 * Reading the ledger without taking part in it, for `aclmem info` and `aclmem top`.
 *
 * The segment is mapped read-only.  Values that are not possible are left out.
 */
#include <string.h>

#include "base/text.h"
#include "core/ledger/ledger_file.h"

#define NO_PROCESS LEDGER_SLOTS

static void stream_read(const struct am_ledger_stream *stream,
                        struct am_ledger_process *process)
{
    struct am_ledger_stream *to = &process->waiting[process->n_waiting];

    to->id = stream->id;
    to->device = stream->device;
    if (to->id == 0 || stream->is_waiting == 0)
        return;
    to->n_queued = stream->n_queued;
    am_text_copy(to->function, sizeof to->function, stream->function,
                 sizeof to->function);
    am_text_copy(to->until, sizeof to->until, stream->until, sizeof to->until);
    process->n_waiting++;
}

static void process_read(const struct am_ledger *ledger, unsigned i,
                         struct am_ledger_view *view)
{
    const struct ledger_slot *slot = &ledger->slots[i];
    const struct ledger_stats *stats = &ledger->stats[i];
    struct am_ledger_process *process = &view->processes[view->n_processes++];

    memset(process, 0, sizeof *process);
    process->pid = slot->pid;
    am_text_copy(process->command, AM_LEDGER_NAME, slot->command, AM_LEDGER_NAME);
    process->uses = slot->uses;
    for (int d = 0; d < view->config.n_devices; d++) {
        uint64_t peak = ledger_clamp(&view->config, d, stats->peak[d]);

        process->allocated[d] = ledger_used(ledger, i, d);
        process->peak[d] = peak > process->allocated[d] ? peak : process->allocated[d];
        for (unsigned s = 0; s < LEDGER_SHARDS; s++)
            process->total[d] += ledger->shards[i][s].total[d];
        view->used[d] += process->allocated[d];
    }
    for (unsigned s = 0; s < LEDGER_SHARDS; s++)
        process->n_total += ledger->shards[i][s].n_total;
    process->n_streams = stats->n_streams;
    process->n_models = stats->n_models;
    process->n_model_streams = stats->n_model_streams;
    for (size_t s = 0; s < AM_LEDGER_STREAMS; s++)
        stream_read(&stats->streams[s], process);
}

/* The part of a share that live processes hold. */
static void share_read(const struct ledger_share *share, const uint16_t *process_of,
                       struct am_ledger_view *view)
{
    int32_t device = share->device;
    bool is_held = false;
    uint64_t size;

    if (device < 0 || device >= view->config.n_devices || share->size == 0)
        return;
    size = ledger_clamp(&view->config, device, share->size);
    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        struct am_ledger_process *process;

        if (process_of[i] == NO_PROCESS || !(share->holders[i / 64] >> i % 64 & 1))
            continue;
        process = &view->processes[process_of[i]];
        is_held = true;
        if (share->exporter == i)
            process->exported[device] += size;
        else
            process->imported[device] += size;
    }
    if (is_held)
        view->used[device] += size;
}

static int ledger_read(const struct am_ledger *ledger, struct am_ledger_view *view)
{
    unsigned high = ledger_slots_high(ledger);
    uint16_t process_of[LEDGER_SLOTS];

    view->processes = am_sys_malloc((high + 1) * sizeof *view->processes);
    if (view->processes == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        process_of[i] = NO_PROCESS;
        if (i < high && ledger->slots[i].is_used != 0 &&
            ledger_is_locked(ledger->fd, i)) {
            process_of[i] = (uint16_t)view->n_processes;
            process_read(ledger, i, view);
        }
    }
    high = ledger_shares_high(ledger);
    for (unsigned i = 0; i < high; i++)
        share_read(&ledger->shares[i], process_of, view);
    for (int d = 0; d < view->config.n_devices; d++)
        view->used[d] = ledger_clamp(&view->config, d, view->used[d]);
    return 0;
}

static int file_open(int dir, const char *name)
{
    return am_sys_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
}

bool am_ledger_has_users(int dir, const char *name)
{
    int fd = file_open(dir, name);
    bool has_users = fd >= 0 && ledger_has_users(fd);

    if (fd >= 0)
        close(fd);
    return has_users;
}

int am_ledger_read(int dir, const char *name, struct am_ledger_view *ret_view)
{
    struct am_ledger ledger = {.fd = file_open(dir, name)};
    struct am_ledger_view view = {.n_processes = 0};
    int rc;

    if (ledger.fd < 0)
        return -errno;
    rc = ledger_attach(&ledger, SHM_RDONLY);
    view.config = ledger.config;
    if (rc == 0)
        rc = ledger_read(&ledger, &view);
    else if (rc == -ENOENT) /* the segment ends with the last process that uses it */
        rc = 0;
    ledger_detach(&ledger);
    if (rc == 0)
        *ret_view = view;
    else
        am_ledger_view_free(&view);
    return rc;
}

void am_ledger_view_free(struct am_ledger_view *view)
{
    free(view->processes);
    view->processes = NULL;
}
