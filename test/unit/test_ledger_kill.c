/*
 * The ledger when processes are killed, stopped, forked, or many.
 *
 * The matrix: a process does one thing to the ledger and is killed at its first step, then
 * another is at its second, and so on until one survives.  A step is a system call or a
 * write that others can see.  After each the sums are those of the live processes, and nothing
 * keeps them from going on.
 */
#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"
#include "core/ledger/rundir.h"
#include "support/peer.h"

#define CAPACITY (100 * AM_MIB)
#define PIECE (8 * AM_MIB)

static const struct am_ledger_config config = {
    .backend = "host",
    .product = "A2",
    .n_devices = 2,
    .capacity = {CAPACITY, CAPACITY},
};

extern char **environ;

static char folder[64];
static struct am_ledger *mine; /* the survivor's */

static void name_folder(void)
{
    char why[AM_WHY_SIZE];

    am_options_reset();
    assert_int_equal(am_options_set("runtime_dir", folder, why), 0);
    am_log_set_level(AM_LOG_ERROR);
}

static struct am_ledger *open_shared(void)
{
    struct am_ledger *ledger = NULL;

    if (am_ledger_open(&config, &ledger) != ACL_SUCCESS || am_ledger_is_private(ledger)) {
        fprintf(stderr, "%s\n", ledger != NULL ? ledger->why : "no ledger");
        _exit(4);
    }
    return ledger;
}

static int begin(void **state)
{
    strcpy(folder, folder_make());
    setenv("TEST_FOLDER", folder, 1);
    name_folder();
    mine = open_shared();
    return 0;
}

static int end(void **state)
{
    am_ledger_put(mine);
    am_rundir_close();
    folder_remove(folder);
    return 0;
}

static bool charge(struct am_ledger *ledger, size_t size)
{
    return am_ledger_charge(ledger, 0, size);
}

/* ---- the matrix ---- */

/* What a process works on; prepared before the first step that counts. */
struct scene {
    struct am_ledger *ledger;
    uint64_t number; /* a share: the survivor's, or its own */
};

static void must(bool is_true)
{
    if (!is_true)
        _exit(5);
}

static void open_own(struct scene *s)
{
    s->ledger = open_shared();
}

static void open_and_charge(struct scene *s)
{
    open_own(s);
    must(charge(s->ledger, PIECE));
}

static void open_and_share(struct scene *s)
{
    open_and_charge(s);
    must(am_ledger_share_add(s->ledger, 0, am_shard(), PIECE, &s->number) == ACL_SUCCESS);
}

static void open_and_join(struct scene *s)
{
    open_own(s);
    must(am_ledger_share_join(s->ledger, s->number, 0, PIECE) == ACL_SUCCESS);
}

static void nothing(struct scene *s)
{
}

static void do_charge(struct scene *s)
{
    must(charge(s->ledger, PIECE));
}

static void do_slow_charge(struct scene *s)
{
    must(am_ledger_charge(s->ledger, 0, PIECE));
}

static void do_too_much(struct scene *s)
{
    must(!am_ledger_charge(s->ledger, 0, CAPACITY));
}

static void do_uncharge(struct scene *s)
{
    am_ledger_uncharge(s->ledger, 0, am_shard(), PIECE);
}

static void do_use(struct scene *s)
{
    must(am_ledger_use(s->ledger, 0, 5) == ACL_SUCCESS);
}

static void do_share(struct scene *s)
{
    must(am_ledger_share_add(s->ledger, 0, am_shard(), PIECE, &s->number) == ACL_SUCCESS);
}

static void do_join(struct scene *s)
{
    must(am_ledger_share_join(s->ledger, s->number, 0, PIECE) == ACL_SUCCESS);
}

static void do_leave(struct scene *s)
{
    am_ledger_share_leave(s->ledger, s->number);
}

static void do_close(struct scene *s)
{
    am_ledger_put(s->ledger);
}

/* Another one died before, and this one clears its slot. */
static void open_beside_the_dead(struct scene *s)
{
    struct scene dead = {.number = s->number};
    uint64_t more;

    open_own(s);
    open_and_join(&dead);
    must(charge(dead.ledger, PIECE));
    must(am_ledger_share_add(dead.ledger, 0, am_shard(), PIECE, &more) == ACL_SUCCESS);
    must(charge(dead.ledger, PIECE));
    am_ledger_put(dead.ledger);
}

