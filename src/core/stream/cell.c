/* See cell.h. */
#include "core/stream/cell.h"

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
    UINT64_C(0x324c4c43636c6361) /* "aclcCLL2": also the version of the layout */
#define SIZE 4096
#define PEERS 64
#define FAILURES (2 * AM_CELL_RECORDS) /* that are remembered, the last ones */
#define NOBODY 0xff /* instead of a peer: the record's process is gone */
#define LOOK_INTERVAL UINT64_C(20000000) /* ns between looks whether somebody lives */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * A record that has not run: its number above eight bits for its owner, who is a peer + 1.
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

struct page {
    uint64_t magic;
    _Atomic uint64_t n_recorded;
    _Atomic uint64_t n_completed; /* the highest number that has run or failed */
    _Atomic uint64_t n_failed;    /* how many have; the next one's place below */
    _Atomic uint32_t is_set;
    _Atomic uint64_t pending[AM_CELL_RECORDS];
    _Atomic uint64_t failed[FAILURES];
};

_Static_assert(sizeof(struct page) <= SIZE, "it is one page");

struct am_cell {
    struct page *page;
    int fd;      /* to be sent */
    int own;     /* another open file of the same, with the lock on our byte */
    unsigned id; /* which byte, and our name in the list: peer + 1 */
    _Atomic uint64_t looked; /* when it was last seen who lives */
    uint64_t over;           /* the record that was last found to be over; 0: none */
    enum am_cell_state how;  /* it ended */
    aclError code;           /* with which, where it failed */
    LIST_ENTRY(am_cell) all;
};

static struct am_lock cells_lock = AM_LOCK_INIT(AM_RANK_LEAF, "cells");
static LIST_HEAD(, am_cell) cells = LIST_HEAD_INITIALIZER(cells); /* cells_lock */

static aclError shortage(const char *what)
{
    return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                   "no %s for an event or notify that processes share: %m%s", what,
                   errno == EMFILE ? " (see ulimit -n)" : "");
}

/* A lock on a peer's byte, or a look at who has it. */
static struct flock peer_lock(unsigned id)
{
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};
}

static bool peer_lives(const struct am_cell *cell, unsigned id)
{
    struct flock lock = peer_lock(id);

    if (id == cell->id)
        return true;
    return id <= PEERS && fcntl(cell->own, F_OFD_GETLK, &lock) == 0 &&
           lock.l_type != F_UNLCK;
}

/* Records with our name, our own or those of who had the byte before, will not run. */
static void records_abandon(struct am_cell *cell)
{
    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        uint64_t entry = cell->page->pending[i];
        uint64_t number = ENTRY_NUMBER(entry);

        if (ENTRY_OWNER(entry) == cell->id) /* another may have cleared, and taken, it */
            atomic_compare_exchange_strong(&cell->page->pending[i], &entry,
                                           number == 0 ? 0 : ENTRY(number, NOBODY));
    }
}

