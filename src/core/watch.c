/* See watch.h. */
#include "core/watch.h"

#include <stddef.h>

#include "core/device/device.h"
#include "core/heap/heap.h"
#include "core/managed/managed.h"
#include "core/stream/model.h"
#include "core/stream/stream.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

/* A handler of SIGSEGV asks: it may be in a read section or not, and must not free. */
static void section_end(unsigned depth)
{
    (void)am_epoch_suspend();
    am_epoch_resume(depth);
}

bool am_watch_find(uintptr_t addr, struct am_watch_place *ret_place)
{
    unsigned depth = am_epoch_thread.depth;
    const struct am_mapping *mapping;
    struct am_block_info info;

    am_epoch_enter();
    mapping = am_mapping_find(addr);
    if (mapping == NULL) {
        section_end(depth);
        return false;
    }
    *ret_place = (struct am_watch_place){
        .what = mapping->owner != NULL ? mapping->owner->name : "mapping",
        .start = mapping->start,
        .size = mapping->size,
        .device = mapping->device,
    };
    if (am_heap_owns(mapping) && am_heap_find((const void *)addr, &info)) {
        ret_place->what = "block";
        ret_place->start = info.bounds.start;
        ret_place->size = info.bounds.asked;
    }
    section_end(depth);
    return true;
}

bool am_watch_is_reserved(uintptr_t addr)
{
    return am_address_find(&am_vspace.reservations, addr) != NULL;
}

struct am_watch_left am_watch_count(void)
{
    struct am_watch_left left = {0};
    struct am_phys_sums sums;

    am_epoch_enter();
    sums = am_phys_sum();
    am_epoch_leave();
    left.handles = sums.n_physes;
    left.size = sums.size;
    left.blocks = am_heap_count(AM_HEAP_DEVICE, &left.size);
    left.host_blocks = am_heap_count(AM_HEAP_HOST, &left.size);
    left.managed_blocks = am_managed_count(&left.size);
    return left;
}

bool am_watch_pinned(bool is_watched)
{
    if (am_setup.backend->watch_pinned == NULL)
        return false;
    am_setup.backend->watch_pinned(is_watched);
    return is_watched;
}

static _Atomic(void (*)(const struct am_watch_task *task)) task_report;
static _Atomic(void (*)(int device, uint64_t held)) held_report;

static void task_ran(const struct am_queue *queue, const struct am_task *task,
                     uint64_t began, uint64_t ended)
{
    const struct am_stream *stream =
        (const void *)((const char *)queue - offsetof(struct am_stream, queue));

    if (task->ops == &am_lane_ops) /* its queue is of a model; the nodes are reported */
        return;
    task_report(&(struct am_watch_task){
        .stream = stream->is_default ? 0 : (uintptr_t)stream->named.handle,
        .function = task->function,
        .queued = task->queued,
        .began = began,
        .ended = ended,
    });
}

static void node_ran(const struct am_model_lane *lane, const struct am_node *node,
                     uint64_t began, uint64_t ended)
{
    task_report(&(struct am_watch_task){
        .model = (uintptr_t)lane->model->named.handle,
        .number = node->number,
        .function = node->task->function,
        .queued = lane->model->queued,
        .began = began,
        .ended = ended,
    });
}

/* The program knows devices by their logical numbers. */
static void held_changed(int32_t driver, uint64_t held)
{
    const struct am_device *device = am_device_find_driver((uint32_t)driver);

    if (device != NULL)
        held_report((int)(device - am_devices.device), held);
}

void am_watch_tasks(void (*ran)(const struct am_watch_task *task))
{
    task_report = ran;
    am_task_ran = task_ran;
    am_node_ran = node_ran;
}

void am_watch_held(void (*changed)(int device, uint64_t held))
{
    held_report = changed;
    am_ledger_changed = held_changed;
}

void am_watch_function_held(void)
{
    am_sched_function_end(&am_sched);
}
