/*
 * The PyTorch device "npu" on aclmem: what the files of the extension share.
 *
 * An operator is a task: a host function on an aclrtStream that runs PyTorch's CPU kernel on host views of
 * device memory.  A task has addresses and no storages, so that a missing record_stream has its real effect.
 */
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <Python.h>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "acl/acl.h"
#include "aclmem/access.h"
#include "aclmem/aclmem.h"

namespace npu
{

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::IValue;
using torch::jit::Stack;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

/* ---- runtime.cpp: devices, streams, events, tasks ---- */

/* Raises "NPU function error: CALL, error code is CODE" with the library's message. */
[[noreturn]] void raise(aclError rc, const char *call, const char *file, int line);

#define NPU_CHECK(call_) \
    do { \
        aclError rc_ = (call_); \
        if (C10_UNLIKELY(rc_ != ACL_SUCCESS)) \
            ::npu::raise(rc_, #call_, __FILE__, __LINE__); \
    } while (0)

/* Releases the GIL where the thread has it. */
class WithoutGil
{
  public:
    WithoutGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
    {
    }
    ~WithoutGil()
    {
        if (state_ != nullptr)
            PyEval_RestoreThread(state_);
    }

  private:
    PyThreadState *state_;
};

/* Where in the Python program a task was queued. */
struct Where {
    PyObject *code = nullptr; /* never freed */
    int line = 0;
    std::string text() const;
};
Where where();

/* Gives the layers of aclmem the Python frames of the calls in its scope. */
class Callers
{
  public:
    explicit Callers(const std::string &operation);
    ~Callers();

  private:
    std::string text_;
};

struct Stream {
    int device;
    c10::StreamId id;
    aclrtStream handle = nullptr;
    std::mutex lock;
    std::condition_variable changed;
    int64_t n_pending = 0; /* lock */
    int n_waiting = 0;     /* lock */
    c10::Stream c10() const
    {
        return c10::Stream(c10::Stream::UNSAFE, Device(kDevice, (DeviceIndex)device), id);
    }
};

void init();
bool is_initialized();
bool is_in_bad_fork();
/* The interpreter ends: waits for all work, frees device memory and streams. */
void shutdown();
bool is_shut_down();
int device_count();
int current_device();
void set_device(int device);
/* Sets the device without a check; the previous one is returned. */
int exchange_device(int device) noexcept;
/* Makes the current device the calling thread's device of AscendCL. */
void use_current_device();
/* The calling thread's device, also of AscendCL, while the object exists. */
class OnDevice
{
  public:
    explicit OnDevice(int device) : guard_(Device(kDevice, (DeviceIndex)device))
    {
        use_current_device();
    }

  private:
    c10::DeviceGuard guard_;
};
inline int device_or_current(int device)
{
    return device < 0 ? current_device() : device;
}

Stream &stream_find(int device, c10::StreamId id);
Stream &default_stream(int device);
Stream &current_stream(int device);
Stream &stream_from_pool(int device, int priority);
Stream &external_stream(int device, aclrtStream handle);
Stream &exchange_stream(int device, c10::StreamId id) noexcept;
/* The graph that the stream is captured into; NULL: none. */
aclmdlRI capture_of(const Stream &stream);
inline bool is_capturing(const Stream &stream)
{
    return capture_of(stream) != nullptr;
}
extern std::atomic<int> n_captures; /* graphs whose capture has begun */

/* All waits raise the first error of a task of the device. */
void synchronize_stream(Stream &stream);
void synchronize_device(int device);
/* Raises no error of a task. */
void wait_device(int device);
bool query_stream(Stream &stream);

struct Event {
    aclrtEvent handle;
    int device;
};
Event *event_make(int device, uint32_t flags);
void event_destroy(Event *event) noexcept;
void event_record(Event *event, Stream &stream);
void event_block(const Event *event, Stream &stream);
bool event_query(const Event *event);
void event_synchronize(const Event *event);
double event_elapsed(const Event *start, const Event *end);

/* The streams that use a block of memory which is about to be freed. */
struct Users {
    std::set<Stream *> streams;  /* without an event yet */
    std::vector<Event *> events; /* behind their work */
    bool empty() const
    {
        return streams.empty() && events.empty();
    }
    /* Records the events.  During a capture no event can be recorded, and poll() does it later. */
    void record();
    /* Whether all streams have passed their events. */
    bool poll();
};

/* One access of a task: access.h of aclmem, with its sizes and strides. */
struct Access {
    uintptr_t address;
    uint32_t item;
    bool is_write;
    c10::SmallVector<int64_t, 5> sizes;
    c10::SmallVector<int64_t, 5> strides; /* bytes */
};
using Accesses = std::vector<Access>;

class Task
{
  public:
    explicit Task(std::string name) : name(std::move(name))
    {
    }
    virtual ~Task() = default;
    virtual void run() = 0;

    std::string name;
    Where where;
    Stream *stream = nullptr;
    bool is_captured = false;
};

/*
 * Queues the task; blocks at the depth limit.  The accesses are for the layer check; NULL: the task may use anything
 * and may notify threads of the program.
 */
void launch(Stream &stream, std::unique_ptr<Task> task, const Accesses *accesses);
void set_launch_blocking(bool is_on);
/* Runs the task; its error arrives at the next synchronisation. */
void task_run_caught(Task &task);

template <class Function> class FunctionTask final : public Task
{
  public:
    FunctionTask(std::string name, Function function) : Task(std::move(name)), function_(std::move(function))
    {
    }
    void run() override
    {
        function_();
    }

  private:
    Function function_;
};

template <class Function>
void launch_function(Stream &stream, std::string name, const Accesses *accesses, Function function)
{
    launch(stream, std::make_unique<FunctionTask<Function>>(std::move(name), std::move(function)), accesses);
}

/* ---- memory.cpp ---- */

c10::Allocator *device_allocator();
c10::Allocator *pinned_allocator(); /* host.cpp */
bool is_pinned(const void *address);
/* A copy between pinned memory and the stream was queued. */
void pinned_record(const void *address, Stream &stream);
/* The stream uses the memory, or, if not is_used, uses it no longer. */
void record_stream(const c10::DataPtr &data, Stream &stream, bool is_used = true);
int device_of_address(const void *address);

/* Where a task finds the memory of a storage. */
struct HostAddress {
    void *host; /* NULL: the task has to open a view */
    void *device;
};
HostAddress host_address(const c10::StorageImpl *storage);

/* ---- access.cpp ---- */

bool wants_accesses();
Access access_of(const Tensor &tensor, bool is_write);

/* ---- guard.cpp ---- */

/* Registers the name, the hooks and the generator. */
void register_hooks();
const at::Generator &default_generator(int device);
constexpr uint64_t kDrawStep = 4; /* offsets are multiples of 4 */
/* The seed for one random operator, from the generator's (seed, offset), which advances. */
struct Draw {
    uint64_t seed;
    uint64_t offset;
    /* Of a captured operator: the replay's state, to which the offset is added. */
    std::shared_ptr<const Draw> replay;
};
/* Advances the state of the generator by n operators. */
Draw generator_advance(const at::Generator &generator, uint64_t n);
Draw generator_draw(const std::optional<at::Generator> &generator, int device);
at::Generator draw_generator(const Draw &draw);

/* ---- graph.cpp ---- */

/* The interpreter ends, which holds the GIL: resets all graphs. */
void graphs_free();
/* The graph owns the task that was captured. */
void capture_add(aclmdlRI capture, std::unique_ptr<Task> task);
/* A random operator was captured: its place among those of the graph that use the generator. */
Draw capture_draw(aclmdlRI capture, const at::Generator &generator);
/* Whether a task group of the thread takes the task; *task is then empty. */
bool group_add(Stream &stream, std::unique_ptr<Task> &task, const Accesses *accesses);

/* ---- fallback.cpp ---- */

inline bool is_npu(const Tensor &tensor)
{
    return tensor.defined() && tensor.device().type() == kDevice;
}

/* CPU tensors on the memory of device tensors; one CPU storage for each device storage. */
class HostTensors
{
  public:
    Tensor wrap(const Tensor &tensor);
    /* Storages whose view the task opens when it runs. */
    struct Late {
        c10::Storage storage;
        void *address;
        int device;
        size_t item; /* the size of an element; the smallest of the tensors */
    };
    std::vector<Late> late;

  private:
    std::vector<std::pair<const c10::StorageImpl *, c10::Storage>> storages_;
};

/* The bytes of device memory for the host while the object exists. */
class HostBytes
{
  public:
    HostBytes(void *address, size_t size, size_t item, int device);
    HostBytes(const HostBytes &) = delete;
    HostBytes &operator=(const HostBytes &) = delete;
    ~HostBytes();
    void *get()
    {
        return view_ != nullptr ? view_ : copy_.data();
    }

  private:
    void *view_ = nullptr; /* NULL: the backend has no views, as for the memory of a GPU */
    void *address_;
    size_t item_;
    int device_;
    std::vector<char> copy_;
    std::vector<char> original_; /* elements that differ from it are copied back */
};

/* Opens the views of such storages, and closes them. */
class LateViews
{
  public:
    explicit LateViews(std::vector<HostTensors::Late> &late);

  private:
    std::deque<HostBytes> views_;
};

void run_operator(const c10::OperatorHandle &op, Stack *stack);
Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, Device device);
/* Grows the storage of the tensor; a task copies its bytes. */
void storage_resize(c10::StorageImpl *storage, size_t n_bytes);
void tensor_resize(const Tensor &tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

/* ---- infer.cpp ---- */

/* Calls `function` for each defined tensor of the value; the value with the results in place of them. */
template <class Function> IValue map_tensors(const IValue &value, Function function)
{
    if (value.isTensor())
        return value.toTensor().defined() ? IValue(function(value.toTensor())) : value;
    if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor &tensor : value.toTensorVector())
            list.push_back(tensor.defined() ? function(tensor) : tensor);
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const auto &tensor : value.toOptionalTensorVector())
            list.push_back(tensor && tensor->defined() ? std::optional<Tensor>(function(*tensor)) : tensor);
        return list;
    }
    return value;
}

