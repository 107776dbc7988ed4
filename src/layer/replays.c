/* Hooks: replays of captured models; see models.c. */
#include <inttypes.h>

#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/memory.h"
#include "layer/models.h"
#include "layer/order.h"
#include "layer/waits.h"

static void report_reused(struct am_call *call, const struct range *range,
                          const struct am_object *area)
{
    struct am_finding *f = am_call_finding(call);
    char text[160];

    am_finding_begin(f, AM_KIND_use_after_free,
                     "the model %s 0x%" PRIx64
                     ", which was freed after the capture and is now %s",
                     range->is_write ? "writes" : "reads", range->addr,
                     am_object_text(area, range->addr, text, sizeof text));
    f->advice = "keep the memory that a model names until aclmdlRIDestroy, or capture "
                "again";
    am_finding_at(f, "replayed here", call->site);
    if (range->freed.api != AM_API_COUNT)
        am_finding_at(f, "freed here", range->freed);
    am_finding_at(f, "what is there now was made here", area->made);
    am_call_report(call, f);
}

static void range_replay(struct am_call *call, struct am_work *work,
                         const struct range *range)
{
    uint64_t addr = range->addr;
    uint64_t size = range->size;

    while (size > 0) {
        struct am_object *area = am_area_find(addr);
        uint64_t n;

        if (area == NULL) {
            area = am_freed_area_find(addr);
            if (area != NULL)
                am_report_freed(call, AM_KIND_use_after_free, area, addr,
                                range->is_write ? "what the model writes"
                                                : "what the model reads");
            work->is_incomplete = true;
            return;
        }
        if (area->serial != range->serial && area->kind != AM_OBJECT_MAPPING) {
            report_reused(call, range, area);
            work->is_incomplete = true;
            return;
        }
        n = area->key + area->size - addr < size ? area->key + area->size - addr : size;
        am_work_piece(work, area, addr - area->key, n, range->is_write);
        addr += n;
        size -= n;
    }
}

static void access_replay(struct am_call *call, const struct task *task)
{
    struct am_work work;

    am_work_begin(&work, AM_WORK_ACCESS, call, call->agent);
    work.captured = task->site;
    work.is_replay = true;
    for (size_t i = 0; i < task->n_ranges; i++)
        range_replay(call, &work, &task->ranges[i]);
    call->work = &work;
    am_after_work(call);
    call->work = NULL;
}

static struct am_record *model_replay(struct am_call *call, struct am_agent *agent,
                                      struct am_model *model);

static void value_replay(struct am_call *call, const struct task *task)
{
    const struct am_piece *piece;
    struct am_record *record;
    struct am_work work;

    am_work_begin(&work, AM_WORK_USE, call, call->agent);
    for (size_t i = 0; i < task->n_ranges; i++)
        range_replay(call, &work, &task->ranges[i]);
    piece = work.n_pieces > 0 ? &work.pieces[0] : NULL;
    if (piece != NULL && task->type == TASK_VALUE_WRITE) {
        record = am_value_write(call, call->agent, piece->bytes, piece->at, task->value);
        if (record != NULL)
            am_record_uses(call, call->agent, record, piece);
        if (am_kind_is_on(AM_KIND_uninit_read))
            am_bytes_write(piece->bytes, piece->at, piece->size);
    } else if (piece != NULL) {
        am_value_wait(call, call->agent, piece->bytes, piece->at, task->value,
                      task->flag);
        am_work_queue(&work);
        return;
    }
    am_work_drop(&work);
}

/* Which record a replay waits for is not known; records of the event order it from outside. */
static void signal_replay(struct am_call *call, const struct task *task)
{
    struct am_object *object =
        am_handle_find(task->is_notify ? AM_OBJECT_NOTIFY : AM_OBJECT_EVENT,
                       (void *)(uintptr_t)task->handle);
    bool is_record = task->type == TASK_RECORD_SIGNAL;
    struct am_work work;

    if (object == NULL || object->is_freed || object->signal == NULL)
        return;
    am_work_begin(&work, is_record ? AM_WORK_RECORD : AM_WORK_WAIT, call, call->agent);
    work.signal = object->signal;
    if (!task->is_notify)
        work.record =
            is_record ? am_signal_record(work.signal) : am_signal_target(work.signal);
    if (task->is_notify || work.record != NULL || !is_record)
        am_work_queue(&work);
}

/*
 * One branch after the other, though at most one of them runs: two branches are not
 * concurrent with each other.
 */
static void branches_replay(struct am_call *call, const struct task *task)
{
    if (task->n_branches == 0)
        am_agent_meets_unknown(call, call->agent);
    for (size_t i = 0; i < task->n_branches; i++) {
        struct am_model *branch = am_branch_find(task->branches[i]);

        if (branch != NULL)
            am_record_put(model_replay(call, call->agent, branch));
        else
            am_agent_meets_unknown(call, call->agent);
    }
}

