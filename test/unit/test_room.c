/*
 * A machine that has less memory than its devices were promised: whatever the library
 * brings in is refused, and the kernel never has to kill for it.
 */
#include "unit.h"

#include <string.h>
#include <time.h>

#include "backend/host/host.h"
#include "base/clock.h"
#include "base/machine.h"
#include "support/support.h"
#include "support/vmm.h"

#define LACK (80 * MIB) /* too little for SIZE, with what is left to the others */
#define SIZE (32 * MIB) /* more than the credit of any look in these tests */
#define PLENTY GIB      /* a credit of less than half of SIZE */

static size_t left = PLENTY; /* of the machine */
static unsigned n_looks;
static unsigned
    look_of_the_end;      /* at this look the other processes have taken all; 0: never */
static uint64_t time_now; /* 0: the real one */

/* The linker calls these for am_machine_available(), am_sys_mlock() and clock_gettime(). */
size_t __wrap_am_machine_available(void);
int __wrap_am_sys_mlock(const void *addr, size_t size);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);

size_t __wrap_am_machine_available(void)
{
    n_looks++;
    return n_looks == look_of_the_end ? 0 : left;
}

/* The pages count as locked with any `ulimit -l`. */
int __wrap_am_sys_mlock(const void *addr, size_t size)
{
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (time_now == 0)
        return __real_clock_gettime(clock, ret_time);
    ret_time->tv_sec = (time_t)(time_now / AM_SECOND);
    ret_time->tv_nsec = (long)(time_now % AM_SECOND);
    return 0;
}

static void start_with(const char *option)
{
    left = PLENTY;
    start("default", option);
    assert_acl_ok(aclrtSetDevice(0));
}

#define assert_lack(call_) \
    do { \
        left = LACK; \
        assert_refused(call_, ACL_ERROR_RT_MEMORY_ALLOCATION, "the machine has"); \
        left = PLENTY; \
    } while (0)

