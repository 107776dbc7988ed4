/*
 * Memory that the program may touch: host locations always, device memory with
 * ACLMEM_ISOLATE=0.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void device_memory_faults_when_it_is_touched(void **state)
{
    struct block b = block_create(2 * CHUNK);

    put_pattern(b.va, b.size, 1);
    assert_false(can_read(b.va));
    assert_false(can_read(b.va + CHUNK + 100));
    assert_pattern(b.va, b.size, 1);
    block_destroy(&b);
}

static struct block start_without_isolation(size_t size)
{
    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    return block_create(size);
}

static void without_isolation_pointers_and_copies_agree(void **state)
{
    struct block b = start_without_isolation(2 * CHUNK);

    assert_all_bytes(b.va, b.size, 0);
    fill((uint8_t *)b.va, b.size, 1);
    assert_pattern(b.va, b.size, 1);
    put_pattern(b.va, b.size, 2);
    assert_true(is_filled((uint8_t *)b.va, b.size, 2));
    assert_acl_ok(aclrtMemset(b.va, b.size, 3, b.size));
    assert_int_equal(b.va[b.size - 1], 3);
    assert_int_equal(free_memory(), GIB - b.size);
    block_destroy(&b);
    assert_int_equal(free_memory(), GIB);
}

static void without_isolation_aliases_show_the_same_bytes(void **state)
{
    struct block b = start_without_isolation(CHUNK);
    char *alias = reserve(CHUNK);

    map(alias, CHUNK, b.handle);
    fill((uint8_t *)alias, CHUNK, 4);
    assert_true(is_filled((uint8_t *)b.va, CHUNK, 4));
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_false(can_read(b.va));
    assert_true(can_read(alias));
    map(b.va, CHUNK, b.handle);
    assert_true(is_filled((uint8_t *)b.va, CHUNK, 4));
    assert_acl_ok(aclrtUnmapMem(alias));
    assert_acl_ok(aclrtReleaseMemAddress(alias));
    block_destroy(&b);
}

static void without_isolation_access_rights_hold_for_pointers(void **state)
{
    struct block b = start_without_isolation(CHUNK);

    put_pattern(b.va, CHUNK, 1);
    assert_acl_ok(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READ));
    assert_true(can_read(b.va));
    assert_false(can_write(b.va));
    assert_acl_ok(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_NONE));
    assert_false(can_read(b.va));
    assert_acl_ok(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    assert_true(is_filled((uint8_t *)b.va, CHUNK, 1));
    block_destroy(&b);
}

static void unmapped_addresses_stay_reserved(void **state)
{
    struct block b = start_without_isolation(CHUNK);
    void *probe;

    assert_acl_ok(aclrtUnmapMem(b.va));
    probe = mmap(b.va, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                 -1, 0);
    assert_ptr_equal(probe, MAP_FAILED);
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void a_copy_crosses_many_handles_without_isolation_too(void **state)
{
    struct block b = start_without_isolation(CHUNK);
    char *va = reserve(4 * CHUNK);
    aclrtDrvMemHandle handles[4];

    for (size_t i = 0; i < 4; i++) {
        handles[i] = alloc(CHUNK);
        map(va + i * CHUNK, CHUNK, handles[i]);
    }
    put_pattern(va, 4 * CHUNK, 1);
    assert_pattern(va, 4 * CHUNK, 1);
    assert_true(is_filled((uint8_t *)va, 4 * CHUNK, 1));
    assert_acl_ok(aclrtUnmapMem(va + 2 * CHUNK));
    assert_refused(aclrtMemset(va, 4 * CHUNK, 0, 4 * CHUNK), ACL_ERROR_RT_PARAM_INVALID,
                   "mapped");
    assert_true(is_filled((uint8_t *)va, 2 * CHUNK, 1));
    map(va + 2 * CHUNK, CHUNK, handles[2]);
    for (size_t i = 0; i < 4; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&b);
}

static void without_isolation_capacity_is_enforced_too(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    struct block b = start_without_isolation(GIB - CHUNK);
    aclrtDrvMemHandle handle = NULL;

    assert_refused(aclrtMallocPhysical(&handle, 2 * CHUNK, &prop, 0),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    block_destroy(&b);
}

/* ---- host and NUMA locations ---- */

