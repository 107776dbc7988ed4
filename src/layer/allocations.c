/*
 * Hooks: what is made and freed, and uses of freed memory.
 *
 * A free is entered before the call is passed on, and taken back where it is refused.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "layer/bytes.h"
#include "layer/quarantine.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/thread.h"
#include "layer/waits.h"

/* am_call.value of a free: the object was already marked as freed. */
#define FREED_BEFORE 1

/* ---- words ---- */

const char *am_object_text(const struct am_object *object, uint64_t addr, char *text,
                           size_t n)
{
    const char *name = am_object_rows[object->kind].name;
    char size[32];

    if (object->kind >= AM_OBJECT_STREAM)
        snprintf(text, n, "%s 0x%" PRIx64, name, object->key);
    else if (object->kind >= AM_OBJECT_PHYS)
        snprintf(text, n, "the %s of %s, handle 0x%" PRIx64, name,
                 am_size_text(object->size, size, sizeof size), object->key);
    else if (addr > object->key)
        snprintf(text, n, "byte %" PRIu64 " of the %s of %" PRIu64 " bytes at 0x%" PRIx64,
                 addr - object->key, name, object->size, object->key);
    else
        snprintf(text, n, "the %s of %" PRIu64 " bytes at 0x%" PRIx64, name, object->size,
                 object->key);
    return text;
}

struct am_finding *am_call_finding(struct am_call *call)
{
    struct am_thread *thread = am_thread_get();

    return &thread->finding[call->finding == &thread->finding[0]];
}

void am_call_report(struct am_call *call, struct am_finding *finding)
{
    if (call->captured != NULL)
        am_finding_at(finding, "captured here", *call->captured);
    if (!call->is_after && call->finding == NULL) {
        call->finding = finding; /* reported when the result is known */
        return;
    }
    finding->refused = call->is_after ? call->rc : 0;
    am_finding_report(finding);
}

static const char *const advice_freed = "free or unmap it after its last use";

void am_report_freed(struct am_call *call, enum am_kind_of_finding kind,
                     struct am_object *object, uint64_t addr, const char *argument)
{
    struct am_finding *f = am_call_finding(call);
    char text[160];

    am_quarantine_release(object); /* so that the library sees it freed */
    am_finding_begin(f, kind, "%s is %s, which %s", argument,
                     am_object_text(object, addr, text, sizeof text),
                     object->kind == AM_OBJECT_MAPPING ? "was unmapped before"
                                                       : "was freed before");
    /*
     * The system may have given the addresses of freed memory to the program since; then
     * the library takes them for the program's own.  Another library may accept a stale
     * address of a device, which the system does not give to the program.
     */
    f->needs_refusal = kind == AM_KIND_use_after_free && !call->stream_reads &&
                       (am_option_text(AM_OPTION_over)[0] == '\0' || object->device < 0);
    /*
     * Our handles are never used twice, so one that is taken is alive: another thread has
     * reset the device since.  Another library accepts stale handles.
     */
    f->needs_refusal |=
        kind == AM_KIND_stale_handle && am_option_text(AM_OPTION_over)[0] == '\0';
    f->advice = kind == AM_KIND_double_free
                    ? "free or unmap it once, and set the variable to NULL afterwards"
                    : advice_freed;
    am_finding_at(f, kind == AM_KIND_double_free ? "again here" : "used here",
                  call->site);
    am_finding_at(f, object->kind == AM_OBJECT_MAPPING ? "unmapped here" : "freed here",
                  object->freed);
    am_finding_at(f, object->kind == AM_OBJECT_MAPPING ? "mapped here" : "made here",
                  object->made);
    am_call_report(call, f);
}

