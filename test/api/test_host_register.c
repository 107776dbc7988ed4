/*
 * aclrtHostRegister and its relatives: memory of the program's own that the device may
 * reach.
 */
#include "support/blocks.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *pages(size_t size)
{
    char *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static aclError register_mapped(void *p, size_t size)
{
    void *dev = NULL;
    aclError rc = aclrtHostRegister(p, size, ACL_HOST_REGISTER_MAPPED, &dev);

    if (rc == ACL_SUCCESS)
        assert_ptr_equal(dev, p);
    else
        assert_null(dev);
    return rc;
}

static void registered_memory_is_host_memory(void **state)
{
    char *p = pages(64 * KIB);

    assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_acl_ok(register_mapped(p + 4096, 8192));
    assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_int_equal(location_type(p + 4096), ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(page_size(p + 4096), 4096);
    assert_int_equal(location_type(p + 3 * 4096 - 1), ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(location_type(p + 3 * 4096), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_acl_ok(aclrtHostUnregister(p + 4096));
    assert_int_equal(location_type(p + 4096), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    munmap(p, 64 * KIB);
}

static void the_device_reaches_it_at_the_hosts_address(void **state)
{
    char *p = pages(64 * KIB);
    void *dev = NULL;

    assert_acl_ok(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_MAPPED));
    assert_acl_ok(aclrtHostGetDevicePointer(p, &dev, 0));
    assert_ptr_equal(dev, p);
    assert_acl_ok(aclrtHostGetDevicePointer(p + 100, &dev, 0));
    assert_ptr_equal(dev, p + 100);
    assert_acl_ok(aclrtHostUnregister(p));
    assert_refused(aclrtHostGetDevicePointer(p, &dev, 0),
                   ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered");
    munmap(p, 64 * KIB);
}

static void pinned_alone_gives_the_device_no_address(void **state)
{
    char *p = pages(64 * KIB);
    void *dev = NULL;

    assert_acl_ok(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_PINNED));
    assert_refused(aclrtHostGetDevicePointer(p, &dev, 0),
                   ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "without ACL_HOST_REG_MAPPED");
    assert_acl_ok(aclrtHostUnregister(p));
    assert_acl_ok(
        aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
    assert_acl_ok(aclrtHostGetDevicePointer(p, &dev, 0));
    assert_acl_ok(aclrtHostUnregister(p));
    munmap(p, 64 * KIB);
}

static size_t locked_pages(const char *p, size_t size)
{
    char line[512];
    char wanted[64];
    FILE *smaps = fopen("/proc/self/smaps", "re");
    bool is_it = false;
    size_t kib = 0;

    assert_non_null(smaps);
    snprintf(wanted, sizeof(wanted), "%lx-%lx", (unsigned long)(uintptr_t)p,
             (unsigned long)(uintptr_t)p + size);
    while (fgets(line, sizeof(line), smaps) != NULL) {
        if (strncmp(line, wanted, strlen(wanted)) == 0)
            is_it = true;
        if (is_it && sscanf(line, "Locked: %zu kB", &kib) == 1)
            break;
    }
    fclose(smaps);
    return kib * KIB;
}

static void pinned_memory_is_locked_until_it_is_unregistered(void **state)
{
    char *p = pages(CHUNK);

    if (mlock(p, CHUNK) != 0 || locked_pages(p, CHUNK) != CHUNK) {
        print_message(
            "skipped: nothing can be locked here\n"); /* or a sanitizer is in the way */
        munmap(p, CHUNK);
        skip();
    }
    munlock(p, CHUNK);
    assert_acl_ok(aclrtHostRegisterV2(p, CHUNK, ACL_HOST_REG_PINNED));
    assert_int_equal(locked_pages(p, CHUNK), CHUNK);
    assert_acl_ok(aclrtHostUnregister(p));
    assert_int_equal(locked_pages(p, CHUNK), 0);
    munmap(p, CHUNK);
}

static void wrong_arguments_are_refused(void **state)
{
    char *p = pages(8192);
    void *dev = NULL;

    assert_bad_arg(aclrtHostRegister(NULL, 1, ACL_HOST_REGISTER_MAPPED, &dev),
                   "ptr is NULL");
    assert_bad_arg(aclrtHostRegister(p, 0, ACL_HOST_REGISTER_MAPPED, &dev), "size is 0");
    assert_bad_arg(aclrtHostRegister(p, 1, ACL_HOST_REGISTER_MAPPED, NULL),
                   "devPtr is NULL");
    assert_refused(aclrtHostRegister(p, 1, ACL_HOST_REGISTER_IOMEMORY, &dev),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reserved");
    assert_refused(aclrtHostRegister(p, 1, ACL_HOST_REGISTER_READONLY, &dev),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reserved");
    assert_bad_arg(aclrtHostRegister(p, 1, (aclrtHostRegisterType)1, &dev), "type");
    assert_bad_arg(aclrtHostRegisterV2(NULL, 1, ACL_HOST_REG_MAPPED), "ptr is NULL");
    assert_bad_arg(aclrtHostRegisterV2(p, 0, ACL_HOST_REG_MAPPED), "size is 0");
    assert_bad_arg(aclrtHostRegisterV2(p, 1, 0), "flag");
    assert_bad_arg(aclrtHostRegisterV2(p, 1, 1), "flag");
    assert_refused(aclrtHostRegisterV2(p, 1, ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reserved");
    assert_refused(aclrtHostRegisterV2(p, 1, ACL_HOST_REG_READONLY),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reserved");
    assert_bad_arg(aclrtHostGetDevicePointer(NULL, &dev, 0), "pHost");
    assert_bad_arg(aclrtHostGetDevicePointer(p, NULL, 0), "pDevice");
    assert_bad_arg(aclrtHostGetDevicePointer(p, &dev, 1), "flag");
    assert_bad_arg(aclrtHostUnregister(NULL), "ptr is NULL");
    munmap(p, 8192);
}

static void an_address_must_be_a_page(void **state)
{
    char *p = pages(64 * KIB);

    assert_refused(register_mapped(p + 1, 100), ACL_ERROR_RT_ADDR_UNALIGNED, "4096");
    assert_refused(register_mapped(p + 64, 100), ACL_ERROR_RT_ADDR_UNALIGNED, "4096");
    assert_refused(aclrtHostRegisterV2(p + 2048, 100, ACL_HOST_REG_MAPPED),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "4096");
    assert_acl_ok(register_mapped(p + 4096, 100)); /* the size may be any */
    assert_acl_ok(aclrtHostUnregister(p + 4096));
    munmap(p, 64 * KIB);
}

static void nothing_is_registered_twice(void **state)
{
    char *p = pages(16 * 4096);

    assert_acl_ok(register_mapped(p + 4 * 4096, 4 * 4096));
    assert_refused(register_mapped(p + 4 * 4096, 4 * 4096),
                   ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered");
    assert_message_has_address(p + 4 * 4096);
    assert_refused(register_mapped(p, 16 * 4096),
                   ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered");
    assert_refused(register_mapped(p + 7 * 4096, 4096),
                   ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered");
    assert_refused(register_mapped(p, 4 * 4096 + 1),
                   ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered");
    assert_acl_ok(register_mapped(p, 4 * 4096)); /* neighbours are */
    assert_acl_ok(register_mapped(p + 8 * 4096, 4096));
    assert_acl_ok(aclrtHostUnregister(p + 4 * 4096));
    assert_acl_ok(aclrtHostUnregister(p));
    assert_acl_ok(aclrtHostUnregister(p + 8 * 4096));
    munmap(p, 16 * 4096);
}

static void only_the_start_is_unregistered_and_once(void **state)
{
    char *p = pages(8 * 4096);

    assert_refused(aclrtHostUnregister(p), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "not registered");
    assert_acl_ok(register_mapped(p, 8 * 4096));
    assert_refused(aclrtHostUnregister(p + 4096), ACL_ERROR_RT_PARAM_INVALID, "inside");
    assert_acl_ok(aclrtHostUnregister(p));
    assert_refused(aclrtHostUnregister(p), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "not registered");
    munmap(p, 8 * 4096);
}

static void memory_that_cannot_be_written_is_refused(void **state)
{
    char *p = pages(4 * 4096);

    assert_int_equal(mprotect(p + 4096, 4096, PROT_READ), 0);
    assert_refused(register_mapped(p + 4096, 4096), ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                   "read-only");
    assert_refused(register_mapped(p, 4 * 4096), ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                   "read-only");
    assert_refused(aclrtHostRegisterV2(p, 4 * 4096, ACL_HOST_REG_PINNED),
                   ACL_ERROR_RT_DRV_INTERNAL_ERROR, "read-only");
    assert_acl_ok(register_mapped(p + 2 * 4096, 2 * 4096));
    assert_acl_ok(aclrtHostUnregister(p + 2 * 4096));
    munmap(p, 4 * 4096);
}

static void memory_that_is_not_there_is_refused(void **state)
{
    char *p = pages(4 * 4096);

    munmap(p + 4096, 4096);
    assert_refused(register_mapped(p, 2 * 4096), ACL_ERROR_RT_PARAM_INVALID,
                   "nothing is mapped");
    assert_refused(register_mapped(p, SIZE_MAX), ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(register_mapped(p, (size_t)1 << 60), ACL_ERROR_RT_PARAM_INVALID, "");
    munmap(p, 4 * 4096);
}

static void shared_memory_is_registered(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    char *p;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)CHUNK) == 0);
    p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_acl_ok(register_mapped(p, CHUNK));
    assert_acl_ok(aclrtHostUnregister(p));
    munmap(p, CHUNK);
}

static void blocks_of_malloc_host_are_registered(void **state)
{
    char *p = host_malloc(64 * KIB);
    void *dev = NULL;

    assert_acl_ok(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_MAPPED));
    assert_acl_ok(aclrtHostGetDevicePointer(p + 5, &dev, 0));
    assert_ptr_equal(dev, p + 5);
    assert_acl_ok(aclrtHostUnregister(p));
    assert_refused(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_PINNED),
                   ACL_ERROR_RT_PARAM_INVALID, "pinned already");
    assert_refused(aclrtHostRegisterV2(p, 64 * KIB + 1, ACL_HOST_REG_MAPPED),
                   ACL_ERROR_RT_PARAM_INVALID, "exceed the allocation");
    host_free(p);
    assert_refused(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_MAPPED),
                   ACL_ERROR_RT_PARAM_INVALID, "not host memory");
}

static void a_block_that_is_freed_is_no_longer_registered(void **state)
{
    char *p = host_malloc(64 * KIB);
    char *q;

    assert_acl_ok(register_mapped(p, 4096));
    assert_acl_ok(register_mapped(p + 8192, 4096));
    host_free(p);
    assert_refused(aclrtHostUnregister(p), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "not registered");
    q = host_malloc(64 * KIB);
    assert_acl_ok(register_mapped(q, 64 * KIB));
    assert_acl_ok(aclrtHostUnregister(q));
    host_free(q);
}

static void small_blocks_of_malloc_host_are_registered(void **state)
{
    char *p[3];

    for (int i = 0; i < 3; i++)
        p[i] = host_malloc(512);
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(register_mapped(p[i], 512));
        assert_refused(register_mapped(p[i], 512),
                       ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "registered");
        assert_refused(register_mapped(p[i] + 64, 64), ACL_ERROR_RT_ADDR_UNALIGNED,
                       "aclrtMallocHost");
    }
    assert_refused(register_mapped(p[1], 5000), ACL_ERROR_RT_PARAM_INVALID, "exceed");
    assert_acl_ok(aclrtHostUnregister(p[1]));
    assert_refused(aclrtHostUnregister(p[1]), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "not registered");
    for (int i = 0; i < 3; i++) /* and what is registered ends with the block */
        host_free(p[i]);
}

static void device_memory_is_refused(void **state)
{
    char *p = device_malloc(5 * MIB);
    struct block b = block_create(CHUNK);
    char *page = (char *)(((uintptr_t)p + 4095) / 4096 * 4096);

    assert_refused(register_mapped(page, 4096), ACL_ERROR_RT_PARAM_INVALID,
                   "not host memory");
    assert_refused(register_mapped(b.va, 4096), ACL_ERROR_RT_PARAM_INVALID,
                   "not host memory");
    block_destroy(&b);
    device_free(p);
}

static void mapped_host_memory_is_registered_but_not_pinned(void **state)
{
    struct block b = block_create_host(2 * CHUNK);

    assert_acl_ok(register_mapped(b.va, 2 * CHUNK));
    assert_acl_ok(aclrtHostUnregister(b.va));
    assert_refused(aclrtHostRegisterV2(b.va, CHUNK, ACL_HOST_REG_PINNED),
                   ACL_ERROR_RT_PARAM_INVALID, "pinned already");
    block_destroy(&b);
}

static void a_device_is_needed(void **state)
{
    char *p = pages(4096);
    void *dev = NULL;

    start("default");
    assert_acl(register_mapped(p, 4096), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtHostGetDevicePointer(p, &dev, 0), ACL_ERROR_RT_CONTEXT_NULL);
    munmap(p, 4096);
}

static void products_cannot_register(void **state)
{
    static const char *const products[] = {
        "ACLMEM_PRODUCT=910",
        "ACLMEM_PRODUCT=310P",
        "ACLMEM_PRODUCT=310B",
    };
    aclrtHostMemMapCapability capability;
    char *p = pages(4096);
    void *dev = NULL;

    for (size_t i = 0; i < 3; i++) {
        start("default", products[i]);
        assert_acl_ok(aclrtSetDevice(0));
        assert_acl(register_mapped(p, 4096), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_acl(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_MAPPED),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_acl(aclrtHostGetDevicePointer(p, &dev, 0),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_acl(aclrtHostUnregister(p), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_acl(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_STARS, &capability),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_acl_ok(aclFinalize());
    }
    munmap(p, 4096);
    start("default");
}

static void every_unit_reaches_registered_memory(void **state)
{
    aclrtHostMemMapCapability capability;

    for (int unit = ACL_RT_HAC_TYPE_STARS; unit <= ACL_RT_HAC_TYPE_CCU; unit++) {
        capability = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED;
        assert_acl_ok(aclrtHostMemMapCapabilities(1, (aclrtHacType)unit, &capability));
        assert_int_equal(capability, ACL_RT_HOST_MEM_MAP_SUPPORTED);
    }
    assert_bad_arg(aclrtHostMemMapCapabilities(0, (aclrtHacType)10, &capability),
                   "hacType");
    assert_bad_arg(aclrtHostMemMapCapabilities(0, (aclrtHacType)-1, &capability),
                   "hacType");
    assert_bad_arg(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_STARS, NULL),
                   "capabilities is NULL");
    assert_refused(aclrtHostMemMapCapabilities(2, ACL_RT_HAC_TYPE_STARS, &capability),
                   ACL_ERROR_RT_INVALID_DEVICEID, "device");
    assert_refused(
        aclrtHostMemMapCapabilities(UINT32_MAX, ACL_RT_HAC_TYPE_STARS, &capability),
        ACL_ERROR_RT_INVALID_DEVICEID, "device");
}

static void a_stop_unregisters_all(void **state)
{
    char *p = pages(8192);

    assert_acl_ok(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_PINNED));
    assert_acl_ok(register_mapped(p + 4096, 4096));
    assert_acl_ok(aclFinalize());
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtHostUnregister(p), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "not registered");
    assert_acl_ok(register_mapped(p, 8192));
    assert_acl_ok(aclrtHostUnregister(p));
    munmap(p, 8192);
}

/* Many ranges, registered and unregistered in any order. */
static void many_ranges_are_kept_apart(void **state)
{
    enum { N = 512 };
    static bool is_registered[N];
    char *p = pages(N * 4096);
    uint64_t seed = 11;

    for (size_t i = 0; i < 20000; i++) {
        size_t k = random_to(&seed, N);

        if (is_registered[k])
            assert_acl_ok(aclrtHostUnregister(p + k * 4096));
        else
            assert_acl_ok(aclrtHostRegisterV2(p + k * 4096, 4096, ACL_HOST_REG_MAPPED));
        is_registered[k] = !is_registered[k];
        k = random_to(&seed, N);
        assert_int_equal(location_type(p + k * 4096 + 17),
                         is_registered[k] ? ACL_MEM_LOCATION_TYPE_HOST
                                          : ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    }
    for (size_t k = 0; k < N; k++) {
        if (is_registered[k])
            assert_acl_ok(aclrtHostUnregister(p + k * 4096));
        is_registered[k] = false;
    }
    munmap(p, N * 4096);
}

static const char *register_own_page(struct worker *self)
{
    char *p = (char *)self->shared + (size_t)self->index * 4096;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (int i = 0; i < 300; i++) {
        void *dev = NULL;

        worker_check(aclrtHostRegister(p, 4096, ACL_HOST_REGISTER_MAPPED, &dev) == 0);
        worker_check(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_PINNED) ==
                     ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        worker_check(aclrtHostGetDevicePointer(p + 5, &dev, 0) == 0 && dev == p + 5);
        worker_check(aclrtHostUnregister(p) == 0);
    }
    return NULL;
}

static void threads_register_their_own(void **state)
{
    enum { N = 8 };
    struct worker workers[N];
    char *p = pages(N * 4096);

    for (unsigned i = 0; i < N; i++)
        workers[i] = (struct worker){.run = register_own_page, .shared = p};
    assert_null(run_workers(workers, N));
    munmap(p, N * 4096);
    for (unsigned i = 0; i < N; i++)
        assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
}

/* ---- work in flight ---- */

struct held {
    struct gate gate;
    char *p;
};

/* Lets the stream go when the memory is no longer to be seen as registered. */
static const char *open_when_unregistered(struct worker *self)
{
    struct held *held = self->shared;
    aclrtPtrAttributes attributes;

    do {
        sched_yield();
        worker_check(aclrtPointerGetAttributes(held->p, &attributes) == ACL_SUCCESS);
    } while (attributes.location.type != ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    gate_open(&held->gate);
    return NULL;
}

static void unregistering_waits_for_work_in_flight(void **state)
{
    struct held held = {.gate = GATE_INIT, .p = pages(CHUNK)};
    struct worker opener = {.run = open_when_unregistered, .shared = &held};
    struct block b = block_create(CHUNK);
    aclrtStream stream = NULL;

    fill((uint8_t *)held.p, CHUNK, 1);
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtHostRegisterV2(held.p, CHUNK, ACL_HOST_REG_MAPPED));
    hold(stream, &held.gate);
    assert_acl_ok(
        aclrtMemcpyAsync(b.va, CHUNK, held.p, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_int_equal(worker_start(&opener), 0);
    assert_acl_ok(aclrtHostUnregister(held.p));
    munmap(held.p, CHUNK);
    assert_pattern(b.va, CHUNK, 1); /* nobody has synchronised */
    assert_null(worker_join(&opener));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void work_that_does_not_come_keeps_memory_registered(void **state)
{
    struct gate gate = GATE_INIT;
    char *p = pages(CHUNK);
    struct block b = block_create(CHUNK);
    aclrtStream stream = NULL;

    fill((uint8_t *)p, CHUNK, 1);
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtHostRegisterV2(p, CHUNK, ACL_HOST_REG_MAPPED));
    hold(stream, &gate);
    assert_acl_ok(
        aclrtMemcpyAsync(b.va, CHUNK, p, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_refused(aclrtHostUnregister(p), ACL_ERROR_RT_PARAM_INVALID,
                   "still uses the memory");
    assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_HOST);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(b.va, CHUNK, 1);
    assert_acl_ok(aclrtHostUnregister(p));
    munmap(p, CHUNK);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

/* The same block goes from thread to thread; each registers it, and frees it so. */
static const char *register_and_free(struct worker *self)
{
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    for (int i = 0; i < 3000; i++) {
        void *p = NULL;
        void *dev = NULL;

        worker_check(aclrtMallocHost(&p, 64 * KIB) == ACL_SUCCESS);
        worker_check(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_MAPPED) == ACL_SUCCESS);
        worker_check(aclrtHostGetDevicePointer(p, &dev, 0) == ACL_SUCCESS && dev == p);
        worker_check(aclrtHostGetDevicePointer(p, &dev, 0) == ACL_SUCCESS && dev == p);
        worker_check(aclrtFreeHost(p) == ACL_SUCCESS);
    }
    return NULL;
}

static void freeing_a_block_unregisters_no_other_memory(void **state)
{
    enum { N = 4 };
    struct worker workers[N];

    need_locked(64 * MIB);
    for (unsigned i = 0; i < N; i++)
        workers[i] = (struct worker){.run = register_and_free};
    assert_null(run_workers(workers, N));
    for (unsigned i = 0; i < N; i++)
        assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
}

static void a_refused_free_leaves_memory_registered(void **state)
{
    char *p = host_malloc(64 * KIB);

    assert_acl_ok(aclrtHostRegisterV2(p, 64 * KIB, ACL_HOST_REG_MAPPED));
    assert_refused(aclrtFreeHost(p + 64), ACL_ERROR_RT_PARAM_INVALID, "inside");
    assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost");
    assert_acl_ok(aclrtHostUnregister(p));
    host_free(p);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_blocks_both(registered_memory_is_host_memory),
        claim_blocks_both(the_device_reaches_it_at_the_hosts_address),
        claim_blocks_both(pinned_alone_gives_the_device_no_address),
        claim_blocks(pinned_memory_is_locked_until_it_is_unregistered),
        claim_blocks_both(wrong_arguments_are_refused),
        claim_blocks_both(an_address_must_be_a_page),
        claim_blocks_both(nothing_is_registered_twice),
        claim_blocks_both(only_the_start_is_unregistered_and_once),
        claim_blocks_both(memory_that_cannot_be_written_is_refused),
        claim_blocks_both(memory_that_is_not_there_is_refused),
        claim_blocks_both(shared_memory_is_registered),
        claim_blocks_both(blocks_of_malloc_host_are_registered),
        claim_blocks_both(small_blocks_of_malloc_host_are_registered),
        claim_blocks_both(a_block_that_is_freed_is_no_longer_registered),
        claim_blocks_both(device_memory_is_refused),
        claim_blocks(mapped_host_memory_is_registered_but_not_pinned),
        claim_blocks_alone(a_device_is_needed),
        claim_blocks_alone(products_cannot_register),
        claim_blocks_both(every_unit_reaches_registered_memory),
        claim_blocks_both(a_stop_unregisters_all),
        claim_blocks_both(many_ranges_are_kept_apart),
        claim_blocks(threads_register_their_own),
        claim_blocks_both(unregistering_waits_for_work_in_flight),
        claim_blocks(work_that_does_not_come_keeps_memory_registered),
        claim_blocks(freeing_a_block_unregisters_no_other_memory),
        claim_blocks_both(a_refused_free_leaves_memory_registered),
    };

    return run_claims(claims);
}
