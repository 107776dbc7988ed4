/*
 * Captured models.
 *
 * Work that is put on a captured stream does not run, so it is not queued in the order
 * model (order.h): the layer notes it as a task, with the ranges that it reads and writes
 * and the objects that these ranges showed.  Each replay queues the tasks again, on agents
 * that the model has for its streams (replays.c).  So each replay checks the memory that its addresses
 * show then, and replays are ordered like other work: by the stream that a replay is put
 * on, and inside by the captured events.
 *
 * A branch of a conditional task may run or not.  A replay checks all branches of a conditional
 * task, one after the other, as if they ran: the memory that a branch names must be there, and
 * its work is ordered like the task.  Functions and values of a branch are not noted; the
 * order behind them and behind notifies of a branch is unknown.  Of models that are built
 * without a capture only the calls that build them are checked.  The order behind their
 * notifies is unknown, too.
 */
#include <inttypes.h>

#include "layer/bytes.h"
#include "layer/hooks.h"
#include "layer/memory.h"
#include "layer/models.h"
#include "layer/order.h"
#include "layer/waits.h"

/* What a captured call is noted as; a record of an event or notify, or a wait, is a signal. */
enum capture_type { CAPTURE_ACCESS, CAPTURE_SIGNAL, CAPTURE_VALUE, CAPTURE_FUNCTION };

static const struct capture {
    enum capture_type type;
    enum am_object_kind kind;
    bool is_wait;
    uint16_t handle; /* its offset in the arguments */
} captures[AM_API_COUNT] = {
#define SIGNAL(function_, argument_, kind_, is_wait_) \
    [AM_API_##function_] = {CAPTURE_SIGNAL, kind_, is_wait_, \
                            offsetof(struct am_args_##function_, argument_)}
    SIGNAL(aclrtRecordEvent, event, AM_OBJECT_EVENT, false),
    SIGNAL(aclrtRecordEventWithFlag, event, AM_OBJECT_EVENT, false),
    SIGNAL(aclrtStreamWaitEvent, event, AM_OBJECT_EVENT, true),
    SIGNAL(aclrtStreamWaitEventWithTimeout, event, AM_OBJECT_EVENT, true),
    SIGNAL(aclrtStreamWaitEventWithFlag, event, AM_OBJECT_EVENT, true),
    SIGNAL(aclrtRecordNotify, notify, AM_OBJECT_NOTIFY, false),
    SIGNAL(aclrtWaitAndResetNotify, notify, AM_OBJECT_NOTIFY, true),
    [AM_API_aclrtValueWrite] = {.type = CAPTURE_VALUE},
    [AM_API_aclrtValueWait] = {.type = CAPTURE_VALUE},
    [AM_API_aclrtLaunchHostFunc] = {.type = CAPTURE_FUNCTION},
    [AM_API_aclrtLaunchCallback] = {.type = CAPTURE_FUNCTION},
};

static TAILQ_HEAD(, am_model) models = TAILQ_HEAD_INITIALIZER(models);
static size_t n_captures; /* under way, and streams that are bound to a model */
static size_t n_waited;   /* lanes with is_waited */

/* ---- metadata ---- */

static struct am_model *model_make(struct am_call *call, uint64_t handle)
{
    struct am_model *model = am_meta_alloc(sizeof *model);

    if (model == NULL)
        return NULL;
    model->refs = 1;
    model->handle = handle;
    model->is_captured = true;
    model->device = call->device;
    TAILQ_INSERT_TAIL(&models, model, link);
    n_captures++;
    return model;
}

static void lane_add(struct am_model *model, struct am_agent *agent)
{
    if (!am_meta_grow((void **)&model->lanes, model->n_lanes, sizeof *model->lanes))
        return;
    agent->capture = model;
    agent->lane = model->n_lanes;
    model->lanes[model->n_lanes++] = (struct lane){.stream = agent->handle};
}

/* The streams are ordinary again. */
static void capture_end(struct am_model *model)
{
    struct am_agent *agent;

    TAILQ_FOREACH (agent, &am_agents, link) {
        if (agent->capture == model)
            agent->capture = NULL;
    }
    n_captures -= model->is_captured;
    model->is_captured = false;
    model->origin = NULL;
}

void am_lane_ran(struct lane *lane)
{
    n_waited -= lane->is_waited;
    lane->is_waited = false;
}

static void lanes_end(struct am_model *model)
{
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        n_waited -= model->lanes[i].is_waited;
        if (model->lanes[i].agent != NULL)
            am_agent_end(model->lanes[i].agent);
    }
    model->n_lanes = 0;
}

static struct am_model *model_find(uint64_t handle)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link) {
        if (model->handle == handle)
            return model;
    }
    return NULL;
}

