/* The ledger's file and segment: opening them, a slot for this process. See ledger.h. */
#include "core/ledger/ledger_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/util.h"
#include "core/ledger/rundir.h"

struct am_lock am_ledgers_lock = AM_LOCK_INIT(AM_RANK_LEDGER, "ledgers");
/* am_ledgers_lock; the ledgers of this process, for fork */
static LIST_HEAD(, am_ledger) all = LIST_HEAD_INITIALIZER(all);

/* ---- the file ---- */

unsigned ledger_slots_high(const struct am_ledger *ledger)
{
    unsigned high = ledger->head->slots_high;

    return high < LEDGER_SLOTS ? high : LEDGER_SLOTS;
}

/* The number of a segment is valid only in its IPC namespace. */
void am_ledger_file_name(const struct am_ledger_config *config, char *ret_name)
{
    struct stat st = {0};

    if (stat("/proc/self/ns/ipc", &st) != 0)
        st.st_ino = 0;
    snprintf(ret_name, AM_LEDGER_FILE, AM_LEDGER_PREFIX "%s-%s-%d-%llu-%llx-%llu",
             config->backend, config->product, config->n_devices,
             (unsigned long long)config->capacity[0],
             (unsigned long long)config->identity, (unsigned long long)st.st_ino);
}

static struct ledger_kind kind_of(const struct am_ledger_config *config)
{
    struct ledger_kind kind;

    memset(&kind, 0, sizeof kind); /* compared as bytes */
    memcpy(kind.magic, LEDGER_MAGIC, sizeof kind.magic);
    kind.version = LEDGER_VERSION;
    kind.n_slots = LEDGER_SLOTS;
    kind.n_shares = LEDGER_SHARES;
    kind.slot_size = sizeof(struct ledger_slot);
    kind.share_size = sizeof(struct ledger_share);
    kind.n_devices = config->n_devices;
    kind.identity = config->identity;
    memcpy(kind.capacity, config->capacity, sizeof kind.capacity);
    memcpy(kind.backend, config->backend, AM_LEDGER_NAME);
    memcpy(kind.product, config->product, AM_LEDGER_NAME);
    return kind;
}

static aclError file_fail(int error, const char *what)
{
    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "the ledger in %s cannot be %s: %s; %s", am_rundir_path(), what,
                   strerror(error), am_rundir_errno_advice(error));
}

static void layout_set(struct am_ledger *ledger, char *base)
{
    ledger->head = (void *)base;
    ledger->slots = (void *)(base + LEDGER_SLOTS_AT);
    ledger->shares = (void *)(base + LEDGER_SHARES_AT);
    ledger->stats = (void *)(base + LEDGER_STATS_AT);
    ledger->shards = (void *)(base + LEDGER_SHARDS_AT);
}

/* The configuration of a label; false: it is damaged or of another version. */
static bool kind_read(const struct ledger_kind *kind, struct am_ledger_config *ret_config)
{
    struct am_ledger_config config = {.n_devices = kind->n_devices,
                                      .identity = kind->identity};
    struct ledger_kind valid;

    am_text_copy(config.backend, AM_LEDGER_NAME, kind->backend, AM_LEDGER_NAME);
    am_text_copy(config.product, AM_LEDGER_NAME, kind->product, AM_LEDGER_NAME);
    memcpy(config.capacity, kind->capacity, sizeof config.capacity);
    valid = kind_of(&config);
    *ret_config = config;
    return memcmp(kind, &valid, sizeof valid) == 0 && config.n_devices >= 1 &&
           config.n_devices <= AM_LEDGER_DEVICES;
}

int ledger_attach(struct am_ledger *ledger, int flags)
{
    struct am_ledger_config config;
    struct ledger_label label;
    struct ledger_head *head;
    struct ledger_kind kind;
    struct stat st;

    if (fstat(ledger->fd, &st) != 0 || st.st_size != sizeof label ||
        pread(ledger->fd, &label, sizeof label, 0) != sizeof label ||
        !kind_read(&label.kind, &config) || label.not_segment != ~label.segment)
        return -EPROTO;
    if (ledger->config.n_devices == 0)
        ledger->config = config;
    kind = kind_of(&ledger->config);
    if (memcmp(&label.kind, &kind, sizeof kind) != 0)
        return -EPROTO;
    head = am_sys_segment_map(label.segment, LEDGER_SIZE, flags);
    if (head == MAP_FAILED)
        return errno == EINVAL || errno == EIDRM ? -ENOENT
               : errno == EACCES                 ? -EPROTO
                                                 : -errno;
    if (head->id != label.id || head->slots_high > LEDGER_SLOTS ||
        head->shares_high > LEDGER_SHARES) {
        munmap(head, LEDGER_SIZE);
        return -EPROTO;
    }
    layout_set(ledger, (char *)head);
    return 0;
}

