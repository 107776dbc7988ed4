/* Faults in mapping, access, copies, views, references, and in taking mappings away. */
#include "faulted.h"

#include "support/process.h"

#include <stdlib.h>

static const char *const with_pointers = "ACLMEM_ISOLATE=0";

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

static void survive_map(void (*prepare)(struct scene *), const char *option)
{
    survive_faults(&(struct step){
        .option = option,
        .prepare = prepare,
        .run = do_map,
        .check = mapped_works,
        .clean = unmap_second_and_drop,
    });
    survive_faults(&(struct step){
        .option = option,
        .prepare = prepare,
        .run = do_map_no_access,
        .check = grant_and_use,
        .clean = unmap_second_and_drop,
    });
}

static void mapping_survives_every_fault(void **state)
{
    survive_map(have_device, NULL);
    survive_map(have_host, NULL);
    survive_map(have_device, with_pointers);
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

static void survive_unmap(void (*prepare)(struct scene *), const char *option)
{
    survive_faults(&(struct step){
        .option = option,
        .prepare = prepare,
        .run = do_unmap,
        .check = is_unmapped,
        .clean = drop,
    });
}

static void unmapping_survives_every_fault(void **state)
{
    survive_unmap(have_mapped_device, NULL);
    survive_unmap(have_mapped_host, NULL);
    survive_unmap(have_mapped_device, with_pointers);
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

static void changing_access_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_mapped_device,
                                  .run = do_deny_device,
                                  .check_failed = device_is_not_denied,
                                  .check = device_is_denied,
                                  .clean = unmap_and_drop});
    survive_faults(&(struct step){.prepare = have_mapped_host,
                                  .run = do_deny_host,
                                  .check_failed = host_is_not_denied,
                                  .check = host_is_denied,
                                  .clean = unmap_and_drop});
    survive_faults(&(struct step){.option = with_pointers,
                                  .prepare = have_mapped_device,
                                  .run = do_deny_device,
                                  .check_failed = device_is_not_denied,
                                  .check = device_is_denied,
                                  .clean = unmap_and_drop});
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

static void survive_copies(const char *option)
{
    survive_faults(&(struct step){.option = option,
                                  .prepare = have_bytes,
                                  .run = do_copy_in,
                                  .check = copied_in,
                                  .clean = drop_with_bytes});
    survive_faults(&(struct step){.option = option,
                                  .prepare = have_bytes,
                                  .run = do_copy_out,
                                  .check = copied_out,
                                  .clean = drop_with_bytes});
    survive_faults(&(struct step){.option = option,
                                  .prepare = have_bytes,
                                  .run = do_memset,
                                  .check = was_set,
                                  .clean = drop_with_bytes});
}

static void copies_survive_every_fault(void **state)
{
    survive_copies(NULL);
    survive_copies(with_pointers);
}

/* More handles in a row than a copy has books for in advance. */
enum { ROW = 20 };
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

static void long_copies_survive_every_fault(void **state)
{
    survive_faults(&(struct step){
        .prepare = have_row, .run = do_copy_in, .check = copied_in, .clean = drop_row});
    survive_faults(&(struct step){
        .prepare = have_row, .run = do_memset, .check = was_set, .clean = drop_row});
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

static void direct_view_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_mapped_device,
                                  .run = do_view,
                                  .check = view_works,
                                  .clean = end_view_and_drop});
    survive_faults(&(struct step){.option = with_pointers,
                                  .prepare = have_mapped_device,
                                  .run = do_view,
                                  .check = view_works,
                                  .clean = end_view_and_drop});
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

static void long_view_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_row,
                                  .run = do_view,
                                  .check = view_works,
                                  .clean = end_view_and_drop_row});
}

static void drop_scattered(struct scene *s)
{
    assert_acl_ok(aclmem_host_view_end(s->view));
    assert_acl_ok(aclrtUnmapMem(s->va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(s->more));
    assert_acl_ok(aclrtFreePhysical(s->gap));
    unmap_and_drop(s);
}

static void scattered_view_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_scattered,
                                  .run = do_view,
                                  .check = view_works,
                                  .clean = drop_scattered});
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

static void ending_a_view_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_view,
                                  .run = do_end_view,
                                  .check = no_view_is_left,
                                  .clean = drop_scattered});
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

static void retaining_survives_every_fault(void **state)
{
    survive_faults(&(struct step){
        .prepare = have_mapped_device, .run = do_retain, .clean = drop_twice});
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

static void mapping_mapped_memory_again_survives_every_fault(void **state)
{
    survive_faults(&(struct step){
        .option = "ACLMEM_PRODUCT=A3",
        .prepare = have_two_pieces,
        .run = do_mirror,
        .check = both_show_the_same,
        .clean = unmap_both_and_drop,
    });
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

static void resetting_survives_every_fault(void **state)
{
    survive_faults(&(struct step){.prepare = have_used,
                                  .run = do_reset,
                                  .check = all_is_reset,
                                  .clean = release_only});
    survive_faults(&(struct step){.option = with_pointers,
                                  .prepare = have_used,
                                  .run = do_reset,
                                  .check = all_is_reset,
                                  .clean = release_only});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(mapping_survives_every_fault),
        cmocka_unit_test(mapping_mapped_memory_again_survives_every_fault),
        cmocka_unit_test(unmapping_survives_every_fault),
        cmocka_unit_test(changing_access_survives_every_fault),
        cmocka_unit_test(copies_survive_every_fault),
        cmocka_unit_test(long_copies_survive_every_fault),
        cmocka_unit_test(direct_view_survives_every_fault),
        cmocka_unit_test(scattered_view_survives_every_fault),
        cmocka_unit_test(long_view_survives_every_fault),
        cmocka_unit_test(ending_a_view_survives_every_fault),
        cmocka_unit_test(retaining_survives_every_fault),
        cmocka_unit_test(resetting_survives_every_fault),
    };

    return run_faulted(claims, argc, argv);
}
