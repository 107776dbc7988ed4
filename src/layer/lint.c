/*
 * portability: calls that the default rules take and some edition or product refuses.
 *
 * The rules are the rules of ACLMEM_RULES=strict (docs/DECISIONS.md), as far as
 * arguments and metadata show them, and the rules of products.  They are collected here and
 * refuse nothing.  A finding has the first edition that takes the call, or the first one
 * that does not, and the products that refuse it, so that the command can say what the
 * program as a whole needs.
 */
#include <inttypes.h>

#include "base/copy_kind.h"
#include "base/util.h"
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/order.h"

#define GRANULE ((uint64_t)2 << 20)
#define GIB ((uint64_t)1 << 30)

enum {
#define AM_LINT_PRODUCT(id_, name_) INDEX_##id_,
#include "layer/lint.def"
#undef AM_LINT_PRODUCT
    PRODUCTS,
};

enum {
#define AM_LINT_PRODUCT(id_, name_) id_ = 1u << INDEX_##id_,
#include "layer/lint.def"
#undef AM_LINT_PRODUCT
    EVERY = (1u << PRODUCTS) - 1,
    NO_1G = P910 + P310P + P310B + P310B_EP + P310, /* without pages of 1 GB */
};

static const char *const product_names[] = {
#define AM_LINT_PRODUCT(id_, name_) name_,
#include "layer/lint.def"
#undef AM_LINT_PRODUCT
};

#define LATER 0

static const struct {
    uint16_t since;
    uint16_t products;
} functions[AM_API_COUNT] = {
#define AM_LINT_FUNCTION(name_, since_, products_) [AM_API_##name_] = {since_, products_},
#include "layer/lint.def"
#undef AM_LINT_FUNCTION
};

static bool was_used[AM_API_COUNT]; /* functions with a row; am_check.lock */

const char *am_lint_product(unsigned index)
{
    return index < PRODUCTS ? product_names[index] : NULL;
}

bool am_lint_function(unsigned api, struct am_reach *ret_reach)
{
    if (api >= AM_API_COUNT || !was_used[api])
        return false;
    *ret_reach = (struct am_reach){.since = functions[api].since,
                                   .refusing = EVERY & ~functions[api].products};
    return true;
}

/* The editions and products that a call needs.  All 0: not every edition since 8.0 takes it. */
#define SINCE(edition_) ((struct am_reach){.since = (edition_)})
#define BEFORE(edition_) ((struct am_reach){.before = (edition_)})
#define SOME ((struct am_reach){0})

#define REPORT(call_, reach_, advice_, ...) \
    do { \
        struct am_finding *f_ = am_call_finding(call_); \
        am_finding_begin(f_, AM_KIND_portability, __VA_ARGS__); \
        f_->advice = (advice_); \
        f_->reach = (reach_); \
        am_finding_at(f_, "here", call_->site); \
        am_call_report(call_, f_); \
    } while (0)

/* A rule of one condition: calls of the function for which it holds are reported. */
#define RULE(rule_, function_, condition_, reach_, advice_, ...) \
    AM_LINT(rule_, function_) \
    { \
        if (condition_) \
            REPORT(call, reach_, advice_, __VA_ARGS__); \
    }

/* ---- names ---- */

#define NAME(value_) [value_] = #value_
#define NAMES(list_, ...) static const char *const list_[] = {__VA_ARGS__}

NAMES(attr_names, NAME(ACL_DDR_MEM), NAME(ACL_HBM_MEM), NAME(ACL_DDR_MEM_HUGE),
      NAME(ACL_DDR_MEM_NORMAL), NAME(ACL_HBM_MEM_HUGE), NAME(ACL_HBM_MEM_NORMAL),
      NAME(ACL_DDR_MEM_P2P_HUGE), NAME(ACL_DDR_MEM_P2P_NORMAL),
      NAME(ACL_HBM_MEM_P2P_HUGE), NAME(ACL_HBM_MEM_P2P_NORMAL), NAME(ACL_HBM_MEM_HUGE1G),
      NAME(ACL_HBM_MEM_P2P_HUGE1G), NAME(ACL_MEM_NORMAL), NAME(ACL_MEM_HUGE),
      NAME(ACL_MEM_HUGE1G), NAME(ACL_MEM_P2P_NORMAL), NAME(ACL_MEM_P2P_HUGE),
      NAME(ACL_MEM_P2P_HUGE1G));