struct am_model *am_branch_find(uint64_t handle)
{
    struct am_model *branch = model_find(handle);

    return branch != NULL && branch->is_branch && !branch->is_captured ? branch : NULL;
}

static void model_put(struct am_model *model)
{
    if (model == NULL || --model->refs > 0)
        return;
    free(model->tasks);
    free(model->lanes);
    free(model);
}

static void task_end(struct task *task)
{
    for (size_t i = 0; i < task->n_branches; i++)
        am_model_end(model_find(task->branches[i]));
    free(task->branches);
    am_captured_function_free(task->called);
    free(task->ranges);
}

void am_model_end(struct am_model *model)
{
    if (model == NULL)
        return;
    capture_end(model);
    lanes_end(model);
    for (size_t i = 0; i < model->n_tasks; i++)
        task_end(&model->tasks[i]);
    model->n_tasks = 0;
    TAILQ_REMOVE(&models, model, link);
    model_put(model);
}

void am_call_ref_model(struct am_call *call, struct am_model *model)
{
    if (model != NULL)
        model->refs++;
    model_put(call->model);
    call->model = model;
}

struct am_model *am_model_of(const void *handle)
{
    struct am_object *object = am_handle_find(AM_OBJECT_MODEL, handle);

    return object != NULL && !object->is_freed ? object->model : NULL;
}

/* ---- noting captured work ---- */

static struct task *task_add(struct am_call *call, enum task_type type)
{
    struct am_model *model = call->model;
    struct task *task;

    if (!am_meta_grow((void **)&model->tasks, model->n_tasks, sizeof *model->tasks))
        return NULL;
    task = &model->tasks[model->n_tasks++];
    *task = (struct task){.type = type, .lane = call->agent->lane, .site = call->site};
    return task;
}

static void ranges_note(struct am_call *call, struct task *task)
{
    const struct am_work *work = call->work;

    task->ranges = am_meta_alloc(work->n_pieces * sizeof *task->ranges);
    for (size_t i = 0; task->ranges != NULL && i < work->n_pieces; i++) {
        const struct am_piece *piece = &work->pieces[i];
        struct am_object *area = am_area_find(piece->addr);

        if (area == NULL)
            continue;
        area->is_captured = true;
        task->ranges[task->n_ranges++] = (struct range){
            .addr = piece->addr,
            .size = piece->size,
            .serial = area->serial,
            .is_write = piece->is_write,
            .freed = {.api = AM_API_COUNT},
        };
    }
}

/* The event or notify of the call. */
static const void *handle_of(const struct am_call *call)
{
    return *(void *const *)((const char *)call->args + captures[call->id].handle);
}

static struct am_signal *signal_of(const struct am_call *call)
{
    const struct am_object *object =
        am_handle_find(captures[call->id].kind, handle_of(call));

    return object != NULL && !object->is_freed ? object->signal : NULL;
}

static bool is_external(const struct am_call *call)
{
    if (call->id == AM_API_aclrtRecordEventWithFlag)
        return ((const struct am_args_aclrtRecordEventWithFlag *)call->args)->flag ==
               ACL_EVENT_RECORD_EXTERNAL;
    if (call->id == AM_API_aclrtStreamWaitEventWithFlag)
        return ((const struct am_args_aclrtStreamWaitEventWithFlag *)call->args)->flag ==
               ACL_EVENT_WAIT_EXTERNAL;
    return false;
}

/* Whether a record or a wait has an effect outside of the model. */
static bool is_outside(const struct am_call *call, const struct am_signal *signal)
{
    return captures[call->id].kind == AM_OBJECT_NOTIFY || is_external(call) ||
           (signal != NULL && signal->is_external);
}

/* The capture whose stream recorded the event last; NULL: none that is under way. */
static struct am_model *model_of_signal(const struct am_signal *signal)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link) {
        if (signal != NULL && model->is_captured && signal->capture == model->handle)
            return model;
    }
    return NULL;
}

bool am_captures_exist(void)
{
    return n_captures > 0;
}

