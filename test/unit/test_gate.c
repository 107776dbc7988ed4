/*
 * Gates: memory moves only while nobody is at it, and nobody is at it while it moves.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/clock.h"
#include "base/error.h"

#define SHUT (UINT64_C(1) << 63)
#define NAPS 20 /* how often one who waits looks before it is believed to wait */

/* A test may have naps take no time, or the clock go on by so much at each look. */
static _Thread_local unsigned n_naps;
static _Thread_local bool is_sleepless;
static _Thread_local uint64_t clock_step; /* ns; 0: it is the system's */

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    n_naps++;
    return is_sleepless ? 0 : __real_nanosleep(time, left);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    static _Thread_local uint64_t now = 1000 * AM_SECOND;

    if (clock_step == 0)
        return __real_clock_gettime(id, time);
    now += clock_step;
    *time = (struct timespec){(time_t)(now / AM_SECOND), (long)(now % AM_SECOND)};
    return 0;
}

static struct am_bank *bank;
static struct am_mem mem;
static struct am_span span;

static int begin(void **state)
{
    struct am_bank_spec spec = {.capacity = 64 * AM_CHUNK, .is_isolated = true};

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    assert_int_equal(host_mem_create(bank, 2 * AM_CHUNK, -1, &mem), ACL_SUCCESS);
    span = (struct am_span){.size = mem.size, .mem = &mem};
    assert_int_equal(host_fill(&span, mem.size, 0x11, 1), ACL_SUCCESS);
    return 0;
}

static int end(void **state)
{
    host_mem_destroy(&mem);
    host_bank_close(bank);
    return 0;
}

/* Something that a thread does, and whether it has. */
struct deed {
    aclError (*run)(void);
    pthread_t thread;
    atomic_int id;
    atomic_bool is_done;
    aclError rc;
};

static void *deed_main(void *arg)
{
    struct deed *deed = arg;

    deed->id = gettid();
    deed->rc = deed->run();
    deed->is_done = true;
    return NULL;
}

static void deed_start(struct deed *deed, aclError (*run)(void))
{
    deed->run = run;
    deed->id = 0;
    deed->is_done = false;
    assert_int_equal(pthread_create(&deed->thread, NULL, deed_main, deed), 0);
}

static aclError deed_end(struct deed *deed)
{
    pthread_join(deed->thread, NULL);
    return deed->rc;
}

/*
 * How often the thread has gone to sleep; 0 before it runs.  Where the kernel does not
 * say, how often was asked.
 */
static unsigned long count_naps(struct deed *deed)
{
    static unsigned long n_asked;
    char path[64], line[128];
    bool is_told = false;
    unsigned long n = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", deed->id);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        is_told |= sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1;
    fclose(file);
    return is_told ? n : n_asked++;
}

/*
 * It waits: it has looked many times and goes on looking.  Who waits at a gate sleeps
 * between two looks, so time does not count, and the test takes as many of its looks
 * however busy the machine is.
 */
static void assert_not_done(struct deed *deed)
{
    unsigned long before = count_naps(deed);

    while (count_naps(deed) < before + NAPS) {
        assert_false(deed->is_done);
        sched_yield();
    }
    assert_false(deed->is_done);
}

static void wait_until_shut(void)
{
    while ((host_mem(&mem)->gate & SHUT) == 0)
        sched_yield();
}

static aclError export_mem(void)
{
    int fd;

    return host_mem_export(&mem, &fd);
}

static aclError fill_mem(void)
{
    return host_fill(&span, mem.size, 0x22, 1);
}

static bool is_in_bank(void)
{
    return host_mem(&mem)->store == ((struct host_bank *)bank)->store;
}

static uint8_t byte_at(size_t at)
{
    struct am_span ours = {.size = 1};
    uint8_t byte = 0;

    ours.addr = &byte;
    assert_int_equal(host_copy(&ours, 0, &span, at, 1), ACL_SUCCESS);
    return byte;
}

static void memory_does_not_move_under_a_copy(void **state)
{
    struct deed export;

    host_gate_enter(&span, 0, NULL, 0, mem.size);
    deed_start(&export, export_mem);
    wait_until_shut();
    assert_not_done(&export);
    assert_true(is_in_bank());
    /* What the copy still writes goes with the memory. */
    memset(host_mem(&mem)->store->view + (host_mem_frame(&mem, 0) << AM_CHUNK_SHIFT),
           0x33, AM_CHUNK);
    host_gate_leave(&span, 0, NULL, 0, mem.size);
    assert_int_equal(deed_end(&export), ACL_SUCCESS);
    assert_false(is_in_bank());
    assert_int_equal(byte_at(AM_CHUNK - 1), 0x33);
    assert_int_equal(byte_at(AM_CHUNK), 0x11);
}

