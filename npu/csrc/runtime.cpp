/*
 * Devices, streams, events and tasks, on aclrt calls.
 *
 * Stream ids are torch_npu's: the kind is id >> 5 (0 default, 3 normal, 4 high priority), the low 5 bits are
 * the index in a ring of 32; bit 30 marks external streams.  The current device and stream are thread local.
 */
#include "memory.h"

#include <deque>
#include <unistd.h>

#include <omp.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

namespace npu
{

namespace
{

constexpr int kRing = 32;
constexpr int kNormal = 3;
constexpr int kHigh = 4;
constexpr c10::StreamId kExternal = 1 << 30;
constexpr int64_t kDepth = 4096; /* tasks of a stream that have not ended; a launch then waits */

struct DeviceState {
    std::map<c10::StreamId, std::unique_ptr<Stream>> streams;
    unsigned next[2] = {0, 0};
    std::exception_ptr error; /* the first since the last synchronisation */
};

struct {
    std::once_flag once;
    std::atomic<bool> is_ready{false};
    std::atomic<bool> is_shut_down{false};
    std::atomic<pid_t> process{0};
    std::mutex lock; /* protects the rest */
    std::deque<DeviceState> devices;
} state;

std::atomic<bool> has_error{false};
std::atomic<bool> is_blocking{false};
thread_local int thread_device = 0;
thread_local int acl_device = -1; /* that aclrtSetDevice set in this thread */
thread_local std::vector<Stream *> thread_streams;

void init_once()
{
    aclError rc = aclInit(nullptr);

    if (rc != ACL_ERROR_REPEAT_INITIALIZE)
        NPU_CHECK(rc);
    state.devices.resize(device_count());
    state.process = getpid();
    const char *text = getenv("ASCEND_LAUNCH_BLOCKING");
    is_blocking = text != nullptr && strcmp(text, "1") == 0;
    state.is_ready = true;
}

Stream &stream_make_locked(int device, c10::StreamId id, aclrtStream handle)
{
    auto stream = std::make_unique<Stream>();

    stream->device = device;
    stream->id = id;
    stream->handle = handle;
    if (handle == nullptr) {
        OnDevice on(device);

        NPU_CHECK(aclrtCreateStreamWithConfig(&stream->handle, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    }
    return *(state.devices[device].streams[id] = std::move(stream));
}

/* An error is raised with the GIL: PyTorch may take Python's stack for it. */
template <class Function> aclError without_gil(Function function)
{
    WithoutGil without;

    return function();
}

void error_set(int device, std::exception_ptr error)
{
    std::lock_guard<std::mutex> guard(state.lock);

    if (!state.devices[device].error) {
        state.devices[device].error = std::move(error);
        has_error = true;
    }
}

void error_raise(int device)
{
    std::exception_ptr error;

    if (!has_error)
        return;
    {
        std::lock_guard<std::mutex> guard(state.lock);

        std::swap(error, state.devices[device].error);
        has_error = std::any_of(state.devices.begin(), state.devices.end(), [](auto &d) { return bool(d.error); });
    }
    if (error)
        std::rethrow_exception(error);
}

} // namespace

std::atomic<int> n_captures{0};

void raise(aclError rc, const char *call, const char *file, int line)
{
    const char *message = aclGetRecentErrMsg();
    const char *name = strrchr(file, '/');

    TORCH_CHECK(false, name != nullptr ? name + 1 : file, ":", line, " NPU function error: ", call, ", error code is ",
                rc, message != nullptr ? std::string("\n[Error]: ") + message : std::string());
}

/* ---- devices ---- */

void init()
{
    TORCH_CHECK(!is_in_bad_fork(),
                "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you "
                "must use the 'spawn' start method");
    std::call_once(state.once, init_once);
}

bool is_initialized()
{
    return state.is_ready && !is_in_bad_fork();
}

bool is_in_bad_fork()
{
    return state.process != 0 && state.process != getpid();
}

bool is_shut_down()
{
    return state.is_shut_down;
}

void shutdown()
{
    if (!is_initialized() || is_shut_down())
        return;
    for (int device = 0; device < device_count(); device++) {
        if (state.devices[device].streams.empty())
            continue;
        try {
            synchronize_device(device);
        } catch (const std::exception &error) {
            fprintf(stderr, "aclmem.npu: an error that no synchronisation reported: %s\n", error.what());
        }
    }
    graphs_free();
    host_memory_empty_cache();
    memory_shutdown();
    state.is_shut_down = true;
    std::lock_guard<std::mutex> guard(state.lock);

    for (size_t i = 0; i < state.devices.size(); i++) {
        if (state.devices[i].streams.empty())
            continue;
        exchange_device((int)i);
        use_current_device();
        for (auto &[id, stream] : state.devices[i].streams) {
            if (id < kExternal)
                aclrtDestroyStream(stream->handle);
        }
    }
}

int device_count()
{
    static const int count = [] {
        uint32_t n = 0;

        return aclrtGetDeviceCount(&n) == ACL_SUCCESS ? (int)n : 0;
    }();

    return count;
}

int current_device()
{
    return thread_device;
}

int exchange_device(int device) noexcept
{
    int previous = thread_device;

    thread_device = device;
    return previous;
}

void set_device(int device)
{
    if (device < 0)
        return;
    TORCH_CHECK(device < device_count(),
                "NPU function error: aclrtSetDevice, error code is 107001\n[Error]: Invalid device "
                "ID. Check whether the device ID is valid: ",
                device, ", device count ", device_count());
    init();
    thread_device = device;
    use_current_device();
}

void use_current_device()
{
    init();
    if (acl_device == thread_device)
        return;
    NPU_CHECK(aclrtSetDevice(thread_device));
    acl_device = thread_device;
}

/* ---- streams ---- */

Stream &stream_find(int device, c10::StreamId id)
{
    init();
    std::lock_guard<std::mutex> guard(state.lock);
    auto &streams = state.devices.at(device).streams;
    auto found = streams.find(id);

    if (found != streams.end())
        return *found->second;
    TORCH_CHECK(id == 0 || id >> 5 == kNormal || id >> 5 == kHigh, "npu: stream ", id, " of device ", device,
                " does not exist");
    return stream_make_locked(device, id, nullptr);
}

Stream &default_stream(int device)
{
    return stream_find(device, 0);
}

Stream &current_stream(int device)
{
    if ((int)thread_streams.size() <= device)
        thread_streams.resize(device + 1);
    if (thread_streams[device] == nullptr)
        thread_streams[device] = &default_stream(device);
    return *thread_streams[device];
}

Stream &exchange_stream(int device, c10::StreamId id) noexcept
{
    Stream &previous = current_stream(device);

    thread_streams[device] = &stream_find(device, id);
    return previous;
}

Stream &stream_from_pool(int device, int priority)
{
    unsigned index;
    bool is_high = priority < 0;

    init();
    {
        std::lock_guard<std::mutex> guard(state.lock);

        index = state.devices.at(device).next[is_high]++ % kRing;
    }
    return stream_find(device, (is_high ? kHigh : kNormal) << 5 | index);
}

Stream &external_stream(int device, aclrtStream handle)
{
    init();
    std::lock_guard<std::mutex> guard(state.lock);
    auto &streams = state.devices.at(device).streams;

    for (auto &[id, stream] : streams)
        if (stream->handle == handle)
            return *stream;
    return stream_make_locked(device, kExternal + (c10::StreamId)streams.size(), handle);
}

aclmdlRI capture_of(const Stream &stream)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI model = nullptr;

    if (n_captures == 0 || aclmdlRICaptureGetInfo(stream.handle, &status, &model) != ACL_SUCCESS)
        return nullptr;
    return status != ACL_MODEL_RI_CAPTURE_STATUS_NONE ? model : nullptr;
}

void synchronize_stream(Stream &stream)
{
    Callers callers("synchronize stream");

    NPU_CHECK(without_gil([&] { return aclrtSynchronizeStream(stream.handle); }));
    error_raise(stream.device);
}

void wait_device(int device)
{
    Callers callers("synchronize device");
    OnDevice on(device);

    NPU_CHECK(without_gil([] { return aclrtSynchronizeDevice(); }));
}

void synchronize_device(int device)
{
    if (!is_initialized())
        return;
    wait_device(device);
    error_raise(device);
}

bool query_stream(Stream &stream)
{
    aclrtStreamStatus status;

    NPU_CHECK(aclrtStreamQuery(stream.handle, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

/* ---- events ---- */

Event *event_make(int device, uint32_t flags)
{
    aclrtEvent handle;
    OnDevice on(device);

    NPU_CHECK(aclrtCreateEventExWithFlag(&handle, flags));
    return new Event{handle, device};
}

void event_destroy(Event *event) noexcept
{
    if (event != nullptr && is_initialized())
        aclrtDestroyEvent(event->handle);
    delete event;
}

void event_record(Event *event, Stream &stream)
{
    Callers callers("record event");

    TORCH_CHECK(event->device == stream.device, "Event device ", event->device,
                " does not match recording stream's device ", stream.device, ".");
    NPU_CHECK(aclrtRecordEvent(event->handle, stream.handle));
}

void event_block(const Event *event, Stream &stream)
{
    Callers callers("wait for event");

    if (event != nullptr)
        NPU_CHECK(aclrtStreamWaitEvent(stream.handle, event->handle));
}

bool event_query(const Event *event)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;

    if (event != nullptr)
        NPU_CHECK(aclrtQueryEventStatus(event->handle, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void event_synchronize(const Event *event)
{
    Callers callers("synchronize event");

    if (event == nullptr)
        return;
    NPU_CHECK(without_gil([&] { return aclrtSynchronizeEvent(event->handle); }));
    error_raise(event->device);
}

double event_elapsed(const Event *start, const Event *end)
{
    float milliseconds;

    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    event_synchronize(start);
    event_synchronize(end);
    NPU_CHECK(aclrtEventElapsedTime(&milliseconds, start->handle, end->handle));
    return milliseconds;
}

void Users::record()
{
    if (n_captures > 0)
        return;
    for (Stream *stream : streams) {
        events.push_back(event_make(stream->device, ACL_EVENT_SYNC));
        event_record(events.back(), *stream);
    }
    streams.clear();
}

bool Users::poll()
{
    record();
    while (!events.empty() && event_query(events.back())) {
        event_destroy(events.back());
        events.pop_back();
    }
    return empty();
}

/* ---- tasks ---- */

namespace
{

void task_end(Stream *stream)
{
    std::lock_guard<std::mutex> guard(stream->lock);

    stream->n_pending--;
    if (stream->n_waiting > 0)
        stream->changed.notify_all();
}

void task_failed(Task *task)
{
    std::string note = "in the npu operator " + task->name;

    if (task->where.code != nullptr)
        note += ", queued at " + task->where.text();
    try {
        throw;
    } catch (c10::Error &error) {
        error.add_context(note);
        error_set(task->stream->device, std::current_exception());
    } catch (const std::exception &error) {
        error_set(task->stream->device, std::make_exception_ptr(std::runtime_error(error.what() + ("\n" + note))));
    } catch (...) {
        error_set(task->stream->device, std::current_exception());
    }
}

/* The host function of each task. */
void task_run(void *argument)
{
    Task *task = static_cast<Task *>(argument);
    Stream *stream = task->stream;
    bool is_captured = task->is_captured;
    thread_local bool is_prepared = false;

    if (!is_prepared) {
        omp_set_num_threads(1);
        is_prepared = true;
    }
    task_run_caught(*task);
    if (is_captured)
        return;
    delete task;
    task_end(stream);
}

/* Waits at the depth limit; counts the task. */
void stream_enter(Stream &stream)
{
    std::unique_lock<std::mutex> guard(stream.lock);

    if (stream.n_pending >= kDepth) {
        guard.unlock();
        WithoutGil without;
        guard.lock();
        stream.n_waiting++;
        stream.changed.wait(guard, [&] { return stream.n_pending < kDepth; });
        stream.n_waiting--;
        stream.n_pending++;
        guard.unlock();
        return;
    }
    stream.n_pending++;
}

aclError launch_declared(Stream &stream, Task *task, const Accesses *accesses)
{
    if (accesses == nullptr || !aclmem_wants_access())
        return aclrtLaunchHostFunc(stream.handle, task_run, task);

    Callers callers(task->name);
    std::vector<aclmem_access> list;

    for (const Access &access : *accesses)
        list.push_back({(const void *)access.address, access.item,
                        access.is_write ? ACLMEM_ACCESS_WRITE : ACLMEM_ACCESS_READ, (uint32_t)access.sizes.size(),
                        access.sizes.data(), access.strides.data()});
    aclmem_declare_access(list.data(), list.size());
    return aclrtLaunchHostFunc(stream.handle, task_run, task);
}

} // namespace

void set_launch_blocking(bool is_on)
{
    is_blocking = is_on;
}

void task_run_caught(Task &task)
{
    try {
        at::AutoDispatchBelowADInplaceOrView guard;

        task.run();
    } catch (...) {
        task_failed(&task);
    }
}

void launch(Stream &stream, std::unique_ptr<Task> task, const Accesses *accesses)
{
    Task *queued = task.get();
    aclmdlRI capture = capture_of(stream);
    aclError rc;

    task->stream = &stream;
    task->where = where();
    task->is_captured = capture != nullptr;
    if (group_add(stream, task, accesses))
        return;
    use_current_device();
    if (!task->is_captured)
        stream_enter(stream);
    rc = launch_declared(stream, queued, accesses);
    if (rc != ACL_SUCCESS) {
        if (!task->is_captured)
            task_end(&stream);
        raise(rc, "aclrtLaunchHostFunc", __FILE__, __LINE__);
    }
    if (capture != nullptr) {
        capture_add(capture, std::move(task));
        return;
    }
    task.release(); // NOLINT: task_run deletes it
    if (is_blocking)
        synchronize_stream(stream);
}

} // namespace npu
