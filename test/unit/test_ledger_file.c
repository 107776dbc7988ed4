/*
 * The ledger's file: one that is missing, damaged, full or another program's gives a process
 * private ledger, and a reason; it harms no process that has the segment.
 */
#include "ledger_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/util.h"
#include "core/ledger/rundir.h"

/* Books of its own that work, for a reason that has these words. */
static void assert_private(const char *words)
{
    struct am_ledger *ledger = open_one();
    uint64_t number = 7;

    assert_true(am_ledger_is_private(ledger));
    assert_contains(ledger->why, words);
    assert_true(charge(ledger, 2, CAPACITY));
    assert_false(charge(ledger, 2, 1));
    assert_int_equal(am_ledger_in_use(ledger, 2), CAPACITY);
    assert_int_equal(am_ledger_use(ledger, 2, 1), ACL_SUCCESS);
    assert_int_equal(am_ledger_share_add(ledger, 2, am_shard(), CAPACITY, &number),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(am_ledger_share_join(ledger, 0, 0, 1),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(number, 7);
    am_ledger_uncharge(ledger, 2, am_shard(), CAPACITY);
    assert_int_equal(am_ledger_in_use(ledger, 2), 0);
    am_ledger_put(ledger);
}

static void without_a_directory_a_process_has_a_private_ledger(void **state)
{
    assert_int_equal(chmod(folder, 0777), 0);
    assert_private("has mode 0777");
}

static void a_lack_of_descriptors_is_not_taken_for_a_full_disk(void **state)
{
    struct am_ledger *ledger = NULL;
    int dir;

    assert_int_equal(am_rundir_open(&dir), ACL_SUCCESS);
    am_fault_arm_with(2, false,
                      EMFILE); /* the ledger is allocated, then the file opened */
    assert_int_equal(am_ledger_open(&config, &ledger), ACL_SUCCESS);
    am_fault_disarm();
    assert_true(am_ledger_is_private(ledger));
    assert_contains(ledger->why, "cannot be opened: Too many open files");
    assert_contains(ledger->why, "ulimit -n");
    am_ledger_put(ledger);
}

static void a_file_of_another_user_is_refused(void **state)
{
    const char *path = file_path();

    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_private("is a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_private("is a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_private("cannot be opened");
    assert_int_equal(rmdir(path), 0);
    file_make(folder, path + strlen(folder) + 1, "", 0);
    assert_int_equal(chmod(path, 0666), 0);
    assert_private("open to other users");
    assert_int_equal(chmod(path, 0600), 0);
    am_ledger_put(open_shared());
}

/* At most the first eight bytes of what is there. */
static void patch(size_t at, uint64_t value, size_t size)
{
    int fd = open(file_path(), O_WRONLY);

    if (size > sizeof value)
        size = sizeof value;
    assert_int_equal(pwrite(fd, &value, size, (off_t)at), size);
    close(fd);
}

static const struct {
    size_t at;
    size_t size;
} parts[] = {
#define PART(field_) \
    { \
        offsetof(struct ledger_label, field_), \
            sizeof(((struct ledger_label *)0)->field_) \
    }
    PART(kind.magic),       PART(kind.version),   PART(kind.n_slots),
    PART(kind.n_shares),    PART(kind.slot_size), PART(kind.share_size),
    PART(kind.n_devices),   PART(segment),        PART(id),
    PART(kind.capacity[0]),
};

static void a_damaged_file_is_replaced_when_no_process_uses_it(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(parts); i++) {
        struct am_ledger *a = open_shared();
        uint64_t id = am_ledger_id(a);

        assert_true(charge(a, 0, AM_MIB));
        am_ledger_put(a);
        patch(parts[i].at, 0xfffefdfcfbfaf9f8, parts[i].size);
        a = open_shared();
        assert_true(am_ledger_id(a) != id);
        assert_int_equal(am_ledger_in_use(a, 0), 0);
        am_ledger_put(a);
    }
    assert_int_equal(truncate(file_path(), 100), 0);
    am_ledger_put(open_shared());
    assert_int_equal(truncate(file_path(), sizeof(struct ledger_label) + 1), 0);
    am_ledger_put(open_shared());
}

static void a_damaged_file_that_is_in_use_is_refused(void **state)
{
    struct am_ledger *a = open_shared();

    assert_true(charge(a, 0, AM_MIB));
    patch(offsetof(struct ledger_label, kind.version), LEDGER_VERSION + 1, 4);
    assert_private("another version of aclmem");
    patch(offsetof(struct ledger_label, kind.version), LEDGER_VERSION, 4);
    a->head->slots_high = LEDGER_SLOTS + 1;
    assert_private("damaged");
    a->head->slots_high = 1;
    a->head->shares_high = LEDGER_SHARES + 1;
    assert_private("damaged");
    a->head->shares_high = 0;
    assert_int_equal(am_ledger_in_use(a, 0), AM_MIB);
    am_ledger_put(open_shared());
    am_ledger_put(a);
}

/* Processes that have the segment keep it; only new processes do not find it. */
static void a_truncated_file_harms_no_running_process(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    assert_int_equal(truncate(file_path(), 0), 0);
    assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB), ACL_SUCCESS);
    assert_true(charge(b, 0, 2 * AM_MIB));
    assert_int_equal(am_ledger_in_use(a, 0), 3 * AM_MIB);
    assert_private("is in use, and");
    am_ledger_put(b); /* the locks are still good for telling who is gone */
    assert_int_equal(am_ledger_in_use(a, 0), AM_MIB);
    am_ledger_put(a);
    am_ledger_put(open_shared());
}

