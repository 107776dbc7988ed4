/*
 * The ledger from outside: its content, for people to read.
 *
 * The file is read and the segment is mapped read-only.  Numbers that make no sense are
 * left out.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"

/* Where the process of each slot is in the view; LEDGER_SLOTS: nowhere. */
struct look {
    const char *books;
    uint16_t domain[LEDGER_SLOTS];
};

static void text_copy(char *to, const char *from)
{
    am_text_copy(to, AM_LEDGER_NAME, from, AM_LEDGER_NAME);
}

static int label_read(int fd, struct ledger_label *label, struct am_ledger_config *config)
{
    struct ledger_kind *kind = &label->kind;
    struct ledger_kind good;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -errno;
    if (st.st_size != sizeof *label ||
        pread(fd, label, sizeof *label, 0) != sizeof *label)
        return -EPROTO;
    text_copy(config->backend, kind->backend);
    text_copy(config->product, kind->product);
    config->n_devices = kind->n_devices;
    config->identity = kind->identity;
    memcpy(config->capacity, kind->capacity, sizeof config->capacity);
    good = ledger_kind_of(config);
    if (memcmp(kind, &good, sizeof good) != 0 || config->n_devices < 1 ||
        config->n_devices > AM_LEDGER_DEVICES)
        return -EPROTO;
    return 0;
}

static void process_add(const struct ledger_slot *slot, struct am_ledger_view *view)
{
    struct am_ledger_process *process = &view->processes[view->n_processes++];

    memset(process, 0, sizeof *process);
    process->pid = slot->pid;
    text_copy(process->command, slot->command);
    process->uses = slot->uses;
    for (int i = 0; i < view->config.n_devices; i++) {
        process->allocated[i] = ledger_figure(&view->config, i, slot->allocated[i]);
        view->used[i] += process->allocated[i];
    }
}

static void stream_add(const struct am_ledger_stream *stream,
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

static void figures_add(const struct ledger_figures *figures, struct am_ledger_view *view)
{
    struct am_ledger_process *process = &view->processes[view->n_processes - 1];

    for (int i = 0; i < view->config.n_devices; i++) {
        process->peak[i] = ledger_figure(&view->config, i, figures->peak[i]);
        process->taken[i] = figures->taken[i];
        if (process->peak[i] < process->allocated[i])
            process->peak[i] = process->allocated[i];
    }
    process->n_taken = figures->n_taken;
    process->n_streams = figures->n_streams;
    for (size_t i = 0; i < AM_LEDGER_STREAMS; i++)
        stream_add(&figures->streams[i], process);
}

static int slots_read(int fd, struct look *look, struct am_ledger_view *view)
{
    const struct ledger_slot *slots = (const void *)(look->books + LEDGER_SLOTS_AT);
    const struct ledger_figures *figures =
        (const void *)(look->books + LEDGER_FIGURES_AT);
    unsigned high = ((const struct ledger_head *)look->books)->slots_high;

    if (high > LEDGER_SLOTS)
        return -EPROTO;
    view->processes = am_sys_malloc((high + 1) * sizeof *view->processes);
    for (unsigned i = 0; i < LEDGER_SLOTS && view->processes != NULL; i++) {
        look->domain[i] = LEDGER_SLOTS;
        if (i < high && slots[i].is_used != 0 && ledger_is_locked(fd, i)) {
            look->domain[i] = (uint16_t)view->n_processes;
            process_add(&slots[i], view);
            figures_add(&figures[i], view);
        }
    }
    return view->processes != NULL ? 0 : -ENOMEM;
}

/* The part of a share that live processes hold. */
static void share_add(const struct look *look, const struct ledger_share *share,
                      struct am_ledger_view *view)
{
    int32_t device = share->device;
    bool is_held = false;
    uint64_t size;

    if (device < 0 || device >= view->config.n_devices || share->size == 0)
        return;
    size = ledger_figure(&view->config, device, share->size);
    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        struct am_ledger_process *process;

        if (look->domain[i] == LEDGER_SLOTS || !(share->holders[i / 64] >> i % 64 & 1))
            continue;
        process = &view->processes[look->domain[i]];
        is_held = true;
        if (share->exporter == i)
            process->exported[device] += size;
        else
            process->imported[device] += size;
    }
    if (is_held)
        view->used[device] += size;
}

static int shares_read(const struct look *look, struct am_ledger_view *view)
{
    const struct ledger_share *shares = (const void *)(look->books + LEDGER_SHARES_AT);
    unsigned high = ((const struct ledger_head *)look->books)->shares_high;

    if (high > LEDGER_SHARES)
        return -EPROTO;
    for (unsigned i = 0; i < high; i++)
        share_add(look, &shares[i], view);
    for (int i = 0; i < view->config.n_devices; i++)
        view->used[i] = ledger_figure(&view->config, i, view->used[i]);
    return 0;
}

static int ledger_open(int dir, const char *name)
{
    return am_sys_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
}

bool am_ledger_has_users(int dir, const char *name)
{
    int fd = ledger_open(dir, name);
    bool has_users = fd >= 0 && ledger_has_users(fd);

    if (fd >= 0)
        close(fd);
    return has_users;
}

/* Reads the segment, which ends with the last process that uses it. */
static int books_read(int fd, const struct ledger_label *label,
                      struct am_ledger_view *view)
{
    struct look look;
    void *books;
    int rc = ledger_map_books(label, SHM_RDONLY, &books);

    if (rc == -ENOENT)
        return 0;
    if (rc != 0)
        return rc;
    look.books = books;
    rc = slots_read(fd, &look, view);
    if (rc == 0)
        rc = shares_read(&look, view);
    munmap(books, LEDGER_SIZE);
    return rc;
}

int am_ledger_look(int dir, const char *name, struct am_ledger_view *ret_view)
{
    struct am_ledger_view view = {.n_processes = 0};
    struct ledger_label label;
    int fd = ledger_open(dir, name);
    int rc;

    if (fd < 0)
        return -errno;
    rc = label_read(fd, &label, &view.config);
    if (rc == 0)
        rc = books_read(fd, &label, &view);
    close(fd);
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
