/* See event_page.h. */
#include "core/stream/event_page.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/sys.h"
#include "core/stream/sched.h"

#define MAGIC \
    UINT64_C(0x324c4c43636c6361) /* "aclcCLL2": also the version of the layout */
#define SIZE 4096
#define PEERS 64
#define FAILURES (2 * AM_EVENT_PAGE_RECORDS) /* that are remembered, the last ones */
#define ORPHAN 0xff /* instead of a peer: the record's process is gone */
#define CHECK_INTERVAL UINT64_C(20000000) /* ns between checks which peers live */

/*
 * A record that has not run: its number above eight bits for its owner, which is a peer + 1.
 * A number of 0 with an owner is one that is about to be given.  0: free.
 */
#define ENTRY(number_, owner_) ((uint64_t)(number_) << 8 | (owner_))
#define ENTRY_NUMBER(entry_) ((entry_) >> 8)
#define ENTRY_OWNER(entry_) ((unsigned)((entry_)&0xff))

/*
 * A record that failed: its number above 24 bits for the code, which is 0 for one whose
 * process is gone.  0: none.
 */
#define FAILURE(number_, code_) ((uint64_t)(number_) << 24 | ((uint64_t)(code_)&0xffffff))
#define FAILURE_CODE(failure_) ((aclError)((failure_)&0xffffff))

struct shared {
    uint64_t magic;
    _Atomic uint64_t n_recorded;
    _Atomic uint64_t n_completed; /* the highest number that has run or failed */
    _Atomic uint64_t n_failed;    /* how many have; the next one's slot below */
    _Atomic uint32_t is_set;
    _Atomic uint64_t pending[AM_EVENT_PAGE_RECORDS];
    _Atomic uint64_t failed[FAILURES];
};

_Static_assert(sizeof(struct shared) <= SIZE, "it is one page");

struct am_event_page {
    struct shared *shared;
    int fd;      /* to be sent */
    int own;     /* another open file of the same, with the lock on our byte */
    unsigned id; /* which byte, and our name in the list: peer + 1 */
    _Atomic uint64_t checked;     /* when peers were last checked */
    uint64_t over;                /* the record that was last found to be over; 0: none */
    enum am_event_page_state how; /* it ended */
    aclError code;                /* with which, where it failed */
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
    return id <= PEERS && fcntl(page->own, F_OFD_GETLK, &lock) == 0 &&
           lock.l_type != F_UNLCK;
}

/* Records with our number, ours or of a process that had the byte before, will not run. */
static void records_abandon(struct am_event_page *page)
{
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        uint64_t entry = page->shared->pending[i];
        uint64_t number = ENTRY_NUMBER(entry);

        if (ENTRY_OWNER(entry) == page->id) /* another may have cleared, and taken, it */
            atomic_compare_exchange_strong(&page->shared->pending[i], &entry,
                                           number == 0 ? 0 : ENTRY(number, ORPHAN));
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
    int fd = am_memfd_make("aclmem-event", 0, SIZE, AM_SEALS);

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

static void failure_note(struct shared *shared, uint64_t number, aclError code)
{
    shared->failed[atomic_fetch_add(&shared->n_failed, 1) % FAILURES] =
        FAILURE(number, code);
}

/* 0: it did not fail, or very many have since. */
static uint64_t failure_find(const struct shared *shared, uint64_t number)
{
    for (int i = 0; i < FAILURES; i++) {
        uint64_t failure = shared->failed[i];

        if (failure != 0 && FAILURE(number, FAILURE_CODE(failure)) == failure)
            return failure;
    }
    return 0;
}

/* Entries of processes that are gone make room; waits for them still fail. */
static void list_clear_dead(struct am_event_page *page)
{
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        uint64_t entry = page->shared->pending[i];

        if (entry == 0 || peer_lives(page, ENTRY_OWNER(entry)))
            continue;
        if (ENTRY_NUMBER(entry) != 0)
            failure_note(page->shared, ENTRY_NUMBER(entry), 0);
        atomic_compare_exchange_strong(&page->shared->pending[i], &entry, 0);
    }
}