void ledger_detach(struct am_ledger *ledger)
{
    if (ledger->head != NULL)
        munmap(ledger->head, LEDGER_SIZE);
    ledger->head = NULL;
    if (ledger->fd >= 0)
        close(ledger->fd);
    ledger->fd = -1;
}

/* Creates a new segment, and a file that names it. */
static aclError segment_create(struct am_ledger *ledger)
{
    struct ledger_label label = {.kind = kind_of(&ledger->config)};
    uint64_t random[2];
    char *base;
    int error = am_random(random, sizeof random);

    AM_REQUIRE(error == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, AM_RANDOM_MISSING,
               strerror(-error));
    base = am_sys_segment_make(LEDGER_SIZE, &label.segment);
    if (base == MAP_FAILED)
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "the ledger in %s cannot get shared memory: %m; ipcs -lm shows "
                       "the limits, and a container may forbid shmget",
                       am_rundir_path());
    layout_set(ledger, base);
    label.id = random[0];
    label.not_segment = ~label.segment;
    ledger->head->id = random[0];
    ledger->head->generation =
        random[1] >> 17; /* 48 bits of a share's number, and room */
    if (!am_file_may_have(sizeof label) ||
        am_sys_pwrite(ledger->fd, &label, sizeof label, 0) != sizeof label)
        return file_fail(errno, "written");
    am_step();
    if (am_sys_ftruncate(ledger->fd, sizeof label) != 0) /* a damaged one may be longer */
        return file_fail(errno, "made");
    return ACL_SUCCESS;
}

/* Attaches to the segment, or creates a new one.  The file's lock is held. */
static aclError segment_open(struct am_ledger *ledger)
{
    int rc = ledger_attach(ledger, 0);

    if (rc != 0 && rc != -ENOENT && rc != -EPROTO)
        return file_fail(-rc, "mapped");
    AM_REQUIRE(rc != -EPROTO || !ledger_has_users(ledger->fd),
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "the ledger in %s is in use, and is damaged or belongs to another version "
               "of aclmem; end the processes that use it",
               am_rundir_path());
    return rc == 0 ? ACL_SUCCESS : segment_create(ledger);
}

/* ---- a slot ---- */

/* The statistics first: no reader sees those of an earlier process in this slot. */
static void slot_fill(struct am_ledger *ledger)
{
    struct ledger_slot *slot = &ledger->slots[ledger->slot];

    memset(&ledger->stats[ledger->slot], 0, sizeof *ledger->stats);
    slot->pid = (int32_t)getpid();
    am_step();
    snprintf(slot->command, sizeof slot->command, "%s", program_invocation_short_name);
    am_step();
    slot->is_used = 1;
}

/* The first slot without a live process. The file's lock is held. */
static aclError slot_take_locked(struct am_ledger *ledger) AM_REQUIRES(ledger->lock)
{
    for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
        int error = ledger_lock_slot(ledger->fd, i);

        if (error == -EAGAIN)
            continue;
        if (error != 0)
            return file_fail(-error, "locked");
        ledger->slot = i;
        am_step();
        if (i < ledger_slots_high(ledger)) {
            ledger_reap_slot_locked(ledger, i);
        } else { /* a slot behind all used ones */
            memset(&ledger->slots[i], 0, sizeof(struct ledger_slot));
            memset(&ledger->shards[i], 0, sizeof ledger->shards[i]);
            am_step();
            ledger->head->slots_high = i + 1;
        }
        slot_fill(ledger);
        return ACL_SUCCESS;
    }
    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "the ledger in %s has room for %d processes, and all slots are in "
                   "use; end a process",
                   am_rundir_path(), LEDGER_SLOTS);
}

/* ---- opening and closing ---- */

