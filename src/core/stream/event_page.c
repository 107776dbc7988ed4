/* See event_page.h. */
#include "core/stream/event_page.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/sys.h"
#include "core/stream/sched.h"

#define MAGIC \
    UINT64_C(0x334c4c43636c6361) /* "aclcCLL3": also the version of the layout */
#define SIZE 4096
#define PEERS 64
#define CHECK_INTERVAL UINT64_C(20000000) /* ns between checks which peers live */

/*
 * A record: its number above 24 bits for its state.  DONE, LOST, a peer that has it queued (1 to
 * PEERS), or the code with which it failed.
 */
#define ENTRY(number_, state_) ((uint64_t)(number_) << 24 | ((uint64_t)(state_)&0xffffff))
#define ENTRY_NUMBER(entry_) ((entry_) >> 24)
#define ENTRY_STATE(entry_) ((unsigned)((entry_)&0xffffff))
enum { DONE = 0, LOST = PEERS + 1 };

struct shared {
    uint64_t magic;
    _Atomic uint64_t n_recorded;
    _Atomic uint32_t is_set;
    _Atomic uint64_t records[AM_EVENT_PAGE_RECORDS]; /* the last ones, by number */
};
_Static_assert(sizeof(struct shared) <= SIZE, "it is one page");

struct am_event_page {
    struct shared *shared;
    int fd;      /* to be sent */
    int own;     /* another open file of the same, with the lock on our byte */
    unsigned id; /* which byte, and our name in the list */
    _Atomic uint64_t checked; /* when peers were last checked */
    LIST_ENTRY(am_event_page) all;
};

static struct am_lock pages_lock = AM_LOCK_INIT(AM_RANK_LEAF, "pages");
static LIST_HEAD(, am_event_page) pages = LIST_HEAD_INITIALIZER(pages); /* pages_lock */

static aclError shortage(const char *what)
{
    char why[AM_SHORTAGE_SIZE];

    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "no %s for an event or notify that processes share: %s", what,
                   am_shortage(errno, why));
}

static bool peer_lives(const struct am_event_page *page, unsigned id)
{
    struct flock lock = am_byte_lock(F_WRLCK, id, 1);

    if (id == page->id)
        return true;
    return fcntl(page->own, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void record_lose(_Atomic uint64_t *record, uint64_t entry)
{
    /* Another process may have ended the record, or lost it. */
    atomic_compare_exchange_strong(record, &entry, ENTRY(ENTRY_NUMBER(entry), LOST));
}

/* Queued records of ours, or of a process that had the byte before, will not run. */
static void records_abandon(struct am_event_page *page)
{
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        uint64_t entry = page->shared->records[i];

        if (ENTRY_STATE(entry) == page->id)
            record_lose(&page->shared->records[i], entry);
    }
}

/* Locks the first byte that is free. */
static aclError peer_become(struct am_event_page *page)
{
    for (unsigned id = 1; id <= PEERS; id++) {
        struct flock lock = am_byte_lock(F_WRLCK, id, 1);

        if (fcntl(page->own, F_OFD_SETLK, &lock) == 0) {
            page->id = id;
            records_abandon(page);
            return ACL_SUCCESS;
        }
    }
    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "%d processes have opened this event or notify already", PEERS);
}

/* The same file, opened once more: locks belong to the opening. */
static int file_reopen(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    do
        fd = am_sys_open(path, O_RDWR | O_CLOEXEC);
    while (fd < 0 && am_fd_make_room());
    return fd < 0 ? fd : am_fd_move_up(fd);
}

/* Takes over fd, also on failure. */
static aclError page_open(int fd, struct am_event_page **ret_page)
{
    struct am_event_page *page = am_sys_calloc(1, sizeof *page);
    aclError rc;

    if (page == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event that processes share");
        goto err_fd;
    }
    page->fd = fd;
    page->own = file_reopen(fd);
    if (page->own < 0) {
        rc = shortage("descriptor");
        goto err_free;
    }
    page->shared = am_sys_mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page->shared == MAP_FAILED) {
        rc = shortage("mapping");
        goto err_own;
    }
    rc = peer_become(page);
    if (rc != ACL_SUCCESS)
        goto err_unmap;
    am_lock(&pages_lock);
    LIST_INSERT_HEAD(&pages, page, all);
    am_unlock(&pages_lock);
    *ret_page = page;
    return ACL_SUCCESS;

err_unmap:
    munmap(page->shared, SIZE);
err_own:
    close(page->own);
err_free:
    free(page);
err_fd:
    close(fd);
    return rc;
}

aclError am_event_page_make(struct am_event_page **ret_page)
{
    int fd = am_memfd_make("aclmem-event", SIZE, AM_SEALS);

    if (fd < 0) {
        errno = -fd;
        return shortage("memory file");
    }
    AM_TRY(page_open(fd, ret_page));
    (*ret_page)->shared->magic = MAGIC;
    return ACL_SUCCESS;
}