static void report_in_use(struct am_call *call, const struct am_object *object,
                          const struct am_access *access)
{
    struct am_finding *f = am_call_finding(call);
    char text[160];
    struct am_site captured;
    char who[48];

    am_finding_begin(f, AM_KIND_free_in_use, "%s is %s while work on %s still %s it",
                     am_object_text(object, 0, text, sizeof text),
                     object->kind == AM_OBJECT_MAPPING      ? "unmapped"
                     : object->kind == AM_OBJECT_REGISTERED ? "unregistered"
                                                            : "freed",
                     am_agent_text(access->agent, who, sizeof who),
                     access->is_write ? "writes" : "reads");
    f->advice = "wait for the work first: aclrtSynchronizeStream, or an event behind it";
    am_finding_at(f, "given up here", call->site);
    am_finding_at(f, "still used by this work", access->site);
    if (am_models_captured(access->site, object->key, object->size, access->is_write,
                           &captured))
        am_finding_at(f, "captured here", captured);
    am_finding_at(f, "made here", object->made);
    am_call_report(call, f);
}

/* ---- use ---- */

/* The live object of a handle; NULL, and a finding of this kind if it was freed. */
static struct am_object *live_find(struct am_call *call, enum am_object_kind kind,
                                   const void *handle, const char *argument,
                                   enum am_kind_of_finding finding)
{
    struct am_object *object = am_handle_find(kind, handle);

    if (object == NULL) {
        am_ignored_check(call, (uintptr_t)handle, argument);
        return NULL;
    }
    if (object->is_freed) {
        am_report_freed(call, finding, object, 0, argument);
        return NULL;
    }
    return object;
}

struct am_object *am_handle_use(struct am_call *call, enum am_object_kind kind,
                                const void *handle, const char *argument)
{
    return live_find(call, kind, handle, argument, AM_KIND_stale_handle);
}

struct am_object *am_handle_end(struct am_call *call, enum am_object_kind kind,
                                const void *handle, const char *argument)
{
    struct am_object *object =
        live_find(call, kind, handle, argument, AM_KIND_double_free);

    am_call_ref_object(call, object);
    return object;
}

bool am_address_use(struct am_call *call, const void *at, const char *argument)
{
    uint64_t addr = (uintptr_t)at;
    struct am_object *object = am_area_find(addr);

    am_call_ref_object(call, object);
    if (object != NULL)
        return true;
    object = am_freed_area_find(addr);
    if (object != NULL)
        am_report_freed(call, AM_KIND_use_after_free, object, addr, argument);
    else
        am_ignored_check(call, addr, argument);
    return false;
}

/* All of these functions begin with the address. */
AM_BEFORE(use_address, aclrtUnmapMem)
{
    am_address_use(call, a->virPtr, "the address");
}

