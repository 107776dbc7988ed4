/*
 * The layer check during aclFinalize, aclrtResetDevice and aclInit of another thread.
 *
 * A call goes from the layer to the table below it.  Here that table is a copy of the
 * core's in which one function is replaced: it makes the call and then has another thread
 * stop the library, or the other way round.  So the stop comes between the two hooks of the
 * call each time.  The layer must not touch memory that the stop has freed.
 */
#include "support/process.h"
#include "support/support.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "api/api.h"
#include "base/epoch.h"
#include "layer/metadata.h"
#include "layer/layers.h"

#define PAGES ((size_t)4 * 4096)

static struct {
    struct am_api below;      /* the layer's, with the function of the test */
    const struct am_api *top; /* the layer's own: a thread that is late has it still */
    const char *(*run)(struct worker *); /* what the other thread does */
    bool is_first;                       /* before the call */
    const char *failure;                 /* of the other thread */
    void *block;
} t;

static void late_start(const char *product)
{
    memset(&t, 0, sizeof t);
    start("default", product, "ACLMEM_LAYERS=check",
          "ACLMEM_CHECK=out-of-bounds,race.host,use-after-free");
    t.below = am_api_core;
    t.top = am_stack_push(&am_check_layer, &t.below);
    am_api_top = t.top;
    assert_acl_ok(aclrtSetDevice(0));
}

/* The other thread runs once: calls that it makes itself are unchanged. */
static void other_thread_run(void)
{
    const char *(*run)(struct worker *) = t.run;
    unsigned depth = am_epoch_suspend(); /* as in a call that waits: a stop does not */

    t.run = NULL;
    if (run != NULL)
        t.failure = run_thread(run, NULL);
    am_epoch_resume(depth);
}

/* NAME(...) of the table below runs the other thread before or after the call. */
#define RACING(name_, params_, args_) \
    static aclError racing_##name_ params_ \
    { \
        aclError rc; \
        if (t.is_first) \
            other_thread_run(); \
        rc = am_api_core.name_ args_; \
        other_thread_run(); \
        return rc; \
    }
RACING(aclrtMallocHost, (void **host, size_t size), (host, size))
RACING(aclrtFreeHost, (void *host), (host))
RACING(aclrtMemcpyAsync,
       (void *dst, size_t max, const void *src, size_t n, aclrtMemcpyKind kind,
        aclrtStream stream),
       (dst, max, src, n, kind, stream))
RACING(aclFinalize, (void), ())
RACING(aclrtResetDevice, (int32_t device), (device))

static const char *stop(struct worker *self)
{
    worker_check(aclFinalize() == ACL_SUCCESS);
    return NULL;
}

static const char *stop_and_start(struct worker *self)
{
    worker_check(aclFinalize() == ACL_SUCCESS);
    worker_check(aclInit(NULL) == ACL_SUCCESS);
    return NULL;
}

static const char *reset(struct worker *self)
{
    worker_check(aclrtResetDeviceForce(0) == ACL_SUCCESS);
    return NULL;
}

/* The end checks the guards of all blocks that the layer knows. */
static void assert_no_object_is_live(void)
{
    assert_null(t.failure);
    assert_int_equal(am_counter_sum(&am_check.n_live), 0);
    if (am_api_top == &am_api_down)
        assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclFinalize());
}

static void a_block_that_a_stop_has_ended_gets_no_guard(void **state)
{
    void *block;

    late_start("ACLMEM_PRODUCT=A2");
    t.below.aclrtMallocHost = racing_aclrtMallocHost;
    t.run = stop;
    assert_acl_ok(aclrtMallocHost(&block, 100));
    assert_no_object_is_live();
}

static void a_block_of_before_the_next_start_gets_no_guard(void **state)
{
    void *block;

    late_start("ACLMEM_PRODUCT=A2");
    t.below.aclrtMallocHost = racing_aclrtMallocHost;
    t.run = stop_and_start;
    assert_acl_ok(aclrtMallocHost(&block, PAGES));
    assert_no_object_is_live();
}

/* The layer takes the free back only if the block is still allocated. */
static void a_free_that_a_stop_refuses_is_not_taken_back(void **state)
{
    late_start("ACLMEM_PRODUCT=A2");
    assert_acl_ok(aclrtMallocHost(&t.block, 2 * MIB)); /* too large for the quarantine */
    t.below.aclrtFreeHost = racing_aclrtFreeHost;
    t.run = stop_and_start;
    t.is_first = true;
    assert_int_not_equal(aclrtFreeHost(t.block), ACL_SUCCESS);
    assert_no_object_is_live();
}