static void use_host_memory(aclrtMemLocationType type, aclrtMemAttr attr)
{
    aclrtPhysicalMemProp prop = located_prop(type, 0, attr);
    struct block d = block_create(2 * CHUNK), h = {.size = 2 * CHUNK};

    assert_acl_ok(aclrtMallocPhysical(&h.handle, h.size, &prop, 0));
    h.va = reserve(h.size);
    map(h.va, h.size, h.handle);
    assert_all_bytes(h.va, h.size, 0);
    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(copy(d.va, h.va, h.size, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(d.va, d.size, 1);
    put_pattern(d.va, d.size, 2);
    assert_acl_ok(copy(h.va, d.va, h.size, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(is_filled((uint8_t *)h.va, h.size, 2));
    assert_acl_ok(aclrtMemset(h.va, h.size, 5, h.size));
    assert_int_equal(h.va[h.size - 1], 5);
    block_destroy(&h);
    block_destroy(&d);
}

static void host_memory_is_addressable(void **state)
{
    use_host_memory(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_HUGE);
    use_host_memory(ACL_MEM_LOCATION_TYPE_HOST, ACL_DDR_MEM_NORMAL);
}

static void memory_of_a_numa_node_is_addressable(void **state)
{
    use_host_memory(ACL_MEM_LOCATION_TYPE_HOST_NUMA, ACL_MEM_P2P_HUGE);
}

/* The kernel's policy for these addresses is no longer the default one. */
static void memory_of_a_numa_node_is_asked_for_there(void **state)
{
    aclrtPhysicalMemProp prop =
        located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, 0, ACL_MEM_HUGE);
    struct block h = {.size = CHUNK, .va = reserve(CHUNK)};
    const unsigned long of_address = 2; /* MPOL_F_ADDR */
    unsigned long nodes[16] = {0};
    int mode = -1;

    assert_acl_ok(aclrtMallocPhysical(&h.handle, h.size, &prop, 0));
    map(h.va, h.size, h.handle);
    if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof(nodes), h.va, of_address) !=
        0) {
        print_message("skipped: get_mempolicy is not allowed here\n");
    } else {
        assert_int_not_equal(mode, 0); /* MPOL_DEFAULT */
        assert_int_equal(nodes[0], 1);
    }
    block_destroy(&h);
}

static void host_memory_moves_between_addresses(void **state)
{
    struct block h = block_create_host(CHUNK);
    char *elsewhere = reserve(4 * CHUNK);

    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(aclrtUnmapMem(h.va));
    assert_false(can_read(h.va));
    map(elsewhere + CHUNK, CHUNK, h.handle);
    assert_true(is_filled((uint8_t *)elsewhere + CHUNK, CHUNK, 1));
    map(h.va, CHUNK, h.handle);
    elsewhere[CHUNK] = 42;
    assert_int_equal(h.va[0], 42);
    assert_acl_ok(aclrtUnmapMem(elsewhere + CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(elsewhere));
    block_destroy(&h);
}

static void host_memory_outlives_its_handle(void **state)
{
    struct block h = block_create_host(CHUNK);

    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(aclrtFreePhysical(h.handle));
    assert_true(is_filled((uint8_t *)h.va, h.size, 1));
    assert_int_equal(stats().handles, 1);
    assert_acl_ok(aclrtUnmapMem(h.va));
    assert_int_equal(stats().handles, 0);
    assert_acl_ok(aclrtReleaseMemAddress(h.va));
}

static void host_and_device_memory_lie_side_by_side(void **state)
{
    aclrtDrvMemHandle handles[4];
    char *va = reserve(4 * CHUNK);

    for (size_t i = 0; i < 4; i++) {
        handles[i] = i % 2 == 0 ? alloc(CHUNK) : alloc_host(CHUNK);
        map(va + i * CHUNK, CHUNK, handles[i]);
    }
    put_pattern(va, 4 * CHUNK, 6);
    assert_pattern(va, 4 * CHUNK, 6);
    assert_false(can_read(va));
    assert_true(can_read(va + CHUNK));
    assert_int_equal((uint8_t)va[CHUNK + 5], pattern(6, CHUNK + 5));
    for (size_t i = 0; i < 4; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(device_memory_faults_when_it_is_touched),
        claim_alone(without_isolation_pointers_and_copies_agree),
        claim_alone(without_isolation_aliases_show_the_same_bytes),
        claim_alone(without_isolation_access_rights_hold_for_pointers),
        claim_alone(unmapped_addresses_stay_reserved),
        claim_alone(a_copy_crosses_many_handles_without_isolation_too),
        claim_alone(without_isolation_capacity_is_enforced_too),
        claim(host_memory_is_addressable),
        claim(memory_of_a_numa_node_is_addressable),
        claim(memory_of_a_numa_node_is_asked_for_there),
        claim(host_memory_moves_between_addresses),
        claim(host_memory_outlives_its_handle),
        claim(host_and_device_memory_lie_side_by_side),
    };

    return run_claims(claims);
}
