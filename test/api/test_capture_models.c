/*
 * Models beyond a plain capture: task groups, conditional tasks, destroy callbacks, and the
 * functions that look into a model.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4096

static void set(void *dst, uint8_t byte, aclrtStream stream)
{
    assert_acl_ok(aclrtMemsetAsync(dst, SIZE, byte, SIZE, stream));
}

static void set_now(void *dst, uint8_t byte)
{
    assert_acl_ok(aclrtMemset(dst, SIZE, byte, SIZE));
}

/* ---- a run that the call waits for ---- */

static void a_model_executes_synchronously(void **state)
{
    char *a = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    set_now(a, 0);
    begin_capture(stream, GLOBAL);
    set(a, 4, stream);
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_all_bytes(a, SIZE, 4);
    set_now(a, 0);
    assert_acl_ok(aclmdlRIExecute(model, 60000));
    assert_all_bytes(a, SIZE, 4);
    assert_bad_arg(aclmdlRIExecute(model, -2), "timeout");
    end_model(model);
    end_stream(stream);
    device_free(a);
}

/* ---- task groups ---- */

static aclmdlRI model_of_a_group(aclrtStream stream, aclrtTaskGrp *ret_group)
{
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    assert_acl_ok(aclmdlRICaptureTaskGrpEnd(stream, ret_group));
    return end_capture(stream);
}

static void an_empty_group_can_be_updated(void **state)
{
    aclrtStream stream = make_stream(), update = make_stream();
    aclrtTaskGrp group = NULL, second = NULL;
    struct marks marks = MARKS_INIT;
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    assert_acl_ok(aclmdlRICaptureTaskGrpEnd(stream, &group));
    assert_acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    assert_acl_ok(aclmdlRICaptureTaskGrpEnd(stream, &second));
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    model = end_capture(stream);
    assert_non_null(group);
    assert_ptr_not_equal(group, second);
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        assert_acl_ok(aclmdlRICaptureTaskUpdateEnd(update));
        replay(model, stream);
    }
    assert_string_equal(marks_now(&marks), "mmm");
    end_model(model);
    end_stream(stream);
    end_stream(update);
}

static void an_update_ends_with_its_stream(void **state)
{
    aclrtStream stream = make_stream(), update = make_stream();
    aclrtTaskGrp group = NULL;
    aclmdlRI model;

    model = model_of_a_group(stream, &group);
    assert_acl_ok(aclmdlRICaptureTaskUpdateBegin(update, group));
    assert_acl(aclmdlRICaptureTaskUpdateBegin(stream, group),
               ACL_ERROR_STREAM_TASK_GROUP_STATUS);
    end_stream(update);
    assert_acl_ok(aclmdlRICaptureTaskUpdateBegin(stream, group));
    assert_acl_ok(aclmdlRICaptureTaskUpdateEnd(stream));
    end_model(model);
    end_stream(stream);
}

static void a_stream_that_updates_a_group_is_not_captured(void **state)
{
    aclrtStream stream = make_stream(), update = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclrtTaskGrp group = NULL;
    aclmdlRI model;

    model = model_of_a_group(stream, &group);
    assert_acl_ok(aclmdlRICaptureTaskUpdateBegin(update, group));
    assert_refused(aclmdlRICaptureBegin(update, GLOBAL),
                   ACL_ERROR_STREAM_TASK_GROUP_STATUS, "aclmdlRICaptureTaskUpdateEnd");
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_refused(aclrtStreamWaitEvent(update, event),
                   ACL_ERROR_STREAM_TASK_GROUP_STATUS, "aclmdlRICaptureTaskUpdateEnd");
    assert_acl_ok(aclmdlRICaptureTaskUpdateEnd(update));
    end_model(end_capture(stream));
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(update);
}