/* The first byte that nobody has. */
static aclError peer_become(struct am_cell *cell)
{
    for (unsigned id = 1; id <= PEERS; id++) {
        struct flock lock = peer_lock(id);

        if (fcntl(cell->own, F_OFD_SETLK, &lock) == 0) {
            cell->id = id;
            records_abandon(cell);
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
    fd = am_sys_open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? fd : am_fd_move_up(fd);
}

/* Takes over fd, also on failure. */
static aclError cell_open(int fd, struct am_cell **ret_cell)
{
    struct am_cell *cell = am_sys_calloc(1, sizeof *cell);
    aclError rc;

    fd = am_fd_move_up(fd);
    if (cell == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event that processes share");
        goto err_fd;
    }
    cell->fd = fd;
    cell->own = file_reopen(fd);
    if (cell->own < 0) {
        rc = shortage("descriptor");
        goto err_cell;
    }
    cell->page = am_sys_mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (cell->page == MAP_FAILED) {
        rc = shortage("mapping");
        goto err_own;
    }
    rc = peer_become(cell);
    if (rc != ACL_SUCCESS)
        goto err_page;
    am_lock(&cells_lock);
    LIST_INSERT_HEAD(&cells, cell, all);
    am_unlock(&cells_lock);
    *ret_cell = cell;
    return ACL_SUCCESS;

err_page:
    munmap(cell->page, SIZE);
err_own:
    close(cell->own);
err_cell:
    free(cell);
err_fd:
    close(fd);
    return rc;
}

aclError am_cell_make(struct am_cell **ret_cell)
{
    int fd = am_sys_memfd_create("aclmem-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    aclError rc;

    if (fd < 0)
        return shortage("memory file");
    if (am_sys_ftruncate(fd, SIZE) != 0 || am_sys_fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        rc = shortage("memory file");
        close(fd);
        return rc;
    }
    rc = cell_open(fd, ret_cell);
    if (rc == ACL_SUCCESS)
        (*ret_cell)->page->magic = MAGIC;
    return rc;
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

aclError am_cell_join(int fd, struct am_cell **ret_cell)
{
    struct am_cell *cell;
    aclError rc = file_check(fd);
    int copy;

    if (rc != ACL_SUCCESS)
        return rc;
    copy = am_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return shortage("descriptor");
    rc = cell_open(copy, &cell);
    if (rc != ACL_SUCCESS)
        return rc;
    if (cell->page->magic != MAGIC) {
        am_cell_leave(cell);
        return am_fail(ACL_ERROR_RT_IPC_ERROR,
                       "the exporting process has another version of aclmem");
    }
    *ret_cell = cell;
    return ACL_SUCCESS;
}

void am_cell_leave(struct am_cell *cell)
{
    records_abandon(cell);
    am_lock(&cells_lock);
    LIST_REMOVE(cell, all);
    am_unlock(&cells_lock);
    munmap(cell->page, SIZE);
    close(cell->own);
    close(cell->fd);
    free(cell);
}

int am_cell_descriptor(const struct am_cell *cell)
{
    return cell->fd;
}

/* No lock: there is no other thread here, and one may have held it. */
AM_NO_LOCK_ANALYSIS void am_cell_forget_all(void)
{
    struct am_cell *cell;

    LIST_FOREACH (cell, &cells, all) {
        close(cell->own);
        close(cell->fd);
    }
    LIST_INIT(&cells);
}

/* ---- events ---- */

static void failure_note(struct page *page, uint64_t number, aclError code)
{
    page->failed[atomic_fetch_add(&page->n_failed, 1) % FAILURES] = FAILURE(number, code);
}

/* 0: it did not fail, or very many have since. */
static uint64_t failure_find(const struct page *page, uint64_t number)
{
    for (int i = 0; i < FAILURES; i++) {
        uint64_t failure = page->failed[i];

        if (failure != 0 && FAILURE(number, FAILURE_CODE(failure)) == failure)
            return failure;
    }
    return 0;
}

/* Entries of processes that are gone make room; who waits for one is still told. */
static void list_clear_dead(struct am_cell *cell)
{
    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        uint64_t entry = cell->page->pending[i];

        if (entry == 0 || peer_lives(cell, ENTRY_OWNER(entry)))
            continue;
        if (ENTRY_NUMBER(entry) != 0)
            failure_note(cell->page, ENTRY_NUMBER(entry), 0);
        atomic_compare_exchange_strong(&cell->page->pending[i], &entry, 0);
    }
}

/* Which entry is ours now; -1: none is free. */
static int list_claim(struct am_cell *cell)
{
    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        uint64_t free_entry = 0;

        if (atomic_compare_exchange_strong(&cell->page->pending[i], &free_entry,
                                           ENTRY(0, cell->id)))
            return i;
    }
    return -1;
}

aclError am_cell_claim(struct am_cell *cell, int *ret_place)
{
    int place = list_claim(cell);

    if (place < 0) {
        list_clear_dead(cell);
        place = list_claim(cell);
    }
    AM_REQUIRE(place >= 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "%d records of an event that processes share have not run; synchronise "
               "first",
               AM_CELL_RECORDS);
    *ret_place = place;
    return ACL_SUCCESS;
}

uint64_t am_cell_record(struct am_cell *cell, int place)
{
    uint64_t number = atomic_fetch_add(&cell->page->n_recorded, 1) + 1;

    cell->page->pending[place] = ENTRY(number, cell->id);
    return number;
}

void am_cell_unclaim(struct am_cell *cell, int place)
{
    cell->page->pending[place] = 0;
}

/* Its number is among those completed before it leaves the list. */
void am_cell_recorded(struct am_cell *cell, uint64_t number, aclError result)
{
    struct page *page = cell->page;
    uint64_t highest = page->n_completed;

    if (result != ACL_SUCCESS)
        failure_note(page, number, result);
    while (highest < number &&
           !atomic_compare_exchange_weak(&page->n_completed, &highest, number))
        ;
    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        if (page->pending[i] == ENTRY(number, cell->id))
            page->pending[i] = 0;
    }
}

uint64_t am_cell_latest(const struct am_cell *cell)
{
    return cell->page->n_recorded;
}

/* To ask the kernel who lives costs a call, and every wait looks many times a second. */
static bool look_is_due(struct am_cell *cell)
{
    uint64_t now = am_clock();

    if (now - cell->looked < LOOK_INTERVAL)
        return false;
    cell->looked = now;
    return true;
}

/*
 * Whether the record's process is gone.  What is found once is written down, for the next
 * look and for others.
 */
static bool is_orphan(struct am_cell *cell, int i, uint64_t entry, bool may_ask)
{
    if (ENTRY_OWNER(entry) == NOBODY)
        return true;
    if (!may_ask || peer_lives(cell, ENTRY_OWNER(entry)))
        return false;
    atomic_compare_exchange_strong(
        &cell->page->pending[i], &entry,
        ENTRY_NUMBER(entry) == 0 ? 0 : ENTRY(ENTRY_NUMBER(entry), NOBODY));
    return true;
}

static enum am_cell_state page_look(struct am_cell *cell, uint64_t number,
                                    aclError *ret_code)
{
    struct page *page = cell->page;
    bool may_ask = look_is_due(cell);
    uint64_t failure;

    for (int i = 0; i < AM_CELL_RECORDS; i++) {
        uint64_t entry = page->pending[i];
        bool is_it = entry != 0 && ENTRY_NUMBER(entry) == number;
        bool may_be_it =
            entry != 0 && ENTRY_NUMBER(entry) == 0; /* it has no number yet */

        if ((is_it || may_be_it) && !is_orphan(cell, i, entry, may_ask))
            return AM_CELL_TO_COME;
        if (is_it)
            return AM_CELL_LOST;
    }
    if (page->n_completed < number)
        return AM_CELL_LOST;
    failure = failure_find(page, number);
    if (failure == 0)
        return AM_CELL_DONE;
    *ret_code = FAILURE_CODE(failure);
    return *ret_code != 0 ? AM_CELL_FAILED : AM_CELL_LOST;
}

/*
 * What is over stays so: the page does not say it while another record has no number yet,
 * which may be any.
 */
enum am_cell_state am_cell_look(struct am_cell *cell, uint64_t number, aclError *ret_code)
{
    enum am_cell_state state;

    if (number == 0)
        return AM_CELL_DONE;
    if (cell->over != number) {
        state = page_look(cell, number, &cell->code);
        if (state == AM_CELL_TO_COME)
            return state;
        cell->over = number;
        cell->how = state;
    }
    if (cell->how == AM_CELL_FAILED)
        *ret_code = cell->code;
    return cell->how;
}

/* ---- notifies ---- */

void am_cell_set(struct am_cell *cell, bool is_set)
{
    cell->page->is_set = is_set;
}

bool am_cell_take(struct am_cell *cell)
{
    return atomic_exchange(&cell->page->is_set, 0) != 0;
}