static const struct deed {
    const char *name;
    void (*prepare)(struct scene *s);
    void (*run)(struct scene *s);
} deeds[] = {
    {"open", nothing, open_own},
    {"charge", open_own, do_charge},
    {"charge by the slow way", open_own, do_slow_charge},
    {"charge too much", open_own, do_too_much},
    {"uncharge", open_and_charge, do_uncharge},
    {"use", open_own, do_use},
    {"share", open_and_charge, do_share},
    {"join", open_own, do_join},
    {"leave what it joined", open_and_join, do_leave},
    {"leave what it shared", open_and_share, do_leave},
    {"close", open_and_join, do_close},
    {"clear the slot of another", open_beside_the_dead, do_too_much},
    {"open in the slot of another", open_beside_the_dead, open_own},
};

/* In a process of its own: role "deed index nth". */
static int play_deed(unsigned index, uint64_t nth)
{
    struct scene s = {0};

    if (!peer_next(&s.number))
        return 6;
    deeds[index].prepare(&s);
    am_fault_arm_signal(nth, SIGKILL);
    deeds[index].run(&s);
    am_fault_disarm();
    peer_answer(1);
    return 0;
}

/* What is right after a death: only the survivor's is in use, and all the rest is free. */
static void assert_right(struct am_ledger *ledger, const char *name, uint64_t nth)
{
    size_t in_use = am_ledger_in_use(ledger, 0);

    if (in_use != 2 * PIECE)
        fail_msg("%s, step %llu: %zu bytes in use", name, (unsigned long long)nth,
                 in_use);
    if (!charge(ledger, CAPACITY - 2 * PIECE))
        fail_msg("%s, step %llu: the rest is not free", name, (unsigned long long)nth);
    am_ledger_uncharge(ledger, 0, am_shard(), CAPACITY - 2 * PIECE);
    assert_int_equal(am_ledger_use(ledger, 0, 1), ACL_SUCCESS);
    am_ledger_unuse(ledger, 0);
}

/* Whether it was killed. */
static bool kill_at(unsigned index, uint64_t number, uint64_t nth)
{
    char role[64];
    struct peer other;
    uint64_t answer;
    bool has_survived;

    snprintf(role, sizeof role, "deed %u %llu", index, (unsigned long long)nth);
    other = peer_start(role);
    peer_tell(&other, number);
    has_survived = peer_hear(&other, &answer);
    assert_int_equal(peer_end(&other), has_survived ? 0 : SIGKILL);
    return !has_survived;
}

static void a_killed_process_leaves_correct_sums(void **state)
{
    uint64_t number;
    unsigned total = 0;

    assert_true(charge(mine, 2 * PIECE));
    assert_int_equal(am_ledger_share_add(mine, 0, am_shard(), PIECE, &number),
                     ACL_SUCCESS);
    for (unsigned i = 0; i < AM_ARRAY_SIZE(deeds); i++) {
        uint64_t nth = 1;

        while (kill_at(i, number, nth)) {
            struct am_ledger *late;

            if (nth % 2 ==
                0) { /* one who comes later clears up as well as one who was there */
                late = open_shared();
                am_ledger_put(late);
            }
            assert_right(mine, deeds[i].name, nth++);
        }
        assert_right(mine, deeds[i].name, nth);
        print_message("%s: killed at %llu steps\n", deeds[i].name,
                      (unsigned long long)nth - 1);
        total += (unsigned)nth - 1;
    }
    assert_true(total > 80);
    am_ledger_share_leave(mine, number);
    assert_int_equal(am_ledger_in_use(mine, 0), PIECE);
    am_ledger_uncharge(mine, 0, am_shard(), PIECE);
}

