/*
 * The ledger from outside: what is written in the file, for people to look at.
 *
 * It is read, not mapped: whatever happens to the file meanwhile, reading it cannot end
 * the process.  A number in it that makes no sense is left out.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "base/util.h"
#include "core/ledger_file.h"

/* Where the process of each slot is in the view; LEDGER_SLOTS: nowhere. */
struct look {
    struct ledger_head head;
    uint16_t place[LEDGER_SLOTS];
};

/* A part of the file, in memory of the caller's: 0 or -errno. */
static int part_read(int fd, size_t at, size_t size, void **ret_part)
{
    char *part = am_sys_malloc(size > 0 ? size : 1);
    size_t done = 0;
    ssize_t n = 1;

    if (part == NULL)
        return -ENOMEM;
    for (; done < size && n > 0; done += (size_t)n) {
        n = pread(fd, part + done, size - done, (off_t)(at + done));
        if (n < 0)
            break;
    }
    if (done < size) {
        free(part);
        return n < 0 ? -errno : -EPROTO;
    }
    *ret_part = part;
    return 0;
}

static void text_copy(char *to, const char *from)
{
    am_text_copy(to, AM_LEDGER_NAME, from, AM_LEDGER_NAME);
}

static int head_read(int fd, struct look *look, struct am_ledger_config *config)
{
    struct ledger_kind *kind = &look->head.kind;
    struct ledger_kind good;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -errno;
    if (st.st_size != LEDGER_SIZE ||
        pread(fd, &look->head, sizeof look->head, 0) != sizeof look->head)
        return -EPROTO;
    text_copy(config->backend, kind->backend);
    text_copy(config->product, kind->product);
    config->n_devices = kind->n_devices;
    config->identity = kind->identity;
    memcpy(config->capacity, kind->capacity, sizeof config->capacity);
    good = ledger_kind_of(config);
    if (memcmp(kind, &good, sizeof good) != 0 || config->n_devices < 1 ||
        config->n_devices > AM_LEDGER_DEVICES || look->head.slots_high > LEDGER_SLOTS ||
        look->head.shares_high > LEDGER_SHARES)
        return -EPROTO;
    return 0;
}

static uint64_t figure_of(const struct am_ledger_view *view, int32_t device,
                          uint64_t size)
{
    return size < view->config.capacity[device] ? size : view->config.capacity[device];
}

static void process_add(const struct ledger_slot *slot, struct am_ledger_view *view)
{
    struct am_ledger_process *process = &view->processes[view->n_processes++];

    memset(process, 0, sizeof *process);
    process->pid = slot->pid;
    text_copy(process->command, slot->command);
    process->uses = slot->uses;
    for (int i = 0; i < view->config.n_devices; i++) {
        process->allocated[i] = figure_of(view, i, slot->allocated[i]);
        view->used[i] += process->allocated[i];
    }
}

static int slots_read(int fd, struct look *look, struct am_ledger_view *view)
{
    struct ledger_slot *slots;
    unsigned high = look->head.slots_high;
    int rc = part_read(fd, LEDGER_SLOTS_AT, high * sizeof *slots, (void **)&slots);

    if (rc != 0)
        return rc;
    view->processes = am_sys_malloc((high + 1) * sizeof *view->processes);
    for (unsigned i = 0; i < LEDGER_SLOTS && view->processes != NULL; i++) {
        look->place[i] = LEDGER_SLOTS;
        if (i < high && slots[i].is_used != 0 && ledger_is_locked(fd, i)) {
            look->place[i] = (uint16_t)view->n_processes;
            process_add(&slots[i], view);
        }
    }
    free(slots);
    return view->processes != NULL ? 0 : -ENOMEM;
}

/* What the living hold of a share. */
static void share_add(const struct look *look, const struct ledger_share *share,
                      struct am_ledger_view *view)
{
    int32_t device = share->device;
    bool is_held = false;
    uint64_t size;

    if (device < 0 || device >= view->config.n_devices || share->size == 0)
        return;
    size = figure_of(view, device, share->size);
    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        struct am_ledger_process *process;

        if (look->place[i] == LEDGER_SLOTS || !(share->holders[i / 64] >> i % 64 & 1))
            continue;
        process = &view->processes[look->place[i]];
        is_held = true;
        if (share->exporter == i)
            process->exported[device] += size;
        else
            process->imported[device] += size;
    }
    if (is_held)
        view->used[device] += size;
}

static int shares_read(int fd, const struct look *look, struct am_ledger_view *view)
{
    struct ledger_share *shares;
    unsigned high = look->head.shares_high;
    int rc = part_read(fd, LEDGER_SHARES_AT, high * sizeof *shares, (void **)&shares);

    if (rc != 0)
        return rc;
    for (unsigned i = 0; i < high; i++)
        share_add(look, &shares[i], view);
    for (int i = 0; i < view->config.n_devices; i++)
        view->used[i] = figure_of(view, i, view->used[i]);
    free(shares);
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

int am_ledger_look(int dir, const char *name, struct am_ledger_view *ret_view)
{
    struct am_ledger_view view = {.n_processes = 0};
    struct look look;
    int fd = ledger_open(dir, name);
    int rc;

    if (fd < 0)
        return -errno;
    rc = head_read(fd, &look, &view.config);
    if (rc == 0)
        rc = slots_read(fd, &look, &view);
    if (rc == 0)
        rc = shares_read(fd, &look, &view);
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