static void task_replay(struct am_call *call, struct am_model *model,
                        const struct task *task)
{
    struct am_record **record = &model->records[task->record];

    switch (task->type) {
    case TASK_ACCESS:
        access_replay(call, task);
        break;
    case TASK_RECORD:
        *record = am_agent_record(call, call->agent, NULL);
        break;
    case TASK_WAIT:
        if (*record != NULL)
            am_agent_wait(call, call->agent, *record);
        break;
    case TASK_RECORD_SIGNAL:
    case TASK_WAIT_SIGNAL:
        signal_replay(call, task);
        break;
    case TASK_UNKNOWN:
        am_agent_meets_unknown(call, call->agent);
        break;
    case TASK_BRANCHES:
        branches_replay(call, task);
        break;
    case TASK_FUNCTION:
        if (task->called != NULL)
            am_captured_function_queue(call, call->agent, task->called);
        else
            am_agent_meets_unknown(call, call->agent);
        break;
    default:
        value_replay(call, task);
    }
}

/* The agents of a model's streams; false: no memory. */
static bool lanes_open(struct am_model *model)
{
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        struct lane *lane = &model->lanes[i];

        if (lane->agent == NULL)
            lane->agent = am_agent_make(lane->stream);
        if (lane->agent == NULL)
            return false;
        lane->agent->device = model->device;
        lane->agent->is_order_unknown = false;
        lane->agent->made = model->ended;
        am_lane_ran(lane);
    }
    return true;
}

static void tasks_replay(struct am_call *call, struct am_model *model)
{
    for (size_t i = 0; i < model->n_tasks; i++) {
        const struct task *task = &model->tasks[i];
        struct am_call sub = {
            .id = (enum am_api_id)task->site.api,
            .site = call->site,
            .device = call->device,
            .era = call->era,
            .is_after = true,
            .stream_reads = true,
            .agent = model->lanes[task->lane].agent,
            .captured = &task->site,
        };

        task_replay(&sub, model, task);
    }
}

/*
 * Queues the work of the model behind that of the agent (NULL: of the host), and makes the agent
 * wait for it.  Returns the record at its end; NULL: no memory.
 */
static struct am_record *model_replay(struct am_call *call, struct am_agent *agent,
                                      struct am_model *model)
{
    struct am_record *start, *end;
    struct am_agent *origin;

    model->n_runs++;
    model->replayed = call->site;
    model->records = am_meta_alloc((model->n_records + 1) * sizeof *model->records);
    if (model->records == NULL || !lanes_open(model)) {
        free(model->records);
        return NULL;
    }
    origin = model->lanes[0].agent;
    start = agent != NULL ? am_agent_record(call, agent, NULL) : am_record_make();
    if (start != NULL && agent == NULL)
        am_record_by_host(start);
    if (start != NULL)
        am_agent_wait(call, origin, start);
    tasks_replay(call, model);
    end = am_agent_record(call, origin, NULL);
    if (agent != NULL && end != NULL)
        am_agent_wait(call, agent, end);
    for (uint32_t i = 0; i < model->n_records; i++)
        am_record_put(model->records[i]);
    am_record_put(start);
    free(model->records);
    return end;
}

AM_BEFORE(execute, aclmdlRIExecuteAsync)
{
    struct am_model *model;

    am_handle_use(call, AM_OBJECT_MODEL, a->modelRI, "modelRI");
    if (call->agent == NULL || call->agent->capture != NULL)
        return; /* refused */
    model = am_model_of(a->modelRI);
    if (model != NULL) /* before the call, as for records: functions may run in it */
        call->record = model_replay(call, call->agent, model);
    else
        am_agent_meets_unknown(call, call->agent);
}

AM_BEFORE(execute_sync, aclmdlRIExecute)
{
    struct am_model *model;

    am_handle_use(call, AM_OBJECT_MODEL, a->modelRI, "modelRI");
    model = am_model_of(a->modelRI);
    call->record =
        model != NULL ? model_replay(call, call->agent, model) : am_record_make();
    if (model == NULL && call->record != NULL)
        am_record_complete(call->record, true);
    am_waits_begin(call, (struct am_awaited){.device = call->device});
}

/* A replay that was refused: its order is unknown, and its functions do not run. */
AM_AFTER(execute, aclmdlRIExecuteAsync)
{
    struct am_model *model = am_model_of(a->modelRI);

    if (call->rc == ACL_SUCCESS || model == NULL || call->record == NULL)
        return;
    model->n_runs--;
    for (size_t i = 0; i < model->n_tasks; i++)
        if (model->tasks[i].called != NULL)
            am_captured_function_cancel(model->tasks[i].called);
    am_record_complete(call->record, true);
}

void am_after_execute_sync(struct am_call *call)
{
    if (call->rc == ACL_SUCCESS && call->record != NULL)
        am_host_joins_record(call->record);
    else
        am_after_execute(call);
}