static void a_copy_waits_while_memory_moves(void **state)
{
    struct deed fill;

    assert_int_equal(host_gate_shut(&mem), ACL_SUCCESS);
    deed_start(&fill, fill_mem);
    assert_not_done(&fill);
    host_gate_open(&mem);
    assert_int_equal(deed_end(&fill), ACL_SUCCESS);
    assert_int_equal(byte_at(0), 0x22);
}

static void a_copy_that_waits_keeps_no_other_gate(void **state)
{
    struct am_mem second;
    struct am_span spans[2];
    struct deed fill;

    assert_int_equal(host_mem_create(bank, AM_CHUNK, -1, &second), ACL_SUCCESS);
    spans[0] = (struct am_span){.size = AM_CHUNK, .mem = &second};
    spans[1] = span;
    assert_int_equal(host_gate_shut(&mem), ACL_SUCCESS);
    deed_start(&fill, fill_mem);
    /* A copy over both would pass the first gate and wait at the second one. */
    assert_int_equal(host_gate_shut(&second), ACL_SUCCESS);
    host_gate_open(&second);
    assert_not_done(&fill);
    host_gate_open(&mem);
    assert_int_equal(deed_end(&fill), ACL_SUCCESS);
    host_gate_enter(spans, 0, NULL, 0, AM_CHUNK); /* of the first alone */
    assert_int_equal(host_gate_shut(&mem), ACL_SUCCESS);
    host_gate_open(&mem);
    host_gate_leave(spans, 0, NULL, 0, AM_CHUNK);
    assert_int_equal(host_mem(&second)->gate, 0);
    assert_int_equal(host_mem(&mem)->gate, 0);
    host_mem_destroy(&second);
}

static void memory_with_a_view_stays_and_says_so(void **state)
{
    bool is_private;
    void *addr;

    assert_int_equal(host_view_open(&span, 1, false, &addr, &is_private), ACL_SUCCESS);
    n_naps = 0;
    assert_int_equal(export_mem(), ACL_ERROR_RT_PARAM_INVALID);
    assert_contains(am_error_take_messages(), "1 host views");
    assert_int_equal(n_naps, 0); /* at once: the gate has not been shut for anybody */
    assert_true(is_in_bank());
    assert_int_equal(byte_at(5), 0x11); /* the gate is open again */
    host_view_close(&span, 1, addr, is_private);
    assert_int_equal(export_mem(), ACL_SUCCESS);
    assert_int_equal(byte_at(5), 0x11);
}

/* However long a nap takes: what counts is the time that has passed. */
static void a_copy_that_does_not_end_is_waited_for_two_seconds(void **state)
{
    host_gate_enter(&span, 0, NULL, 0, mem.size);
    n_naps = 0;
    is_sleepless = true;
    clock_step = 5 * AM_MILLISECOND;
    assert_int_equal(export_mem(), ACL_ERROR_RT_PARAM_INVALID);
    clock_step = 0;
    is_sleepless = false;
    assert_contains(am_error_take_messages(), "copies have used it");
    assert_in_range(n_naps, 390, 400);
    assert_int_equal(byte_at(5), 0x11);
    host_gate_leave(&span, 0, NULL, 0, mem.size);
    assert_int_equal(export_mem(), ACL_SUCCESS);
}

/* A stop of the machine, or of the process, is not waiting. */
static void standing_still_counts_for_little(void **state)
{
    host_gate_enter(&span, 0, NULL, 0, mem.size);
    n_naps = 0;
    is_sleepless = true;
    clock_step = 3600 * AM_SECOND;
    assert_int_equal(export_mem(), ACL_ERROR_RT_PARAM_INVALID);
    clock_step = 0;
    is_sleepless = false;
    assert_in_range(n_naps, 190, 200);
    host_gate_leave(&span, 0, NULL, 0, mem.size);
}

#define claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(memory_does_not_move_under_a_copy),
        claim(a_copy_waits_while_memory_moves),
        claim(a_copy_that_waits_keeps_no_other_gate),
        claim(memory_with_a_view_stays_and_says_so),
        claim(a_copy_that_does_not_end_is_waited_for_two_seconds),
        claim(standing_still_counts_for_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