struct OperatorStats {
    std::atomic<uint64_t> queued{0};
    std::atomic<uint64_t> synchronous{0};
    std::atomic<uint64_t> views{0};
    std::atomic<uint64_t> inferences{0};
};

/* What an operator returns for arguments of some shapes. */
struct Plan {
    enum Kind { ARGUMENT, VIEW, FRESH, UNDEFINED };
    struct Result {
        Kind kind = UNDEFINED;
        int tensor = -1; /* index into Arguments::tensors */
        std::vector<int64_t> sizes;
        std::vector<int64_t> strides;
        int64_t offset = 0;
        at::ScalarType type = at::kFloat;
    };
    struct Return {
        bool is_list = false;
        std::vector<Result> results;
    };
    std::vector<Result> resizes;
    std::vector<Return> returns;
};

struct Operator {
    explicit Operator(const c10::OperatorHandle &op);

    std::string name;
    bool has_cpu;
    bool has_values = false;           /* a result is not a tensor */
    std::atomic<bool> has_meta{false}; /* and it agrees with the CPU kernel */
    bool may_index = false;            /* takes CPU tensors as indices */
    int generator = -1;                /* argument */
    int device = -1;                   /* argument */
    std::vector<char> is_written;      /* for each argument */
    std::vector<int> returned;         /* for each return: the written argument that it is; -1: none */
    OperatorStats stats;
    std::mutex lock;
    std::string reason;                                                 /* lock: why it ran synchronously */
    std::unordered_map<std::string, std::shared_ptr<const Plan>> plans; /* lock */
};

Operator &operator_of(const c10::OperatorHandle &op);
void operators_each(const std::function<void(Operator &)> &function);
void set_plans_max(size_t entries);

/* The tensors among the arguments, each once, and the key of the cache. */
struct Arguments {
    Arguments(const Operator &op, const Stack &stack);

    size_t base; /* of the arguments in the stack */
    std::vector<Tensor> tensors;
    std::vector<char> is_written;
    std::string key;
    bool has_key = true;
    int find(const Tensor &tensor) const;

  private:
    void add_tensor(const Tensor &tensor, bool is_written);
    void add_value(const IValue &value);
    void put(const void *data, size_t size)
    {
        key.append(static_cast<const char *>(data), size);
    }
    void put_number(int64_t number)
    {
        put(&number, sizeof number);
    }
};

/* From the cache, or inferred with the meta kernel; NULL: *ret_reason says why not. */
std::shared_ptr<const Plan> plan_of(const c10::OperatorHandle &handle, Operator &op, const Arguments &arguments,
                                    const Stack &stack, std::string *ret_reason);

} // namespace npu
