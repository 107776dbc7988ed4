/* See span.h. */
#include "core/span.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "core/phys.h"
#include "core/runtime.h"

static aclError spans_grow(struct am_spans *spans)
{
    size_t n_max = spans->n_max * 2;
    bool is_inline = spans->list == spans->inline_list;
    struct am_span *list =
        am_sys_realloc(is_inline ? NULL : spans->list, n_max * sizeof *list);

    if (list == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of a copy");
    if (is_inline)
        memcpy(list, spans->inline_list, sizeof spans->inline_list);
    spans->list = list;
    spans->n_max = n_max;
    return ACL_SUCCESS;
}

/* Whether `device`, or else the memory's own, may do this. */
static bool mapping_allows(const struct am_mapping *mapping, unsigned access,
                           int32_t device)
{
    int32_t own = mapping->device;
    uint64_t bits = UINT64_C(1) << device | (own < 0 ? AM_HOST_BIT : UINT64_C(1) << own);

    return (!(access & AM_ACCESS_READ) || (mapping->can_read & bits) != 0) &&
           (!(access & AM_ACCESS_WRITE) || (mapping->can_write & bits) != 0);
}

/* Adds the mapping's part of the range; takes over the reference. */
static aclError spans_add_mapping(struct am_spans *spans, struct am_mapping *mapping,
                                  uintptr_t addr, size_t size)
{
    size_t offset = addr - mapping->start;
    size_t left = mapping->size - offset;
    int32_t own = mapping->device;
    aclError rc;

    if (spans->n == spans->n_max) {
        rc = spans_grow(spans);
        if (rc != ACL_SUCCESS) {
            am_mapping_put(mapping);
            return rc;
        }
    }
    spans->list[spans->n++] = (struct am_span){
        .addr = (void *)addr,
        .size = size < left ? size : left,
        .mem = &mapping->phys->mem,
        .offset = offset,
        .owner = mapping,
    };
    if (own >= 0)
        spans->devices |= UINT64_C(1) << own;
    return ACL_SUCCESS;
}

/* The rest of the range is not mapped: the program's own memory, if that is all there is. */
static aclError spans_add_host(struct am_spans *spans, uintptr_t addr, size_t size,
                               const char *what)
{
    AM_REQUIRE(size - 1 <= UINTPTR_MAX - addr, ACL_ERROR_RT_PARAM_INVALID,
               "%s: %zu bytes at %p reach over the end of the address space", what, size,
               (void *)addr);
    AM_REQUIRE(!am_vspace_is_reserved(&am_rt.vspace, addr, size),
               ACL_ERROR_RT_PARAM_INVALID,
               "%s: at %p nothing is mapped behind reserved addresses; map the whole "
               "range first",
               what, (void *)addr);
    AM_REQUIRE(spans->n == 0, ACL_ERROR_RT_PARAM_INVALID,
               "%s: the range leaves mapped memory at %p", what, (void *)addr);
    spans->list[spans->n++] = (struct am_span){.addr = (void *)addr, .size = size};
    return ACL_SUCCESS;
}

aclError am_spans_open(struct am_spans *spans, const void *addr, size_t size,
                       unsigned access, int32_t device, const char *what)
{
    uintptr_t at = (uintptr_t)addr;
    aclError rc = ACL_SUCCESS;

    spans->list = spans->inline_list;
    spans->n = 0;
    spans->n_max = AM_SPANS_INLINE;
    spans->devices = 0;
    while (size > 0 && rc == ACL_SUCCESS) {
        struct am_mapping *mapping = am_mapping_get(&am_rt.vspace, at);

        if (mapping == NULL) {
            rc = spans_add_host(spans, at, size, what);
            break;
        }
        if (!mapping_allows(mapping, access, device)) {
            rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: no right to %s the memory mapped at %p; grant it with "
                         "aclrtMemSetAccess",
                         what, access & AM_ACCESS_WRITE ? "write" : "read",
                         (void *)mapping->start);
            am_mapping_put(mapping);
            break;
        }
        rc = spans_add_mapping(spans, mapping, at, size);
        if (rc == ACL_SUCCESS) {
            size_t n = spans->list[spans->n - 1].size;

            at += n;
            size -= n;
        }
    }
    if (rc != ACL_SUCCESS)
        am_spans_close(spans);
    return rc;
}

void am_spans_close(struct am_spans *spans)
{
    for (size_t i = 0; i < spans->n; i++) {
        if (spans->list[i].owner != NULL)
            am_mapping_put(spans->list[i].owner);
    }
    if (spans->list != spans->inline_list)
        free(spans->list);
}