/* A fill, and a copy from elsewhere; afterwards both are done. */
static void assert_writes_lack(void *p)
{
    static const char bytes[SIZE];

    assert_lack(aclrtMemset(p, SIZE, 1, SIZE));
    assert_lack(copy(p, bytes, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtMemset(p, SIZE, 1, SIZE));
    left = 0; /* nothing more is needed */
    assert_acl_ok(copy(p, bytes, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    left = PLENTY;
}

static void device_memory_of_any_size_is_refused_when_it_is_written(void **state)
{
    void *p = NULL;

    start_with("ACLMEM_ISOLATE=1");
    assert_acl_ok(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_writes_lack(p);
    assert_acl_ok(aclrtFree(p));
}

static void so_is_memory_that_the_program_can_touch(void **state)
{
    struct block b;

    start_with("ACLMEM_ISOLATE=0");
    b = block_create(SIZE);
    assert_writes_lack(b.va);
    block_destroy(&b);
}

static void and_memory_of_the_host(void **state)
{
    struct block b;

    start_with("ACLMEM_ISOLATE=1");
    b = block_create_host(SIZE);
    assert_writes_lack(b.va);
    block_destroy(&b);
}

static void and_managed_memory(void **state)
{
    void *p = NULL;

    start_with("ACLMEM_PRODUCT=A2");
    assert_acl_ok(aclrtMemAllocManaged(&p, SIZE, ACL_RT_MEM_ATTACH_GLOBAL));
    assert_writes_lack(p);
    assert_acl_ok(aclrtFree(p));
}

/* What was never written is brought in by reading, too, where the program can touch it. */
static void reading_what_was_never_written_is_refused(void **state)
{
    static char bytes[SIZE];
    struct block b;

    start_with("ACLMEM_ISOLATE=0");
    b = block_create(SIZE);
    assert_lack(copy(bytes, b.va, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(copy(bytes, b.va, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    block_destroy(&b);
}

static void commit_now_refuses_the_allocation(void **state)
{
    static const char *const isolation[] = {"ACLMEM_ISOLATE=0", "ACLMEM_ISOLATE=1"};

    for (int i = 0; i < 2; i++) {
        aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
        aclrtDrvMemHandle handle;

        left = PLENTY;
        start("default", "ACLMEM_COMMIT=now", isolation[i]);
        assert_acl_ok(aclrtSetDevice(0));
        assert_lack(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
        assert_acl_ok(aclFinalize());
    }
    start("default");
}

static void pinned_memory_refuses_the_allocation(void **state)
{
    void *p = NULL;

    start_with("ACLMEM_ISOLATE=1");
    assert_lack(aclrtMallocHost(&p, SIZE));
}

/* The bytes go to a place of their own for it. */
static void exporting_what_was_written_is_refused(void **state)
{
    struct block b;
    uint64_t number;

    start_with("ACLMEM_ISOLATE=1");
    b = block_create(SIZE);
    assert_acl_ok(aclrtMemset(b.va, SIZE, 7, SIZE));
    assert_lack(
        aclrtMemExportToShareableHandle(b.handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    assert_all_bytes(b.va, SIZE, 7);
    assert_acl_ok(
        aclrtMemExportToShareableHandle(b.handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    assert_all_bytes(b.va, SIZE, 7);
    block_destroy(&b);
}

/* The library does not know which pages the program has brought in itself; the kernel does. */
static void memory_that_the_program_wrote_is_not_charged_again(void **state)
{
    struct block b;

    start_with("ACLMEM_ISOLATE=0");
    b = block_create(SIZE);
    memset(b.va, 1, SIZE - CHUNK);
    left = LACK; /* enough for the last chunk */
    assert_acl_ok(aclrtMemset(b.va, SIZE, 2, SIZE));
    assert_int_equal(b.va[SIZE - 1], 2);
    left = PLENTY;
    block_destroy(&b);
}

/*
 * Five processes may see the same free memory at the same moment.  Each populates a small
 * part of it and looks again, so that a call fails that began when there was enough.
 */
static void memory_that_goes_to_others_meanwhile_is_noticed(void **state)
{
    void *p = NULL;

    start_with("ACLMEM_ISOLATE=1");
    assert_acl_ok(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    n_looks = 0;
    look_of_the_end = 2;
    assert_refused(aclrtMemset(p, SIZE, 1, SIZE), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "the machine has");
    assert_int_equal(n_looks, 2);
    assert_all_bytes(p, SIZE, 0);
    look_of_the_end = 0;
    assert_acl_ok(aclrtMemset(p, SIZE, 1, SIZE));
    assert_all_bytes(p, SIZE, 1);
    assert_acl_ok(aclrtFree(p));
}

static void and_when_pages_are_locked(void **state)
{
    void *p = NULL;

    start_with("ACLMEM_ISOLATE=1");
    n_looks = 0;
    look_of_the_end = 3; /* after the one for all and the one for the first part */
    assert_refused(aclrtMallocHost(&p, SIZE), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "the machine has");
    look_of_the_end = 0;
    assert_acl_ok(aclrtMallocHost(&p, SIZE));
    assert_acl_ok(aclrtFreeHost(p));
}

/* To look takes long, so a look serves for a while: some bytes, some time. */
static void a_look_gives_a_credit_of_bytes_and_time(void **state)
{
    size_t part;

    n_looks = 0;
    time_now = am_clock() + AM_SECOND; /* no credit of earlier tests reaches so far */
    if (am_clock() != time_now)
        fail_msg("the clock is not the test's");
    left = GIB;
    assert_int_equal(host_room_check(NULL, CHUNK, &part), ACL_SUCCESS);
    assert_int_equal(n_looks, 1);
    for (size_t i = 0; i < 7; i++) /* 14 of 1/64 of a gigabyte, less what is kept */
        assert_int_equal(host_room_check(NULL, CHUNK, &part), ACL_SUCCESS);
    assert_int_equal(n_looks, 1);
    assert_int_equal(host_room_check(NULL, CHUNK, &part), ACL_SUCCESS);
    assert_int_equal(n_looks, 2);
    time_now += AM_SECOND;
    assert_int_equal(host_room_check(NULL, CHUNK, &part), ACL_SUCCESS);
    assert_int_equal(n_looks, 3);
    time_now = 0;
    left = PLENTY;
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(device_memory_of_any_size_is_refused_when_it_is_written),
        claim_alone(so_is_memory_that_the_program_can_touch),
        claim_alone(and_memory_of_the_host),
        claim_alone(and_managed_memory),
        claim_alone(reading_what_was_never_written_is_refused),
        claim_alone(commit_now_refuses_the_allocation),
        claim_alone(pinned_memory_refuses_the_allocation),
        claim_alone(exporting_what_was_written_is_refused),
        claim_alone(memory_that_the_program_wrote_is_not_charged_again),
        claim_alone(memory_that_goes_to_others_meanwhile_is_noticed),
        claim_alone(and_when_pages_are_locked),
        claim(a_look_gives_a_credit_of_bytes_and_time),
    };

    return run_claims(claims);
}