/* The same for a file that is not there yet. */
static void a_process_killed_while_making_the_file_hinders_no_process(void **state)
{
    char path[200];
    char name[AM_LEDGER_FILE];
    uint64_t nth = 0;
    bool was_killed;

    am_ledger_file_name(&config, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    do {
        am_ledger_put(mine);
        assert_int_equal(unlink(path), 0);
        was_killed = kill_at(0, 0, ++nth);
        mine = open_shared();
        assert_int_equal(am_ledger_in_use(mine, 0), 0);
        assert_true(charge(mine, CAPACITY));
        am_ledger_uncharge(mine, 0, am_shard(), CAPACITY);
    } while (was_killed);
    assert_true(nth > 10);
}

/* ---- stopped ---- */

/* Role "stop nth": stops itself at a step under the lock. */
static int play_stop(uint64_t nth)
{
    struct am_ledger *ledger = open_shared();
    uint64_t number;

    must(charge(ledger, PIECE));
    am_fault_arm_signal(nth, SIGSTOP);
    must(am_ledger_share_add(ledger, 0, am_shard(), PIECE, &number) == ACL_SUCCESS);
    peer_answer(am_fault_fired());
    return peer_next(&number) ? 1 : 0;
}

static void
a_stopped_process_is_named_and_hinders_only_calls_that_need_the_lock(void **state)
{
    struct peer other = peer_start("stop 4");
    struct am_ledger *late;
    char text[64];
    uint64_t fired;
    uint64_t number;

    peer_await_stop(&other);
    snprintf(text, sizeof text, "locked by process %d (test_unit_ledge)", (int)other.pid);

    assert_true(ledger_try_charge(mine, 0, PIECE)); /* takes no lock */
    (void)am_error_take_messages();
    assert_int_equal(am_ledger_share_add(mine, 0, am_shard(), PIECE, &number),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_contains(am_error_take_messages(), text);
    assert_int_equal(am_ledger_open(&config, &late), ACL_SUCCESS);
    assert_true(am_ledger_is_private(late));
    am_ledger_put(late);

    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_true(peer_hear(&other, &fired));
    assert_int_equal(fired, 1);
    assert_int_equal(am_ledger_share_add(mine, 0, am_shard(), PIECE, &number),
                     ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(mine, 0), 2 * PIECE);
    am_ledger_share_leave(mine, number);
    assert_int_equal(peer_end(&other), 0);
    assert_int_equal(am_ledger_in_use(mine, 0), 0);
}

/* More waits than the test's own limit of time has room for. */
static void a_stopped_process_is_waited_for_once(void **state)
{
    struct peer other;
    uint64_t numbers[70];
    uint64_t fired;

    for (size_t i = 0; i < AM_ARRAY_SIZE(numbers); i++) {
        assert_true(charge(mine, AM_MIB));
        assert_int_equal(am_ledger_share_add(mine, 0, am_shard(), AM_MIB, &numbers[i]),
                         ACL_SUCCESS);
    }
    other = peer_start("stop 4");
    peer_await_stop(&other);
    for (size_t i = 0; i < AM_ARRAY_SIZE(numbers); i++)
        am_ledger_share_leave(mine, numbers[i]);
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_true(peer_hear(&other, &fired));
    assert_int_equal(peer_end(&other), 0);
    assert_true(charge(mine, CAPACITY)); /* what was left late is free, too */
    am_ledger_uncharge(mine, 0, am_shard(), CAPACITY);
}

static void a_stopped_process_that_is_killed_hinders_no_process(void **state)
{
    struct peer other = peer_start("stop 4");
    uint64_t number;

    peer_await_stop(&other);
    peer_kill(&other, SIGKILL);
    assert_true(charge(mine, PIECE));
    assert_int_equal(am_ledger_share_add(mine, 0, am_shard(), PIECE, &number),
                     ACL_SUCCESS);
    assert_int_equal(am_ledger_in_use(mine, 0), PIECE);
    am_ledger_share_leave(mine, number);
    assert_int_equal(am_ledger_in_use(mine, 0), 0);
}

/* Role "race": stops itself between reading and adding. */
static int play_race(void)
{
    struct am_ledger *ledger = open_shared();
    uint64_t number;

    am_fault_arm_signal(1, SIGSTOP);
    peer_answer(ledger_try_charge(ledger, 0, CAPACITY));
    return peer_next(&number) ? 1 : 0;
}

static void
two_processes_that_charge_at_once_do_not_both_get_the_last_memory(void **state)
{
    struct peer other = peer_start("race");
    uint64_t was_given;

    peer_await_stop(&other); /* it has seen that there is room */
    assert_true(ledger_try_charge(mine, 0, PIECE));
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_true(peer_hear(&other, &was_given));
    assert_int_equal(was_given, 0);
    assert_int_equal(am_ledger_in_use(mine, 0), PIECE);
    am_ledger_uncharge(mine, 0, am_shard(), PIECE);
    assert_int_equal(peer_end(&other), 0);
}

/* ---- forked ---- */

/* A child that says that it is there, and outlives its parent until the test is over. */
static void linger(void)
{
    char byte;

    peer_answer((uint64_t)getpid());
    (void)!read(PEER_FD, &byte, 1);
    _exit(0);
}

/* A child that is this program again, with no handler of fork having run. */
static void spawn_lingerer(void)
{
    char path[] = "/proc/self/exe";
    char role[] = "linger";
    pid_t pid;

    must(posix_spawn(&pid, path, NULL, NULL, (char *[]){path, role, NULL}, environ) == 0);
}

static void fork_lingerer(aclrtDrvMemHandle handle)
{
    pid_t pid = fork();

    if (pid == 0) {
        must(aclrtFreePhysical(handle) != ACL_SUCCESS);
        linger();
    }
    must(pid > 0);
}

/* Role "fork" and "spawn": holds memory, and has a child. */
static int play_parent(bool is_fork)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtDrvMemHandle handle;

    must(aclInit(NULL) == ACL_SUCCESS);
    must(aclrtMallocPhysical(&handle, PIECE, &prop, 0) == ACL_SUCCESS);
    if (is_fork)
        fork_lingerer(handle);
    else
        spawn_lingerer();
    (void)poll(&(struct pollfd){.fd = PEER_FD}, 1, -1); /* until the test is over */
    return 0;
}

static void assert_child_keeps_nothing(const char *role)
{
    struct peer other;
    uint64_t child;
    int kept;

    setenv("ACLMEM_RUNTIME_DIR", folder, 1);
    setenv("ACLMEM_MEMORY", "100M", 1);
    other = peer_start(role);
    assert_true(peer_hear(&other, &child));
    assert_int_equal(am_ledger_in_use(mine, 0), PIECE);
    kept = dup(other.fd); /* the child reads from it until we close it */
    peer_kill(&other, SIGKILL);
    assert_int_equal(kill((pid_t)child, 0), 0);
    assert_int_equal(am_ledger_in_use(mine, 0), 0);
    assert_true(charge(mine, CAPACITY));
    am_ledger_uncharge(mine, 0, am_shard(), CAPACITY);
    close(kept);
}

static void a_forked_child_does_not_keep_its_parents_memory(void **state)
{
    assert_child_keeps_nothing("fork");
}

static void an_executed_child_does_not_keep_it_either(void **state)
{
    assert_child_keeps_nothing("spawn");
}

/* ---- many ---- */

enum { UNITS = 10, TURNS = 20000, PROCESSES = 8 };

/*
 * Role "crowd": takes and gives back units of a tenth of the device.  The common word counts
 * what was really given; it is in the folder's file "count".
 */
static int play_crowd(void)
{
    struct am_ledger *ledger = open_shared();
    char path[128];
    _Atomic uint64_t *given;
    uint64_t number;
    uint64_t n_taken = 0;
    int fd;

    snprintf(path, sizeof path, "%s/count", folder);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0 && ftruncate(fd, 4096) == 0);
    given = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(given != MAP_FAILED);
    peer_answer(0);
    if (!peer_next(&number))
        return 6;
    for (int i = 0; i < TURNS; i++) {
        size_t units = 1 + (size_t)(i % 4);

        if (!ledger_try_charge(ledger, 0, units * CAPACITY / UNITS))
            continue;
        n_taken++;
        if (atomic_fetch_add(given, units) + units > UNITS)
            return 7;
        atomic_fetch_sub(given, units);
        am_ledger_uncharge(ledger, 0, am_shard(), units * CAPACITY / UNITS);
    }
    peer_answer(n_taken);
    return 0;
}

