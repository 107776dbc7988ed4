/*
 * The ledger's figures, and what becomes of them when a process goes.
 *
 * A process is whoever opened the file, so one test program can be several: each ledger it
 * opens has a slot of its own, and closing one is how a process ends.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"
#include "core/ledger/rundir.h"

#define CAPACITY (100 * AM_MIB)

static const struct am_ledger_config config = {
    .backend = "host",
    .product = "A2",
    .n_devices = 3,
    .capacity = {CAPACITY, CAPACITY, CAPACITY},
};

static char folder[64];

static int begin(void **state)
{
    char why[AM_WHY_SIZE];

    am_options_reset();
    strcpy(folder, folder_make());
    assert_int_equal(am_options_set("runtime_dir", folder, why), 0);
    am_log_set_level(AM_LOG_ERROR);
    return 0;
}

static int end(void **state)
{
    am_rundir_close();
    folder_remove(folder);
    return 0;
}

static struct am_ledger *open_one(void)
{
    struct am_ledger *ledger = NULL;

    assert_int_equal(am_ledger_open(&config, &ledger), ACL_SUCCESS);
    return ledger;
}

static struct am_ledger *open_shared(void)
{
    struct am_ledger *ledger = open_one();

    if (am_ledger_is_private(ledger))
        fail_msg("%s", ledger->why);
    return ledger;
}

static bool charge(struct am_ledger *ledger, int32_t device, size_t size)
{
    return am_ledger_try_charge(ledger, device, size) ||
           am_ledger_charge(ledger, device, size);
}

/* ---- memory ---- */

static void figures_are_of_all_processes(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();

    assert_true(charge(a, 0, 30 * AM_MIB));
    assert_true(charge(b, 0, 20 * AM_MIB));
    assert_true(charge(b, 2, 10 * AM_MIB));
    assert_int_equal(am_ledger_in_use(a, 0), 50 * AM_MIB);
    assert_int_equal(am_ledger_in_use(b, 0), 50 * AM_MIB);
    assert_int_equal(am_ledger_in_use(a, 1), 0);
    assert_int_equal(am_ledger_in_use(a, 2), 10 * AM_MIB);
    am_ledger_uncharge(a, 0, 30 * AM_MIB);
    assert_int_equal(am_ledger_in_use(b, 0), 20 * AM_MIB);
    assert_int_equal(am_ledger_id(a), am_ledger_id(b));
    am_ledger_put(a);
    am_ledger_put(b);
}

static void a_device_is_full_whichever_process_filled_it(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    char who[AM_LEDGER_WHO];
    char name[32];

    am_ledger_who(b, 0, who);
    assert_string_equal(who, "");
    assert_true(charge(a, 0, CAPACITY - AM_MIB));
    assert_false(charge(b, 0, AM_MIB + 1));
    assert_true(charge(b, 0, AM_MIB));
    assert_false(charge(b, 0, 1));
    assert_false(charge(a, 0, 1));
    assert_false(charge(a, 0, SIZE_MAX));
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    am_ledger_who(b, 0, who);
    snprintf(name, sizeof name, "by process %d (test_unit_ledge)", (int)getpid());
    assert_contains(who, "103809024 "); /* 99 MB */
    assert_contains(who, name);
    am_ledger_put(a);
    am_ledger_put(b);
}

static void the_three_that_hold_most_are_named_in_order(void **state)
{
    static const size_t sizes[] = {3, 9, 1, 7, 5};
    struct am_ledger *others[5];
    struct am_ledger *mine = open_shared();
    char who[AM_LEDGER_WHO];

    for (int i = 0; i < 5; i++) {
        others[i] = open_shared();
        assert_true(charge(others[i], 1, sizes[i]));
    }
    am_ledger_who(mine, 1, who);
    assert_int_equal(strncmp(who, " (9 by process ", 15), 0);
    assert_true(strstr(who, ", 7 by") != NULL && strstr(who, ", 5 by") != NULL);
    assert_true(strstr(who, ", 7 by") < strstr(who, ", 5 by"));
    assert_null(strstr(who, ", 3 by"));
    assert_int_equal(who[strlen(who) - 1], ')');
    for (int i = 0; i < 5; i++)
        am_ledger_put(others[i]);
    am_ledger_put(mine);
}

static void memory_of_an_ended_process_is_free(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_true(charge(b, 0, CAPACITY));
    assert_true(charge(c, 1, CAPACITY));
    am_ledger_put(b);
    am_ledger_put(c);
    assert_int_equal(am_ledger_in_use(a, 0), 0); /* by looking */
    assert_true(charge(a, 1, CAPACITY));         /* by asking for it */
    assert_int_equal(a->head->slots_high, 1);
    am_ledger_put(a);
}

