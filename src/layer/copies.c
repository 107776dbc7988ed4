/*
 * Hooks: copies, fills and other work on bytes.
 *
 * Before the call the ranges are looked up and become pieces of one work; when the call
 * succeeded the work is queued in the model, or run there at once.  What is wrong with a
 * range is reported with the call's result, also where the library refuses the call.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/sys.h"
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/thread.h"
#include "layer/waits.h"

/* The thread's call has at most one work. */
static struct am_work *work_of(struct am_call *call)
{
    struct am_work *work = &am_thread_get()->work;

    if (call->work == NULL) {
        am_work_begin(work, AM_WORK_ACCESS, call, call->agent);
        call->work = work;
    }
    return call->work;
}

/* ---- ranges ---- */

static void report_bounds(struct am_call *call, const struct am_object *object,
                          uint64_t addr, uint64_t size, const char *argument)
{
    struct am_finding *f = am_call_finding(call);
    bool is_before = addr < object->key;
    uint64_t over =
        is_before ? object->key - addr : addr + size - (object->key + object->size);
    const struct am_object *next = am_area_find(object->key + object->size);
    char text[160];
    char behind[200] = "";

    if (next != NULL && !is_before)
        snprintf(behind, sizeof behind, ", into %s",
                 am_object_text(next, 0, text, sizeof text));
    am_finding_begin(f, AM_KIND_out_of_bounds,
                     "%s: %" PRIu64 " bytes from 0x%" PRIx64 " on %s %" PRIu64 " %s %s%s",
                     argument, size, addr, is_before ? "begin" : "end", over,
                     is_before ? "before" : "behind",
                     am_object_text(object, 0, text, sizeof text), behind);
    f->advice = "keep to the size that was allocated, or allocate more";
    am_finding_at(f, "here", call->site);
    am_finding_at(f, "made here", object->made);
    if (next != NULL && !is_before)
        am_finding_at(f, "what lies behind was made here", next->made);
    am_call_report(call, f);
    if (object->is_guarded)
        am_guard_refuse(call, object, addr, size, argument);
}

/* Whether a range may go on from one mapping into the next one. */
static struct am_object *mapping_next(const struct am_object *mapping)
{
    uint64_t end = mapping->key + mapping->size;
    struct am_object *next = am_area_find(end);
    const struct am_object *from = am_reservation_find(mapping->key);

    if (mapping->kind != AM_OBJECT_MAPPING || next == NULL ||
        next->kind != AM_OBJECT_MAPPING)
        return NULL;
    return from != NULL && from == am_reservation_find(end) ? next : NULL;
}

/* Whether a device may use memory of another one: by access rights, or as a peer. */
static bool can_access(int device, const struct am_object *object)
{
    aclrtMemLocation location = {.id = (uint32_t)device,
                                 .type = ACL_MEM_LOCATION_TYPE_DEVICE};
    uint64_t rights = ACL_RT_MEM_ACCESS_FLAGS_NONE;
    int32_t is_peer = 0;
    int32_t has_peer = 0;

    if (object->kind == AM_OBJECT_MAPPING &&
        am_check.below->aclrtMemGetAccess((void *)(uintptr_t)object->key, &location,
                                          &rights) == ACL_SUCCESS &&
        rights != ACL_RT_MEM_ACCESS_FLAGS_NONE)
        return true;
    /* Either side may have enabled it; a library that cannot say is not questioned. */
    return am_check.below->aclrtDevicePeerAccessStatus(device, object->device,
                                                       &is_peer) != ACL_SUCCESS ||
           am_check.below->aclrtDevicePeerAccessStatus(object->device, device,
                                                       &has_peer) != ACL_SUCCESS ||
           is_peer != 0 || has_peer != 0;
}