static const char *use_late(struct worker *self)
{
    char bytes[100];

    worker_check(t.top->aclrtMemcpy(bytes, 100, t.block, 100, ACL_MEMCPY_HOST_TO_HOST) !=
                 ACL_SUCCESS);
    worker_check(t.top->aclrtFreeHost(t.block) != ACL_SUCCESS);
    return NULL;
}

static void no_guard_is_checked_while_a_stop_is_under_way(void **state)
{
    late_start("ACLMEM_PRODUCT=A2");
    assert_acl_ok(aclrtMallocHost(&t.block, 100));
    t.below.aclFinalize = racing_aclFinalize;
    t.run = use_late;
    assert_acl_ok(aclFinalize());
    assert_no_object_is_live();
}

static const char *start_anew(struct worker *self)
{
    worker_check(aclInit(NULL) == ACL_SUCCESS);
    return NULL;
}

static void a_start_before_the_stop_returns_leaves_no_blocks_of_before(void **state)
{
    late_start("ACLMEM_PRODUCT=A2");
    assert_acl_ok(aclrtMallocHost(&t.block, 100));
    t.below.aclFinalize = racing_aclFinalize;
    t.run = start_anew;
    assert_acl_ok(aclFinalize());
    assert_no_object_is_live();
}

/* The system gives the addresses of the block to the program. */
static const char *start_anew_and_map(struct worker *self)
{
    worker_check(aclFinalize() == ACL_SUCCESS && aclInit(NULL) == ACL_SUCCESS);
    worker_check(mmap(t.block, PAGES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                      0) == t.block);
    return NULL;
}

static void late_work_protects_no_pages(void **state)
{
    aclrtStream stream;
    void *device;

    signal(SIGSEGV, SIG_DFL); /* pages are protected where the program has no handler */
    late_start("ACLMEM_PRODUCT=A2");
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtMalloc(&device, PAGES, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost(&t.block, PAGES));
    t.below.aclrtMemcpyAsync = racing_aclrtMemcpyAsync;
    t.run = start_anew_and_map;
    assert_acl_ok(aclrtMemcpyAsync(device, PAGES, t.block, PAGES,
                                   ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_true(can_write(t.block));
    munmap(t.block, PAGES);
    assert_no_object_is_live();
}

/* ---- products on which host and device have one memory ---- */

static void a_block_that_a_reset_has_ended_gets_no_guard(void **state)
{
    void *block;

    late_start("ACLMEM_PRODUCT=310B");
    t.below.aclrtMallocHost = racing_aclrtMallocHost;
    t.run = reset;
    assert_acl_ok(aclrtMallocHost(&block, 100));
    assert_null(t.failure);
    assert_int_equal(am_counter_sum(&am_check.n_live), 0);
}

static void no_guard_is_checked_while_a_reset_is_under_way(void **state)
{
    late_start("ACLMEM_PRODUCT=310B");
    assert_acl_ok(aclrtMallocHost(&t.block, 100));
    t.below.aclrtResetDevice = racing_aclrtResetDevice;
    t.run = use_late;
    assert_acl_ok(aclrtResetDevice(0));
    assert_null(t.failure);
}

static const char *set_again(struct worker *self)
{
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    return NULL;
}

/* The layer does not know that it was the last reset. */
static void no_guard_is_checked_after_a_reset_that_was_not_seen(void **state)
{
    late_start("ACLMEM_PRODUCT=310B");
    assert_acl_ok(aclrtMallocHost(&t.block, 100));
    t.below.aclrtResetDevice = racing_aclrtResetDevice;
    t.run = set_again;
    assert_acl_ok(aclrtResetDevice(0));
    assert_null(t.failure);
    assert_acl_ok(aclFinalize());
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_block_that_a_stop_has_ended_gets_no_guard),
        claim_alone(a_block_of_before_the_next_start_gets_no_guard),
        claim_alone(a_free_that_a_stop_refuses_is_not_taken_back),
        claim_alone(no_guard_is_checked_while_a_stop_is_under_way),
        claim_alone(a_start_before_the_stop_returns_leaves_no_blocks_of_before),
        claim_alone(late_work_protects_no_pages),
        claim_alone(a_block_that_a_reset_has_ended_gets_no_guard),
        claim_alone(no_guard_is_checked_while_a_reset_is_under_way),
        claim_alone(no_guard_is_checked_after_a_reset_that_was_not_seen),
    };

    return run_claims(claims);
}