static void a_slot_is_used_again(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_true(charge(b, 0, AM_MIB));
    assert_int_equal(b->slot, 1);
    am_ledger_put(b);
    b = open_shared();
    assert_int_equal(b->slot, 1);
    assert_int_equal(am_ledger_in_use(c, 0), 0);
    am_ledger_put(c);
    am_ledger_put(b);
    am_ledger_put(a);
}

static void unlike_devices_are_counted_apart(void **state)
{
    struct am_ledger_config others[] = {config, config, config, config, config};
    struct am_ledger *a = open_shared();

    strcpy(others[0].backend, "cuda");
    strcpy(others[1].product, "A3");
    others[2].n_devices = 2;
    others[3].capacity[0] += AM_CHUNK;
    others[4].identity = 1;
    assert_true(charge(a, 0, CAPACITY));
    for (int i = 0; i < 5; i++) {
        struct am_ledger *b;

        assert_int_equal(am_ledger_open(&others[i], &b), ACL_SUCCESS);
        assert_false(am_ledger_is_private(b));
        assert_int_equal(am_ledger_in_use(b, 0), 0);
        assert_true(am_ledger_id(b) != am_ledger_id(a));
        am_ledger_put(b);
    }
    am_ledger_put(a);
}

static void no_more_processes_use_a_device_than_it_allows(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();

    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(b, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(c, 1, 2), ACL_SUCCESS);
    (void)am_error_take_messages();
    assert_int_equal(am_ledger_use(c, 0, 2), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_contains(am_error_take_messages(), "device 0 is used by 2 processes");
    am_ledger_unuse(a, 0);
    assert_int_equal(am_ledger_use(c, 0, 2), ACL_SUCCESS);
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_ledger_put(c); /* the dead use nothing */
    assert_int_equal(am_ledger_use(a, 0, 2), ACL_SUCCESS);
    am_ledger_put(b);
    am_ledger_put(a);
}

/* ---- shares ---- */

static uint64_t share(struct am_ledger *ledger, int32_t device, size_t size)
{
    uint64_t number = 0;

    assert_true(charge(ledger, device, size));
    assert_int_equal(am_ledger_share_add(ledger, device, size, &number), ACL_SUCCESS);
    return number;
}

static void shared_memory_is_counted_once_until_all_have_left_it(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();
    char who[AM_LEDGER_WHO];
    uint64_t number = share(a, 1, 60 * AM_MIB);

    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_share_join(b, number, 1, 60 * AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(a, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(b, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(c, 1), 0);
    assert_false(charge(c, 1, 41 * AM_MIB));
    am_ledger_who(c, 1, who);
    assert_string_equal(who, " (62914560 shared)");

    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(c, 1), 60 * AM_MIB);
    assert_int_equal(am_ledger_shared(a, 1), 0);
    am_ledger_share_leave(b, number);
    assert_int_equal(am_ledger_in_use(c, 1), 0);
    assert_true(charge(c, 1, CAPACITY));
    am_ledger_put(a);
    am_ledger_put(b);
    am_ledger_put(c);
}

static void a_process_may_hold_a_share_more_than_once(void **state)
{
    struct am_ledger *a = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    assert_int_equal(am_ledger_share_join(a, number, 0, AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_shared(a, 0), AM_MIB);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(a, 0), AM_MIB);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    am_ledger_share_leave(a, number); /* nothing is held, so nothing is left */
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    assert_int_equal(am_ledger_shared(a, 0), 0);
    am_ledger_put(a);
}

static void the_dead_leave_their_shares(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *c = open_shared();
    uint64_t mine = share(a, 0, AM_MIB);
    uint64_t theirs = share(b, 0, 2 * AM_MIB);

    assert_int_equal(am_ledger_share_join(b, mine, 0, AM_MIB), ACL_SUCCESS);
    assert_int_equal(am_ledger_share_join(a, theirs, 0, 2 * AM_MIB), ACL_SUCCESS);
    share(b, 0, 4 * AM_MIB);
    am_ledger_put(b);
    assert_int_equal(am_ledger_in_use(c, 0), 3 * AM_MIB);
    am_ledger_share_leave(a, theirs);
    assert_int_equal(am_ledger_in_use(c, 0), AM_MIB);
    am_ledger_put(a);
    assert_int_equal(am_ledger_in_use(c, 0), 0);
    am_ledger_put(c);
}

static void a_number_that_names_no_share_is_refused(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 1, AM_MIB);
    const uint64_t wrong[] = {0, number + 1, number ^ 1 << 16, number ^ UINT64_C(1) << 63,
                              UINT64_MAX};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++)
        assert_int_equal(am_ledger_share_join(b, wrong[i], 1, AM_MIB),
                         ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_share_join(b, number, 1, 2 * AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_ledger_shared(b, 1), 0);
    am_ledger_share_leave(a, number);
    assert_int_equal(am_ledger_share_join(b, number, 1, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    share(a, 1, AM_MIB); /* in the same place */
    assert_int_equal(am_ledger_share_join(b, number, 1, AM_MIB),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_ledger_put(a);
    am_ledger_put(b);
}

static void places_of_shares_are_used_again(void **state)
{
    enum { N = 300 };
    struct am_ledger *a = open_shared();
    uint64_t numbers[N];
    uint32_t high;

    for (int i = 0; i < N; i++)
        numbers[i] = share(a, 0, AM_KIB);
    high = a->head->shares_high;
    assert_int_equal(am_ledger_in_use(a, 0), N * AM_KIB);
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < N; i += 2)
            am_ledger_share_leave(a, numbers[i]);
        for (int i = round; i < N; i += 2)
            numbers[i] = share(a, 0, AM_KIB);
    }
    assert_int_equal(a->head->shares_high, high);
    for (int i = 0; i < N; i++)
        am_ledger_share_leave(a, numbers[i]);
    assert_int_equal(am_ledger_in_use(a, 0), 0);
    am_ledger_put(a);
}

static void a_full_table_is_refused(void **state)
{
    struct am_ledger *a = open_shared();
    uint64_t number = 0;

    for (int i = 0; i < LEDGER_SHARES; i++)
        share(a, 0, 1);
    assert_true(charge(a, 0, 5));
    (void)am_error_take_messages();
    assert_int_equal(am_ledger_share_add(a, 0, 5, &number),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_contains(am_error_take_messages(), "65536 allocations are shared");
    assert_int_equal(am_ledger_in_use(a, 0), LEDGER_SHARES + 5);
    am_ledger_uncharge(a, 0, 5);
    am_ledger_put(a);
}

/* ---- the file ---- */

static const char *file_path(void)
{
    static char path[200];
    char name[AM_LEDGER_FILE];

    am_ledger_file_name(&config, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

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
    assert_int_equal(am_ledger_share_add(ledger, 2, CAPACITY, &number),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(am_ledger_share_join(ledger, 0, 0, 1),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(number, 7);
    am_ledger_uncharge(ledger, 2, CAPACITY);
    assert_int_equal(am_ledger_in_use(ledger, 2), 0);
    am_ledger_put(ledger);
}

static void without_a_directory_a_process_has_books_of_its_own(void **state)
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
                      EMFILE); /* the books are allocated, then the file opened */
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

/* Those who have the books keep them; only newcomers do not find them. */
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

    munmap(dying->head, dying->mapped);
    dying->mapped = 0;
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

/* A file that a process left names books that are gone, or by now another program's. */
static void books_of_another_are_not_taken(void **state)
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

    b->slots[b->slot].allocated[0] = UINT64_MAX;
    assert_int_equal(am_ledger_in_use(a, 0), CAPACITY);
    assert_false(charge(a, 0, 1));
    b->slots[b->slot].allocated[0] = 0;
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

static void where_all_slots_are_taken_a_process_has_books_of_its_own(void **state)
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

/* The same where the books are there already. */
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
        am_ledger_uncharge(a, 0, CAPACITY);
    }
    assert_int_equal(n_private, 5); /* the file, its lock, memory, two locks of slots */
    am_ledger_put(a);
}

static void sharing_survives_every_fault(void **state)
{
    struct am_ledger *b = open_shared();

    for_each_fault (n) {
        struct am_ledger *a;
        uint64_t number = 7;
        uint64_t failed;
        int rc;

        am_fault_disarm();
        a = open_shared();
        assert_true(charge(a, 0, AM_MIB));
        am_fault_arm(n, false);
        rc = am_ledger_share_add(a, 0, AM_MIB, &number);
        failed = am_fault_fired();
        am_fault_disarm();
        assert_int_equal(rc != ACL_SUCCESS, failed);
        assert_int_equal(am_ledger_in_use(b, 0), AM_MIB);
        if (rc != ACL_SUCCESS)
            assert_int_equal(am_ledger_share_add(a, 0, AM_MIB, &number), ACL_SUCCESS);
        assert_int_equal(am_ledger_share_join(b, number, 0, AM_MIB), ACL_SUCCESS);
        am_ledger_put(a);
        am_ledger_share_leave(b, number);
        assert_int_equal(am_ledger_in_use(b, 0), 0);
        if (!failed)
            break;
    }
    am_ledger_put(b);
}

static void a_share_that_could_not_be_left_is_left_with_the_next_lock(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    uint64_t number = share(a, 0, AM_MIB);

    am_fault_arm(1, true); /* no lock can be had */
    am_ledger_share_leave(a, number);
    am_fault_disarm();
    assert_int_equal(am_ledger_in_use(b, 0), AM_MIB);
    assert_int_equal(am_ledger_shared(a, 0), 0);
    assert_int_equal(am_ledger_use(a, 0, 10), ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(b, 0), 0);
    am_ledger_put(a);
    am_ledger_put(b);
}

/* ---- from outside ---- */

static void the_view_shows_what_each_process_has(void **state)
{
    struct am_ledger *a = open_shared();
    struct am_ledger *b = open_shared();
    struct am_ledger *gone = open_shared();
    struct am_ledger_view view;
    char name[AM_LEDGER_FILE];
    uint64_t number = share(a, 1, 7 * AM_MIB);
    int dir = open(folder, O_PATH);

    assert_true(charge(a, 0, AM_MIB));
    assert_true(charge(b, 2, 3 * AM_MIB));
    assert_true(charge(gone, 2, 30 * AM_MIB));
    assert_int_equal(am_ledger_use(b, 2, 9), ACL_SUCCESS);
    assert_int_equal(am_ledger_share_join(b, number, 1, 7 * AM_MIB), ACL_SUCCESS);
    am_ledger_put(gone);
    am_ledger_file_name(&config, name);
    strcpy(b->slots[b->slot].command, "\33[2J\n"); /* a program may be called so */
    assert_int_equal(am_ledger_look(dir, name, &view), 0);
    assert_memory_equal(&view.config, &config, sizeof config);
    assert_int_equal(view.n_processes, 2);
    assert_int_equal(view.processes[0].pid, getpid());
    assert_string_equal(view.processes[0].command, "test_unit_ledge");
    assert_string_equal(view.processes[1].command, "?[2J?");
    assert_int_equal(view.processes[0].allocated[0], AM_MIB);
    assert_int_equal(view.processes[0].exported[1], 7 * AM_MIB);
    assert_int_equal(view.processes[0].imported[1], 0);
    assert_int_equal(view.processes[1].imported[1], 7 * AM_MIB);
    assert_int_equal(view.processes[1].exported[1], 0);
    assert_int_equal(view.processes[1].uses, 4);
    assert_int_equal(view.used[0], AM_MIB);
    assert_int_equal(view.used[1], 7 * AM_MIB);
    assert_int_equal(view.used[2], 3 * AM_MIB);
    am_ledger_view_free(&view);
    am_ledger_put(a);
    assert_int_equal(am_ledger_look(dir, name, &view), 0);
    assert_int_equal(view.n_processes, 1);
    assert_int_equal(view.processes[0].imported[1], 7 * AM_MIB);
    am_ledger_view_free(&view);
    am_ledger_put(b);
    assert_int_equal(am_ledger_look(dir, name, &view), 0); /* the books are gone */
    assert_memory_equal(&view.config, &config, sizeof config);
    assert_int_equal(view.n_processes, 0);
    am_ledger_view_free(&view);
    assert_int_equal(am_ledger_look(dir, "ledger-none", &view), -ENOENT);
    for (size_t i = 0; i < AM_ARRAY_SIZE(parts); i++) {
        a = open_shared();
        patch(parts[i].at, UINT64_MAX, parts[i].size);
        if (parts[i].at != offsetof(struct ledger_label, kind.capacity))
            assert_int_equal(am_ledger_look(dir, name, &view), -EPROTO);
        am_ledger_put(a);
    }
    close(dir);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(figures_are_of_all_processes),
        claim(a_device_is_full_whichever_process_filled_it),
        claim(the_three_that_hold_most_are_named_in_order),
        claim(memory_of_an_ended_process_is_free),
        claim(a_slot_is_used_again),
        claim(unlike_devices_are_counted_apart),
        claim(no_more_processes_use_a_device_than_it_allows),
        claim(shared_memory_is_counted_once_until_all_have_left_it),
        claim(a_process_may_hold_a_share_more_than_once),
        claim(the_dead_leave_their_shares),
        claim(a_number_that_names_no_share_is_refused),
        claim(places_of_shares_are_used_again),
        claim(a_full_table_is_refused),
        claim(without_a_directory_a_process_has_books_of_its_own),
        claim(a_lack_of_descriptors_is_not_taken_for_a_full_disk),
        claim(a_file_of_another_user_is_refused),
        claim(a_damaged_file_is_replaced_when_no_process_uses_it),
        claim(a_damaged_file_that_is_in_use_is_refused),
        claim(a_truncated_file_harms_no_running_process),
        claim(a_lost_segment_is_replaced_beside_the_locks_of_a_dying_process),
        claim(books_of_another_are_not_taken),
        claim(nonsense_in_the_ledger_hurts_no_process),
        claim(where_all_slots_are_taken_a_process_has_books_of_its_own),
        claim(opening_survives_every_fault),
        claim(entering_survives_every_fault),
        claim(sharing_survives_every_fault),
        claim(a_share_that_could_not_be_left_is_left_with_the_next_lock),
        claim(the_view_shows_what_each_process_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