/* Work of a device's stream on memory of another device. */
static void device_check(struct am_call *call, const struct am_object *object,
                         const char *argument)
{
    const struct am_agent *agent = call->agent;
    struct am_finding *f;
    char text[160];

    if (!am_kind_is_on(AM_KIND_wrong_device) || agent == NULL || agent->device < 0 ||
        object->device < 0 || object->device == agent->device ||
        (object->bytes != NULL && object->bytes->kind == AM_OBJECT_IMPORT))
        return;
    if (can_access(agent->device, object))
        return;
    f = am_call_finding(call);
    am_finding_begin(f, AM_KIND_wrong_device,
                     "%s is %s on device %d, and the stream is one of device %d, which "
                     "has no access to it",
                     argument, am_object_text(object, 0, text, sizeof text),
                     object->device, agent->device);
    f->advice = "aclrtDeviceEnablePeerAccess first, or a stream of the memory's device";
    am_finding_at(f, "here", call->site);
    am_finding_at(f, "the memory was made here", object->made);
    am_finding_at(f, "the stream was made here", agent->made);
    am_call_report(call, f);
}

/*
 * The program's own memory, of which any part may be registered.  A part that is not pinned
 * is waited for.
 */
static void own_range_add(struct am_call *call, uint64_t addr, uint64_t size,
                          bool is_write)
{
    while (size > 0) {
        struct am_object *object = am_area_find(addr);
        const struct am_object *next = object == NULL ? am_area_next(addr) : NULL;
        uint64_t n = size;

        if (object != NULL && object->key + object->size - addr < size)
            n = object->key + object->size - addr;
        else if (next != NULL && next->key - addr < size)
            n = next->key - addr;
        if (object != NULL)
            am_work_piece(work_of(call), object, addr - object->key, n, is_write);
        else
            call->is_waited = true;
        addr += n;
        size -= n;
    }
}

void am_call_add_range(struct am_call *call, const void *at, uint64_t size, bool is_write,
                       const char *argument)
{
    uint64_t addr = (uintptr_t)at;
    struct am_object *object = am_area_find(addr);
    struct am_work *work;

    if (am_thread_get()->is_declared) /* the declaration has it */
        return;
    work = work_of(call);
    if (object == NULL && (object = am_guard_find(addr)) != NULL) {
        report_bounds(call, object, addr, size, argument);
        return;
    }
    if (object == NULL) {
        object = am_freed_area_find(addr);
        if (object != NULL)
            am_report_freed(call, AM_KIND_use_after_free, object, addr, argument);
        else
            am_ignored_check(call, addr, argument);
        if (am_reservation_find(addr) == NULL)
            own_range_add(call, addr, size, is_write);
        return;
    }
    if (object->kind == AM_OBJECT_REGISTERED) {
        own_range_add(call, addr, size, is_write);
        return;
    }
    device_check(call, object, argument);
    am_guard_check(call, object);
    while (size > 0) {
        uint64_t room = object->key + object->size - addr;
        uint64_t n = size < room ? size : room;
        struct am_object *next;

        am_work_piece(work, object, addr - object->key, n, is_write);
        if (n == size)
            return;
        next = mapping_next(object);
        if (next == NULL) {
            report_bounds(call, object, addr, size, argument);
            return;
        }
        addr += n;
        size -= n;
        object = next;
    }
}

/* ---- what was never written ---- */

static void report_unwritten(struct am_call *call, const struct am_piece *piece,
                             uint64_t at)
{
    struct am_finding *f = am_call_finding(call);
    const struct am_bytes *bytes = piece->bytes;

    am_finding_begin(
        f, AM_KIND_uninit_read,
        "%" PRIu64 " bytes from 0x%" PRIx64 " on leave the device, and byte %" PRIu64
        " of the %s of %" PRIu64 " bytes was never written",
        piece->size, piece->addr, at, am_object_rows[bytes->kind].name, bytes->size);
    f->advice = "write it first (aclrtMemset), or copy only what was written";
    am_finding_at(f, "read here", call->site);
    am_finding_at(f, "made here", bytes->made);
    am_call_report(call, f);
}

static bool is_device(const struct am_piece *piece)
{
    return piece->bytes->kind != AM_OBJECT_HOST &&
           piece->bytes->kind != AM_OBJECT_REGISTERED &&
           piece->bytes->kind != AM_OBJECT_MANAGED;
}

