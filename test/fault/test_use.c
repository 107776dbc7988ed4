/* Faults in mapping, access, copies, views, references, and in taking mappings away. */
#include "faulted.h"

#include "support/process.h"

#include <stdlib.h>

/* ---- prepared scenes ---- */

static void have_range(struct scene *s, aclrtDrvMemHandle handle)
{
    s->size = 2 * CHUNK;
    s->va = reserve(4 * CHUNK);
    s->handle = handle;
}

static void have_device(struct scene *s)
{
    have_range(s, alloc(2 * CHUNK));
}

static void have_host(struct scene *s)
{
    have_range(s, alloc_host(2 * CHUNK));
}

static void have_mapped_device(struct scene *s)
{
    have_device(s);
    map(s->va, s->size, s->handle);
}

static void have_mapped_host(struct scene *s)
{
    have_host(s);
    map(s->va, s->size, s->handle);
}

static void drop(struct scene *s)
{
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

static void unmap_and_drop(struct scene *s)
{
    assert_acl_ok(aclrtUnmapMem(s->va));
    drop(s);
}

static void memory_works(struct scene *s)
{
    put_pattern(s->va, s->size, 1);
    assert_pattern(s->va, s->size, 1);
}

/* ---- map ---- */

static aclError do_map(struct scene *s)
{
    return aclrtMapMem(s->va + CHUNK, s->size, 0, s->handle, 0);
}

static aclError do_map_no_access(struct scene *s)
{
    return aclrtMemMapNoAccess(s->va + CHUNK, s->size, 0, s->handle, 0);
}

static void mapped_works(struct scene *s)
{
    put_pattern(s->va + CHUNK, s->size, 1);
    assert_pattern(s->va + CHUNK, s->size, 1);
}

static void grant_and_use(struct scene *s)
{
    aclrtPtrAttributes attributes;

    assert_acl_ok(aclrtPointerGetAttributes(s->va + CHUNK, &attributes));
    assert_acl_ok(set_access(s->va + CHUNK, s->size, attributes.location.type, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    mapped_works(s);
}

static void unmap_second_and_drop(struct scene *s)
{
    assert_acl_ok(aclrtUnmapMem(s->va + CHUNK));
    drop(s);
}

/* ---- unmap ---- */

static aclError do_unmap(struct scene *s)
{
    return aclrtUnmapMem(s->va);
}

static void is_unmapped(struct scene *s)
{
    assert_int_equal(stats().mappings, 0);
    map(s->va, s->size, s->handle); /* and the place is free again */
    memory_works(s);
    assert_acl_ok(aclrtUnmapMem(s->va));
}

/* ---- access ---- */

static aclError do_deny_device(struct scene *s)
{
    return set_access(s->va, s->size, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                      ACL_RT_MEM_ACCESS_FLAGS_NONE);
}

static aclError do_deny_host(struct scene *s)
{
    return set_access(s->va, s->size, ACL_MEM_LOCATION_TYPE_HOST, 0,
                      ACL_RT_MEM_ACCESS_FLAGS_NONE);
}

/* A change that failed leaves the access as it was, also for the program's own hand. */
static void device_is_not_denied(struct scene *s)
{
    assert_int_equal(get_access(s->va, ACL_MEM_LOCATION_TYPE_DEVICE, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    memory_works(s);
}

static void host_is_not_denied(struct scene *s)
{
    assert_int_equal(get_access(s->va, ACL_MEM_LOCATION_TYPE_HOST, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    fill((uint8_t *)s->va, s->size, 2);
    assert_true(is_filled((uint8_t *)s->va, s->size, 2));
}

static void device_is_denied(struct scene *s)
{
    assert_int_equal(get_access(s->va, ACL_MEM_LOCATION_TYPE_DEVICE, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_NONE);
    assert_false(can_read(s->va));
}

static void host_is_denied(struct scene *s)
{
    assert_int_equal(get_access(s->va, ACL_MEM_LOCATION_TYPE_HOST, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_NONE);
    assert_false(can_read(s->va));
}

/* ---- copies: the first touch of fresh memory is where they meet the system ---- */

static void have_bytes(struct scene *s)
{
    have_mapped_device(s);
    s->bytes = malloc(s->size);
    assert_non_null(s->bytes);
    fill(s->bytes, s->size, 3);
}

static aclError do_copy_in(struct scene *s)
{
    return copy(s->va, s->bytes, s->size, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError do_copy_out(struct scene *s)
{
    return copy(s->bytes, s->va, s->size, ACL_MEMCPY_DEVICE_TO_HOST);
}

static aclError do_memset(struct scene *s)
{
    return aclrtMemset(s->va, s->size, 7, s->size);
}

static void copied_in(struct scene *s)
{
    assert_pattern(s->va, s->size, 3);
}

static void copied_out(struct scene *s)
{
    for (size_t i = 0; i < s->size; i++)
        assert_int_equal(s->bytes[i], 0);
}

static void was_set(struct scene *s)
{
    assert_all_bytes(s->va, s->size, 7);
}

static void drop_with_bytes(struct scene *s)
{
    free(s->bytes);
    unmap_and_drop(s);
}

/* More handles in a row than a copy has books for in advance. */
enum { ROW = 6 };
static aclrtDrvMemHandle row[ROW];

static void have_row(struct scene *s)
{
    s->size = ROW * CHUNK;
    s->va = reserve(s->size);
    for (size_t i = 0; i < ROW; i++) {
        row[i] = alloc(CHUNK);
        map(s->va + i * CHUNK, CHUNK, row[i]);
    }
    s->bytes = malloc(s->size);
    assert_non_null(s->bytes);
    fill(s->bytes, s->size, 3);
}

static void drop_row(struct scene *s)
{
    free(s->bytes);
    for (size_t i = 0; i < ROW; i++) {
        assert_acl_ok(aclrtUnmapMem(s->va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(row[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
    assert_int_equal(free_memory(), 64 * MIB); /* nobody holds on to any of it */
}

/* ---- views ---- */

static aclError do_view(struct scene *s)
{
    return aclmem_host_view(s->va, s->size, &s->view);
}

static void view_works(struct scene *s)
{
    assert_non_null(s->view);
    fill(s->view, s->size, 4);
    assert_pattern(s->va, s->size, 4);
}

static void end_view_and_drop(struct scene *s)
{
    assert_acl_ok(aclmem_host_view_end(s->view));
    unmap_and_drop(s);
}

/* Two handles in the order in which the memory does not lie. */
static void have_scattered(struct scene *s)
{
    s->size = 2 * CHUNK;
    s->va = reserve(s->size);
    s->handle = alloc(CHUNK);
    s->gap = alloc(CHUNK);
    s->more = alloc(CHUNK);
    map(s->va, CHUNK, s->more);
    map(s->va + CHUNK, CHUNK, s->handle);
}

static void end_view_and_drop_row(struct scene *s)
{
    assert_acl_ok(aclmem_host_view_end(s->view));
    drop_row(s);
}

static void drop_scattered(struct scene *s)
{
    assert_acl_ok(aclmem_host_view_end(s->view));
    assert_acl_ok(aclrtUnmapMem(s->va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(s->more));
    assert_acl_ok(aclrtFreePhysical(s->gap));
    unmap_and_drop(s);
}

static void have_view(struct scene *s)
{
    have_scattered(s);
    assert_acl_ok(do_view(s));
}

static aclError do_end_view(struct scene *s)
{
    return aclmem_host_view_end(s->view);
}

static void no_view_is_left(struct scene *s)
{
    assert_int_equal(stats().views, 0);
    assert_acl_ok(do_view(s));
}

/* ---- references, reset ---- */

static aclError do_retain(struct scene *s)
{
    return aclrtMemRetainAllocationHandle(s->va, &s->more);
}

static void drop_twice(struct scene *s)
{
    assert_ptr_equal(s->more, s->handle);
    assert_acl_ok(aclrtFreePhysical(s->more));
    unmap_and_drop(s);
}

/* ---- a second range of addresses ---- */

static void have_two_pieces(struct scene *s)
{
    have_mapped_device(s);
    s->more = alloc(2 * CHUNK);
    map(s->va + 2 * CHUNK, 2 * CHUNK, s->more);
    s->bytes = reserve(4 * CHUNK);
}

static aclError do_mirror(struct scene *s)
{
    return aclrtMemMapSelectedLink(s->bytes, 4 * CHUNK, s->va, 0);
}

static void both_show_the_same(struct scene *s)
{
    put_pattern(s->va, 4 * CHUNK, 1);
    assert_pattern(s->bytes, 4 * CHUNK, 1);
}

static void unmap_both_and_drop(struct scene *s)
{
    assert_acl_ok(aclrtUnmapMem(s->bytes));
    assert_acl_ok(aclrtUnmapMem(s->bytes + 2 * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(s->bytes));
    assert_acl_ok(aclrtUnmapMem(s->va + 2 * CHUNK));
    assert_acl_ok(aclrtFreePhysical(s->more));
    unmap_and_drop(s);
}

/* ---- a reset ---- */

static void have_used(struct scene *s)
{
    have_mapped_device(s);
    memory_works(s);
}

static aclError do_reset(struct scene *s)
{
    return aclrtResetDevice(0);
}

static void all_is_reset(struct scene *s)
{
    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), 64 * MIB);
}

static void release_only(struct scene *s)
{
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

static const struct step steps[] = {
    {"mapping a device's memory", NULL, have_device, do_map, NULL, mapped_works,
     unmap_second_and_drop},
    {"mapping a device's memory without access", NULL, have_device, do_map_no_access,
     NULL, grant_and_use, unmap_second_and_drop},
    {"mapping the host's memory", NULL, have_host, do_map, NULL, mapped_works,
     unmap_second_and_drop},
    {"mapping the host's memory without access", NULL, have_host, do_map_no_access, NULL,
     grant_and_use, unmap_second_and_drop},
    {"mapping memory that can be touched", TOUCHABLE, have_device, do_map, NULL,
     mapped_works, unmap_second_and_drop},
    {"mapping touchable memory without access", TOUCHABLE, have_device, do_map_no_access,
     NULL, grant_and_use, unmap_second_and_drop},
    {"mapping mapped memory again", "ACLMEM_PRODUCT=A3", have_two_pieces, do_mirror, NULL,
     both_show_the_same, unmap_both_and_drop},
    {"unmapping a device's memory", NULL, have_mapped_device, do_unmap, NULL, is_unmapped,
     drop},
    {"unmapping the host's memory", NULL, have_mapped_host, do_unmap, NULL, is_unmapped,
     drop},
    {"unmapping memory that can be touched", TOUCHABLE, have_mapped_device, do_unmap,
     NULL, is_unmapped, drop},
    {"changing a device's access", NULL, have_mapped_device, do_deny_device,
     device_is_not_denied, device_is_denied, unmap_and_drop},
    {"changing the host's access", NULL, have_mapped_host, do_deny_host,
     host_is_not_denied, host_is_denied, unmap_and_drop},
    {"changing access that the program has", TOUCHABLE, have_mapped_device,
     do_deny_device, device_is_not_denied, device_is_denied, unmap_and_drop},
    {"a copy to a device", NULL, have_bytes, do_copy_in, NULL, copied_in,
     drop_with_bytes},
    {"a copy from a device", NULL, have_bytes, do_copy_out, NULL, copied_out,
     drop_with_bytes},
    {"a fill", NULL, have_bytes, do_memset, NULL, was_set, drop_with_bytes},
    {"a copy to memory that can be touched", TOUCHABLE, have_bytes, do_copy_in, NULL,
     copied_in, drop_with_bytes},
    {"a copy from memory that can be touched", TOUCHABLE, have_bytes, do_copy_out, NULL,
     copied_out, drop_with_bytes},
    {"a fill of memory that can be touched", TOUCHABLE, have_bytes, do_memset, NULL,
     was_set, drop_with_bytes},
    {"a copy to many handles", NULL, have_row, do_copy_in, NULL, copied_in, drop_row},
    {"a fill of many handles", NULL, have_row, do_memset, NULL, was_set, drop_row},
    {"a direct view", NULL, have_mapped_device, do_view, NULL, view_works,
     end_view_and_drop},
    {"a view of memory that can be touched", TOUCHABLE, have_mapped_device, do_view, NULL,
     view_works, end_view_and_drop},
    {"a scattered view", NULL, have_scattered, do_view, NULL, view_works, drop_scattered},
    {"a long view", NULL, have_row, do_view, NULL, view_works, end_view_and_drop_row},
    {"ending a view", NULL, have_view, do_end_view, NULL, no_view_is_left,
     drop_scattered},
    {"retaining", NULL, have_mapped_device, do_retain, NULL, NULL, drop_twice},
    {"resetting", NULL, have_used, do_reset, NULL, all_is_reset, release_only},
    {"resetting with memory that can be touched", TOUCHABLE, have_used, do_reset, NULL,
     all_is_reset, release_only},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