bool am_models_exist(void)
{
    return !TAILQ_EMPTY(&models);
}

bool am_models_are_waited(void)
{
    return n_waited > 0;
}

void am_capture_find(struct am_call *call)
{
    if (n_captures == 0 || call->stream == NULL)
        return;
    am_call_ref_agent(call, am_agent_find(call));
    if (call->agent == NULL)
        return;
    am_call_ref_model(call, call->agent->capture);
    if (call->model == NULL && captures[call->id].is_wait &&
        !is_outside(call, signal_of(call)))
        am_call_ref_model(call, model_of_signal(signal_of(call))); /* the stream joins */
}

static struct am_captured_function *called_of(const struct am_call *call)
{
    return (struct am_captured_function *)(uintptr_t)call->value;
}

bool am_capture_before(struct am_call *call)
{
    const struct capture *capture = &captures[call->id];

    if (call->id == AM_API_aclrtLaunchHostFunc)
        call->is_declared = am_access_add(call);
    if (call->model->is_silent && capture->type != CAPTURE_VALUE)
        return capture->type == CAPTURE_ACCESS;
    if (call->model->is_branch && capture->type == CAPTURE_FUNCTION && !call->is_declared)
        return false;
    if (call->id == AM_API_aclrtLaunchHostFunc) {
        struct am_args_aclrtLaunchHostFunc *a =
            (struct am_args_aclrtLaunchHostFunc *)call->args;

        call->value = (uintptr_t)am_captured_function_make(&a->fn, &a->args, 0, true,
                                                           call->is_declared);
    } else if (call->id == AM_API_aclrtLaunchCallback) {
        struct am_args_aclrtLaunchCallback *a =
            (struct am_args_aclrtLaunchCallback *)call->args;

        call->value = (uintptr_t)am_captured_function_make(
            &a->fn, &a->userData, call->agent->reporter,
            a->blockType == ACL_CALLBACK_BLOCK, false);
    } else if (capture->type == CAPTURE_VALUE) {
        AM_ARGS(aclrtValueWrite);

        am_call_add_range(call, a->devAddr, 8, call->id == AM_API_aclrtValueWrite,
                          "devAddr");
    } else if (capture->type == CAPTURE_SIGNAL) {
        (void)am_handle_use(call, capture->kind, handle_of(call),
                            am_object_rows[capture->kind].name);
    }
    return capture->type == CAPTURE_ACCESS;
}

/*
 * The order behind an event that a model waits for is unknown, since each replay waits for another
 * record; so is the order behind what a branch or a built model records or waits for.
 */
static void outside_note(struct am_call *call, struct am_signal *signal)
{
    const struct am_model *model = call->model;

    signal->is_shared |=
        model->is_branch || model->is_silent ||
        (captures[call->id].is_wait && captures[call->id].kind == AM_OBJECT_EVENT);
}

static void record_note(struct am_call *call, struct am_signal *signal)
{
    struct task *task =
        task_add(call, is_outside(call, signal) ? TASK_RECORD_SIGNAL : TASK_RECORD);

    if (task == NULL)
        return;
    task->handle = signal->handle;
    task->is_notify = signal->is_notify;
    task->record = call->model->n_records;
    if (task->type == TASK_RECORD) {
        signal->capture = call->model->handle;
        signal->capture_record = call->model->n_records++;
    }
}

static void wait_note(struct am_call *call, struct am_signal *signal)
{
    struct task *task;

    if (call->agent->capture == NULL)
        lane_add(call->model, call->agent);
    if (call->agent->capture == NULL)
        return; /* no memory */
    task = task_add(call, is_outside(call, signal)                 ? TASK_WAIT_SIGNAL
                          : signal->capture == call->model->handle ? TASK_WAIT
                                                                   : TASK_UNKNOWN);
    if (task == NULL)
        return;
    task->handle = signal->handle;
    task->is_notify = signal->is_notify;
    task->record = signal->capture_record;
}

static void signal_note(struct am_call *call)
{
    struct am_signal *signal = signal_of(call);

    if (signal == NULL)
        return;
    if (is_outside(call, signal))
        outside_note(call, signal);
    if (call->model->is_silent)
        return;
    if (captures[call->id].is_wait)
        wait_note(call, signal);
    else
        record_note(call, signal);
}

