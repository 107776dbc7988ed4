/* Events and notifies of two processes. */
#include "actor.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "support/work.h"

#define OPEN ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define MOMENT_MS 20 /* for what must not happen */

static struct actor other;
static aclrtStream stream; /* ours */
static uint64_t its_stream;
static aclrtEvent event;
static uint64_t its_event;

static aclrtEvent event_make(char *ret_key)
{
    aclrtIpcEventHandle handle;
    aclrtEvent made;

    assert_acl_ok(aclrtCreateEventExWithFlag(&made, ACL_EVENT_IPC));
    assert_acl_ok(aclrtIpcGetEventHandle(made, &handle));
    memcpy(ret_key, handle.reserved, sizeof handle.reserved);
    return made;
}

static aclrtEvent event_open(const char *key)
{
    aclrtIpcEventHandle handle;
    aclrtEvent opened;

    memcpy(handle.reserved, key, sizeof handle.reserved);
    assert_acl_ok(aclrtIpcOpenEventHandle(handle, &opened));
    return opened;
}

static aclrtNotify notify_make(uint64_t flags, char *ret_key)
{
    aclrtNotify notify;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtNotifyGetExportKey(notify, ret_key, 65, flags));
    return notify;
}

static aclrtEventRecordedStatus status_of(aclrtEvent of)
{
    aclrtEventRecordedStatus status;

    assert_acl_ok(aclrtQueryEventStatus(of, &status));
    return status;
}

/* Two processes, a stream each, and one event of ours that both have. */
static int begin(void **state)
{
    char key[80] = "";

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    event = event_make(key);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    its_stream = done(&other, DO_STREAM, 0, 0, 0);
    its_event = order_key(&other, DO_EVENT_OPEN, key, 0).value[0];
    assert_int_not_equal(its_event, 0);
    return 0;
}

static int end(void **state)
{
    if (other.pid != 0)
        actor_kill(&other);
    return finish(state);
}