static const struct am_piece *piece_find(const struct am_work *work, bool is_write)
{
    for (size_t i = 0; i < work->n_pieces; i++) {
        if (work->pieces[i].is_write == is_write)
            return &work->pieces[i];
    }
    return NULL;
}

/*
 * What the work says about written bytes.  Between two places on the device the state
 * travels along, which is exact for one piece on each side.  Behind a wait that is not over,
 * calls from now on may still write the source: then the destination counts as written.
 */
static void written_follow(struct am_call *call, struct am_work *work)
{
    const struct am_piece *to = piece_find(work, true);
    const struct am_piece *from = piece_find(work, false);
    bool to_device = to != NULL && is_device(to);
    bool is_pending = call->agent != NULL && (call->agent->is_order_unknown ||
                                              !TAILQ_EMPTY(&call->agent->works));
    uint64_t at;

    for (size_t i = 0; i < work->n_pieces; i++) {
        struct am_piece *p = &work->pieces[i];

        if (!is_device(p))
            continue;
        if (p->is_write && !is_pending && from != NULL && is_device(from) &&
            work->n_pieces == 2)
            am_bytes_carry(p->bytes, p->at, from->bytes, from->at, p->size);
        else if (p->is_write)
            am_bytes_write(p->bytes, p->at, p->size);
        else if (!is_pending && !work->is_incomplete &&
                 (!to_device || to->bytes->is_exported) &&
                 am_bytes_unwritten(p->bytes, p->at, p->size, &at))
            report_unwritten(call, p, at);
    }
}

/* ---- descriptors of copies ---- */

/* What stands in a descriptor in device memory, and what its addresses were then. */
struct desc {
    uint64_t at;
    uint64_t src;
    uint64_t dst;
    uint64_t count;
    uint64_t src_made; /* the numbers of the areas, 0: none */
    uint64_t dst_made;
    struct am_site site;
};

#define DESCS_MAX 1024

static struct desc descs[DESCS_MAX]; /* by address; a newer one replaces an older one */
static size_t n_descs;               /* that were set so far */

bool am_descs_exist(void)
{
    return n_descs > 0;
}