static void a_group_has_operators_only(void **state)
{
    aclrtStream stream = make_stream();
    aclrtTaskGrp group = NULL;
    char *a = device_malloc(SIZE);
    aclmdlRI model = NULL;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    assert_acl(aclrtMemsetAsync(a, SIZE, 1, SIZE, stream),
               ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    assert_acl(aclmdlRICaptureTaskGrpEnd(stream, &group),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl(aclmdlRICaptureTaskGrpBegin(stream),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl(aclmdlRICaptureEnd(stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_null(model);
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    end_stream(stream);
    device_free(a);
}

static void a_group_is_closed_before_the_end(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRI model = NULL;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    assert_acl(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
    assert_message_has("aclmdlRICaptureTaskGrpEnd");
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    end_stream(stream);
}

static void groups_are_for_captured_streams_and_updates_for_others(void **state)
{
    aclrtStream stream = make_stream();
    aclrtTaskGrp group = NULL;
    aclmdlRI model;

    assert_refused(aclmdlRICaptureTaskGrpBegin(stream), ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                   "is not being captured");
    assert_refused(aclmdlRICaptureTaskGrpEnd(stream, &group),
                   ACL_ERROR_RT_STREAM_NOT_CAPTURED, "is not being captured");
    model = model_of_a_group(stream, &group);
    end_model(model);
    assert_acl(aclmdlRICaptureTaskUpdateBegin(stream, group),
               ACL_ERROR_RT_INVALID_HANDLE);
    end_stream(stream);
}

/* ---- conditional tasks ---- */

static aclmdlRICondHandle cond_make(aclmdlRI model, uint32_t value, uint64_t **ret_ptr)
{
    aclmdlRICondHandle handle = NULL;

    assert_acl_ok(aclmdlRICondHandleCreate(
        model, value, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle));
    assert_acl_ok(aclmdlRICondHandleGetCondPtr(handle, ret_ptr));
    assert_non_null(*ret_ptr);
    return handle;
}

static void cond_add(aclmdlRICondTaskType type, aclmdlRICondHandle handle,
                     aclrtStream stream, aclmdlRI *children, uint32_t n)
{
    aclmdlRICondTaskParams params = {
        .handle = handle, .type = type, .size = n, .modelRIArray = children};

    memset(children, 0, n * sizeof(*children));
    assert_acl_ok(aclmdlRIAddCondTask(params, stream, 0));
    for (uint32_t i = 0; i < n; i++)
        assert_non_null(children[i]);
}

/* The branch marks a letter; it is captured on a stream of its own. */
static void branch_mark(aclmdlRI child, struct marks *marks, char letter)
{
    aclrtStream stream = make_stream();
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRICaptureToModelRIBegin(stream, child, RELAXED));
    assert_ptr_equal(captured_into(stream), child);
    assert_acl_ok(mark_on(stream, marks, letter));
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
    assert_ptr_equal(model, child);
    end_stream(stream);
}

/* The condition is a byte that the program changes between replays. */
static void predicate_to(uint64_t *condition, const char *flag, aclrtStream stream)
{
    assert_acl_ok(aclrtMemsetAsync(condition, 8, 0, 8, stream));
    assert_acl_ok(
        aclrtMemcpyAsync(condition, 8, flag, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void an_if_runs_the_branch_that_the_device_chooses(void **state)
{
    static const uint8_t chosen[] = {1, 0, 1, 1, 0};
    struct marks marks = MARKS_INIT;
    char *flag = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRICondHandle handle;
    aclmdlRI children[2], model;
    uint64_t *condition;

    begin_capture(stream, RELAXED);
    handle = cond_make(captured_into(stream), 0, &condition);
    predicate_to(condition, flag, stream);
    cond_add(ACL_MODEL_RI_COND_TYPE_IF, handle, stream, children, 2);
    branch_mark(children[0], &marks, 't');
    branch_mark(children[1], &marks, 'e');
    assert_acl_ok(mark_on(stream, &marks, '.'));
    model = end_capture(stream);
    for (int i = 0; i < 5; i++) {
        set_now(flag, chosen[i]);
        replay(model, stream);
    }
    assert_string_equal(marks_now(&marks), "t.e.t.t.e.");
    end_model(model);
    end_stream(stream);
    device_free(flag);
}

static void an_if_of_one_branch_may_run_nothing(void **state)
{
    struct marks marks = MARKS_INIT;
    char *flag = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRICondHandle handle;
    aclmdlRI child, model;
    uint64_t *condition;

    begin_capture(stream, GLOBAL);
    handle = cond_make(captured_into(stream), 1, &condition);
    predicate_to(condition, flag, stream);
    cond_add(ACL_MODEL_RI_COND_TYPE_IF, handle, stream, &child, 1);
    branch_mark(child, &marks, 't');
    model = end_capture(stream);
    for (uint8_t i = 0; i < 4; i++) {
        set_now(flag, i & 1);
        replay(model, stream);
    }
    assert_string_equal(marks_now(&marks), "tt");
    end_model(model);
    end_stream(stream);
    device_free(flag);
}

/* The variable gets its default before each run. */
static void a_condition_starts_with_its_default(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    aclmdlRI children[3], model;
    uint64_t *condition;

    begin_capture(stream, GLOBAL);
    cond_add(ACL_MODEL_RI_COND_TYPE_SWITCH,
             cond_make(captured_into(stream), 1, &condition), stream, children, 3);
    for (int i = 0; i < 3; i++)
        branch_mark(children[i], &marks, (char)('0' + i));
    assert_acl_ok(aclrtMemsetAsync(condition, 8, 0, 8, stream));
    model = end_capture(stream);
    for (int i = 0; i < 3; i++)
        replay(model, stream);
    assert_string_equal(marks_now(&marks), "111");
    end_model(model);
    end_stream(stream);
}

static void a_switch_runs_the_branch_of_its_number(void **state)
{
    static const uint8_t numbers[] = {2, 0, 1, 7, 2};
    struct marks marks = MARKS_INIT;
    char *flag = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRICondHandle handle;
    aclmdlRI children[3], model;
    uint64_t *condition;

    begin_capture(stream, GLOBAL);
    handle = cond_make(captured_into(stream), 0, &condition);
    predicate_to(condition, flag, stream);
    cond_add(ACL_MODEL_RI_COND_TYPE_SWITCH, handle, stream, children, 3);
    for (int i = 0; i < 3; i++)
        branch_mark(children[i], &marks, (char)('0' + i));
    assert_acl_ok(mark_on(stream, &marks, '.'));
    model = end_capture(stream);
    for (int i = 0; i < 5; i++) {
        set_now(flag, numbers[i]);
        replay(model, stream);
    }
    assert_string_equal(marks_now(&marks), "2.0.1..2.");
    end_model(model);
    end_stream(stream);
    device_free(flag);
}

/* The body takes the next flag of a list that ends with 0. */
static void a_while_runs_until_its_condition_is_zero(void **state)
{
    struct marks marks = MARKS_INIT;
    char *flags = device_malloc(SIZE);
    aclrtStream stream = make_stream(), inner = make_stream();
    aclmdlRICondHandle handle;
    aclmdlRI child, model, same = NULL;
    uint64_t *condition;

    begin_capture(stream, GLOBAL);
    handle = cond_make(captured_into(stream), 1, &condition);
    cond_add(ACL_MODEL_RI_COND_TYPE_WHILE, handle, stream, &child, 1);
    assert_acl_ok(aclmdlRICaptureToModelRIBegin(inner, child, GLOBAL));
    assert_acl_ok(mark_on(inner, &marks, 'w'));
    predicate_to(condition, flags, inner);
    for (int i = 0; i < 8; i++) /* the list moves on by one entry */
        assert_acl_ok(aclrtMemcpyAsync(flags + 64 * i, 1, flags + 64 * (i + 1), 1,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, inner));
    assert_acl_ok(aclmdlRICaptureEnd(inner, &same));
    assert_ptr_equal(same, child);
    assert_acl_ok(mark_on(stream, &marks, '.'));
    model = end_capture(stream);
    for (int turns = 1; turns < 4; turns++) {
        assert_acl_ok(aclrtMemset(flags, SIZE, 0, SIZE));
        for (int i = 0; i < turns - 1; i++)
            assert_acl_ok(aclrtMemset(flags + 64 * i, 64, 1, 64));
        replay(model, stream);
    }
    assert_string_equal(marks_now(&marks), "w.ww.www.");
    end_model(model);
    end_stream(stream);
    end_stream(inner);
    device_free(flags);
}

/* Memory of the branch is allocated in the branch. */
static void conditions_nest_three_levels_deep(void **state)
{
    enum { LEVELS = 3 };
    char *flags = device_malloc(SIZE), *memory[LEVELS];
    aclrtStream streams[LEVELS + 1];
    aclmdlRI models[LEVELS + 1], same = NULL;

    for (int i = 0; i <= LEVELS; i++)
        streams[i] = make_stream();
    begin_capture(streams[0], GLOBAL);
    models[0] = captured_into(streams[0]);
    for (int i = 0; i < LEVELS; i++) {
        uint64_t *condition;
        aclmdlRICondHandle handle = cond_make(models[i], 0, &condition);

        predicate_to(condition, flags + 64 * i, streams[i]);
        cond_add(ACL_MODEL_RI_COND_TYPE_IF, handle, streams[i], &models[i + 1], 1);
        assert_acl_ok(
            aclmdlRICaptureToModelRIBegin(streams[i + 1], models[i + 1], GLOBAL));
        memory[i] = device_malloc(SIZE);
        set(memory[i], (uint8_t)(i + 1), streams[i + 1]);
    }
    for (int i = LEVELS; i > 0; i--)
        assert_acl_ok(aclmdlRICaptureEnd(streams[i], &same));
    assert_ptr_equal(end_capture(streams[0]), models[0]);
    for (unsigned bits = 0; bits < 1U << LEVELS; bits++) {
        bool runs = true;

        for (int i = 0; i < LEVELS; i++) {
            uint8_t flag = bits >> i & 1;

            assert_acl_ok(aclrtMemset(flags + 64 * i, 1, flag, 1));
            set_now(memory[i], 0xee);
        }
        replay(models[0], streams[0]);
        for (int i = 0; i < LEVELS; i++) {
            runs = runs && (bits >> i & 1);
            assert_all_bytes(memory[i], SIZE, (uint8_t)(runs ? i + 1 : 0xee));
        }
    }
    end_model(models[0]);
    for (int i = 0; i <= LEVELS; i++)
        end_stream(streams[i]);
    for (int i = 0; i < LEVELS; i++)
        device_free(memory[i]);
    device_free(flags);
}

static void conditional_tasks_are_checked(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRICondTaskParams params = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1};
    aclmdlRI child = NULL;
    uint64_t *condition;

    params.modelRIArray = &child;
    begin_capture(stream, RELAXED);
    params.handle = cond_make(captured_into(stream), 0, &condition);
    params.size = 3;
    assert_acl(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_INVALID_PARAM);
    params.size = 1;
    params.type = (aclmdlRICondTaskType)3;
    assert_acl(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_INVALID_PARAM);
    params.type = ACL_MODEL_RI_COND_TYPE_WHILE;
    params.modelRIArray = NULL;
    assert_acl(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_INVALID_PARAM);
    params.modelRIArray = &child;
    end_model(end_capture(stream));
    assert_acl(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    end_stream(stream);
}

static void a_conditional_task_takes_a_handle_of_its_own_model(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclmdlRICondTaskParams params = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1};
    aclmdlRI child = NULL;
    aclmdlRICondHandle own;
    uint64_t *condition;

    params.modelRIArray = &child;
    begin_capture(stream, RELAXED);
    begin_capture(other, RELAXED);
    own = cond_make(captured_into(stream), 0, &condition);
    params.handle = cond_make(captured_into(other), 0, &condition);
    assert_refused(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "aclmdlRICondHandleCreate");
    assert_null(child);
    assert_int_equal(capture_status(stream), CAPTURING);
    assert_int_equal(capture_status(other), CAPTURING);
    /* A branch is a model of its own, too. */
    cond_add(params.type, params.handle, other, &child, 1);
    end_model(end_capture(stream));
    assert_acl_ok(aclmdlRICaptureToModelRIBegin(stream, child, RELAXED));
    assert_refused(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "aclmdlRICondHandleCreate");
    params.handle = own;
    assert_refused(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    params.handle = cond_make(child, 0, &condition);
    assert_acl_ok(aclmdlRIAddCondTask(params, stream, 0));
    (void)end_capture(stream);
    end_model(end_capture(other));
    end_stream(stream);
    end_stream(other);
}

/* A program that leaves the model must not look for a block. */
static void the_value_of_a_condition_is_no_block_of_the_program(void **state)
{
    aclrtStream stream = make_stream();
    uint64_t *condition;
    aclmem_stats before, now;

    assert_acl_ok(aclmem_get_stats(&before));
    begin_capture(stream, RELAXED);
    (void)cond_make(captured_into(stream), 0, &condition);
    assert_acl_ok(aclmem_get_stats(&now));
    assert_int_equal(now.blocks, before.blocks);
    assert_acl_ok(aclrtResetDevice(0)); /* prints no warning */
}

static void a_refusal_names_the_call_that_began_the_branch(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclmdlRI child = NULL, ended = NULL;
    uint64_t *condition;

    begin_capture(stream, RELAXED);
    cond_add(ACL_MODEL_RI_COND_TYPE_IF, cond_make(captured_into(stream), 0, &condition),
             stream, &child, 1);
    assert_acl_ok(aclmdlRICaptureToModelRIBegin(other, child, RELAXED));
    assert_refused(aclrtSynchronizeStream(other), ACL_ERROR_RT_STREAM_CAPTURED,
                   "aclmdlRICaptureToModelRIBegin");
    assert_int_equal(capture_status(stream), CAPTURING);
    assert_acl(aclmdlRICaptureEnd(other, &ended),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    end_model(end_capture(stream));
    end_stream(stream);
    end_stream(other);
}

/* ---- destroy callbacks ---- */

static void say_gone(void *marks)
{
    mark_down(marks, 'g');
}

static void say_other(void *marks)
{
    mark_down(marks, 'o');
}

static void destroying_a_model_calls_back(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIDestroyRegisterCallback(model, say_gone, &marks));
    assert_acl_ok(aclmdlRIDestroyRegisterCallback(model, say_other, &marks));
    assert_acl_ok(aclmdlRIDestroyUnregisterCallback(model, say_other));
    replay(model, stream);
    assert_string_equal(marks_now(&marks), "");
    end_model(model);
    assert_string_equal(marks_now(&marks), "g");
    end_stream(stream);
}

/* ---- looking into a model ---- */

static aclmdlRI model_of_each_type(aclrtStream stream, aclrtStream side, char *memory)
{
    aclrtEvent event = make_flagged(ACL_EVENT_SYNC);
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    set(memory, 1, stream);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtStreamWaitEvent(side, event));
    assert_acl_ok(aclrtValueWrite(memory, 7, 0, side));
    assert_acl_ok(aclrtValueWait(memory, 7, ACL_STREAM_WAIT_VALUE_EQ, side));
    order_after(stream, side);
    assert_acl_ok(aclrtResetEvent(event, stream));
    model = end_capture(stream);
    end_event(event);
    return model;
}

static void a_model_lists_its_streams_and_tasks(void **state)
{
    static const aclmdlRITaskType types[2][4] = {
        {ACL_MODEL_RI_TASK_DEFAULT, ACL_MODEL_RI_TASK_EVENT_RECORD,
         ACL_MODEL_RI_TASK_EVENT_WAIT, ACL_MODEL_RI_TASK_EVENT_RESET},
        {ACL_MODEL_RI_TASK_EVENT_WAIT, ACL_MODEL_RI_TASK_VALUE_WRITE,
         ACL_MODEL_RI_TASK_VALUE_WAIT, ACL_MODEL_RI_TASK_EVENT_RECORD},
    };
    aclrtStream stream = make_stream(), side = make_stream(), streams[4];
    char *memory = device_malloc(SIZE);
    aclmdlRI model = model_of_each_type(stream, side, memory);
    uint32_t n = 0;

    assert_acl_ok(aclmdlRIGetStreams(model, NULL, &n));
    assert_int_equal(n, 2);
    n = 4;
    assert_acl_ok(aclmdlRIGetStreams(model, streams, &n));
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        aclmdlRITask tasks[8];
        uint32_t n_tasks = 0, before = 0;

        assert_acl_ok(aclmdlRIGetTasksByStream(streams[i], NULL, &n_tasks));
        assert_int_equal(n_tasks, 4);
        n_tasks = 8;
        assert_acl_ok(aclmdlRIGetTasksByStream(streams[i], tasks, &n_tasks));
        assert_int_equal(n_tasks, 4);
        for (uint32_t k = 0; k < n_tasks; k++) {
            aclmdlRITaskType type = (aclmdlRITaskType)-1;
            aclmdlRITaskParams params;
            uint32_t id = 0;

            assert_acl_ok(aclmdlRITaskGetType(tasks[k], &type));
            assert_int_equal(type, types[i][k]);
            assert_acl_ok(aclmdlRITaskGetSeqId(tasks[k], &id));
            assert_true(k == 0 || id > before);
            before = id;
            assert_acl_ok(aclmdlRITaskGetParams(tasks[k], &params));
            assert_int_equal(params.type, type);
            assert_refused(aclmdlRITaskSetParams(tasks[k], &params),
                           ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not an operator");
        }
    }
    end_model(model);
    end_stream(stream);
    end_stream(side);
    device_free(memory);
}

/* The program may destroy an event after the capture, and read the model later. */
static void a_task_names_its_event_after_the_end_of_the_event(void **state)
{
    aclrtEvent edge = make_flagged(ACL_EVENT_SYNC),
               external = make_flagged(ACL_EVENT_EXTERNAL);
    aclrtStream stream = make_stream(), own = NULL;
    aclmdlRITask tasks[2];
    aclmdlRITaskParams params;
    uint32_t n = 1;
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtRecordEvent(edge, stream));
    assert_acl_ok(aclrtRecordEventWithFlag(external, stream, ACL_EVENT_RECORD_EXTERNAL));
    model = end_capture(stream);
    end_event(edge);
    end_event(external);
    assert_acl_ok(aclmdlRIGetStreams(model, &own, &n));
    n = 2;
    assert_acl_ok(aclmdlRIGetTasksByStream(own, tasks, &n));
    assert_int_equal(n, 2);
    assert_acl_ok(aclmdlRITaskGetParams(tasks[0], &params));
    assert_ptr_equal(params.of.eventRecord.event, edge);
    assert_acl_ok(aclmdlRITaskGetParams(tasks[1], &params));
    assert_ptr_equal(params.of.eventRecord.event, external);
    end_model(model);
    end_stream(stream);
}

static void a_disabled_task_is_skipped_after_the_update(void **state)
{
    aclrtStream stream = make_stream(), own = NULL;
    char *memory = device_malloc(SIZE);
    aclmdlRITask tasks[2];
    uint32_t n = 1;
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    set(memory, 1, stream);
    set(memory, 2, stream);
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIGetStreams(model, &own, &n));
    n = 2;
    assert_acl_ok(aclmdlRIGetTasksByStream(own, tasks, &n));
    assert_int_equal(n, 2);
    assert_acl_ok(aclmdlRITaskDisable(tasks[1]));
    assert_acl_ok(aclmdlRIUpdate(model));
    replay(model, stream);
    assert_all_bytes(memory, SIZE, 1);
    end_model(model);
    end_stream(stream);
    device_free(memory);
}

/* ---- printing ---- */

static char *text_of_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 64 * KIB);
    size_t n;

    assert_non_null(f);
    assert_non_null(text);
    n = fread(text, 1, 64 * KIB - 1, f);
    assert_true(n > 0);
    fclose(f);
    return text;
}

static unsigned count_of(const char *text, const char *words)
{
    unsigned n = 0;

    for (; (text = strstr(text, words)) != NULL; text++)
        n++;
    return n;
}

static void a_model_is_printed(void **state)
{
    static const char *const names[] = {"EVENT_RECORD", "EVENT_WAIT", "EVENT_RESET",
                                        "VALUE_WRITE", "VALUE_WAIT"};
    char path[64], command[160], *text;
    aclrtStream stream = make_stream(), side = make_stream();
    char *memory = device_malloc(SIZE);
    aclmdlRI model = model_of_each_type(stream, side, memory);

    snprintf(path, sizeof path, "/tmp/aclmem_model_%d.json", (int)getpid());
    assert_acl_ok(aclmdlRIDebugJsonPrint(model, path, 1));
    text = text_of_file(path);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(count_of(text, names[i]) > 0);
    snprintf(command, sizeof command, "python3 -m json.tool %s > /dev/null", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(unlink(path), 0);
    free(text);
    assert_bad_arg(aclmdlRIDebugJsonPrint(model, NULL, 0), "path is NULL");
    assert_acl(aclmdlRIDebugJsonPrint(model, "/nowhere/model.json", 0),
               ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclmdlRIDebugPrint(model));
    end_model(model);
    end_stream(stream);
    end_stream(side);
    device_free(memory);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_model_executes_synchronously),
        claim_both(an_empty_group_can_be_updated),
        claim_both(an_update_ends_with_its_stream),
        claim_both(a_stream_that_updates_a_group_is_not_captured),
        claim_both(a_group_has_operators_only),
        claim_both(a_group_is_closed_before_the_end),
        claim_both(groups_are_for_captured_streams_and_updates_for_others),
        claim_both(an_if_runs_the_branch_that_the_device_chooses),
        claim_both(an_if_of_one_branch_may_run_nothing),
        claim_both(a_condition_starts_with_its_default),
        claim_both(a_switch_runs_the_branch_of_its_number),
        claim_both(a_while_runs_until_its_condition_is_zero),
        claim_both(conditions_nest_three_levels_deep),
        claim_both(conditional_tasks_are_checked),
        claim_both(a_conditional_task_takes_a_handle_of_its_own_model),
        claim_both(a_refusal_names_the_call_that_began_the_branch),
        claim_both(the_value_of_a_condition_is_no_block_of_the_program),
        claim_both(destroying_a_model_calls_back),
        claim_both(a_model_lists_its_streams_and_tasks),
        claim_both(a_task_names_its_event_after_the_end_of_the_event),
        claim_both(a_disabled_task_is_skipped_after_the_update),
        claim(a_model_is_printed),
    };

    return run_claims(claims);
}
