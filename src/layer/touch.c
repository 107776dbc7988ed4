/* Protected pages of pinned blocks: pinned.h. */
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/watch.h"
#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/layers.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/stacks.h"
#include "layer/thread.h"

static struct {
    atomic_bool is_on;
    atomic_bool is_noted; /* it is off, and queued work used a pinned block */
    _Atomic pid_t owner;
    uint64_t version;               /* of what queued work uses, at the last update */
    TAILQ_HEAD(, am_bytes) watched; /* pages of these are, or were, protected */
} touch = {.watched = TAILQ_HEAD_INITIALIZER(touch.watched)};

bool am_touch_is_on(void)
{
    return touch.is_on;
}

/* ---- pages ---- */

static void pages_open(const struct am_bytes *bytes)
{
    mprotect((void *)(uintptr_t)bytes->key, am_pages_up(bytes->size),
             PROT_READ | PROT_WRITE);
}

/* Ranges that follow each other are one, so that the page between them is not left out. */
struct cover {
    struct am_bytes *bytes;
    uint64_t start;
    uint64_t end;
    bool is_write; /* which ranges are meant */
    bool is_any;
};

/*
 * The pages of which queued work uses every byte that the block has.  The block starts on
 * a page, and has its last page to itself.
 */
static void cover_protect(struct cover *cover)
{
    struct am_bytes *bytes = cover->bytes;
    uint64_t start = am_pages_up(cover->start);
    uint64_t end =
        cover->end == bytes->size ? am_pages_up(cover->end) : cover->end & ~(AM_PAGE - 1);

    if (start >= end)
        return;
    if (mprotect((void *)(uintptr_t)(bytes->key + start), end - start,
                 cover->is_write ? PROT_NONE : PROT_READ) == 0)
        bytes->is_protected = true;
}

static void range_add(uint64_t start, uint64_t end, bool is_write, void *arg)
{
    struct cover *cover = arg;

    if (cover->is_write != is_write)
        return;
    if (cover->is_any && cover->end == start) {
        cover->end = end;
        return;
    }
    if (cover->is_any)
        cover_protect(cover);
    cover->start = start;
    cover->end = end;
    cover->is_any = true;
}

static void ranges_protect(struct am_bytes *bytes, bool is_write)
{
    struct cover cover = {.bytes = bytes, .is_write = is_write};

    am_bytes_in_flight(bytes, range_add, &cover);
    if (cover.is_any)
        cover_protect(&cover);
}

static void block_update(struct am_bytes *bytes)
{
    if (bytes->is_protected)
        pages_open(bytes);
    bytes->is_protected = false;
    if (!am_explain_handles())
        return; /* the program has a handler, which would get the fault */
    ranges_protect(bytes, false);
    ranges_protect(bytes, true); /* where work reads and writes, this has the last word */
}

void am_touch_update(void)
{
    struct am_bytes *bytes;
    struct am_bytes *next;
    uint64_t version = am_order_version();

    if (!touch.is_on || version == touch.version || am_check.n_stopping > 0)
        return;
    touch.version = version;
    for (bytes = TAILQ_FIRST(&touch.watched); bytes != NULL; bytes = next) {
        next = TAILQ_NEXT(bytes, watched_link);
        block_update(bytes);
        if (!bytes->is_protected)
            am_touch_forget(bytes);
    }
}

/* ---- which blocks ---- */

void am_touch_watch(struct am_bytes *bytes)
{
    if (!touch.is_on && bytes->kind == AM_OBJECT_HOST && !touch.is_noted &&
        !atomic_exchange(&touch.is_noted, true))
        am_findings_note("race.host-off");
    if (!touch.is_on || bytes->kind != AM_OBJECT_HOST || bytes->is_watched ||
        !bytes->has_pages)
        return;
    bytes->is_watched = true;
    am_bytes_get(bytes);
    TAILQ_INSERT_TAIL(&touch.watched, bytes, watched_link);
}

void am_touch_forget(struct am_bytes *bytes)
{
    if (bytes == NULL || !bytes->is_watched)
        return;
    TAILQ_REMOVE(&touch.watched, bytes, watched_link);
    bytes->is_watched = false;
    bytes->is_protected = false;
    am_bytes_put(bytes);
}

void am_touch_end(struct am_bytes *bytes)
{
    if (bytes == NULL)
        return;
    if (bytes->is_protected && am_check.n_stopping == 0)
        pages_open(bytes);
    bytes->has_pages = false; /* a call that began before must not protect them again */
    am_touch_forget(bytes);
}

void am_touch_forget_all(void)
{
    while (!TAILQ_EMPTY(&touch.watched))
        am_touch_forget(TAILQ_FIRST(&touch.watched));
}

