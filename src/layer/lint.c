/*
 * portability: what the default rules take and some edition or product refuses.
 *
 * The rules are those that ACLMEM_RULES=strict enforces (docs/ARCHITECTURE.md), as far as
 * arguments and the books show them.  They are collected here and refuse nothing.
 */
#include "layer/lint.h"

#include <inttypes.h>

#include "layer/bytes.h"
#include "layer/hooks.h"

#define GRANULE ((uint64_t)2 << 20)

#define TELL(call_, advice_, ...) \
    do { \
        struct am_finding *f_ = am_call_finding(call_); \
        am_finding_begin(f_, AM_KIND_portability, __VA_ARGS__); \
        f_->advice = (advice_); \
        am_finding_at(f_, "here", am_here(call_)); \
        am_call_tell(call_, f_); \
    } while (0)

static void lint_reserve(struct am_call *call)
{
    AM_ARGS(aclrtReserveMemAddress);

    if (a->expectPtr != NULL)
        TELL(call, "pass NULL and take the address that is given",
             "expectPtr is %p; not every edition since CANN 8.0 takes a wish for an "
             "address",
             a->expectPtr);
}

static void lint_phys(struct am_call *call)
{
    AM_ARGS(aclrtMallocPhysical);

    if (a->prop == NULL)
        return;
    if (a->size % GRANULE != 0)
        TELL(call, "ask aclrtMemGetAllocationGranularity and round the size up",
             "size is %zu; not every edition since CANN 8.0 rounds it up to the "
             "granularity",
             a->size);
    else if (a->prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        TELL(call, "use aclrtMallocHost where old editions must run it",
             "the location is of type %d; not every edition since CANN 8.0 has physical "
             "memory of the host",
             (int)a->prop->location.type);
    else if (a->prop->memAttr != ACL_HBM_MEM_HUGE &&
             a->prop->memAttr != ACL_HBM_MEM_NORMAL)
        TELL(call, "use ACL_HBM_MEM_HUGE or ACL_HBM_MEM_NORMAL",
             "memAttr is %d; not every edition and product has this attribute",
             (int)a->prop->memAttr);
}

static void lint_map(struct am_call *call)
{
    AM_ARGS(aclrtMapMem);
    const struct am_object *phys = am_handle_find(AM_OBJECT_PHYS, a->handle);

    if (phys != NULL && phys->kind == AM_OBJECT_PHYS && phys->size != a->size)
        TELL(call, "map the size that the handle was allocated with",
             "size is %zu and the handle's is %" PRIu64
             "; editions since CANN 8.5 require that they agree",
             a->size, phys->size);
}

static void lint_free_phys(struct am_call *call)
{
    AM_ARGS(aclrtFreePhysical);
    struct am_object *phys = am_handle_find(AM_OBJECT_PHYS, a->handle);

    if (phys == NULL || phys->is_freed || phys->bytes == NULL)
        return;
    if (phys->bytes->n_handles == 1 && phys->bytes->n_mapped > 0)
        TELL(call, "unmap first, then free the handle",
             "the handle is freed while its memory is mapped; editions before CANN 9.1 "
             "refuse that");
}

static void lint_access(struct am_call *call)
{
    AM_ARGS(aclrtMemSetAccess);

    if (a->desc != NULL && a->count > 0 &&
        a->desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
        TELL(call, "give both rights, or none by not mapping",
             "flags are %d; not every edition since CANN 8.0 takes other rights than "
             "READWRITE",
             (int)a->desc->flags);
}

static void lint_retain(struct am_call *call)
{
    AM_ARGS(aclrtMemRetainAllocationHandle);
    const struct am_object *area = am_area_find((uintptr_t)a->virPtr);

    if (area != NULL && area->key != (uintptr_t)a->virPtr)
        TELL(call, "pass the start of the mapping",
             "virPtr is byte %" PRIu64
             " of its mapping; not every edition takes an address "
             "inside one",
             (uintptr_t)a->virPtr - area->key);
}

static void lint_async(struct am_call *call)
{
    AM_ARGS(aclrtMemcpyAsync);
    const void *side[] = {a->dst, a->src};

    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "dst" : "src";

        if ((uintptr_t)side[i] % 64 != 0) {
            TELL(call, "align both addresses to 64 bytes",
                 "%s is %p; not every edition since CANN 8.0 takes other than multiples "
                 "of 64",
                 name, side[i]);
            return;
        }
        if (am_area_find((uintptr_t)side[i]) == NULL) {
            TELL(call, "take the host's side from aclrtMallocHost, or register it",
                 "%s is memory that is not pinned; not every edition takes it in a copy "
                 "on "
                 "a stream",
                 name);
            return;
        }
    }
}

static void lint_malloc(struct am_call *call)
{
    AM_ARGS(aclrtMalloc);

    if (a->policy == ACL_MEM_MALLOC_HUGE1G_ONLY ||
        a->policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        TELL(call, "use a policy of 2 MB pages",
             "policy is %d; not every edition and product has pages of 1 GB",
             (int)a->policy);
}

static void lint_memset(struct am_call *call)
{
    AM_ARGS(aclrtMemset);

    if (a->devPtr != NULL && am_area_find((uintptr_t)a->devPtr) == NULL)
        TELL(call, "use memset",
             "devPtr is the program's own memory; not every edition "
             "fills that");
}

void am_lint(struct am_call *call)
{
    switch (call->id) {
    case AM_API_aclrtReserveMemAddress:
        lint_reserve(call);
        break;
    case AM_API_aclrtMallocPhysical:
        lint_phys(call);
        break;
    case AM_API_aclrtMapMem:
        lint_map(call);
        break;
    case AM_API_aclrtFreePhysical:
        lint_free_phys(call);
        break;
    case AM_API_aclrtMemSetAccess:
        lint_access(call);
        break;
    case AM_API_aclrtMemRetainAllocationHandle:
        lint_retain(call);
        break;
    case AM_API_aclrtMemcpyAsync:
        lint_async(call);
        break;
    case AM_API_aclrtMalloc:
        lint_malloc(call);
        break;
    case AM_API_aclrtMemset:
        lint_memset(call);
        break;
    default:
        break;
    }
}