static struct desc *desc_slot(uint64_t at)
{
    return &descs[(at >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* The bytes are written by other means: what they describe is not known any more. */
static void descs_forget(uint64_t addr, uint64_t size)
{
    for (size_t i = 0; n_descs > 0 && i < DESCS_MAX; i++) {
        if (descs[i].at + 64 > addr && descs[i].at < addr + size)
            descs[i].at = 0;
    }
}

/* ---- the hooks ---- */

/* The program may poll values; call->agent is NULL: the copy is done. */
static void work_queue(struct am_call *call, struct am_work *work)
{
    const struct am_piece *from = piece_find(work, false);
    struct am_piece seen = {.size = 0};

    if (call->id == AM_API_aclrtMemcpy && call->agent == NULL && from != NULL &&
        from->bytes->values != NULL && call->args != NULL) {
        seen = *from;
        am_bytes_get(seen.bytes);
    }
    am_work_queue(work);
    if (seen.size > 0) {
        AM_ARGS(aclrtMemcpy);

        am_values_seen(seen.bytes, seen.at, seen.size,
                       (uintptr_t)a->dst + (seen.addr - (uintptr_t)a->src));
        am_bytes_put(seen.bytes);
    }
}

void am_after_work(struct am_call *call)
{
    struct am_work *work = call->work;

    if (work == NULL)
        return;
    if (call->rc != ACL_SUCCESS) {
        am_work_drop(work);
        return;
    }
    am_models_read(call, work);
    if (am_kind_is_on(AM_KIND_uninit_read))
        written_follow(call, work);
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        if (!p->is_write)
            continue;
        descs_forget(p->addr, p->size);
        if (p->bytes->values != NULL)
            am_values_overwrite(call, call->agent, p);
    }
    work_queue(call, work);
    if (call->is_waited && call->agent != NULL)
        am_host_joins_agent(call->agent);
}

/* A copy with memory that is not pinned returns when the stream has done it. */
static void wait_begin(struct am_call *call)
{
    if (call->is_waited && call->agent != NULL)
        am_waits_begin(call, (struct am_awaited){.agent = call->agent});
}

AM_BEFORE(memcpy, aclrtMemcpy)
{
    am_call_add_range(call, a->dst, a->count, true, "dst");
    am_call_add_range(call, a->src, a->count, false, "src");
    call->is_waited |= a->kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    wait_begin(call);
}

AM_BEFORE(memcpy_batch, aclrtMemcpyBatch)
{
    char what[48];

    if (a->dsts == NULL || a->srcs == NULL || a->sizes == NULL ||
        a->numBatches > 1u << 20)
        return;
    for (size_t i = 0; i < a->numBatches; i++) {
        snprintf(what, sizeof what, "dsts[%zu]", i);
        am_call_add_range(call, a->dsts[i], a->sizes[i], true, what);
        snprintf(what, sizeof what, "srcs[%zu]", i);
        am_call_add_range(call, a->srcs[i], a->sizes[i], false, what);
    }
    wait_begin(call);
}

static void rows_add(struct am_call *call, const void *at, size_t pitch, size_t width,
                     size_t height, bool is_write, const char *argument)
{
    /* One finding for a rectangle is enough: the last row is checked first. */
    if (pitch == width) {
        am_call_add_range(call, at, width * height, is_write, argument);
        return;
    }
    for (size_t row = height; row > 0; row--) {
        am_call_add_range(call, (const char *)at + (row - 1) * pitch, width, is_write,
                          argument);
        if (call->finding != NULL)
            return;
    }
}

AM_BEFORE(memcpy_2d, aclrtMemcpy2d)
{
    if (a->width > 5000000 || a->height > 5242880 || a->width > a->dpitch ||
        a->width > a->spitch)
        return; /* refused anyway */
    rows_add(call, a->dst, a->dpitch, a->width, a->height, true, "dst");
    rows_add(call, a->src, a->spitch, a->width, a->height, false, "src");
    wait_begin(call);
}

AM_BEFORE(memset, aclrtMemset)
{
    am_call_add_range(call, a->devPtr, a->count, true, "devPtr");
}

AM_BEFORE(memset32, aclrtMemsetD32)
{
    if (a->N <= SIZE_MAX / 4)
        am_call_add_range(call, a->ptr, 4 * a->N, true, "ptr");
}

/*
 * The word that stands at `at` in device memory; false: not known, since queued work or
 * another process may write it.  Releases am_check.lock: a copy may wait for functions.
 */
AM_NO_LOCK_ANALYSIS static bool word_read(const void *at, uint64_t *ret_word)
{
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    struct am_object *area = am_area_find((uintptr_t)at);
    struct am_bytes *bytes = area != NULL ? am_bytes_root(am_bytes_of(area)) : NULL;
    struct am_access access;
    struct am_capture before;
    char message[256];
    bool is_read;

    if (bytes == NULL || bytes->is_shared ||
        am_bytes_in_flight_at(bytes, (uintptr_t)at - area->key, false, &access))
        return false;
    am_check_unlock();
    before = am_error_capture(message, sizeof message);
    /* A capture may forbid the copy to the program, and would be invalid afterwards. */
    (void)am_check.below->aclmdlRICaptureThreadExchangeMode(&mode);
    is_read =
        am_check.below->aclrtMemcpy(ret_word, sizeof *ret_word, at, sizeof *ret_word,
                                    ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS;
    (void)am_check.below->aclmdlRICaptureThreadExchangeMode(&mode);
    am_error_capture_end(before);
    am_check_lock();
    return is_read;
}

/* The value that was there before the first write or wait is one that may end waits. */
static void value_add(struct am_call *call, const void *at, bool is_write)
{
    const struct am_piece *piece;
    struct am_work *work;
    uint64_t value;

    work = work_of(call); /* the hook after the call needs it, also without a range */
    am_call_add_range(call, at, 8, is_write, "devAddr");
    piece = piece_find(work, is_write);
    if (piece != NULL && !am_value_is_noted(piece->bytes, piece->at) &&
        word_read(at, &value)) /* the host knows what wrote it */
        am_value_write(call, NULL, piece->bytes, piece->at, value);
}

AM_BEFORE(value_write, aclrtValueWrite)
{
    const struct am_piece *piece;

    value_add(call, a->devAddr, true);
    piece = piece_find(call->work, true);
    if (piece != NULL && call->agent != NULL) /* before the call, as a record */
        call->record = am_record_get(
            am_value_write(call, call->agent, piece->bytes, piece->at, a->value));
}

AM_BEFORE(value_wait, aclrtValueWait)
{
    value_add(call, a->devAddr, false);
}

/* Both order streams, so the access to the value itself is no race, but it is a use. */
void am_after_value_write(struct am_call *call)
{
    const struct am_piece *piece = piece_find(call->work, true);

    if (call->rc == ACL_SUCCESS && call->record != NULL && piece != NULL) {
        if (am_kind_is_on(AM_KIND_uninit_read))
            am_bytes_write(piece->bytes, piece->at, piece->size);
        am_record_uses(call, call->agent, call->record, piece);
    }
    am_work_drop(call->work);
}

AM_AFTER(value_wait, aclrtValueWait)
{
    const struct am_piece *piece = piece_find(call->work, false);

    if (call->rc == ACL_SUCCESS && piece != NULL && call->agent != NULL) {
        if (piece->bytes->is_shared) /* another process may write it */
            call->agent->is_order_unknown = true;
        else
            am_value_wait(call, call->agent, piece->bytes, piece->at, a->value, a->flag);
        call->work->type = AM_WORK_USE;
        am_work_queue(call->work);
        return;
    }
    am_work_drop(call->work);
}

AM_BEFORE(cmo, aclrtCmoAsync)
{
    am_address_use(call, a->src, "src");
}

/* A hint: it is no access to the bytes, which must exist. */
AM_BEFORE(prefetch, aclrtMemManagedPrefetchAsync)
{
    am_address_use(call, a->ptr, "ptr");
}

AM_BEFORE(prefetch_batch, aclrtMemManagedPrefetchBatchAsync)
{
    size_t i = 0;

    while (a->ptrs != NULL && i < a->count && am_address_use(call, a->ptrs[i], "ptrs"))
        i++;
}

AM_BEFORE(managed_attr, aclrtMemManagedGetAttr)
{
    am_address_use(call, a->ptr, "ptr");
}

AM_BEFORE(cmo_set_desc, aclrtCmoSetDesc)
{
    am_call_add_range(call, a->cmoDesc, 64, true, "cmoDesc");
}

/* Distinguishes two areas at one address. */
static uint64_t area_number(const struct am_object *area)
{
    return area != NULL ? area->serial : 0;
}

AM_BEFORE(set_desc, aclrtSetMemcpyDesc)
{
    am_call_add_range(call, a->desc, 64, true, "desc");
}

AM_AFTER(set_desc, aclrtSetMemcpyDesc)
{
    am_after_work(call);
    if (call->rc == ACL_SUCCESS) {
        n_descs++;
        *desc_slot((uintptr_t)a->desc) = (struct desc){
            .at = (uintptr_t)a->desc,
            .src = (uintptr_t)a->srcAddr,
            .dst = (uintptr_t)a->dstAddr,
            .count = a->count,
            .src_made = area_number(am_area_find((uintptr_t)a->srcAddr)),
            .dst_made = area_number(am_area_find((uintptr_t)a->dstAddr)),
            .site = call->site,
        };
    }
}

static void desc_side(struct am_call *call, const struct desc *desc, uint64_t addr,
                      uint64_t was_made, bool is_write, const char *argument)
{
    struct am_object *area = am_area_find(addr);
    struct am_finding *f;
    char text[160];

    if (area == NULL || area_number(area) == was_made || was_made == 0) {
        am_call_add_range(call, (const void *)(uintptr_t)addr, desc->count, is_write,
                          argument);
        return;
    }
    f = am_call_finding(call);
    am_finding_begin(f, AM_KIND_use_after_free,
                     "%s was written when the address 0x%" PRIx64
                     " showed other memory than now: it is %s",
                     argument, addr, am_object_text(area, addr, text, sizeof text));
    f->advice = "write the descriptor again after the address is mapped anew";
    am_finding_at(f, "used here", call->site);
    am_finding_at(f, "written here", desc->site);
    am_finding_at(f, "what is there now was made here", area->made);
    am_call_report(call, f);
}

AM_BEFORE(memcpy_desc, aclrtMemcpyAsyncWithDesc)
{
    const struct desc *desc = desc_slot((uintptr_t)a->desc);

    am_call_add_range(call, a->desc, 64, false, "desc");
    if (desc->at != (uintptr_t)a->desc)
        return; /* it came there another way */
    call->stream_reads = true;
    desc_side(call, desc, desc->dst, desc->dst_made, true, "the descriptor's dstAddr");
    desc_side(call, desc, desc->src, desc->src_made, false, "the descriptor's srcAddr");
}

/* The addresses are read from device memory when the stream gets there. */
AM_BEFORE(memcpy_offset, aclrtMemcpyAsyncWithOffset)
{
    uint64_t dst = 0; /* not known */
    uint64_t src = 0;

    word_read(a->dst, &dst);
    word_read(a->src, &src);
    am_call_add_range(call, a->dst, sizeof dst, false, "dst");
    am_call_add_range(call, a->src, sizeof src, false, "src");
    call->stream_reads = true;
    if (dst != 0)
        am_call_add_range(call, (const void *)(uintptr_t)(dst + a->dstDataOffset),
                          a->count, true, "the address at dst");
    if (src != 0)
        am_call_add_range(call, (const void *)(uintptr_t)(src + a->srcDataOffset),
                          a->count, false, "the address at src");
    call->is_waited = false; /* it does not wait for memory that is not pinned */
}

/* ---- pools ---- */

/*
 * The memory may have been a block that is freed behind queued work of the stream: then the
 * new block is for later work of the stream only.
 */
AM_AFTER(pool_malloc, aclrtMemPoolMallocAsync)
{
    const struct am_object *before =
        call->rc == ACL_SUCCESS ? am_freed_area_find((uintptr_t)*a->ptr) : NULL;
    struct am_access access;
    bool is_in_use = before != NULL && before->kind == AM_OBJECT_POOL_BLOCK &&
                     am_area_is_in_use(before, &access);
    struct am_object *object = am_call_made(call, AM_OBJECT_POOL_BLOCK, a->ptr, a->size);

    if (object == NULL)
        return;
    am_object_count(call, object);
    if (call->agent == NULL || !is_in_use)
        return;
    am_work_piece(work_of(call), object, 0, object->size, true);
    am_work_queue(call->work);
}

AM_BEFORE(pool_free, aclrtMemPoolFreeAsync)
{
    uint64_t addr = (uintptr_t)a->ptr;
    struct am_object *object = am_area_find(addr);

    if (object != NULL && object->key == addr && object->kind == AM_OBJECT_POOL_BLOCK) {
        am_call_ref_object(call, object);
        am_work_piece(work_of(call), object, 0, object->size, true);
        call->work->type = AM_WORK_FREE;
        am_object_free(call, object);
        return;
    }
    if (object != NULL)
        return;
    object = am_freed_area_find(addr);
    if (object != NULL && object->key == addr)
        am_report_freed(call, AM_KIND_double_free, object, addr, "ptr");
    else
        am_ignored_check(call, addr, "ptr");
}

/* The stream frees it in its turn: a use that is not ordered before is one in use. */
void am_after_pool_free(struct am_call *call)
{
    am_after_freed(call);
    if (call->work != NULL) {
        call->work->agent = call->agent;
        am_after_work(call);
    }
}