/* Only a file whose end stays where it is can be touched without a signal. */
static aclError file_check(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    AM_REQUIRE(seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &file) == 0 &&
                   file.st_size == SIZE,
               ACL_ERROR_RT_IPC_ERROR,
               "the exporting process sent something else than an event or notify");
    return ACL_SUCCESS;
}

aclError am_event_page_join(int fd, struct am_event_page **ret_page)
{
    struct am_event_page *page;
    int copy;

    AM_TRY(file_check(fd));
    do
        copy = am_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    while (copy < 0 && am_fd_make_room());
    if (copy < 0)
        return shortage("descriptor");
    AM_TRY(page_open(am_fd_move_up(copy), &page));
    if (page->shared->magic != MAGIC) {
        am_event_page_leave(page);
        return am_fail(ACL_ERROR_RT_IPC_ERROR,
                       "the exporting process has another version of aclmem");
    }
    *ret_page = page;
    return ACL_SUCCESS;
}

void am_event_page_leave(struct am_event_page *page)
{
    if (page == NULL)
        return;
    records_abandon(page);
    am_lock(&pages_lock);
    LIST_REMOVE(page, all);
    am_unlock(&pages_lock);
    munmap(page->shared, SIZE);
    close(page->own);
    close(page->fd);
    free(page);
}

int am_event_page_descriptor(const struct am_event_page *page)
{
    return page->fd;
}

/* No lock: there is no other thread here, and one may have held it. */
void am_event_page_forget_all(void)
{
    struct am_event_page *page;

    LIST_FOREACH (page, &pages, all) {
        close(page->own);
        close(page->fd);
    }
    LIST_INIT(&pages);
}

/* ---- events ---- */

static bool is_queued(uint64_t entry)
{
    return ENTRY_STATE(entry) - 1 < PEERS;
}

/*
 * The slot of the next number is taken first, so a process that ends in between leaves a record
 * that another process counts.
 */
aclError am_event_page_record(struct am_event_page *page, uint64_t *ret_number)
{
    struct shared *shared = page->shared;

    for (int i = 0; i < 2 * AM_EVENT_PAGE_RECORDS; i++) { /* or the page is nonsense */
        uint64_t before = shared->n_recorded;
        uint64_t number = before + 1;
        _Atomic uint64_t *record = &shared->records[number % AM_EVENT_PAGE_RECORDS];
        uint64_t entry = *record;
        bool is_ours = false;

        if (ENTRY_NUMBER(entry) < number) {
            if (is_queued(entry) && peer_lives(page, ENTRY_STATE(entry)))
                break;
            is_ours =
                atomic_compare_exchange_strong(record, &entry, ENTRY(number, page->id));
        }
        if (is_ours || ENTRY_NUMBER(entry) == number)
            atomic_compare_exchange_strong(&shared->n_recorded, &before, number);
        if (is_ours) {
            *ret_number = number;
            return ACL_SUCCESS;
        }
    }
    return am_fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        "a record of an event that processes share has not run, and %d were queued "
        "since; synchronise first",
        AM_EVENT_PAGE_RECORDS - 1);
}

void am_event_page_recorded(struct am_event_page *page, uint64_t number, aclError result)
{
    uint64_t entry = ENTRY(number, page->id);

    atomic_compare_exchange_strong(&page->shared->records[number % AM_EVENT_PAGE_RECORDS],
                                   &entry, ENTRY(number, result));
}

uint64_t am_event_page_latest(const struct am_event_page *page)
{
    return page->shared->n_recorded;
}

/* Asking the kernel costs a system call, and every wait polls many times a second. */
static bool check_is_due(struct am_event_page *page)
{
    uint64_t now = am_clock();

    if (now - page->checked < CHECK_INTERVAL)
        return false;
    page->checked = now;
    return true;
}

enum am_event_page_state am_event_page_query(struct am_event_page *page, uint64_t number,
                                             aclError *ret_code)
{
    _Atomic uint64_t *record = &page->shared->records[number % AM_EVENT_PAGE_RECORDS];
    uint64_t entry = *record;
    unsigned state = ENTRY_STATE(entry);

    if (number == 0 || ENTRY_NUMBER(entry) > number || entry == ENTRY(number, DONE))
        return AM_EVENT_PAGE_DONE;
    if (ENTRY_NUMBER(entry) < number || state == LOST)
        return AM_EVENT_PAGE_LOST;
    if (!is_queued(entry)) {
        *ret_code = (aclError)state;
        return AM_EVENT_PAGE_FAILED;
    }
    if (!check_is_due(page) || peer_lives(page, state))
        return AM_EVENT_PAGE_TO_COME;
    record_lose(record, entry);
    return AM_EVENT_PAGE_LOST;
}

/* ---- notifies ---- */

void am_event_page_set(struct am_event_page *page, bool is_set)
{
    page->shared->is_set = is_set;
}

bool am_event_page_take(struct am_event_page *page)
{
    return atomic_exchange(&page->shared->is_set, 0) != 0;
}