/* ---- the fence ---- */

static void *fence_of(const struct am_object *block)
{
    return (void *)(uintptr_t)(block->key + am_pages_up(block->size + AM_GUARD));
}

void am_touch_made(struct am_object *block, size_t room)
{
    if (!touch.is_on || room % AM_PAGE != 0 || block->key % AM_PAGE != 0 ||
        block->device >= 0 || am_check.n_stopping > 0)
        return;
    if (am_bytes_of(block) != NULL)
        block->bytes->has_pages = true;
    if (block->is_guarded && am_explain_handles())
        block->is_fenced = mprotect(fence_of(block), AM_PAGE, PROT_NONE) == 0;
}

void am_touch_unfence(struct am_object *block)
{
    if (block->is_fenced && am_check.n_stopping == 0)
        mprotect(fence_of(block), AM_PAGE, PROT_READ | PROT_WRITE);
    block->is_fenced = false;
}

static void report_fence(const struct am_object *block, uint64_t addr, bool is_write,
                         uintptr_t instruction)
{
    static struct am_finding f; /* under am_check.lock */
    struct am_site site = {.api = AM_API_COUNT,
                           .stack = am_stack_take_from(instruction),
                           .thread = (uint32_t)syscall(SYS_gettid)};
    char text[160];

    am_finding_begin(&f, AM_KIND_out_of_bounds,
                     "the program %s %" PRIu64 " bytes behind the end of %s",
                     is_write ? "writes" : "reads", addr - block->key - block->size,
                     am_object_text(block, 0, text, sizeof text));
    f.advice = "keep to the size that was allocated, or allocate more";
    am_finding_at(&f, "touched here", site);
    am_finding_at(&f, "made here", block->made);
    am_finding_report(&f);
}

/* ---- the fault ---- */

static void report_touch(const struct am_object *block, uint64_t addr, bool is_write,
                         uintptr_t instruction, const struct am_access *other)
{
    static struct am_finding f; /* under am_check.lock */
    struct am_site site = {.api = AM_API_COUNT,
                           .stack = am_stack_take_from(instruction),
                           .thread = (uint32_t)syscall(SYS_gettid)};
    struct am_site captured;
    char text[160];
    char who[48];

    am_finding_begin(
        &f, AM_KIND_race_host, "the program %s %s%s, which queued work on %s %s",
        is_write ? "writes" : "reads", addr == block->key ? "byte 0 of " : "",
        am_object_text(block, addr, text, sizeof text),
        am_agent_text(other->agent, who, sizeof who),
        other->is_write ? "writes" : "reads");
    f.advice = "let the host wait for the stream first: aclrtSynchronizeStream";
    am_finding_at(&f, "touched here", site);
    am_finding_at(&f, "the queued work", other->site);
    if (am_models_captured(other->site, addr, 1, other->is_write, &captured))
        am_finding_at(&f, "captured here", captured);
    am_finding_at(&f, "made here", block->made);
    am_finding_report(&f);
}

static void touch_check(uintptr_t addr, uintptr_t instruction, bool is_write)
{
    struct am_object *block = am_area_find(addr);
    struct am_access other;

    if (block == NULL && (block = am_guard_find(addr)) != NULL && block->is_fenced) {
        report_fence(block, addr, is_write, instruction);
        block->is_fenced = false;
        return;
    }
    if (block == NULL || block->kind != AM_OBJECT_HOST || block->bytes == NULL)
        return;
    if (!am_bytes_in_flight_at(block->bytes, addr - block->key, is_write, &other))
        return;
    report_touch(block, addr, is_write, instruction, &other);
    /* One finding for a whole memcpy; the next call protects the pages again. */
    pages_open(block->bytes);
    block->bytes->is_protected = false;
    touch.version = 0;
}

/*
 * In the handler of the fault.  A thread that is in a call of the library may hold the
 * am_check.lock, and a child made by fork has no metadata: both go on without a report.
 */
bool am_touch_let(uintptr_t addr, uintptr_t instruction, bool is_write)
{
    struct am_watch_place place;

    if (!touch.is_on || !am_watch_find(addr, &place) || place.device >= 0)
        return false;
    if (touch.owner == getpid() && !am_thread_is_inside()) {
        am_check_lock();
        touch_check(addr, instruction, is_write);
        am_check_unlock();
    }
    return mprotect((void *)(addr & ~(AM_PAGE - 1)), AM_PAGE, PROT_READ | PROT_WRITE) ==
           0;
}

void am_touch_open(void)
{
    touch.owner = getpid();
    touch.is_on = am_watch_pinned(am_kind_is_on(AM_KIND_race_host));
}
