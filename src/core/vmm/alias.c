/* A second range of addresses for memory that is mapped already.  See vspace.h. */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/vmm/reservation.h"

/* The program's mapping that starts here, with a reference; left is what is to follow. */
static aclError piece_get(uintptr_t at, size_t left, struct am_mapping **ret_piece)
{
    struct am_mapping *piece = am_mapping_get(at);
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(piece != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "virPtrSrc: nothing is mapped at %p; map the whole range first",
               (void *)at);
    if (piece->owner != NULL)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "virPtrSrc: %p was not mapped with aclrtMapMem; it belongs to %s",
                     (void *)at, piece->owner->name);
    else if (piece->start != at)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "virPtrSrc: %p lies inside the mapping of %zu bytes at %p; pass its "
                     "start",
                     (void *)at, piece->size, (void *)piece->start);
    else if (left < piece->size && left != piece->asked)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "size ends %zu bytes into the mapping of %zu bytes at %p; it takes "
                     "whole mappings",
                     left, piece->size, (void *)piece->start);
    if (rc != ACL_SUCCESS) {
        am_mapping_put(piece);
        return rc;
    }
    *ret_piece = piece;
    return ACL_SUCCESS;
}

static aclError ranges_check(void *dst, size_t size, void *src)
{
    const struct am_reservation *r = am_reservation_find((uintptr_t)dst);
    uintptr_t start = r != NULL ? r->start : 0;

    AM_REQUIRE(r != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "virPtrDst: %p is not reserved; call aclrtReserveMemAddress first", dst);
    AM_REQUIRE(start == (uintptr_t)dst, ACL_ERROR_RT_PARAM_INVALID,
               "virPtrDst: %p lies inside the reservation at %p; pass its start", dst,
               (void *)start);
    /* Nothing is mapped there yet, and what this call maps is not a source for the same call. */
    AM_REQUIRE(dst <= src || (size_t)((char *)dst - (char *)src) >= size,
               ACL_ERROR_RT_PARAM_INVALID,
               "virPtrSrc: %zu bytes at %p overlap virPtrDst %p, where nothing is mapped",
               size, src, dst);
    return ACL_SUCCESS;
}

/* Unbinds the first n bytes again; the earlier failure is the one that is reported. */
static void mirror_undo(uintptr_t dst, size_t n)
{
    struct am_capture before = am_error_hush();

    for (uintptr_t at = dst; at < dst + n;) {
        struct am_mapping *piece = am_mapping_get(at);

        if (piece == NULL)
            break; /* a reset of the device was faster */
        at += piece->size;
        am_vspace_unmap((void *)piece->start);
        am_mapping_put(piece);
    }
    am_error_capture_end(before);
}

aclError am_vspace_mirror(void *dst, size_t size, void *src)
{
    size_t done = 0;
    aclError rc = ranges_check(dst, size, src);

    while (rc == ACL_SUCCESS && done < size) {
        struct am_mapping *piece;

        rc = piece_get((uintptr_t)src + done, size - done, &piece);
        if (rc != ACL_SUCCESS)
            break;
        rc = am_vspace_map_like((char *)dst + done, piece, false);
        if (rc == ACL_SUCCESS)
            done += piece->size;
        am_mapping_put(piece);
    }
    if (rc == ACL_SUCCESS)
        rc = am_vspace_open(dst, done);
    if (rc != ACL_SUCCESS)
        mirror_undo((uintptr_t)dst, done);
    return rc;
}
