/*
 * aclrtMemMapNoAccess, aclrtMemSetAccess, aclrtMemGetAccess, and what copies make of it.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <string.h>

#define DEVICE ACL_MEM_LOCATION_TYPE_DEVICE
#define HOST ACL_MEM_LOCATION_TYPE_HOST
#define NONE ACL_RT_MEM_ACCESS_FLAGS_NONE
#define READ ACL_RT_MEM_ACCESS_FLAGS_READ
#define READWRITE ACL_RT_MEM_ACCESS_FLAGS_READWRITE

static struct block block_without_access(aclrtDrvMemHandle handle, size_t size)
{
    struct block b = {.size = size, .handle = handle, .va = reserve(size)};

    assert_acl_ok(aclrtMemMapNoAccess(b.va, size, 0, handle, 0));
    return b;
}

static aclError read_byte(const void *src)
{
    char byte = 0;

    return copy(&byte, src, 1, ACL_MEMCPY_DEVICE_TO_HOST);
}

static aclError write_byte(void *dst)
{
    char byte = 1;

    return copy(dst, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE);
}

static void mapping_gives_the_owner_access(void **state)
{
    struct block b = block_create(CHUNK);

    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    assert_int_equal(get_access(b.va, DEVICE, 1), NONE);
    assert_int_equal(get_access(b.va, HOST, 0), NONE);
    block_destroy(&b);
}

static void eight_steps_without_access_at_first(void **state)
{
    struct block b = block_without_access(alloc(2 * CHUNK), 2 * CHUNK);

    assert_int_equal(get_access(b.va, DEVICE, 0), NONE);
    assert_refused(read_byte(b.va), ACL_ERROR_RT_PARAM_INVALID, "access");
    assert_refused(write_byte(b.va), ACL_ERROR_RT_PARAM_INVALID, "access");
    assert_refused(aclrtMemset(b.va, b.size, 1, b.size), ACL_ERROR_RT_PARAM_INVALID,
                   "access");
    assert_acl_ok(set_access(b.va, b.size, DEVICE, 0, READWRITE));
    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    put_pattern(b.va, b.size, 1);
    assert_pattern(b.va, b.size, 1);
    block_destroy(&b);
}

static void access_can_be_taken_and_given_back(void **state)
{
    struct block b = block_create(CHUNK);
    void *view = NULL;

    put_pattern(b.va, b.size, 1);
    assert_acl_ok(set_access(b.va, b.size, DEVICE, 0, NONE));
    assert_int_equal(get_access(b.va, DEVICE, 0), NONE);
    assert_refused(read_byte(b.va), ACL_ERROR_RT_PARAM_INVALID, "access");
    assert_refused(aclmem_host_view(b.va, 1, &view), ACL_ERROR_RT_PARAM_INVALID,
                   "access");
    assert_null(view);
    assert_acl_ok(set_access(b.va, b.size, DEVICE, 0, READ));
    assert_int_equal(get_access(b.va, DEVICE, 0), READ);
    assert_pattern(b.va, b.size, 1);
    assert_refused(write_byte(b.va), ACL_ERROR_RT_PARAM_INVALID, "access|write");
    assert_refused(aclrtMemset(b.va, b.size, 0, b.size), ACL_ERROR_RT_PARAM_INVALID,
                   "access|write");
    assert_acl_ok(set_access(b.va, b.size, DEVICE, 0, READWRITE));
    assert_pattern(b.va, b.size, 1);
    put_pattern(b.va, b.size, 2);
    block_destroy(&b);
}

static void access_belongs_to_the_mapping_not_the_memory(void **state)
{
    struct block b = block_create(CHUNK);
    char *alias = reserve(CHUNK);

    assert_acl_ok(aclrtMemMapNoAccess(alias, CHUNK, 0, b.handle, 0));
    put_pattern(b.va, CHUNK, 1);
    assert_refused(read_byte(alias), ACL_ERROR_RT_PARAM_INVALID, "access");
    assert_acl_ok(set_access(alias, CHUNK, DEVICE, 0, READ));
    assert_pattern(alias, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(alias));
    map(alias, CHUNK, b.handle); /* a new mapping, with access as mapping gives it */
    assert_int_equal(get_access(alias, DEVICE, 0), READWRITE);
    assert_acl_ok(aclrtUnmapMem(alias));
    assert_acl_ok(aclrtReleaseMemAddress(alias));
    block_destroy(&b);
}

