/* Guard bytes of pinned blocks: pinned.h. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/pinned.h"

static const unsigned char pattern[AM_GUARD] = {
    0xe7, 0x1b, 0xd4, 0x82, 0x9f, 0x3c, 0xa6, 0x55, 0xc8, 0x71, 0x0e,
    0xb3, 0x6a, 0xf5, 0x28, 0x94, 0xe7, 0x1b, 0xd4, 0x82, 0x9f, 0x3c,
    0xa6, 0x55, 0xc8, 0x71, 0x0e, 0xb3, 0x6a, 0xf5, 0x28, 0x94};

static bool has_guard(size_t size)
{
    return am_kind_is_on(AM_KIND_out_of_bounds) && size > 0 && size <= SIZE_MAX / 2;
}

/* A large block starts on a page, as without a guard. */
size_t am_guard_lead(size_t size)
{
    if (!has_guard(size))
        return 0;
    return am_touch_is_on() || size >= 4 * AM_PAGE ? AM_PAGE : 64;
}

size_t am_guard_room(size_t size)
{
    if (!has_guard(size))
        return size;
    if (am_touch_is_on()) /* whole pages, and the fence */
        return am_pages_up(size + AM_GUARD) + AM_PAGE;
    return size + AM_GUARD;
}

static unsigned char *guard_of(const struct am_object *block, bool is_before)
{
    return (unsigned char *)(uintptr_t)(is_before ? block->key - AM_GUARD
                                                  : block->key + block->size);
}

/*
 * Whether the block's memory stays for as long as am_check.lock is held: no stop is under
 * way and, where host and device are one, no reset.  What a reset has ended while another
 * thread set the device again may still be recorded, so the library is queried.
 */
static bool is_there(const struct am_object *block)
{
    aclrtPtrAttributes attributes;

    if (am_check.n_stopping > 0 || block->era != (uint32_t)am_check.era)
        return false;
    if (block->device < 0)
        return true;
    return am_check.n_resetting == 0 &&
           am_check.below->aclrtPointerGetAttributes((void *)(uintptr_t)block->key,
                                                     &attributes) == ACL_SUCCESS &&
           attributes.location.type != ACL_MEM_LOCATION_TYPE_UNREGISTERED;
}

void am_guard_set(struct am_object *block)
{
    if (!is_there(block))
        return;
    memcpy(guard_of(block, true), pattern, AM_GUARD);
    memcpy(guard_of(block, false), pattern, AM_GUARD);
    block->is_guarded = true;
    block->freed = block->made; /* where it was last seen whole, while the block lives */
}

struct am_object *am_guard_find(uint64_t addr)
{
    struct am_object *block = am_area_before(addr);

    if (block != NULL && block->is_guarded &&
        addr - block->key < am_guard_room(block->size))
        return block;
    block = am_area_next(addr);
    return block != NULL && block->is_guarded && block->key - addr <= block->lead ? block
                                                                                  : NULL;
}

static void report_written(struct am_call *call, const struct am_object *block,
                           bool is_before, unsigned first, unsigned last)
{
    struct am_finding *f = am_call_finding(call);
    unsigned byte = guard_of(block, is_before)[is_before ? last : first];
    unsigned n = last - first + 1;
    char text[160];

    am_object_text(block, 0, text, sizeof text);
    if (is_before)
        am_finding_begin(f, AM_KIND_out_of_bounds,
                         "the program wrote before %s: byte -%u is 0x%02x, and %u byte%s "
                         "up to there changed",
                         text, AM_GUARD - last, byte, n, n > 1 ? "s" : "");
    else
        am_finding_begin(f, AM_KIND_out_of_bounds,
                         "the program wrote behind %s: byte %" PRIu64
                         " is 0x%02x, and %u byte%s from there on changed",
                         text, block->size + first, byte, n, n > 1 ? "s" : "");
    f->advice = "keep to the size that was allocated, or allocate more";
    am_finding_at(f, "seen here", call->site);
    am_finding_at(f, "still whole here", block->freed);
    am_finding_at(f, "made here", block->made);
    am_call_report(call, f);
}

/* True: the guard is whole. */
static bool side_check(struct am_call *call, const struct am_object *block,
                       bool is_before)
{
    unsigned char *guard = guard_of(block, is_before);
    unsigned first = 0;
    unsigned last = AM_GUARD - 1;

    if (memcmp(guard, pattern, AM_GUARD) == 0)
        return true;
    while (guard[first] == pattern[first])
        first++;
    while (guard[last] == pattern[last])
        last--;
    report_written(call, block, is_before, first, last);
    memcpy(guard, pattern, AM_GUARD); /* the next write is another one */
    return false;
}

void am_guard_check(struct am_call *call, struct am_object *block)
{
    bool is_whole;

    /* Pages that the program cannot reach now cannot be read here either. */
    if (!block->is_guarded || (block->bytes != NULL && block->bytes->is_protected) ||
        !is_there(block))
        return;
    is_whole = side_check(call, block, true);
    if (side_check(call, block, false) && is_whole && !block->is_freed)
        block->freed = call->site;
}

void am_guards_check(struct am_call *call)
{
    struct am_walk walk = {0};
    struct am_object *object;

    while ((object = am_object_next(&walk)) != NULL)
        am_guard_check(call, object);
}

void am_guard_refuse(struct am_call *call, const struct am_object *block, uint64_t addr,
                     uint64_t size, const char *argument)
{
    am_error_function = am_api_names[call->id];
    call->is_answered = true;
    call->rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                       "%s: %" PRIu64 " bytes at 0x%" PRIx64
                       " exceed the allocation there: they go past the %s of the block "
                       "of %" PRIu64 " bytes at 0x%" PRIx64,
                       argument, size, addr, addr < block->key ? "start" : "end",
                       block->size, block->key);
}