static aclError file_open(struct am_ledger *ledger)
{
    char name[AM_LEDGER_FILE];
    struct stat st;
    int dir;

    AM_TRY(am_rundir_open(&dir));
    am_ledger_file_name(&ledger->config, name);
    ledger->fd =
        am_sys_openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (ledger->fd < 0 && errno != ELOOP)
        return file_fail(errno, "opened");
    if (ledger->fd >= 0 && fstat(ledger->fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
        ledger->fd = am_fd_move_up(ledger->fd);
        return ACL_SUCCESS;
    }
    return am_fail(
        ACL_ERROR_RT_NO_PERMISSION,
        "%s/%s is a symbolic link, not a regular file, or open to other users; remove it",
        am_rundir_path(), name);
}

/* All that can fail, under the file's lock. */
static aclError file_enter_locked(struct am_ledger *ledger) AM_REQUIRES(ledger->lock)
{
    aclError rc;

    AM_TRY(segment_open(ledger));
    if (ledger->head->holder != 0) {
        ledger_reap_locked(ledger);
        ledger_count_shares_locked(ledger);
    }
    ledger->head->holder = LEDGER_OPENING;
    am_step();
    rc = slot_take_locked(ledger);
    ledger_unlock_file(ledger);
    return rc;
}

static aclError file_enter(struct am_ledger *ledger)
{
    char why[LEDGER_WHY];

    AM_TRY(file_open(ledger));
    AM_REQUIRE(ledger_lock_file(ledger, why), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s",
               why);
    return AM_LOCKED(&ledger->lock, file_enter_locked(ledger));
}

/* The same format in private memory, with one slot. */
static aclError private_enter(struct am_ledger *ledger)
{
    char *base = am_sys_mmap(NULL, LEDGER_SIZE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    AM_REQUIRE(base != MAP_FAILED, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of devices");
    layout_set(ledger, base);
    ledger->head->slots_high = 1;
    ledger->slot = 0;
    slot_fill(ledger);
    return ACL_SUCCESS;
}

static aclError ledger_enter(struct am_ledger *ledger)
{
    static atomic_flag was_logged = ATOMIC_FLAG_INIT;
    aclError rc;

    /* The call succeeds anyway, so this is not a message for the program. */
    rc = AM_CAPTURED(ledger->why, sizeof ledger->why, file_enter(ledger));
    if (rc == ACL_SUCCESS)
        return rc;
    ledger_detach(ledger);
    AM_TRY(private_enter(ledger));
    if (!atomic_flag_test_and_set(&was_logged))
        am_log(AM_LOG_WARN,
               "%s. This process goes on without the ledger: it does not count the "
               "memory of other processes and cannot share memory",
               ledger->why);
    return ACL_SUCCESS;
}

aclError am_ledger_open(const struct am_ledger_config *config,
                        struct am_ledger **ret_ledger)
{
    struct am_ledger *ledger = am_sys_calloc(1, sizeof *ledger);
    aclError rc;

    AM_REQUIRE(ledger != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of devices");
    ledger->refs = 1;
    ledger->fd = -1;
    ledger->config = *config;
    am_lock_init(&ledger->lock, AM_RANK_LEDGER, "ledger");
    rc = config->n_devices > 0 ? ledger_enter(ledger) : private_enter(ledger);
    if (rc != ACL_SUCCESS) {
        am_lock_destroy(&ledger->lock);
        free(ledger);
        return rc;
    }
    am_lock(&am_ledgers_lock);
    LIST_INSERT_HEAD(&all, ledger, all);
    am_unlock(&am_ledgers_lock);
    *ret_ledger = ledger;
    return ACL_SUCCESS;
}

struct am_ledger *am_ledger_ref(struct am_ledger *ledger)
{
    am_ref_more(&ledger->refs);
    return ledger;
}

/* The slot is left as a dead process leaves it: there is one way to clear it. */
void am_ledger_put(struct am_ledger *ledger)
{
    if (ledger == NULL || !am_ref_drop(&ledger->refs))
        return;
    am_lock(&am_ledgers_lock);
    LIST_REMOVE(ledger, all);
    am_unlock(&am_ledgers_lock);
    ledger_detach(ledger);
    am_lock_destroy(&ledger->lock);
    free(ledger->held);
    free(ledger);
}

bool am_ledger_is_private(const struct am_ledger *ledger)
{
    return ledger->fd < 0;
}

/* ---- fork ---- */

/*
 * The locks belong to the open file, which a child inherits: it must close the file, or
 * its parent would seem to live on.
 */
void am_ledger_forget_locked(void)
{
    struct am_ledger *ledger;

    LIST_FOREACH (ledger, &all, all) {
        if (ledger->fd < 0)
            continue;
        close(ledger->fd);
        ledger->fd = -1;
        if (mmap(ledger->head, LEDGER_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                 0) == MAP_FAILED)
            am_log(AM_LOG_ERROR, "a forked child could not detach from the ledger: %m");
    }
}