/* A copy over a row of mappings needs access to each, and moves nothing without it. */
static void one_mapping_without_access_stops_the_whole_copy(void **state)
{
    aclrtDrvMemHandle handles[3] = {alloc(CHUNK), alloc(CHUNK), alloc(CHUNK)};
    static char bytes[3 * CHUNK];
    char *va = reserve(3 * CHUNK);

    for (size_t i = 0; i < 3; i++)
        map(va + i * CHUNK, CHUNK, handles[i]);
    assert_acl_ok(aclrtMemset(va, 3 * CHUNK, 7, 3 * CHUNK));
    assert_acl_ok(set_access(va + 2 * CHUNK, CHUNK, DEVICE, 0, READ));
    memset(bytes, 9, sizeof(bytes));
    assert_refused(copy(va, bytes, sizeof(bytes), ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "access|write");
    assert_all_bytes(va, 3 * CHUNK, 7);
    assert_acl_ok(set_access(va + CHUNK, CHUNK, DEVICE, 0, NONE));
    assert_refused(copy(bytes, va, sizeof(bytes), ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "access");
    for (size_t i = 0; i < sizeof(bytes); i++)
        assert_int_equal(bytes[i], 9);
    for (size_t i = 0; i < 3; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void another_device_may_be_granted_access(void **state)
{
    struct block b = block_create(CHUNK);

    assert_acl_ok(set_access(b.va, b.size, DEVICE, 1, READWRITE));
    assert_int_equal(get_access(b.va, DEVICE, 1), READWRITE);
    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    assert_acl_ok(set_access(b.va, b.size, DEVICE, 1, NONE));
    assert_int_equal(get_access(b.va, DEVICE, 1), NONE);
    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    block_destroy(&b);
}

static void several_grants_come_in_one_call_or_not_at_all(void **state)
{
    struct block b = block_without_access(alloc(CHUNK), CHUNK);
    aclrtMemAccessDesc desc[2];

    memset(desc, 0, sizeof(desc));
    desc[0] =
        (aclrtMemAccessDesc){.flags = READWRITE, .location = {.id = 0, .type = DEVICE}};
    desc[1] =
        (aclrtMemAccessDesc){.flags = READWRITE, .location = {.id = 1, .type = DEVICE}};
    desc[1].rsv[3] = 1;
    assert_bad_arg(aclrtMemSetAccess(b.va, b.size, desc, 2), "rsv");
    assert_int_equal(get_access(b.va, DEVICE, 0), NONE);
    desc[1].rsv[3] = 0;
    assert_acl_ok(aclrtMemSetAccess(b.va, b.size, desc, 2));
    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    assert_int_equal(get_access(b.va, DEVICE, 1), READWRITE);
    block_destroy(&b);
}

/* ---- host memory: access is also the program's own ---- */

static void host_memory_is_the_programs_after_mapping(void **state)
{
    struct block h = block_create_host(CHUNK);

    assert_int_equal(get_access(h.va, HOST, 0), READWRITE);
    assert_true(can_write(h.va));
    block_destroy(&h);
}

static void host_access_rules_the_programs_own_hand(void **state)
{
    struct block h = block_without_access(alloc_host(CHUNK), CHUNK);

    assert_false(can_read(h.va));
    assert_int_equal(get_access(h.va, HOST, 0), NONE);
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, READWRITE));
    assert_true(can_write(h.va));
    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, READ));
    assert_true(can_read(h.va));
    assert_false(can_write(h.va));
    assert_true(is_filled((uint8_t *)h.va, h.size, 1));
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, NONE));
    assert_false(can_read(h.va));
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, READWRITE));
    assert_true(is_filled((uint8_t *)h.va, h.size, 1));
    block_destroy(&h);
}

static void host_access_rules_copies_too(void **state)
{
    struct block h = block_without_access(alloc_host(CHUNK), CHUNK);

    assert_refused(read_byte(h.va), ACL_ERROR_RT_PARAM_INVALID, "access");
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, READWRITE));
    put_pattern(h.va, h.size, 1);
    assert_acl_ok(set_access(h.va, h.size, HOST, 0, READ));
    assert_pattern(h.va, h.size, 1);
    assert_refused(write_byte(h.va), ACL_ERROR_RT_PARAM_INVALID, "access|write");
    block_destroy(&h);
}

/* ---- refusals ---- */