/* Which entry is ours now; -1: none is free. */
static int list_claim(struct am_event_page *page)
{
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        uint64_t free_entry = 0;

        if (atomic_compare_exchange_strong(&page->shared->pending[i], &free_entry,
                                           ENTRY(0, page->id)))
            return i;
    }
    return -1;
}

aclError am_event_page_claim(struct am_event_page *page, int *ret_slot)
{
    int slot = list_claim(page);

    if (slot < 0) {
        list_clear_dead(page);
        slot = list_claim(page);
    }
    AM_REQUIRE(slot >= 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "%d records of an event that processes share have not run; synchronise "
               "first",
               AM_EVENT_PAGE_RECORDS);
    *ret_slot = slot;
    return ACL_SUCCESS;
}

uint64_t am_event_page_record(struct am_event_page *page, int slot)
{
    uint64_t number = atomic_fetch_add(&page->shared->n_recorded, 1) + 1;

    page->shared->pending[slot] = ENTRY(number, page->id);
    return number;
}

/* Its number is among those completed before it leaves the list. */
void am_event_page_recorded(struct am_event_page *page, uint64_t number, aclError result)
{
    struct shared *shared = page->shared;
    uint64_t highest = shared->n_completed;

    if (result != ACL_SUCCESS)
        failure_note(shared, number, result);
    while (highest < number &&
           !atomic_compare_exchange_weak(&shared->n_completed, &highest, number))
        ;
    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        if (shared->pending[i] == ENTRY(number, page->id))
            shared->pending[i] = 0;
    }
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

/*
 * Whether the record's process is gone.  The page keeps the result for the next query and for
 * the other processes.
 */
static bool is_orphan(struct am_event_page *page, int i, uint64_t entry, bool may_ask)
{
    if (ENTRY_OWNER(entry) == ORPHAN)
        return true;
    if (!may_ask || peer_lives(page, ENTRY_OWNER(entry)))
        return false;
    atomic_compare_exchange_strong(
        &page->shared->pending[i], &entry,
        ENTRY_NUMBER(entry) == 0 ? 0 : ENTRY(ENTRY_NUMBER(entry), ORPHAN));
    return true;
}

static enum am_event_page_state shared_query(struct am_event_page *page, uint64_t number,
                                             aclError *ret_code)
{
    struct shared *shared = page->shared;
    bool may_ask = check_is_due(page);
    uint64_t failure;

    for (int i = 0; i < AM_EVENT_PAGE_RECORDS; i++) {
        uint64_t entry = shared->pending[i];
        bool is_it = entry != 0 && ENTRY_NUMBER(entry) == number;
        bool may_be_it =
            entry != 0 && ENTRY_NUMBER(entry) == 0; /* it has no number yet */

        if ((is_it || may_be_it) && !is_orphan(page, i, entry, may_ask))
            return AM_EVENT_PAGE_TO_COME;
        if (is_it)
            return AM_EVENT_PAGE_LOST;
    }
    if (shared->n_completed < number)
        return AM_EVENT_PAGE_LOST;
    failure = failure_find(shared, number);
    if (failure == 0)
        return AM_EVENT_PAGE_DONE;
    *ret_code = FAILURE_CODE(failure);
    return *ret_code != 0 ? AM_EVENT_PAGE_FAILED : AM_EVENT_PAGE_LOST;
}

/*
 * The result is kept here: the page does not give it while another record has no number yet,
 * since that record may be any.
 */
enum am_event_page_state am_event_page_query(struct am_event_page *page, uint64_t number,
                                             aclError *ret_code)
{
    enum am_event_page_state state;

    if (number == 0)
        return AM_EVENT_PAGE_DONE;
    if (page->over != number) {
        state = shared_query(page, number, &page->code);
        if (state == AM_EVENT_PAGE_TO_COME)
            return state;
        page->over = number;
        page->how = state;
    }
    if (page->how == AM_EVENT_PAGE_FAILED)
        *ret_code = page->code;
    return page->how;
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