static void value_note(struct am_call *call)
{
    AM_ARGS(aclrtValueWrite);
    const struct am_args_aclrtValueWait *wait = call->args;
    bool is_write = call->id == AM_API_aclrtValueWrite;
    struct task *task = task_add(call, is_write ? TASK_VALUE_WRITE : TASK_VALUE_WAIT);

    if (task == NULL)
        return;
    task->value = a->value;
    task->flag = is_write ? 0 : wait->flag;
    if (call->work != NULL)
        ranges_note(call, task);
}

static void access_note(struct am_call *call)
{
    struct task *task = call->work != NULL && call->work->n_pieces > 0
                            ? task_add(call, TASK_ACCESS)
                            : NULL;

    if (task != NULL)
        ranges_note(call, task);
}

static void function_note(struct am_call *call)
{
    struct task *task = task_add(call, call->is_declared ? TASK_ACCESS : TASK_FUNCTION);

    if (task != NULL)
        task->called = called_of(call);
    if (task != NULL && call->is_declared && call->work != NULL)
        ranges_note(call, task);
    call->value = 0; /* without memory for the task it stays as long as the process */
}

/* What a branch does may not happen: no order follows from it. */
static bool is_unknown(const struct am_call *call)
{
    return call->model->is_branch && !call->is_declared &&
           captures[call->id].type != CAPTURE_ACCESS;
}

static void task_note(struct am_call *call)
{
    if (is_unknown(call))
        task_add(call, TASK_UNKNOWN);
    else if (captures[call->id].type == CAPTURE_VALUE)
        value_note(call);
    else if (captures[call->id].type == CAPTURE_FUNCTION)
        function_note(call);
    else
        access_note(call);
}

/* When a built model runs is not known: what it writes counts as written from now on. */
static void writes_note(const struct am_work *work)
{
    for (size_t i = 0; am_kind_is_on(AM_KIND_uninit_read) && i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        if (p->is_write)
            am_bytes_write(p->bytes, p->at, p->size);
    }
}

void am_capture_after(struct am_call *call)
{
    enum capture_type type = captures[call->id].type;

    /* Another thread may have ended the capture during the call. */
    if (call->rc == ACL_SUCCESS && type == CAPTURE_SIGNAL &&
        (call->model->is_captured || call->model->is_silent))
        signal_note(call);
    else if (call->rc == ACL_SUCCESS && call->model->is_captured &&
             !call->model->is_silent)
        task_note(call);
    if (type == CAPTURE_FUNCTION && call->rc != ACL_SUCCESS)
        am_captured_function_free(called_of(call));
    if (call->is_free && call->rc != ACL_SUCCESS)
        am_after_freed(call); /* the free of a pool's block, which a capture refuses */
    if (call->work == NULL)
        return;
    if (call->rc == ACL_SUCCESS && call->model->is_silent)
        writes_note(call->work);
    am_work_drop(call->work);
}

/* ---- begin and end ---- */

/* The library knows what became of the capture. */
static aclmdlRICaptureStatus status_of(const void *stream, uint64_t *ret_model)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI model = NULL;

    if (am_check.below->aclmdlRICaptureGetInfo((aclrtStream)(uintptr_t)stream, &status,
                                               &model) != ACL_SUCCESS)
        return ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    *ret_model = (uintptr_t)model;
    return status;
}

void am_after_capture_begin(struct am_call *call)
{
    struct am_agent *agent = am_agent_find(call);
    uint64_t handle = 0;
    struct am_model *model;

    if (call->rc != ACL_SUCCESS || agent == NULL ||
        status_of(call->stream, &handle) == ACL_MODEL_RI_CAPTURE_STATUS_NONE)
        return;
    model = model_make(call, handle);
    if (model == NULL)
        return;
    model->is_branch = call->id != AM_API_aclmdlRICaptureBegin;
    model->origin = agent;
    model->began = call->site;
    lane_add(model, agent);
}

/*
 * The call failed: whether that ended the capture without a model, or will.  If another call has
 * just ended the capture, that call reports it.
 */
static bool is_lost_by(struct am_call *call, const struct am_model *model)
{
    const void *origin = (const void *)(uintptr_t)model->origin->handle;
    uint64_t handle;
    aclmdlRICaptureStatus status = status_of(origin, &handle);

    return status == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED ||
           (status == ACL_MODEL_RI_CAPTURE_STATUS_NONE &&
            call->id == AM_API_aclmdlRICaptureEnd && call->stream == origin &&
            call->rc != ACL_ERROR_RT_STREAM_NOT_CAPTURED);
}