static void a_record_here_is_waited_for_there(void **state)
{
    struct gate gate = GATE_INIT;

    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    expect(order(&other, DO_EVENT_SYNC, its_event, MOMENT_MS, 0),
           ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "not complete");
    done(&other, DO_EVENT_WAIT, its_event, its_stream, 0);
    expect(order(&other, DO_STREAM_SYNC, its_stream, MOMENT_MS, 0),
           ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "");
    assert_int_equal(status_of(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    gate_open(&gate);
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
    done(&other, DO_EVENT_SYNC, its_event, -1, 0);
    assert_int_equal(status_of(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    actor_end(&other);
}

static void a_record_there_is_waited_for_here(void **state)
{
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_RECORD, its_event, its_stream, 0);
    assert_int_equal(status_of(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, MOMENT_MS),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    done(&other, DO_LET_GO, 0, 0, 0);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_int_equal(status_of(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

/* The host waits with no limit, and is told by nobody but the page. */
static void the_host_waits_for_a_record_there(void **state)
{
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_RECORD, its_event, its_stream, 0);
    order_begin(&other, DO_LET_GO, 0, 0, 0);
    assert_acl_ok(aclrtSynchronizeEvent(event));
    order_end(&other);
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
}

static void one_that_nobody_has_recorded_is_complete(void **state)
{
    done(&other, DO_EVENT_SYNC, its_event, -1, 0);
    done(&other, DO_EVENT_WAIT, its_event, its_stream, 0);
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
}

/* A wait is for the latest record when it is queued; later ones do not hold it up. */
static void a_wait_is_for_the_record_of_its_time(void **state)
{
    struct gate gate = GATE_INIT;

    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_WAIT, its_event, its_stream, 0);
    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    done(&other, DO_LET_GO, 0, 0, 0);
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
    gate_open(&gate);
}

static void bytes_written_before_the_record_are_there_after_the_wait(void **state)
{
    size_t size = CHUNK;
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    struct gate gate = GATE_INIT;
    aclrtDrvMemHandle handle;
    uint64_t number;
    uint64_t its_va;
    void *host;
    void *va;

    need_locked(2 * CHUNK);
    assert_acl_ok(aclrtMallocPhysical(&handle, size, &prop, 0));
    assert_acl_ok(aclrtReserveMemAddress(&va, size, 0, NULL, 1));
    assert_acl_ok(aclrtMapMem(va, size, 0, handle, 0));
    assert_acl_ok(aclrtMemExportToShareableHandle(
        handle, ACL_MEM_HANDLE_TYPE_NONE, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
        &number));
    its_va = done(&other, DO_RESERVE, size, 0, 0);
    done(&other, DO_MAP, its_va, size, done(&other, DO_IMPORT, number, 0, 0));
    assert_acl_ok(aclrtMallocHost(&host, size));
    fill(host, size, 7);

    hold(stream, &gate);
    assert_acl_ok(
        aclrtMemcpyAsync(va, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    done(&other, DO_EVENT_WAIT, its_event, its_stream, 0);
    gate_open(&gate);
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
    assert_int_equal(done(&other, DO_CHECK, its_va, size, 7), 0);
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void what_a_killed_process_had_queued_fails_who_waits(void **state)
{
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_RECORD, its_event, its_stream, 0);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    actor_kill(&other);
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_IPC_ERROR);
    assert_message_has("ended before it ran");
    assert_acl(aclrtSynchronizeEvent(event), ACL_ERROR_RT_IPC_ERROR);
    /* The event itself is as good as before. */
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtSynchronizeEvent(event));
}

/* A child that it made by fork lives on with its descriptors. */
static void so_does_what_one_with_a_child_had_queued(void **state)
{
    done(&other, DO_FORK, 0, 0, 0);
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_RECORD, its_event, its_stream, 0);
    actor_signal(&other, SIGKILL); /* the child ends with the socket, later */
    assert_acl(aclrtSynchronizeEventWithTimeout(event, 30000), ACL_ERROR_RT_IPC_ERROR);
}

/* The other side keeps what it has when the event's maker is gone. */
static void an_opened_event_outlives_its_maker(void **state)
{
    struct actor maker;
    struct answer made;
    aclrtEvent opened;

    actor_start(&maker, ACTOR_PLAIN);
    done(&maker, DO_INIT, 0, 0, 0);
    made = order(&maker, DO_EVENT, 0, 0, 0);
    opened = event_open(made.text);
    assert_int_not_equal(order_key(&other, DO_EVENT_OPEN, made.text, 0).value[0], 0);
    actor_kill(&maker);
    assert_acl_ok(aclrtRecordEvent(opened, stream));
    assert_acl_ok(aclrtSynchronizeEvent(opened));
    expect(order_key(&other, DO_EVENT_OPEN, made.text, 0), ACL_ERROR_RT_NO_PERMISSION,
           "");
    assert_acl_ok(aclrtDestroyEvent(opened));
}

static void a_record_that_is_dropped_there_fails_who_waits_here(void **state)
{
    done(&other, DO_STREAM_HOLD, its_stream, 0, 0);
    done(&other, DO_EVENT_RECORD, its_event, its_stream, 0);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    order_begin(&other, DO_STREAM_ABORT, its_stream, 0, 0);
    order_end(&other);
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
    assert_message_has("not recorded");
    done(&other, DO_LET_GO, 0, 0, 0);
}

static void a_destroyed_event_cannot_be_opened(void **state)
{
    char key[80] = "";
    aclrtEvent gone = event_make(key);

    assert_acl_ok(aclrtDestroyEvent(gone));
    expect(order_key(&other, DO_EVENT_OPEN, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
}

static void an_altered_handle_is_refused(void **state)
{
    char key[80] = "";
    aclrtEvent made = event_make(key);
    size_t n = strlen(key);

    key[n - 1] = key[n - 1] == '0' ? '1' : '0';
    expect(order_key(&other, DO_EVENT_OPEN, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
    expect(order_key(&other, DO_EVENT_OPEN, "nonsense", 0), ACL_ERROR_RT_PARAM_INVALID,
           "nonsense");
    expect(order_key(&other, DO_NOTIFY_OPEN, key, 0), ACL_ERROR_RT_PARAM_INVALID, "");
    assert_acl_ok(aclrtDestroyEvent(made));
}

static void only_events_for_it_are_exported(void **state)
{
    aclrtIpcEventHandle handle;
    aclrtEvent plain;

    assert_acl_ok(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
    assert_acl(aclrtIpcGetEventHandle(plain, &handle), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclrtIpcGetEventHandle(NULL, &handle), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtIpcGetEventHandle(plain, NULL), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(aclrtDestroyEvent(plain));
    assert_acl(aclrtIpcGetEventHandle(plain, &handle), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl(aclrtIpcOpenEventHandle((aclrtIpcEventHandle){"x"}, NULL),
               ACL_ERROR_INVALID_PARAM);
}

static void its_handle_stays_the_same(void **state)
{
    aclrtIpcEventHandle first;
    aclrtIpcEventHandle second;

    assert_acl_ok(aclrtIpcGetEventHandle(event, &first));
    assert_acl_ok(aclrtIpcGetEventHandle(event, &second));
    assert_memory_equal(&first, &second, sizeof first);
}

static void no_descriptor_is_left(void **state)
{
    size_t before = open_descriptors();
    uint64_t its_before = done(&other, DO_DESCRIPTORS, 0, 0, 0);

    for (int i = 0; i < 100; i++) {
        char key[80] = "";
        aclrtEvent made = event_make(key);
        uint64_t opened = order_key(&other, DO_EVENT_OPEN, key, 0).value[0];

        done(&other, DO_EVENT_DESTROY, opened, 0, 0);
        assert_acl_ok(aclrtDestroyEvent(made));
    }
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(done(&other, DO_DESCRIPTORS, 0, 0, 0), its_before);
}

/* ---- notifies ---- */

static void a_notify_there_lets_a_stream_here_go_on_once(void **state)
{
    char key[80] = "";
    aclrtNotify notify = notify_make(OPEN, key);
    uint64_t its_notify = order_key(&other, DO_NOTIFY_OPEN, key, 0).value[0];

    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, MOMENT_MS),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    done(&other, DO_NOTIFY_RECORD, its_notify, its_stream, 0);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, MOMENT_MS),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtRecordNotify(notify, NULL));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    done(&other, DO_NOTIFY_DESTROY, its_notify, 0, 0);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_notify_here_lets_a_stream_there_go_on(void **state)
{
    char key[80] = "";
    aclrtNotify notify = notify_make(OPEN, key);
    uint64_t its_notify = order_key(&other, DO_NOTIFY_OPEN, key, 0).value[0];

    done(&other, DO_NOTIFY_WAIT, its_notify, its_stream, 0);
    assert_acl_ok(aclrtRecordNotify(notify, stream));
    done(&other, DO_STREAM_SYNC, its_stream, -1, 0);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

/* What was set or waited for before the export is so after it. */
static void exporting_changes_nothing(void **state)
{
    char key[80] = "";
    aclrtNotify notify;
    uint64_t its_notify;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtRecordNotify(notify, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtNotifyGetExportKey(notify, key, 65, OPEN));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyNotify(notify));

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, MOMENT_MS),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtNotifyGetExportKey(notify, key, 65, OPEN));
    its_notify = order_key(&other, DO_NOTIFY_OPEN, key, 0).value[0];
    done(&other, DO_NOTIFY_RECORD, its_notify, its_stream, 0);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_notify_is_for_those_who_are_listed(void **state)
{
    char key[80] = "";
    aclrtNotify notify = notify_make(ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT, key);
    int32_t pid = (int32_t)done(&other, DO_TGID, 0, 0, 0);

    expect(order_key(&other, DO_NOTIFY_OPEN, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
    assert_acl_ok(aclrtNotifySetImportPid(notify, &pid, 1));
    assert_int_not_equal(order_key(&other, DO_NOTIFY_OPEN, key, 0).value[0], 0);
    assert_acl_ok(aclrtDestroyNotify(notify));
    expect(order_key(&other, DO_NOTIFY_OPEN, key, 0), ACL_ERROR_RT_NO_PERMISSION, "");
}

static void wrong_arguments_of_notifies_are_refused(void **state)
{
    char key[80] = "untouched";
    aclrtNotify notify;
    aclrtNotify opened;
    int32_t pid = 1;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl(aclrtNotifyGetExportKey(NULL, key, 65, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyGetExportKey(notify, NULL, 65, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyGetExportKey(notify, key, 64, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyGetExportKey(notify, key, 65, 1), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifySetImportPid(notify, &pid, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert_string_equal(key, "untouched");
    assert_acl_ok(aclrtNotifyGetExportKey(notify, key, sizeof key, 0));
    assert_acl(aclrtNotifyGetExportKey(notify, key, 65, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclrtNotifySetImportPid(NULL, &pid, 1), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifySetImportPid(notify, NULL, 1), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifySetImportPid(notify, &pid, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyImportByKey(NULL, key, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyImportByKey(&opened, NULL, 0), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyImportByKey(&opened, key, 1), ACL_ERROR_INVALID_PARAM);
    assert_acl(aclrtNotifyImportByKey(&opened, "nonsense", 0),
               ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

#define pair(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(a_record_here_is_waited_for_there),
        pair(a_record_there_is_waited_for_here),
        pair(the_host_waits_for_a_record_there),
        pair(one_that_nobody_has_recorded_is_complete),
        pair(a_wait_is_for_the_record_of_its_time),
        pair(bytes_written_before_the_record_are_there_after_the_wait),
        pair(what_a_killed_process_had_queued_fails_who_waits),
        pair(so_does_what_one_with_a_child_had_queued),
        pair(an_opened_event_outlives_its_maker),
        pair(a_record_that_is_dropped_there_fails_who_waits_here),
        pair(a_destroyed_event_cannot_be_opened),
        pair(an_altered_handle_is_refused),
        pair(only_events_for_it_are_exported),
        pair(its_handle_stays_the_same),
        pair(no_descriptor_is_left),
        pair(a_notify_there_lets_a_stream_here_go_on_once),
        pair(a_notify_here_lets_a_stream_there_go_on),
        pair(exporting_changes_nothing),
        pair(a_notify_is_for_those_who_are_listed),
        pair(wrong_arguments_of_notifies_are_refused),
    };

    actor_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