/* A call that needs the object of one handle. */
#define USE(hook_, function_, kind_, argument_) \
    AM_BEFORE(hook_, function_) \
    { \
        am_call_ref_object(call, am_handle_use(call, kind_, a->argument_, #argument_)); \
    }

USE(use_phys, aclrtFreePhysical, AM_OBJECT_PHYS, handle)
USE(use_pool, aclrtMemPoolTrimTo, AM_OBJECT_POOL, memPool)
USE(pool_malloc, aclrtMemPoolMallocAsync, AM_OBJECT_POOL, memPool)
USE(use_context, aclrtSetCurrentContext, AM_OBJECT_CONTEXT, context)
USE(use_event, aclrtDestroyEvent, AM_OBJECT_EVENT, event)
USE(wait_event, aclrtStreamWaitEvent, AM_OBJECT_EVENT, event)
USE(use_notify, aclrtDestroyNotify, AM_OBJECT_NOTIFY, notify)
USE(use_model, aclmdlRIDestroy, AM_OBJECT_MODEL, modelRI)
USE(capture_into, aclmdlRICaptureToModelRIBegin, AM_OBJECT_MODEL, modelRI)

/* ---- made ---- */

struct am_object *am_call_made(struct am_call *call, enum am_object_kind kind,
                               void *const *out, uint64_t size)
{
    struct am_object *object;

    if (call->rc != ACL_SUCCESS) {
        am_ignored_note(call, out);
        return NULL;
    }
    object = am_object_make(call, kind, (uintptr_t)*out, size);
    if (object != NULL)
        object->device = call->device;
    return object;
}

AM_AFTER(reserve, aclrtReserveMemAddress)
{
    struct am_object *object =
        am_call_made(call, AM_OBJECT_RESERVATION, a->virPtr, a->size);

    if (object != NULL) {
        object->size = (a->size + 0x1fffff) & ~UINT64_C(0x1fffff);
        object->device = -1;
        object->flag = (uint8_t)a->flags;
    }
}

static bool is_huge(aclrtMemAttr attr)
{
    return attr != ACL_DDR_MEM_NORMAL && attr != ACL_HBM_MEM_NORMAL &&
           attr != ACL_DDR_MEM_P2P_NORMAL && attr != ACL_MEM_NORMAL &&
           attr != ACL_MEM_P2P_NORMAL;
}

AM_AFTER(phys, aclrtMallocPhysical)
{
    struct am_object *object = am_call_made(call, AM_OBJECT_PHYS, a->handle, a->size);

    if (object == NULL)
        return;
    object->size = (a->size + 0x1fffff) & ~UINT64_C(0x1fffff); /* the granularity */
    object->device = a->prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE
                         ? (int16_t)a->prop->location.id
                         : -1;
    object->flag = is_huge(a->prop->memAttr);
    if (am_bytes_of(object) == NULL)
        am_object_drop(object);
    else if (object->device >= 0)
        am_object_count(call, object);
}

AM_BEFORE(map, aclrtMapMem)
{
    struct am_object *released;

    am_call_ref_object(call, am_handle_use(call, AM_OBJECT_PHYS, a->handle, "handle"));
    if (am_reservation_find((uintptr_t)a->virPtr) != NULL)
        return;
    released = am_released_find((uintptr_t)a->virPtr);
    if (released != NULL)
        am_report_freed(call, AM_KIND_use_after_free, released, 0, "virPtr");
    else
        am_ignored_check(call, (uintptr_t)a->virPtr, "virPtr");
}

AM_AFTER(map, aclrtMapMem)
{
    struct am_object *phys = am_handle_find(AM_OBJECT_PHYS, a->handle);
    struct am_object *mapping;

    if (call->rc != ACL_SUCCESS || phys == NULL || phys->bytes == NULL)
        return;
    mapping = am_object_make(call, AM_OBJECT_MAPPING, (uintptr_t)a->virPtr, a->size);
    if (mapping == NULL)
        return;
    if (phys->bytes->size < a->size)
        mapping->size = phys->bytes->size;
    mapping->device = phys->device;
    mapping->bytes = am_bytes_get(phys->bytes);
    mapping->bytes->n_mapped++;
}

/* Mappings in a row at src appear at dst too. */
AM_AFTER(mirror, aclrtMemMapSelectedLink)
{
    uint64_t src = (uintptr_t)a->virPtrSrc;
    uint64_t dst = (uintptr_t)a->virPtrDst;
    uint64_t done = 0;

    while (call->rc == ACL_SUCCESS && done < a->size) {
        struct am_object *from = am_area_find(src + done);
        struct am_object *mapping;

        if (from == NULL || from->key != src + done)
            return;
        mapping = am_object_make(call, AM_OBJECT_MAPPING, dst + done, from->size);
        if (mapping == NULL)
            return;
        mapping->device = from->device;
        mapping->bytes = am_bytes_get(am_bytes_of(from));
        if (mapping->bytes != NULL)
            mapping->bytes->n_mapped++;
        done += from->size;
    }
}

AM_AFTER(retain, aclrtMemRetainAllocationHandle)
{
    struct am_object *area = am_area_find((uintptr_t)a->virPtr);
    struct am_object *phys;

    if (call->rc != ACL_SUCCESS) {
        am_ignored_note(call, a->handle);
        return;
    }
    phys = am_handle_find(AM_OBJECT_PHYS, *a->handle);
    if (phys != NULL && !phys->is_freed) {
        phys->bytes->n_handles++;
    } else if (area != NULL && area->bytes != NULL) {
        /* The handle had been freed, and the mapping kept the memory. */
        phys = am_object_make(call, AM_OBJECT_PHYS, (uintptr_t)*a->handle,
                              area->bytes->size);
        if (phys == NULL)
            return;
        phys->device = area->device;
        phys->bytes = am_bytes_get(area->bytes);
        phys->bytes->n_handles = 1;
    } else {
        return;
    }
    phys->freed = call->site;
    phys->is_retained = true;
}

AM_AFTER(malloc, aclrtMalloc)
{
    struct am_object *object = am_call_made(call, AM_OBJECT_BLOCK, a->devPtr, a->size);

    if (object != NULL)
        am_object_count(call, object);
}

AM_AFTER(managed, aclrtMemAllocManaged)
{
    struct am_object *object = am_call_made(call, AM_OBJECT_MANAGED, a->ptr, a->size);

    if (object != NULL) {
        am_object_count(call, object);
        object->device = -1; /* a device's reset leaves it */
        if (am_bytes_of(object) != NULL)
            object->bytes->is_shared = true; /* the program writes it, too */
    }
}

void am_before_malloc_host(struct am_call *call)
{
    struct am_args_aclrtMallocHost *a = (struct am_args_aclrtMallocHost *)call->args;

    call->value = a->size;
    a->size = am_guard_lead(call->value) + am_guard_room(call->value);
}

AM_AFTER(malloc_host, aclrtMallocHost)
{
    size_t lead = am_guard_lead(call->value);
    struct am_object *object;
    aclrtPtrAttributes attributes;

    if (call->rc == ACL_SUCCESS)
        *a->hostPtr = (char *)*a->hostPtr + lead;
    object = am_call_made(call, AM_OBJECT_HOST, a->hostPtr, call->value);
    if (object == NULL) {
        if (call->rc == ACL_SUCCESS) /* the layer would not know it when it is freed */
            *a->hostPtr = (char *)*a->hostPtr - lead;
        return;
    }
    object->device = -1;
    object->lead = (uint16_t)lead;
    /* In RC form it belongs to the device, which another thread may have reset. */
    if (am_check.below->aclrtPointerGetAttributes(*a->hostPtr, &attributes) ==
        ACL_SUCCESS) {
        if (attributes.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED) {
            am_object_drop(object); /* and freed with the device */
            return;
        }
        if (attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE)
            object->device = (int16_t)attributes.location.id;
    }
    if (lead > 0)
        am_guard_set(object);
    am_touch_made(object, am_guard_room(call->value));
}

/* The guard is not the program's. */
AM_AFTER(address_range, aclrtMemGetAddressRange)
{
    if (call->rc != ACL_SUCCESS || call->object == NULL || call->object->lead == 0)
        return;
    if (a->pbase != NULL)
        *a->pbase = (void *)(uintptr_t)call->object->key;
    if (a->psize != NULL)
        *a->psize = call->object->size;
}

/* The library registers and unregisters its own block, which begins before the program's. */
static bool lead_add(struct am_call *call)
{
    struct am_args_aclrtHostUnregister *a =
        (struct am_args_aclrtHostUnregister *)call->args;
    const struct am_object *block = am_area_find((uintptr_t)a->ptr);

    if (block == NULL || block->key != (uintptr_t)a->ptr || block->key % AM_PAGE == 0)
        return false;
    a->ptr = (char *)a->ptr - block->lead;
    call->value = block->lead;
    return block->lead > 0;
}

void am_before_register(struct am_call *call)
{
    struct am_args_aclrtHostRegister *a = (struct am_args_aclrtHostRegister *)call->args;
    uint64_t addr = (uintptr_t)a->ptr;
    const struct am_object *block = am_guard_find(addr);

    if (block != NULL && (addr < block->key || addr - block->key >= block->size ||
                          a->size > block->key + block->size - addr))
        am_guard_refuse(call, block, addr, a->size, "ptr");
    else if (lead_add(call))
        a->size += call->value;
}

AM_AFTER(register, aclrtHostRegister)
{
    struct am_object *object;

    if (call->rc == ACL_SUCCESS && call->value > 0) {
        if (call->id == AM_API_aclrtHostRegister && a->devPtr != NULL)
            *a->devPtr = (char *)*a->devPtr + call->value;
        return;
    }
    if (call->rc != ACL_SUCCESS || am_area_find((uintptr_t)a->ptr) != NULL)
        return; /* of what is pinned anyway the block is known */
    object = am_object_make(call, AM_OBJECT_REGISTERED, (uintptr_t)a->ptr, a->size);
    if (object != NULL)
        object->device = -1;
}

AM_AFTER(pool, aclrtMemPoolCreate)
{
    am_call_made(call, AM_OBJECT_POOL, a->memPool, 0);
}

/* ---- freed ---- */

void am_area_end(struct am_call *call, uint64_t addr, enum am_object_kind kind,
                 enum am_object_kind or_kind, const char *argument)
{
    bool waits = call->record != NULL; /* then it frees */
    struct am_object *object = am_area_find(addr);
    struct am_access access;

    if (object != NULL) {
        if (object->key != addr || (object->kind != kind && object->kind != or_kind))
            return; /* not what it takes: the library says so */
        if (!waits && am_kind_is_on(AM_KIND_free_in_use) &&
            am_area_is_in_use(object, &access))
            report_in_use(call, object, &access);
        am_touch_end(object->bytes);
        am_touch_unfence(object);
        am_guard_check(call, object);
        am_call_ref_object(call, object);
        am_object_free(call, object);
        return;
    }
    object = am_freed_area_find(addr);
    if (object != NULL && object->key == addr)
        am_report_freed(call, AM_KIND_double_free, object, addr, argument);
    else
        am_ignored_check(call, addr, argument);
}

/*
 * A block's address is not to be handed out again at once.  The library is asked whether
 * it is one: a reset may have taken it.
 */
static void block_quarantine(struct am_call *call)
{
    aclrtPtrAttributes attributes;

    if (call->object == NULL || call->object->is_exported) /* importers may see it */
        return;
    if (am_option_text(AM_OPTION_over)[0] == '\0' &&
        (am_check.below->aclrtPointerGetAttributes((void *)(uintptr_t)call->object->key,
                                                   &attributes) != ACL_SUCCESS ||
         attributes.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED))
        return;
    if (call->object->kind != AM_OBJECT_MANAGED &&
        (am_kind_is_on(AM_KIND_use_after_free) || am_kind_is_on(AM_KIND_double_free)))
        call->is_answered = am_quarantine_add(call->object);
}

AM_BEFORE(free, aclrtFree)
{
    am_area_end(call, (uintptr_t)a->devPtr, AM_OBJECT_BLOCK, AM_OBJECT_MANAGED, "devPtr");
    block_quarantine(call);
}

/* The call waits first, for the device of the block; then it frees. */
static void free_synced(struct am_call *call, uint64_t addr, enum am_object_kind kind,
                        enum am_object_kind or_kind, const char *argument)
{
    const struct am_object *object = am_area_find(addr);

    if (object != NULL && object->device >= 0)
        call->device = object->device;
    am_before_sync_device(call);
    am_area_end(call, addr, kind, or_kind, argument);
}

AM_BEFORE(free_sync, aclrtFree)
{
    free_synced(call, (uintptr_t)a->devPtr, AM_OBJECT_BLOCK, AM_OBJECT_MANAGED, "devPtr");
}

void am_after_freed_sync(struct am_call *call)
{
    am_after_sync_device(call);
    am_after_freed(call);
}

/* The library frees its own block, which begins before the program's. */
static void lead_remove(struct am_call *call)
{
    struct am_args_aclrtFreeHost *a = (struct am_args_aclrtFreeHost *)call->args;

    if (call->object != NULL)
        a->hostPtr = (char *)a->hostPtr - call->object->lead;
}

AM_BEFORE(free_host, aclrtFreeHost)
{
    am_area_end(call, (uintptr_t)a->hostPtr, AM_OBJECT_HOST, AM_OBJECT_HOST, "hostPtr");
    lead_remove(call);
    block_quarantine(call);
}

AM_BEFORE(free_host_sync, aclrtFreeHost)
{
    free_synced(call, (uintptr_t)a->hostPtr, AM_OBJECT_HOST, AM_OBJECT_HOST, "hostPtr");
    lead_remove(call);
}

AM_BEFORE(unregister, aclrtHostUnregister)
{
    struct am_object *object = am_area_find((uintptr_t)a->ptr);

    if (object == NULL || object->kind != AM_OBJECT_REGISTERED) {
        lead_add(call);
        return;
    }
    am_call_ref_object(call, object);
    if (object->bytes != NULL)
        am_waits_begin(call, (struct am_awaited){.bytes = am_bytes_root(object->bytes)});
}

/*
 * The call waited for the work that uses the memory, which is the program's own again: it
 * may be used on, so that nothing of it is remembered.
 */
void am_after_unregister(struct am_call *call)
{
    if (call->rc != ACL_SUCCESS || call->object == NULL || call->object->is_forgotten)
        return;
    if (call->object->bytes != NULL)
        am_host_joins_users(call->object->bytes);
    am_object_drop(call->object);
}

AM_BEFORE(unmap, aclrtUnmapMem)
{
    am_area_end(call, (uintptr_t)a->virPtr, AM_OBJECT_MAPPING, AM_OBJECT_MAPPING,
                "virPtr");
}

AM_BEFORE(release, aclrtReleaseMemAddress)
{
    uint64_t addr = (uintptr_t)a->virPtr;
    struct am_object *object = am_reservation_find(addr);

    if (object != NULL && object->key == addr) {
        am_call_ref_object(call, object);
        am_object_free(call, object);
        return;
    }
    if (object != NULL)
        return;
    object = am_released_find(addr);
    if (object != NULL && object->key == addr)
        am_report_freed(call, AM_KIND_double_free, object, addr, "virPtr");
    else
        am_ignored_check(call, addr, "virPtr");
}

AM_BEFORE(destroy_pool, aclrtMemPoolDestroy)
{
    struct am_object *object = am_handle_end(call, AM_OBJECT_POOL, a->memPool, "memPool");

    if (object != NULL)
        am_object_free(call, object);
}

void am_after_freed(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS)
        am_share_freed(call->object);
    if (call->rc != ACL_SUCCESS && call->object != NULL && call->object->is_freed &&
        !call->object->is_forgotten)
        am_object_revive(call, call->object);
}

AM_BEFORE(free_phys, aclrtFreePhysical)
{
    struct am_object *object = am_handle_find(AM_OBJECT_PHYS, a->handle);

    if (object == NULL) {
        am_ignored_check(call, (uintptr_t)a->handle, "handle");
    } else if (object->is_freed) {
        am_report_freed(call, AM_KIND_double_free, object, 0, "handle");
        am_call_ref_object(call, object);
        call->value = FREED_BEFORE;
    } else {
        am_call_ref_object(call, object);
        if (--object->bytes->n_handles == 0)
            am_object_free(call, object);
    }
}

/*
 * Of two threads that free one handle, the first to enter the layer may be the second in the library, and
 * be refused.  The memory is freed in both cases.
 */
void am_after_free_phys(struct am_call *call)
{
    struct am_object *object = call->object;

    if (object == NULL || object->is_forgotten)
        return;
    if (call->rc == ACL_SUCCESS)
        am_share_freed(object);
    if (call->value == FREED_BEFORE) {
        object->is_taken |= call->rc == ACL_SUCCESS && object->is_freed;
        if (call->rc == ACL_SUCCESS && !object->is_freed) {
            object->bytes->n_handles--;
            am_object_free(call, object);
        }
        return;
    }
    if (call->rc == ACL_SUCCESS || object->is_taken)
        return;
    object->bytes->n_handles++;
    if (object->is_freed)
        am_object_revive(call, object);
}