void am_capture_leave(struct am_call *call, struct am_agent *agent)
{
    struct am_model *model = agent->capture;
    struct am_finding *f;

    if (model == NULL || model->origin != agent)
        return;
    if (!model->is_silent && !model->is_branch && !model->is_lost) {
        f = am_call_finding(call);
        am_finding_begin(f, AM_KIND_capture_lost,
                         "stream 0x%" PRIx64
                         " ended, and the capture that began on it is "
                         "lost",
                         agent->handle);
        f->advice = "call aclmdlRICaptureEnd before the stream ends";
        am_finding_at(f, "here", call->site);
        am_finding_at(f, "the capture began here", model->began);
        am_call_report(call, f);
    }
    am_model_end(model);
}

void am_models_refused(struct am_call *call)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link) {
        struct am_finding *f;

        if (!model->is_captured || model->is_silent || model->is_branch ||
            model->is_lost || !is_lost_by(call, model))
            continue;
        model->is_lost = true;
        f = am_call_finding(call);
        am_finding_begin(f, AM_KIND_capture_lost,
                         "the call failed with %d, and the capture that began on stream "
                         "0x%" PRIx64 " is lost",
                         (int)call->rc, model->origin->handle);
        f->advice = "make the call before aclmdlRICaptureBegin or after "
                    "aclmdlRICaptureEnd; before the end, each stream that joined comes "
                    "back to the first one";
        am_finding_at(f, "here", call->site);
        am_finding_at(f, "the capture began here", model->began);
        am_call_report(call, f);
        return;
    }
}

AM_AFTER(capture_end, aclmdlRICaptureEnd)
{
    struct am_agent *agent = am_agent_find(call);
    struct am_model *model = agent != NULL ? agent->capture : NULL;
    struct am_object *object;
    uint64_t handle;

    if (model == NULL || model->origin != agent ||
        status_of(call->stream, &handle) != ACL_MODEL_RI_CAPTURE_STATUS_NONE)
        return;
    capture_end(model);
    model->ended = call->site;
    if (call->rc != ACL_SUCCESS || model->is_silent) {
        am_model_end(model);
        return;
    }
    if (model->is_branch)
        return; /* it ends with the model of its task */
    object = am_object_make(call, AM_OBJECT_MODEL, (uintptr_t)*a->modelRI, 0);
    if (object == NULL) {
        am_model_end(model);
        return;
    }
    object->device = call->device;
    object->model = model;
}

/* The branches are captured later. */
AM_AFTER(condition, aclmdlRIAddCondTask)
{
    const aclmdlRICondTaskParams *params = &a->params;
    struct task *task;

    am_capture_find(call);
    if (call->rc != ACL_SUCCESS || call->model == NULL || call->model->is_silent)
        return;
    task = task_add(call, TASK_BRANCHES);
    if (task == NULL)
        return;
    task->branches = am_meta_alloc(params->size * sizeof *task->branches);
    for (uint32_t i = 0; task->branches != NULL && i < params->size; i++)
        task->branches[task->n_branches++] = (uintptr_t)params->modelRIArray[i];
}

/* ---- models that are built without a capture ---- */

static struct am_model built = {.refs = 1, .is_silent = true};

AM_AFTER(build, aclmdlRIBuildBegin)
{
    (void)am_call_made(call, AM_OBJECT_MODEL, a->modelRI, 0);
}

void am_after_bind(struct am_call *call)
{
    struct am_agent *agent = am_agent_find(call);

    if (call->rc != ACL_SUCCESS || agent == NULL)
        return;
    n_captures -= agent->capture == &built;
    agent->capture = call->id == AM_API_aclmdlRIBindStream ? &built : NULL;
    n_captures += agent->capture == &built;
}

/* ---- models ---- */

AM_BEFORE(destroy_model, aclmdlRIDestroy)
{
    struct am_object *object = am_handle_find(AM_OBJECT_MODEL, a->modelRI);

    if (object != NULL && object->is_freed)
        am_report_freed(call, AM_KIND_double_free, object, 0, "modelRI");
    else
        am_call_ref_object(call, object);
    if (object != NULL && !object->is_freed) /* replays, on any stream */
        am_waits_begin(call, (struct am_awaited){.device = object->device});
}