static void set_access_wants_the_whole_mapping(void **state)
{
    struct block b = block_create(4 * CHUNK);
    char *empty = reserve(CHUNK);

    assert_refused(set_access(b.va, CHUNK, DEVICE, 0, READWRITE),
                   ACL_ERROR_RT_PARAM_INVALID, "size");
    assert_refused(set_access(b.va, 8 * CHUNK, DEVICE, 0, READWRITE),
                   ACL_ERROR_RT_PARAM_INVALID, "size");
    assert_refused(set_access(b.va + CHUNK, 3 * CHUNK, DEVICE, 0, READWRITE),
                   ACL_ERROR_RT_PARAM_INVALID, "start|mapped");
    assert_refused(set_access(empty, CHUNK, DEVICE, 0, READWRITE),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_int_equal(get_access(b.va, DEVICE, 0), READWRITE);
    assert_acl_ok(aclrtReleaseMemAddress(empty));
    block_destroy(&b);
}

static void set_access_wants_good_arguments(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtMemAccessDesc desc;

    memset(&desc, 0, sizeof(desc));
    desc.flags = READWRITE;
    desc.location.type = DEVICE;
    assert_bad_arg(aclrtMemSetAccess(NULL, b.size, &desc, 1), "virPtr");
    assert_bad_arg(aclrtMemSetAccess(b.va, 0, &desc, 1), "size");
    assert_bad_arg(aclrtMemSetAccess(b.va, b.size, NULL, 1), "desc");
    assert_bad_arg(aclrtMemSetAccess(b.va, b.size, &desc, 0), "count");
    desc.rsv[11] = 1;
    assert_bad_arg(aclrtMemSetAccess(b.va, b.size, &desc, 1), "rsv");
    assert_bad_arg(set_access(b.va, b.size, DEVICE, 0, (aclrtMemAccessFlags)2), "flags");
    assert_bad_arg(set_access(b.va, b.size, DEVICE, 0, (aclrtMemAccessFlags)4), "flags");
    assert_bad_arg(
        set_access(b.va, b.size, ACL_MEM_LOCATION_TYPE_HOST_NUMA, 0, READWRITE),
        "location");
    assert_bad_arg(
        set_access(b.va, b.size, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0, READWRITE),
        "location");
    assert_refused_either(set_access(b.va, b.size, DEVICE, 64, READWRITE),
                          ACL_ERROR_RT_DRV_INTERNAL_ERROR, ACL_ERROR_RT_INVALID_DEVICEID,
                          "64");
    block_destroy(&b);
}

static void get_access_wants_good_arguments(void **state)
{
    struct block b = block_create(2 * CHUNK);
    aclrtMemLocation location = {.id = 0, .type = DEVICE};
    uint64_t flag = 7;

    assert_bad_arg(aclrtMemGetAccess(NULL, &location, &flag), "virPtr");
    assert_bad_arg(aclrtMemGetAccess(b.va, NULL, &flag), "location");
    assert_bad_arg(aclrtMemGetAccess(b.va, &location, NULL), "flag");
    assert_refused(aclrtMemGetAccess(b.va + CHUNK, &location, &flag),
                   ACL_ERROR_RT_PARAM_INVALID, "start|mapped");
    location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    assert_bad_arg(aclrtMemGetAccess(b.va, &location, &flag), "location");
    location.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    assert_bad_arg(aclrtMemGetAccess(b.va, &location, &flag), "location");
    location.type = DEVICE;
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_refused(aclrtMemGetAccess(b.va, &location, &flag), ACL_ERROR_RT_PARAM_INVALID,
                   "mapped");
    assert_int_equal(flag, 7);
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(mapping_gives_the_owner_access),
        claim(eight_steps_without_access_at_first),
        claim(access_can_be_taken_and_given_back),
        claim(access_belongs_to_the_mapping_not_the_memory),
        claim(one_mapping_without_access_stops_the_whole_copy),
        claim(another_device_may_be_granted_access),
        claim(several_grants_come_in_one_call_or_not_at_all),
        claim(host_memory_is_the_programs_after_mapping),
        claim(host_access_rules_the_programs_own_hand),
        claim(host_access_rules_copies_too),
        claim_both(set_access_wants_the_whole_mapping),
        claim_both(set_access_wants_good_arguments),
        claim_both(get_access_wants_good_arguments),
    };

    return run_claims(claims);
}