NAMES(location_names, NAME(ACL_MEM_LOCATION_TYPE_HOST),
      NAME(ACL_MEM_LOCATION_TYPE_DEVICE), NAME(ACL_MEM_LOCATION_TYPE_UNREGISTERED),
      NAME(ACL_MEM_LOCATION_TYPE_MANAGED), NAME(ACL_MEM_LOCATION_TYPE_HOST_NUMA));
NAMES(policy_names, NAME(ACL_MEM_MALLOC_HUGE_FIRST), NAME(ACL_MEM_MALLOC_HUGE_ONLY),
      NAME(ACL_MEM_MALLOC_NORMAL_ONLY), NAME(ACL_MEM_MALLOC_HUGE_FIRST_P2P),
      NAME(ACL_MEM_MALLOC_HUGE_ONLY_P2P), NAME(ACL_MEM_MALLOC_NORMAL_ONLY_P2P),
      NAME(ACL_MEM_MALLOC_HUGE1G_ONLY), NAME(ACL_MEM_MALLOC_HUGE1G_ONLY_P2P));
NAMES(access_names, NAME(ACL_RT_MEM_ACCESS_FLAGS_NONE),
      NAME(ACL_RT_MEM_ACCESS_FLAGS_READ), NAME(ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
NAMES(option_names, NAME(ACL_OPT_DETERMINISTIC), NAME(ACL_OPT_ENABLE_DEBUG_KERNEL),
      NAME(ACL_OPT_STRONG_CONSISTENCY));

#define NAME_OF(list_, value_) name_of(list_, AM_ARRAY_SIZE(list_), (unsigned)(value_))

static const char *name_of(const char *const *list, size_t n, unsigned value)
{
    return value < n && list[value] != NULL ? list[value] : "a value that is not known";
}

/* ---- virtual memory ---- */

RULE(reserve, aclrtReserveMemAddress, a->expectPtr != NULL,
     ((struct am_reach){.since = 805, .refusing = P950}),
     "pass NULL and take the address that is given",
     "expectPtr is %p; editions before CANN 8.5 take NULL only", a->expectPtr)

AM_LINT(reserve_no_uc, aclrtReserveMemAddressNoUCMemory)
{
    if (a->flags != 0)
        REPORT(call, SOME, "pass 0", "flags is 0x%" PRIx64 "; the documents take only 0",
               a->flags);
    else if (a->size % GIB != 0)
        REPORT(call, SOME, "round the size up to 1 GB",
               "size is %zu; the documents take multiples of 1 GB only", a->size);
}

/* The first edition with the attribute, and the products without it. */
static struct am_reach attr_reach(aclrtMemAttr attr)
{
    switch (attr) {
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_NORMAL:
        return SINCE(800);
    case ACL_HBM_MEM_HUGE1G:
        return (struct am_reach){.since = 801, .refusing = NO_1G};
    case ACL_MEM_HUGE1G:
        return (struct am_reach){.since = 805, .refusing = NO_1G + P950};
    case ACL_MEM_P2P_HUGE1G:
        return (struct am_reach){.since = 805, .refusing = EVERY - A3};
    default: /* no edition takes a value without a name */
        return SINCE((unsigned)attr < AM_ARRAY_SIZE(attr_names) ? 805 : 800);
    }
}

AM_LINT(phys, aclrtMallocPhysical)
{
    struct am_reach reach;

    if (a->prop == NULL)
        return;
    reach = attr_reach(a->prop->memAttr);
    if (a->size % GRANULE != 0)
        REPORT(call, SINCE(805),
               "ask aclrtMemGetAllocationGranularity and round the size up",
               "size is %zu; editions before CANN 8.5 take multiples of the granularity "
               "only",
               a->size);
    if (a->prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ||
        a->prop->location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
        REPORT(call,
               SINCE(a->prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ? 805 : 900),
               "use aclrtMallocHost where old editions must run it",
               "the location is %s; editions before CANN %s allocate physical "
               "memory of devices only",
               NAME_OF(location_names, a->prop->location.type),
               a->prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ? "8.5" : "9.0");
    if (reach.since > 800)
        REPORT(call, reach, "use ACL_HBM_MEM_HUGE or ACL_HBM_MEM_NORMAL",
               "memAttr is %s, which came with CANN %d.%d",
               NAME_OF(attr_names, a->prop->memAttr), reach.since / 100,
               reach.since % 100);
}

/* Memory of another kind that is mapped in the reservation. */
static const struct am_object *mapped_otherwise(const struct am_object *reservation,
                                                const struct am_object *phys)
{
    const struct am_object *at = am_area_next(reservation->key);

    if (at == NULL || at->key - reservation->key >= reservation->size ||
        at->kind != AM_OBJECT_MAPPING || at->bytes == NULL)
        return NULL;
    return at->device != phys->device || (at->bytes->kind == AM_OBJECT_IMPORT) !=
                                             (phys->kind == AM_OBJECT_IMPORT)
               ? at
               : NULL;
}

AM_LINT(map, aclrtMapMem)
{
    const struct am_object *phys = am_handle_find(AM_OBJECT_PHYS, a->handle);
    const struct am_object *reservation = am_reservation_find((uintptr_t)a->virPtr);
    const struct am_object *other;

    if (phys == NULL || reservation == NULL)
        return;
    other = mapped_otherwise(reservation, phys);
    if (phys->kind == AM_OBJECT_PHYS && phys->size != a->size)
        REPORT(call, BEFORE(805), "map the size that the handle was allocated with",
               "size is %zu and the handle's is %" PRIu64
               "; editions since CANN 8.5 require that they agree",
               a->size, phys->size);
    if (phys->kind == AM_OBJECT_PHYS && reservation->flag != phys->flag)
        REPORT(call, SINCE(900), "reserve with 1 for huge pages and 0 for normal ones",
               "the addresses were reserved with flags %d, and the memory has %s pages; "
               "editions up to CANN 8.5 require that they agree",
               reservation->flag, phys->flag ? "huge" : "normal");
    if (other != NULL)
        REPORT(call, SOME,
               "use a reservation for each device, and one for imported memory",
               "the reservation has %s memory of device %d mapped, and the handle is %s "
               "memory of device %d; editions since CANN 8.0 refuse to mix them",
               other->bytes->kind == AM_OBJECT_IMPORT ? "imported" : "own", other->device,
               phys->kind == AM_OBJECT_IMPORT ? "imported" : "own", phys->device);
}

AM_LINT(free_phys, aclrtFreePhysical)
{
    struct am_object *phys = am_handle_find(AM_OBJECT_PHYS, a->handle);

    if (phys == NULL || phys->is_freed || phys->bytes == NULL)
        return;
    if (phys->bytes->n_handles == 1 && phys->bytes->n_mapped > 0)
        REPORT(call, SINCE(901), "unmap first, then free the handle",
               "the handle is freed while its memory is mapped; editions before CANN 9.1 "
               "refuse that");
}

RULE(access, aclrtMemSetAccess,
     a->desc != NULL && a->count > 0 &&
         a->desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
     SOME, "give both rights, or none by not mapping",
     "flags are %s; not every edition takes other rights than READWRITE",
     NAME_OF(access_names, a->desc->flags))

AM_LINT(retain, aclrtMemRetainAllocationHandle)
{
    const struct am_object *area = am_area_find((uintptr_t)a->virPtr);

    if (area != NULL && area->key != (uintptr_t)a->virPtr)
        REPORT(call, SOME, "pass the start of the mapping",
               "virPtr is byte %" PRIu64
               " of its mapping; the editions that have this call require its start",
               (uintptr_t)a->virPtr - area->key);
}

/* ---- sharing ---- */

RULE(export, aclrtMemExportToShareableHandle, a->flags != 0, SINCE(803),
     "pass 0, and name each importer with "
     "aclrtMemSetPidToShareableHandle",
     "flags is 0x%" PRIx64 "; editions before CANN 8.3 take only 0", a->flags)

static void type_check(struct am_call *call, aclrtMemSharedHandleType type)
{
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        REPORT(call, ((struct am_reach){.since = 900, .refusing = EVERY - A3}),
               "use ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT within one server",
               "shareType is ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, which only A3 has");
}

AM_LINT(export_v2, aclrtMemExportToShareableHandleV2)
{
    type_check(call, a->shareType);
}

AM_LINT(import_v2, aclrtMemImportFromShareableHandleV2)
{
    type_check(call, a->shareType);
}

RULE(import, aclrtMemImportFromShareableHandle, am_share_is_own(a->shareableHandle), SOME,
     "map the handle a second time instead",
     "0x%" PRIx64
     " is exported by this process; no edition lets a process import its own "
     "export",
     a->shareableHandle)

RULE(import_key, aclrtIpcMemImportByKey, a->flags != 0, SINCE(805),
     "pass 0, and call aclrtDeviceEnablePeerAccess",
     "flags is 0x%" PRIx64 "; editions before CANN 8.5 take only 0", a->flags)

/* ---- memory and copies ---- */

AM_LINT(malloc, aclrtMalloc)
{
    bool is_p2p = a->policy >= ACL_MEM_MALLOC_HUGE_FIRST_P2P &&
                  a->policy <= ACL_MEM_MALLOC_NORMAL_ONLY_P2P;

    if (a->policy == ACL_MEM_MALLOC_HUGE1G_ONLY ||
        a->policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        REPORT(call, ((struct am_reach){.since = 801, .refusing = NO_1G}),
               "use a policy of 2 MB pages",
               "policy is %s; CANN 8.0 and some products have no pages of 1 GB",
               NAME_OF(policy_names, a->policy));
    else if (is_p2p)
        REPORT(call, ((struct am_reach){.since = 800, .refusing = P310B + P310B_EP}),
               "use a policy without P2P",
               "policy is %s; not every product has P2P memory",
               NAME_OF(policy_names, a->policy));
}

static void lint_malloc_host(struct am_call *call)
{
    if (call->device < 0)
        REPORT(
            call, SOME, "call aclrtSetDevice first",
            "this thread has no device; not every edition allocates host memory without "
            "one");
}

RULE(free_host, aclrtFreeHost, a->hostPtr == NULL, SOME, "test the pointer first",
     "hostPtr is NULL; no edition documents that")

static bool is_device_area(const struct am_object *area)
{
    return area != NULL && area->kind != AM_OBJECT_HOST &&
           area->kind != AM_OBJECT_REGISTERED && area->device >= 0;
}

static void lint_kind(struct am_call *call, const void *dst, const void *src,
                      aclrtMemcpyKind kind)
{
    const struct am_object *to = am_area_find((uintptr_t)dst);
    const struct am_object *from = am_area_find((uintptr_t)src);
    bool to_device = is_device_area(to);
    bool from_device = is_device_area(from);

    if ((unsigned)kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)
        return; /* no edition takes it */
    if ((to != NULL && to->kind == AM_OBJECT_MANAGED) ||
        (from != NULL && from->kind == AM_OBJECT_MANAGED))
        return; /* managed memory counts as either side */
    if (!am_copy_kind_is_portable(kind, to_device, from_device))
        REPORT(
            call, SOME, "pass the kind that the addresses have, or ACL_MEMCPY_DEFAULT",
            "kind is ACL_MEMCPY_%s, and the addresses make it ACL_MEMCPY_%s; not every "
            "edition ignores kind",
            am_copy_kind_name(kind),
            am_copy_kind_name(am_copy_kind_of(to_device, from_device)));
}

AM_LINT(memcpy, aclrtMemcpy)
{
    lint_kind(call, a->dst, a->src, a->kind);
}

AM_LINT(async, aclrtMemcpyAsync)
{
    const void *side[] = {a->dst, a->src};

    lint_kind(call, a->dst, a->src, a->kind);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "dst" : "src";

        if ((uintptr_t)side[i] % 64 != 0) {
            REPORT(call, SOME, "align both addresses to 64 bytes",
                   "%s is %p; CANN 8.0 takes multiples of 64 only", name, side[i]);
            return;
        }
        if (am_area_find((uintptr_t)side[i]) == NULL) {
            REPORT(
                call, SINCE(805),
                "take the host's side from aclrtMallocHost, or register it",
                "%s is memory that is not pinned; editions before CANN 8.5 do not take "
                "it in a copy on a stream",
                name);
            return;
        }
    }
}

static void batch_side(struct am_call *call, void *const *list, size_t i,
                       const aclrtMemLocation *location, const char *name)
{
    const struct am_object *area = am_area_find((uintptr_t)list[i]);

    if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE && is_device_area(area) &&
        area->device != (int)location->id)
        REPORT(call, SOME, "name the memory's own device in the attribute",
               "%s[%zu] is memory of device %d, and its attribute names device %u; not "
               "every edition takes that",
               name, i, area->device, location->id);
}

AM_LINT(batch, aclrtMemcpyBatch)
{
    size_t attr = 0;

    if (a->dsts == NULL || a->srcs == NULL || a->attrs == NULL ||
        a->attrsIndexes == NULL || a->numAttrs == 0 || a->numBatches > 1u << 20)
        return;
    for (size_t i = 0; i < a->numBatches && call->finding == NULL; i++) {
        while (attr + 1 < a->numAttrs && a->attrsIndexes[attr + 1] <= i)
            attr++;
        batch_side(call, a->dsts, i, &a->attrs[attr].dstLoc, "dsts");
        batch_side(call, a->srcs, i, &a->attrs[attr].srcLoc, "srcs");
    }
}

RULE(memset, aclrtMemset, a->devPtr != NULL && am_area_find((uintptr_t)a->devPtr) == NULL,
     SOME, "use memset",
     "devPtr is the program's own memory; all editions leave that undefined")

/* ---- events, devices, settings ---- */

RULE(event_flag, aclrtCreateEventWithFlag, a->flag & 0x4, SOME, "leave the bit out",
     "flag is 0x%x; no edition documents 0x4", a->flag)

/* An event, for streams to wait for. */
static void event_sync_check(struct am_call *call, const void *event)
{
    const struct am_object *object = am_handle_find(AM_OBJECT_EVENT, event);

    if (object != NULL && object->signal != NULL && object->signal->lacks_sync)
        REPORT(call, SOME, "make the event with ACL_EVENT_SYNC too",
               "event %p was made without ACL_EVENT_SYNC; not every edition lets streams "
               "wait for it, or resets it",
               event);
}

AM_LINT(wait, aclrtStreamWaitEvent)
{
    event_sync_check(call, a->event);
}

AM_LINT(event, aclrtResetEvent)
{
    event_sync_check(call, a->event);
}

static bool is_captured(struct am_call *call)
{
    const struct am_agent *agent = am_agent_find(call);

    return agent != NULL && agent->capture != NULL;
}

/* The flag of a record, or of a wait. */
RULE(event_with_flag, aclrtRecordEventWithFlag, a->flag != 0 && !is_captured(call), SOME,
     "pass 0",
     "flag is 0x%x; not every edition takes it on a stream that is not captured", a->flag)

static void lint_host_func(struct am_call *call)
{
    if (is_captured(call))
        REPORT(call, SINCE(805), "use aclrtLaunchCallback where old editions must run it",
               "the stream is captured; editions before CANN 8.5 capture no host "
               "functions");
}

AM_LINT(elapsed, aclrtEventElapsedTime)
{
    const struct am_object *start = am_handle_find(AM_OBJECT_EVENT, a->start);
    const struct am_object *end = am_handle_find(AM_OBJECT_EVENT, a->end);

    if (start != NULL && end != NULL && start->signal != NULL && end->signal != NULL &&
        start->signal->stream != end->signal->stream)
        REPORT(call, SOME, "record both events in one stream",
               "the events were recorded in two streams; all editions ask for one");
}

AM_LINT(peer_status, aclrtDevicePeerAccessStatus)
{
    uint32_t n = 0;

    if (am_check.below->aclrtGetDeviceCount(&n) == ACL_SUCCESS &&
        (a->deviceId < 0 || a->peerDeviceId < 0 || (uint32_t)a->deviceId >= n ||
         (uint32_t)a->peerDeviceId >= n))
        REPORT(
            call, SOME, "ask aclrtGetDeviceCount first",
            "devices %d and %d, and there are %u; not every edition answers for devices "
            "that do not exist",
            a->deviceId, a->peerDeviceId, n);
}

RULE(context_state, aclrtGetPrimaryCtxState, a->flags != NULL, SOME, "pass NULL",
     "flags is given; not every edition takes other than NULL")

RULE(param, aclrtSetSysParamOpt, a->opt == ACL_OPT_STRONG_CONSISTENCY || a->value > 1,
     SOME, "use 0 and 1 of ACL_OPT_DETERMINISTIC",
     "%s is set to %" PRId64 "; not every edition has that",
     NAME_OF(option_names, a->opt), a->value)

static const am_hook lints[AM_API_COUNT] = {
#define lint__ NULL
#define AM_CALL(name_, effect_, stream_, before_, after_, rule_) \
    [AM_API_##name_] = lint_##rule_,
#include "layer/calls.def"
#undef AM_CALL
};

void am_lint(struct am_call *call)
{
    was_used[call->id] |= functions[call->id].products != 0;
    if (lints[call->id] != NULL)
        lints[call->id](call);
}