/* A process that ends gives up its memory before its files, and the locks with these. */
static void a_lost_segment_is_replaced_beside_the_locks_of_a_dying_process(void **state)
{
    struct am_ledger *dying = open_shared();
    struct am_ledger *a;

    munmap(dying->head, LEDGER_SIZE);
    dying->head = NULL;
    a = open_shared();
    assert_int_not_equal(a->slot, dying->slot);
    assert_true(charge(a, 0, CAPACITY));
    am_ledger_put(dying);
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    am_ledger_put(open_shared());
    am_ledger_put(a);
}

static void name_segment(int segment)
{
    patch(offsetof(struct ledger_label, segment), (uint64_t)segment, 4);
    patch(offsetof(struct ledger_label, not_segment), ~(uint64_t)segment, 4);
}

/* A file that a process left names a segment that was removed, or belongs to another program. */
static void a_segment_of_another_program_is_refused(void **state)
{
    struct am_ledger *a = open_shared();
    char *theirs;
    int segment = 0;

    am_ledger_put(a);
    theirs = am_segment_make(LEDGER_SIZE, &segment);
    assert_true(theirs != MAP_FAILED);
    name_segment(segment);
    a = open_shared();
    assert_true(charge(a, 0, CAPACITY));
    for (size_t i = 0; i < LEDGER_SIZE; i++)
        assert_int_equal(theirs[i], 0);
    am_ledger_put(a);
    munmap(theirs, LEDGER_SIZE);
    theirs = am_segment_make(AM_MIB, &segment);
    name_segment(segment);
    am_ledger_put(open_shared());
    munmap(theirs, AM_MIB);
}

static void nonsense_in_the_ledger_hurts_no_process(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    b->shards[b->slot][3].account[0] = UINT64_MAX;
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    assert_false(charge(a, 0, 1));
    b->shards[b->slot][3].account[0] = 0;
    a->head->slots_high = UINT32_MAX;
    a->head->shares_high = UINT32_MAX;
    a->head->share_next = UINT32_MAX;
    a->head->holder = UINT32_MAX;
    a->shares[0].device = -1;
    a->shares[0].exporter = UINT32_MAX;
    assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_true(charge(b, 0, CAPACITY)); /* the share was none, and is gone */
    am_ledger_share_leave(a, number);
    am_ledger_put(b);
    am_ledger_put(a);
}

