/* Managed memory. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <malloc.h>
#include <string.h>

#define WINDOW ((uintptr_t)0x90000000000)

static char *take(size_t size)
{
    void *ptr = NULL;

    assert_acl_ok(aclrtMemAllocManaged(&ptr, size, ACL_RT_MEM_ATTACH_GLOBAL));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % CHUNK, 0);
    return ptr;
}

static void give(void *ptr)
{
    assert_acl_ok(aclrtFree(ptr));
}

static const aclrtMemManagedLocation device0 = {ACL_MEM_LOCATIONTYPE_DEVICE, 0};
static const aclrtMemManagedLocation device1 = {ACL_MEM_LOCATIONTYPE_DEVICE, 1};
static const aclrtMemManagedLocation on_host = {ACL_MEM_LOCATIONTYPE_HOST, 0};
static const aclrtMemManagedLocation nowhere = {ACL_MEM_LOCATIONTYPE_INVALID, 0};

static int32_t ask(aclrtMemManagedRangeAttribute attr, const void *ptr, size_t size)
{
    int32_t value = 77;

    assert_acl_ok(aclrtMemManagedGetAttr(attr, ptr, size, &value, sizeof(value)));
    return value;
}

/* ---- memory ---- */

static void host_and_device_see_the_same_bytes(void **state)
{
    struct block b = block_create(CHUNK);
    char *ptr = take(5 * MIB);

    fill((uint8_t *)ptr, 5 * MIB, 1); /* by the program itself */
    assert_acl_ok(copy(b.va, ptr, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(b.va, CHUNK, 1);
    assert_acl_ok(aclrtMemset(b.va, CHUNK, 7, CHUNK));
    assert_acl_ok(copy(ptr + CHUNK - 100, b.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_int_equal(ptr[CHUNK - 100], 7);
    assert_int_equal(ptr[2 * CHUNK - 101], 7);
    assert_acl_ok(aclrtMemset(ptr, 100, 3, 100));
    assert_int_equal(ptr[99], 3);
    give(ptr);
    block_destroy(&b);
}

static void new_memory_reads_zero(void **state)
{
    char *ptr = take(1);

    for (size_t i = 0; i < CHUNK; i += 4096)
        assert_int_equal(ptr[i], 0);
    ptr[CHUNK - 1] = 1; /* rounded up */
    give(ptr);
}

static void addresses_are_the_documented_ones(void **state)
{
    char *a, *b, *c;

    if (!is_free_range(WINDOW, CHUNK))
        skip();
    a = take(CHUNK);
    b = take(3 * GIB);
    c = take(CHUNK);
    assert_true((uintptr_t)a == WINDOW);
    assert_true((uintptr_t)b > (uintptr_t)a &&
                (uintptr_t)b + 3 * GIB <= WINDOW + 3 * TIB);
    assert_int_equal((uintptr_t)b % GIB, 0);
    assert_true((uintptr_t)c == WINDOW + CHUNK); /* the first gap */
    give(a);
    a = take(CHUNK);
    assert_true((uintptr_t)a == WINDOW);
    give(a);
    give(b);
    give(c);
}

static void three_terabytes_are_the_limit(void **state)
{
    void *ptr = &ptr;
    char *a;

    assert_refused(aclrtMemAllocManaged(&ptr, 3 * TIB + 1, 1),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_refused(aclrtMemAllocManaged(&ptr, UINT64_MAX, 1),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    a = take(GIB);
    assert_refused(aclrtMemAllocManaged(&ptr, 3 * TIB - GIB + 1, 1),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "3 TB");
    assert_ptr_equal(ptr, &ptr);
    give(a);
}

/* More than the machine has; only what is touched is there. */
static void far_more_than_the_machine_has_can_be_taken(void **state)
{
    char *ptr;

    if (!is_free_range(WINDOW, 3 * TIB))
        skip();
    ptr = take(3 * TIB);
    assert_true((uintptr_t)ptr == WINDOW);
    ptr[0] = 1;
    ptr[3 * TIB - 1] = 2;
    assert_acl_ok(aclrtMemset(ptr + TIB, 100, 5, 100));
    assert_int_equal(ptr[TIB + 99], 5);
    give(ptr);
}

static void the_program_may_touch_it_whatever_isolation_says(void **state)
{
    char *ptr;

    start("default", "ACLMEM_ISOLATE=1");
    assert_acl_ok(aclrtSetDevice(0));
    ptr = take(CHUNK);
    assert_true(can_write(ptr));
    give(ptr);
    assert_false(can_read(ptr));
}

static void it_is_known_as_managed(void **state)
{
    char *ptr = take(3 * CHUNK);
    aclrtPtrAttributes attributes;
    void *base = NULL;
    size_t size = 0;

    memset(&attributes, 0xff, sizeof(attributes));
    assert_acl_ok(aclrtPointerGetAttributes(ptr + CHUNK + 5, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_MANAGED);
    assert_int_equal(attributes.pageSize, CHUNK);
    assert_acl_ok(aclrtMemGetAddressRange(ptr + CHUNK + 5, &base, &size));
    assert_ptr_equal(base, ptr);
    assert_int_equal(size, 3 * CHUNK);
    assert_int_equal(stats().reservations + stats().handles + stats().mappings, 0);
    give(ptr);
    assert_acl_ok(aclrtPointerGetAttributes(ptr, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

static void a_copy_stays_inside_one_allocation(void **state)
{
    char *a = take(CHUNK), *b = take(CHUNK);
    static char bytes[2 * CHUNK];

    assert_refused(copy(a, bytes, CHUNK + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "end of the block");
    assert_refused(aclrtMemset(b + CHUNK - 1, 2, 1, 2), ACL_ERROR_RT_PARAM_INVALID,
                   "end of the block");
    give(a);
    give(b);
}

static void the_rules_say_how_much_of_an_allocation_may_be_used(void **state)
{
    size_t most = rules_are_strict() ? 1000 : CHUNK;
    char *p = take(1000);
    void *base = NULL;
    size_t size = 0;

    assert_acl_ok(aclrtMemset(p, most, 1, most));
    assert_refused(aclrtMemset(p, most + 1, 1, most + 1), ACL_ERROR_RT_PARAM_INVALID,
                   "end of the block of 1000 bytes");
    assert_acl_ok(aclrtMemGetAddressRange(p + 999, &base, &size));
    assert_int_equal(size, most);
    assert_acl(aclrtMemGetAddressRange(p + most, &base, &size),
               ACL_ERROR_RT_PARAM_INVALID);
    assert_refused(aclrtFree(p + 1), ACL_ERROR_RT_PARAM_INVALID,
                   "managed memory of 1000 bytes");
    give(p);
}

static void copies_on_streams_take_it_on_both_sides(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    char *from = take(CHUNK), *to = take(CHUNK);
    struct gate *gate = gate_close(stream);

    fill((uint8_t *)from, CHUNK, 3);
    assert_acl_ok(
        aclrtMemcpyAsync(to, CHUNK, from, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(
        aclrtMemcpyAsync(b.va, CHUNK, to, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_int_equal(to[0] | to[100], 0); /* it is not pageable memory: nothing waits */
    gate_end(gate);
    assert_true(is_filled((uint8_t *)to, CHUNK, 3));
    assert_pattern(b.va, CHUNK, 3);
    assert_acl_ok(
        aclrtMemcpy2d(b.va, 200, from, 100, 100, 10, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(
        aclrtMemcpy2d(from, 100, b.va, 200, 100, 10, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(aclrtValueWrite(to, 42, 0, stream));
    assert_acl_ok(aclrtValueWait(to, 42, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(*(uint64_t *)(void *)to, 42);
    give(from);
    give(to);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void fills_on_streams_come_in_their_turn(void **state)
{
    aclrtStream stream = make_stream();
    char *ptr = take(CHUNK);
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtMemsetAsync(ptr, 100, 1, 100, stream));
    assert_acl_ok(aclrtMemsetD32Async(ptr, 100, 0x07070707, 20, stream));
    assert_int_equal(ptr[0] | ptr[79] | ptr[99], 0);
    gate_end(gate);
    assert_int_equal(ptr[79], 7);
    assert_int_equal(ptr[80], 1);
    give(ptr);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void queued_work_keeps_it(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    char *ptr = take(CHUNK);
    struct gate *gate = gate_close(stream);

    fill((uint8_t *)ptr, CHUNK, 5);
    assert_acl_ok(
        aclrtMemcpyAsync(b.va, CHUNK, ptr, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    give(ptr);
    assert_false(can_read(ptr));
    gate_end(gate);
    assert_pattern(b.va, CHUNK, 5);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void wrong_calls_are_refused(void **state)
{
    char *ptr = take(2 * CHUNK);
    void *out = &out;

    assert_bad_arg(aclrtMemAllocManaged(NULL, CHUNK, 1), "ptr");
    assert_bad_arg(aclrtMemAllocManaged(&out, 0, 1), "size");
    assert_bad_arg(aclrtMemAllocManaged(&out, CHUNK, 0), "flag");
    assert_bad_arg(aclrtMemAllocManaged(&out, CHUNK, 2), "flag");
    assert_ptr_equal(out, &out);
    assert_refused(aclrtFree(ptr + CHUNK), ACL_ERROR_RT_PARAM_INVALID, "inside");
    assert_refused(aclrtUnmapMem(ptr), ACL_ERROR_RT_PARAM_INVALID, "managed memory");
    assert_refused(aclrtReleaseMemAddress(ptr), ACL_ERROR_RT_PARAM_INVALID,
                   "managed memory");
    give(ptr);
    assert_acl(aclrtFree(ptr), ACL_ERROR_RT_PARAM_INVALID);
}

static void without_a_device_there_is_none(void **state)
{
    void *out = NULL;

    start("default");
    assert_refused(aclrtMemAllocManaged(&out, CHUNK, 1), ACL_ERROR_RT_CONTEXT_NULL,
                   "device");
}

static void only_a2_and_a3_have_it(void **state)
{
    static const char *const products[] = {"ACLMEM_PRODUCT=950", "ACLMEM_PRODUCT=310P"};
    void *out = NULL;
    int32_t value;

    for (int i = 0; i < 2; i++) {
        start("default", products[i]);
        assert_acl_ok(aclrtSetDevice(0));
        assert_refused(aclrtMemAllocManaged(&out, CHUNK, 1),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemManagedAdvise(&out, CHUNK, 0, device0),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemManagedGetAttr(1, &out, 1, &value, 4),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemManagedPrefetchAsync(&out, CHUNK, device0, 0, NULL),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_acl_ok(aclFinalize());
    }
    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    give(take(CHUNK));
}

static void finalize_frees_leftover_blocks(void **state)
{
    char *ptr = take(CHUNK);

    assert_true(can_read(ptr));
    assert_acl_ok(aclrtResetDevice(0));
    assert_true(can_read(ptr)); /* it is nobody's device's */
    assert_acl_ok(aclFinalize());
    assert_false(can_read(ptr));
}

/* ---- advice ---- */

static aclError advise(char *ptr, size_t size, aclrtMemManagedAdviseType type,
                       aclrtMemManagedLocation location)
{
    return aclrtMemManagedAdvise(ptr, size, type, location);
}

/* Bytes of the process's allocator in use; 0 under a sanitizer, which finds leaks itself. */
static size_t allocated(void)
{
    return mallinfo2().uordblks;
}

static void starts_and_stops_leak_nothing(void **state)
{
    enum { N_WARM = 8, N = 64 };
    size_t before = 0;

    for (int i = 0; i < N_WARM + N; i++) {
        if (i == N_WARM)
            before = allocated();
        take(CHUNK);
        assert_acl_ok(aclFinalize());
        assert_acl_ok(aclInit(NULL));
        assert_acl_ok(aclrtSetDevice(0));
    }
    assert_true(allocated() < before + N * 32); /* the smallest block of the allocator */
}

static void read_mostly_is_about_all_pages(void **state)
{
    const aclrtMemManagedRangeAttribute attr = ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    char *ptr = take(4 * CHUNK);

    assert_int_equal(ask(attr, ptr, 4 * CHUNK), 0);
    assert_acl_ok(
        advise(ptr + CHUNK, 2 * CHUNK, ACL_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
    assert_int_equal(ask(attr, ptr + CHUNK, 2 * CHUNK), 1);
    assert_int_equal(ask(attr, ptr + 2 * CHUNK - 1, 2), 1);
    assert_int_equal(ask(attr, ptr, 2 * CHUNK), 0);
    assert_int_equal(ask(attr, ptr + CHUNK - 1, 2), 0);
    assert_int_equal(ask(attr, ptr + CHUNK, 3 * CHUNK), 0);
    assert_acl_ok(advise(ptr, 2 * CHUNK, ACL_MEM_ADVISE_UNSET_READ_MOSTLY, nowhere));
    assert_int_equal(ask(attr, ptr + CHUNK, CHUNK), 0);
    assert_int_equal(ask(attr, ptr + 2 * CHUNK, CHUNK), 1);
    give(ptr);
}

static void preferred_locations_are_reported_in_three_ways(void **state)
{
    const aclrtMemManagedRangeAttribute old = ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    const aclrtMemManagedRangeAttribute type =
        ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE;
    const aclrtMemManagedRangeAttribute id =
        ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID;
    const aclrtMemManagedAdviseType set = ACL_MEM_ADVISE_SET_PREFERRED_LOCATION;
    aclrtMemManagedLocation node = {ACL_MEM_LOCATIONTYPE_HOST_NUMA, 0};
    char *ptr = take(2 * CHUNK);

    assert_int_equal(ask(old, ptr, 2 * CHUNK), -2);
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_INVALID);
    assert_acl_ok(advise(ptr, 2 * CHUNK, set, device1));
    assert_int_equal(ask(old, ptr, 2 * CHUNK), 1);
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_DEVICE);
    assert_int_equal(ask(id, ptr, 2 * CHUNK), 1);
    assert_acl_ok(advise(ptr, CHUNK, set, device0)); /* mixed */
    assert_int_equal(ask(old, ptr, 2 * CHUNK), -2);
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_INVALID);
    assert_int_equal(ask(id, ptr, 2 * CHUNK), -2);
    assert_int_equal(ask(old, ptr, CHUNK), 0);
    assert_acl_ok(advise(ptr, 2 * CHUNK, set, on_host));
    assert_int_equal(ask(old, ptr, 2 * CHUNK), -1);
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_HOST);
    assert_acl_ok(advise(ptr, 2 * CHUNK, set, node));
    assert_int_equal(ask(old, ptr, 2 * CHUNK), -1);
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_HOST_NUMA);
    assert_int_equal(ask(id, ptr, 2 * CHUNK), 0);
    assert_acl_ok(advise(ptr, CHUNK, set, device0)); /* mixed, with the same number */
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_INVALID);
    node.type = ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT;
    node.id = 999; /* ignored */
    assert_acl_ok(advise(ptr, 2 * CHUNK, set, node));
    assert_int_equal(ask(type, ptr, 2 * CHUNK), ACL_MEM_LOCATIONTYPE_HOST_NUMA);
    assert_acl_ok(advise(ptr, CHUNK, ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION, nowhere));
    assert_int_equal(ask(old, ptr, CHUNK), -2);
    assert_int_equal(ask(type, ptr + CHUNK, CHUNK), ACL_MEM_LOCATIONTYPE_HOST_NUMA);
    give(ptr);
}

static void accessors_are_those_of_all_pages(void **state)
{
    const aclrtMemManagedRangeAttribute attr = ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    char *ptr = take(2 * CHUNK);
    int32_t list[4] = {7, 7, 7, 7};

    assert_acl_ok(aclrtMemManagedGetAttr(attr, ptr, CHUNK, list, 12));
    assert_int_equal(list[0], -2);
    assert_int_equal(list[2], -2);
    assert_int_equal(list[3], 7);
    assert_acl_ok(advise(ptr, 2 * CHUNK, ACL_MEM_ADVISE_SET_ACCESSED_BY, device1));
    assert_acl_ok(advise(ptr, 2 * CHUNK, ACL_MEM_ADVISE_SET_ACCESSED_BY, on_host));
    assert_acl_ok(advise(ptr, CHUNK, ACL_MEM_ADVISE_SET_ACCESSED_BY, device0));
    assert_acl_ok(aclrtMemManagedGetAttr(attr, ptr, 2 * CHUNK, list, 16));
    assert_int_equal(list[0], 1);
    assert_int_equal(list[1], -1);
    assert_int_equal(list[2], -2);
    assert_int_equal(list[3], -2);
    assert_int_equal(ask(attr, ptr, CHUNK), 0); /* as many as there is room for */
    assert_acl_ok(advise(ptr, CHUNK, ACL_MEM_ADVISE_UNSET_ACCESSED_BY, device0));
    assert_int_equal(ask(attr, ptr, CHUNK), 1);
    give(ptr);
}

static void several_attributes_come_together(void **state)
{
    aclrtMemManagedRangeAttribute attrs[] = {
        ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
        ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
        ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
    };
    char *ptr = take(CHUNK);
    int32_t a = 7, b = 7, c[2] = {7, 7};
    void *data[] = {&a, &b, c};
    size_t sizes[] = {4, 4, 8};

    assert_acl_ok(advise(ptr, CHUNK, ACL_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
    assert_acl_ok(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK, data, sizes));
    assert_int_equal(a, 1);
    assert_int_equal(b, -2);
    assert_int_equal(c[1], -2);
    a = 7;
    sizes[2] = 7;
    assert_bad_arg(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK, data, sizes),
                   "dataSize");
    sizes[2] = 8;
    data[2] = NULL;
    assert_bad_arg(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK, data, sizes), "data");
    data[2] = c;
    assert_refused(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK + 1, data, sizes),
                   ACL_ERROR_RT_PARAM_INVALID, "end");
    assert_bad_arg(aclrtMemManagedGetAttrs(NULL, 3, ptr, CHUNK, data, sizes),
                   "attributes");
    assert_bad_arg(aclrtMemManagedGetAttrs(attrs, 0, ptr, CHUNK, data, sizes),
                   "numAttributes");
    assert_bad_arg(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK, NULL, sizes), "data");
    assert_bad_arg(aclrtMemManagedGetAttrs(attrs, 3, ptr, CHUNK, data, NULL),
                   "dataSizes");
    assert_int_equal(a, 7); /* nothing was written */
    give(ptr);
}

static void wrong_advice_is_refused(void **state)
{
    const aclrtMemManagedAdviseType set = ACL_MEM_ADVISE_SET_PREFERRED_LOCATION;
    const aclrtMemManagedLocation device2 = {ACL_MEM_LOCATIONTYPE_DEVICE, 2};
    const aclrtMemManagedLocation node = {ACL_MEM_LOCATIONTYPE_HOST_NUMA, 4000};
    const aclrtMemManagedLocation node0 = {ACL_MEM_LOCATIONTYPE_HOST_NUMA, 0};
    char *ptr = take(2 * CHUNK);
    struct block b = block_create(CHUNK);
    int32_t value = 7;

    assert_bad_arg(advise(NULL, CHUNK, set, device0), "ptr");
    assert_bad_arg(advise(ptr, 0, set, device0), "size");
    assert_bad_arg(advise(ptr, CHUNK + 1, set, device0), "2 MB");
    assert_refused(advise(ptr + 1, CHUNK, set, device0), ACL_ERROR_RT_ADDR_UNALIGNED,
                   "2 MB");
    assert_refused(advise(ptr, 3 * CHUNK, set, device0), ACL_ERROR_RT_PARAM_INVALID,
                   "end");
    assert_refused(advise(b.va, CHUNK, set, device0), ACL_ERROR_RT_PARAM_INVALID,
                   "not managed");
    assert_refused(advise(ptr, CHUNK, set, device2), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device 2");
    assert_refused(advise(ptr, CHUNK, set, node), ACL_ERROR_RT_PARAM_INVALID, "NUMA");
    assert_bad_arg(advise(ptr, CHUNK, set, nowhere), "location.type");
    assert_bad_arg(advise(ptr, CHUNK, ACL_MEM_ADVISE_SET_ACCESSED_BY, node0),
                   "location.type");
    assert_bad_arg(advise(ptr, CHUNK, (aclrtMemManagedAdviseType)6, device0), "advise");
    assert_bad_arg(aclrtMemManagedGetAttr(0, ptr, 1, &value, 4), "attribute");
    assert_bad_arg(aclrtMemManagedGetAttr(9, ptr, 1, &value, 4), "attribute");
    assert_bad_arg(aclrtMemManagedGetAttr(1, ptr, 1, &value, 8), "dataSize");
    assert_bad_arg(aclrtMemManagedGetAttr(3, ptr, 1, &value, 0), "dataSize");
    assert_bad_arg(aclrtMemManagedGetAttr(3, ptr, 1, &value, 6), "dataSize");
    assert_bad_arg(aclrtMemManagedGetAttr(1, ptr, 0, &value, 4), "size");
    assert_bad_arg(aclrtMemManagedGetAttr(1, NULL, 1, &value, 4), "ptr");
    assert_bad_arg(aclrtMemManagedGetAttr(1, ptr, 1, NULL, 4), "data");
    assert_refused(aclrtMemManagedGetAttr(1, b.va, 1, &value, 4),
                   ACL_ERROR_RT_PARAM_INVALID, "not managed");
    assert_int_equal(value, 7);
    assert_int_equal(ask(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, 2 * CHUNK), -2);
    block_destroy(&b);
    give(ptr);
}

/* ---- prefetches ---- */

static void a_prefetch_is_remembered(void **state)
{
    const aclrtMemManagedRangeAttribute old =
        ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    char *ptr = take(3 * CHUNK);

    fill((uint8_t *)ptr, 3 * CHUNK, 1);
    assert_int_equal(ask(old, ptr, CHUNK), -2);
    assert_acl_ok(aclrtMemManagedPrefetchAsync(ptr, 2 * CHUNK, device1, 0, NULL));
    assert_int_equal(ask(old, ptr, 2 * CHUNK), 1);
    assert_int_equal(ask(old, ptr, 3 * CHUNK), -2);
    assert_acl_ok(aclrtMemManagedPrefetchAsync(ptr, CHUNK, on_host, 0, NULL));
    assert_int_equal(ask(old, ptr, CHUNK), -1);
    assert_int_equal(ask(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, ptr, CHUNK),
                     ACL_MEM_LOCATIONTYPE_HOST);
    assert_int_equal(
        ask(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, ptr + CHUNK, CHUNK), 1);
    assert_int_equal(ask(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, CHUNK), -2);
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_true(is_filled((uint8_t *)ptr, 3 * CHUNK, 1));
    give(ptr);
}

static void a_batch_of_prefetches_has_locations_by_index(void **state)
{
    const aclrtMemManagedRangeAttribute old =
        ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    char *a = take(2 * CHUNK), *b = take(CHUNK);
    const void *ptrs[] = {a, a + CHUNK, b};
    size_t sizes[] = {CHUNK, CHUNK, CHUNK}, indexes[] = {0, 2};
    aclrtMemManagedLocation locations[] = {device1, on_host};
    aclrtStream stream = make_stream();
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 3, locations, indexes, 2,
                                                    0, stream));
    gate_end(gate);
    assert_int_equal(ask(old, a, 2 * CHUNK), 1);
    assert_int_equal(ask(old, b, CHUNK), -1);
    assert_acl_ok(aclrtDestroyStream(stream));
    give(a);
    give(b);
}

static void wrong_prefetches_are_refused(void **state)
{
    struct block c = block_create(CHUNK);
    char *a = take(2 * CHUNK), *b = take(CHUNK);
    const void *ptrs[] = {a, b};
    size_t sizes[] = {CHUNK, CHUNK}, indexes[] = {0, 1}, bad[] = {1, 1};
    aclrtMemManagedLocation locations[] = {device1, on_host},
                            wrong[] = {device1, nowhere};

    assert_bad_arg(aclrtMemManagedPrefetchAsync(NULL, CHUNK, device0, 0, NULL), "ptr");
    assert_bad_arg(aclrtMemManagedPrefetchAsync(a, CHUNK - 1, device0, 0, NULL), "2 MB");
    assert_bad_arg(aclrtMemManagedPrefetchAsync(a, CHUNK, device0, 1, NULL), "flags");
    assert_bad_arg(aclrtMemManagedPrefetchAsync(a, CHUNK, nowhere, 0, NULL),
                   "location.type");
    assert_refused(aclrtMemManagedPrefetchAsync(a, 3 * CHUNK, device0, 0, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "end");
    assert_refused(aclrtMemManagedPrefetchAsync(c.va, CHUNK, device0, 0, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "not managed");
    assert_refused(aclrtMemManagedPrefetchAsync(a, CHUNK, device0, 0, a),
                   ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(NULL, sizes, 2, locations, indexes, 2, 0, NULL),
        "ptrs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, NULL, 2, locations, indexes, 2, 0, NULL),
        "sizes");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 0, locations, indexes, 2, 0, NULL),
        "count");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, NULL, indexes, 2, 0, NULL),
        "prefetchLocs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, NULL, 2, 0, NULL),
        "prefetchLocIdxs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, indexes, 0, 0, NULL),
        "numPrefetchLocs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, indexes, 3, 0, NULL),
        "numPrefetchLocs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, bad, 2, 0, NULL),
        "prefetchLocIdxs");
    bad[0] = 0;
    bad[1] = 2;
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, bad, 2, 0, NULL),
        "prefetchLocIdxs");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, indexes, 2, 1, NULL),
        "flags");
    assert_bad_arg(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, wrong, indexes, 2, 0, NULL),
        "location.type");
    sizes[1] = 2 * CHUNK;
    assert_refused(
        aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 2, locations, indexes, 2, 0, NULL),
        ACL_ERROR_RT_PARAM_INVALID, "end");
    assert_int_equal(ask(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, CHUNK), -2);
    block_destroy(&c);
    give(a);
    give(b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(host_and_device_see_the_same_bytes),
        claim_both(new_memory_reads_zero),
        claim_both(addresses_are_the_documented_ones),
        claim_both(three_terabytes_are_the_limit),
        claim(far_more_than_the_machine_has_can_be_taken),
        claim_alone(the_program_may_touch_it_whatever_isolation_says),
        claim_both(it_is_known_as_managed),
        claim_both(a_copy_stays_inside_one_allocation),
        claim_both(the_rules_say_how_much_of_an_allocation_may_be_used),
        claim_both(copies_on_streams_take_it_on_both_sides),
        claim_both(fills_on_streams_come_in_their_turn),
        claim_both(queued_work_keeps_it),
        claim_both(wrong_calls_are_refused),
        claim_alone(without_a_device_there_is_none),
        claim_alone(only_a2_and_a3_have_it),
        claim_both(finalize_frees_leftover_blocks),
        claim_both(starts_and_stops_leak_nothing),
        claim_both(read_mostly_is_about_all_pages),
        claim_both(preferred_locations_are_reported_in_three_ways),
        claim_both(accessors_are_those_of_all_pages),
        claim_both(several_attributes_come_together),
        claim_both(wrong_advice_is_refused),
        claim_both(a_prefetch_is_remembered),
        claim_both(a_batch_of_prefetches_has_locations_by_index),
        claim_both(wrong_prefetches_are_refused),
    };

    return run_claims(claims);
}