static void no_more_is_given_than_there_is(void **state)
{
    struct peer crowd[PROCESSES];
    uint64_t n_taken;
    uint64_t total = 0;

    for (int i = 0; i < PROCESSES; i++) {
        crowd[i] = peer_start("crowd");
        assert_true(peer_hear(&crowd[i], &n_taken));
    }
    for (int i = 0; i < PROCESSES; i++)
        peer_tell(&crowd[i], 0);
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(peer_hear(&crowd[i], &n_taken));
        total += n_taken; /* one may find it taken every time */
        assert_int_equal(peer_end(&crowd[i]), 0);
    }
    assert_true(total > 0);
    assert_int_equal(am_ledger_in_use(mine, 0), 0);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

static int play(const char *role)
{
    unsigned long long nth = 0;
    unsigned index = 0;

    strcpy(folder, getenv("TEST_FOLDER"));
    if (strcmp(role, "linger") == 0)
        linger();
    if (strcmp(role, "fork") == 0 || strcmp(role, "spawn") == 0)
        return play_parent(role[0] == 'f');
    name_folder();
    if (strcmp(role, "race") == 0)
        return play_race();
    if (strcmp(role, "crowd") == 0)
        return play_crowd();
    if (sscanf(role, "stop %llu", &nth) == 1)
        return play_stop(nth);
    if (sscanf(role, "deed %u %llu", &index, &nth) == 2)
        return play_deed(index, nth);
    return 9;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        claim(a_killed_process_leaves_correct_sums),
        claim(a_process_killed_while_making_the_file_hinders_no_process),
        claim(a_stopped_process_is_named_and_hinders_only_calls_that_need_the_lock),
        claim(a_stopped_process_is_waited_for_once),
        claim(a_stopped_process_that_is_killed_hinders_no_process),
        claim(two_processes_that_charge_at_once_do_not_both_get_the_last_memory),
        claim(a_forked_child_does_not_keep_its_parents_memory),
        claim(an_executed_child_does_not_keep_it_either),
        claim(no_more_is_given_than_there_is),
    };

    if (argc == 2)
        return play(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