static void a_damaged_file_is_not_shown(void **state)
{
    struct am_ledger_view view;
    char name[AM_LEDGER_FILE];
    int dir = open(folder, O_PATH);

    am_ledger_file_name(&config, name);
    assert_int_equal(am_ledger_read(dir, "ledger-none", &view), -ENOENT);
    for (size_t i = 0; i < AM_ARRAY_SIZE(parts); i++) {
        struct am_ledger *a = open_shared();

        patch(parts[i].at, UINT64_MAX, parts[i].size);
        if (parts[i].at != offsetof(struct ledger_label, kind.capacity))
            assert_int_equal(am_ledger_read(dir, name, &view), -EPROTO);
        am_ledger_put(a);
    }
    close(dir);
}

static void where_all_slots_are_taken_a_process_has_a_private_ledger(void **state)
{
    struct flock others = {/* the first slot's byte is 2 */
                           .l_type = F_WRLCK,
                           .l_start = LEDGER_LOCKS + 3,
                           .l_len = LEDGER_LOCKS_ALL};
    struct am_ledger *a = open_shared();
    int fd = open(file_path(), O_RDWR);

    assert_int_equal(fcntl(fd, F_OFD_SETLK, &others), 0);
    assert_private("room for 1024 processes");
    close(fd);
    am_ledger_put(open_shared());
    am_ledger_put(a);
}

/* ---- when calls fail ---- */

static void opening_survives_every_fault(void **state)
{
    int next = dup(0);
    int n_private = 0;
    int fd;

    close(next);
    for_each_fault (n) {
        struct am_ledger *ledger = NULL;
        int rc = am_ledger_open(&config, &ledger);

        am_fault_disarm();
        if (rc == ACL_SUCCESS) {
            n_private += am_ledger_is_private(ledger);
            assert_true(am_fault_fired() || !am_ledger_is_private(ledger));
            am_ledger_put(ledger);
        } else {
            assert_int_equal(rc, ACL_ERROR_BAD_ALLOC);
            assert_null(ledger);
        }
        am_rundir_close();
        unlink(file_path());
        fd = dup(0);
        assert_int_equal(fd, next);
        close(fd);
    }
    /* The directory, the file, two locks, a number, memory, the file written and cut. */
    assert_int_equal(n_private, 8);
}

/* The same if the segment exists already. */
static void entering_survives_every_fault(void **state)
{
    struct am_ledger *a = open_shared();
    int n_private = 0;

    for_each_fault (n) {
        struct am_ledger *b = NULL;
        int rc = am_ledger_open(&config, &b);

        am_fault_disarm();
        assert_int_equal(rc != ACL_SUCCESS, b == NULL);
        if (b != NULL)
            n_private += am_ledger_is_private(b);
        am_ledger_put(b);
        assert_true(charge(a, 0, CAPACITY));
        am_ledger_uncharge(a, 0, am_shard(), CAPACITY);
    }
    assert_int_equal(n_private, 5); /* the file, its lock, memory, two locks of slots */
    am_ledger_put(a);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, ledger_begin, ledger_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(without_a_directory_a_process_has_a_private_ledger),
        claim(a_lack_of_descriptors_is_not_taken_for_a_full_disk),
        claim(a_file_of_another_user_is_refused),
        claim(a_damaged_file_is_replaced_when_no_process_uses_it),
        claim(a_damaged_file_that_is_in_use_is_refused),
        claim(a_truncated_file_harms_no_running_process),
        claim(a_lost_segment_is_replaced_beside_the_locks_of_a_dying_process),
        claim(a_segment_of_another_program_is_refused),
        claim(nonsense_in_the_ledger_hurts_no_process),
        claim(a_damaged_file_is_not_shown),
        claim(where_all_slots_are_taken_a_process_has_a_private_ledger),
        claim(opening_survives_every_fault),
        claim(entering_survives_every_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