/* The call waits for replays of the model. */
void am_after_destroy_model(struct am_call *call)
{
    struct am_object *object = call->object;

    if (call->rc != ACL_SUCCESS || object == NULL || object->is_freed)
        return;
    am_model_end(object->model);
    object->model = NULL;
    am_object_free(call, object);
}

/* ---- questions of other files ---- */

void am_models_freed(const struct am_object *object)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link)
        for (size_t i = 0; i < model->n_tasks; i++)
            for (size_t k = 0; k < model->tasks[i].n_ranges; k++)
                if (model->tasks[i].ranges[k].serial == object->serial)
                    model->tasks[i].ranges[k].freed = object->freed;
}

/* The range of the task that shares bytes with this one; NULL: none. */
static const struct range *range_of(const struct task *task, uint64_t addr, uint64_t size,
                                    bool is_write)
{
    for (size_t i = 0; i < task->n_ranges; i++) {
        const struct range *range = &task->ranges[i];

        if (range->is_write == is_write && addr < range->addr + range->size &&
            range->addr < addr + size)
            return range;
    }
    return NULL;
}

bool am_models_captured(struct am_site replay, uint64_t addr, uint64_t size,
                        bool is_write, struct am_site *ret_site)
{
    const struct am_model *model;

    if (replay.api != AM_API_aclmdlRIExecuteAsync && replay.api != AM_API_aclmdlRIExecute)
        return false;
    TAILQ_FOREACH (model, &models, link) {
        if (model->replayed.stack != replay.stack ||
            model->replayed.thread != replay.thread || model->replayed.api != replay.api)
            continue;
        for (size_t i = 0; i < model->n_tasks; i++)
            if (range_of(&model->tasks[i], addr, size, is_write) != NULL) {
                *ret_site = model->tasks[i].site;
                return true;
            }
    }
    return false;
}

/* Streams that joined: the origin is the stream that the program captured on purpose. */
void am_models_waited(const struct am_agent *agent)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link)
        for (uint32_t i = 1; i < model->n_lanes; i++) {
            struct lane *lane = &model->lanes[i];

            if (model->is_captured || model->is_branch || model->n_runs > 0 ||
                lane->is_waited || lane->stream != agent->handle)
                continue;
            lane->is_waited = true;
            n_waited++;
        }
}

static void report_lost(struct am_call *call, const struct am_model *model,
                        const struct task *task, uint64_t addr)
{
    struct am_finding *f = am_call_finding(call);

    am_finding_begin(f, AM_KIND_work_captured,
                     "the program reads 0x%" PRIx64 ", which stream 0x%" PRIx64
                     " was to write, but that work was captured and its model never ran",
                     addr, model->lanes[task->lane].stream);
    f->advice =
        "the stream joined a capture by waiting for its event: replay the model "
        "(aclmdlRIExecuteAsync), or do not let the stream wait during the capture";
    am_finding_at(f, "read here", call->site);
    am_finding_at(f, "captured here", task->site);
    am_finding_at(f, "the capture ended here", model->ended);
    am_call_report(call, f);
}

static void piece_read(struct am_call *call, const struct am_piece *piece)
{
    const struct am_model *model;

    TAILQ_FOREACH (model, &models, link)
        for (size_t i = 0; i < model->n_tasks; i++) {
            const struct task *task = &model->tasks[i];
            const struct range *range =
                model->lanes[task->lane].is_waited
                    ? range_of(task, piece->addr, piece->size, true)
                    : NULL;

            if (range == NULL)
                continue;
            report_lost(call, model, task,
                        range->addr > piece->addr ? range->addr : piece->addr);
            return;
        }
}

/* Other work writes the bytes: what is read there later is the result of that. */
static void piece_write(const struct am_piece *piece)
{
    struct am_model *model;

    TAILQ_FOREACH (model, &models, link)
        for (size_t i = 0; i < model->n_tasks; i++) {
            struct lane *lane = &model->lanes[model->tasks[i].lane];

            if (lane->is_waited &&
                range_of(&model->tasks[i], piece->addr, piece->size, true) != NULL)
                am_lane_ran(lane);
        }
}

void am_models_read(struct am_call *call, const struct am_work *work)
{
    for (size_t i = 0; n_waited > 0 && i < work->n_pieces; i++) {
        if (work->pieces[i].is_write)
            piece_write(&work->pieces[i]);
        else
            piece_read(call, &work->pieces[i]);
    }
}
