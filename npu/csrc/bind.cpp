/* The functions of aclmem.npu._C: README.md lists them. */
#include "graph.h"
#include "memory.h"

#include <chrono>
#include <thread>

#include <ATen/EmptyTensor.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/functional.h>

namespace py = pybind11;

namespace npu
{

namespace
{

uintptr_t number(const void *address)
{
    return (uintptr_t)address;
}

/* ---- devices ---- */

void bind_devices(py::module &m)
{
    m.def("init", init);
    m.def("is_initialized", is_initialized);
    m.def("is_in_bad_fork", is_in_bad_fork);
    m.def("device_count", device_count);
    m.def("current_device", current_device);
    m.def("set_device", set_device, py::arg("device"));
    m.def(
        "synchronize", [](int device) { synchronize_device(device_or_current(device)); }, py::arg("device") = -1);
    m.def(
        "mem_get_info", [](int device) { return memory_info(device_or_current(device)); }, py::arg("device") = -1);
    m.def("soc_name", [] {
        const char *name = aclrtGetSocName();

        return std::string(name != nullptr ? name : "");
    });
}

/* ---- streams and events ---- */

void bind_streams(py::module &m)
{
    m.def(
        "current_stream", [](int device) { return current_stream(device_or_current(device)).id; },
        py::arg("device") = -1);
    m.def(
        "default_stream", [](int device) { return default_stream(device_or_current(device)).id; },
        py::arg("device") = -1);
    m.def(
        "set_stream",
        [](c10::StreamId id, int device) {
            stream_find(device_or_current(device), id);
            exchange_stream(device_or_current(device), id);
        },
        py::arg("stream"), py::arg("device") = -1);
    m.def(
        "stream_from_pool",
        [](int device, int priority) { return stream_from_pool(device_or_current(device), priority).id; },
        py::arg("device") = -1, py::arg("priority") = 0);
    m.def(
        "external_stream",
        [](uintptr_t handle, int device) { return external_stream(device_or_current(device), (aclrtStream)handle).id; },
        py::arg("handle"), py::arg("device") = -1);
    m.def("stream_handle", [](c10::StreamId id, int device) { return number(stream_find(device, id).handle); });
    m.def("stream_query", [](c10::StreamId id, int device) { return query_stream(stream_find(device, id)); });
    m.def("stream_synchronize", [](c10::StreamId id, int device) { synchronize_stream(stream_find(device, id)); });
    m.def("launch_host_func", [](c10::StreamId id, int device, py::function function) {
        auto held = std::shared_ptr<py::function>(new py::function(std::move(function)), [](py::function *f) {
            py::gil_scoped_acquire gil;

            delete f;
        });

        launch_function(stream_find(device, id), "host function", nullptr, [held] {
            py::gil_scoped_acquire gil;

            try {
                (*held)();
            } catch (py::error_already_set &error) {
                TORCH_CHECK(false, error.what());
            }
        });
    });
    m.def("sleep", [](double milliseconds) {
        static const Accesses none;

        launch_function(current_stream(current_device()), "sleep", &none, [milliseconds] {
            std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
        });
    });
    m.def("event_handle",
          [](uintptr_t event) { return event == 0 ? 0 : number(reinterpret_cast<Event *>(event)->handle); });
    m.def("event_elapsed_time", [](uintptr_t start, uintptr_t end) {
        return event_elapsed(reinterpret_cast<Event *>(start), reinterpret_cast<Event *>(end));
    });
    m.def("event_recorded_time", [](uintptr_t event) {
        uint64_t microseconds;

        TORCH_CHECK(event != 0, "Event must be recorded before getting recorded timestamp.");
        NPU_CHECK(aclrtEventGetTimestamp(reinterpret_cast<Event *>(event)->handle, &microseconds));
        return microseconds;
    });
}

/* ---- memory ---- */

py::dict stat_dict(const Stat &stat)
{
    py::dict dict;

    dict["current"] = stat.current;
    dict["peak"] = stat.peak;
    dict["allocated"] = stat.allocated;
    dict["freed"] = stat.freed;
    return dict;
}

py::dict stats_dict(int device)
{
    Stats stats = memory_stats(device_or_current(device));
    py::dict dict;
    const std::pair<const char *, c10::CachingDeviceAllocator::StatArray *> arrays[] = {
        {"allocation", &stats.allocation},
        {"segment", &stats.segment},
        {"active", &stats.active},
        {"inactive_split", &stats.inactive_split},
        {"allocated_bytes", &stats.allocated_bytes},
        {"reserved_bytes", &stats.reserved_bytes},
        {"active_bytes", &stats.active_bytes},
        {"inactive_split_bytes", &stats.inactive_split_bytes},
        {"requested_bytes", &stats.requested_bytes},
    };

    for (auto &[name, array] : arrays) {
        py::dict kinds;

        kinds["all"] = stat_dict((*array)[0]);
        kinds["small_pool"] = stat_dict((*array)[1]);
        kinds["large_pool"] = stat_dict((*array)[2]);
        dict[name] = kinds;
    }
    dict["oversize_allocations"] = stat_dict(stats.oversize_allocations);
    dict["oversize_segments"] = stat_dict(stats.oversize_segments);
    dict["num_alloc_retries"] = stats.num_alloc_retries;
    dict["num_ooms"] = stats.num_ooms;
    dict["max_split_size"] = stats.max_split_size;
    dict["num_sync_all_streams"] = stats.num_sync_all_streams;
    dict["num_device_alloc"] = stats.num_device_alloc;
    dict["num_device_free"] = stats.num_device_free;
    return dict;
}

py::list frames_list(const Where &where)
{
    py::list frames;

    if (where.code != nullptr) {
        py::object code = py::reinterpret_borrow<py::object>(where.code);
        py::dict frame;

        frame["filename"] = code.attr("co_filename");
        frame["name"] = code.attr("co_name");
        frame["line"] = where.line;
        frames.append(frame);
    }
    return frames;
}

py::dict segment_dict(const SegmentInfo &segment)
{
    py::dict dict;
    py::list blocks;
    size_t allocated = 0;
    size_t active = 0;
    size_t requested = 0;

    for (const BlockInfo &info : segment.blocks) {
        py::dict block;
        bool is_allocated = strcmp(info.state, "active_allocated") == 0;
        bool is_active = strcmp(info.state, "inactive") != 0;

        block["address"] = info.address;
        block["size"] = info.size;
        block["requested_size"] = info.requested;
        block["state"] = info.state;
        block["frames"] = frames_list(info.where);
        blocks.append(block);
        allocated += is_allocated ? info.size : 0;
        active += is_active ? info.size : 0;
        requested += is_active ? info.requested : 0;
    }
    dict["device"] = segment.device;
    dict["address"] = segment.address;
    dict["total_size"] = segment.size;
    dict["allocated_size"] = allocated;
    dict["active_size"] = active;
    dict["requested_size"] = requested;
    dict["stream"] = number(segment.stream);
    dict["segment_type"] = segment.is_small ? "small" : "large";
    dict["segment_pool_id"] = segment.pool;
    dict["is_expandable"] = false;
    dict["frames"] = py::list();
    dict["blocks"] = blocks;
    return dict;
}

py::list traces_list()
{
    py::list devices;

    for (int device = 0; device < device_count(); device++)
        devices.append(py::list());
    for (const TraceEntry &entry : memory_history()) {
        py::dict dict;

        dict["action"] = entry.action;
        dict[strcmp(entry.action, "oom") == 0 ? "device_free" : "addr"] = entry.address;
        dict["size"] = entry.size;
        dict["stream"] = number(entry.stream);
        dict["frames"] = frames_list(entry.where);
        py::list(devices[entry.device]).append(dict);
    }
    return devices;
}

void bind_memory(py::module &m)
{
    m.def("memory_stats", stats_dict, py::arg("device") = -1);
    m.def(
        "reset_peak_memory_stats", [](int device) { memory_reset_peak(device_or_current(device)); },
        py::arg("device") = -1);
    m.def(
        "reset_accumulated_memory_stats", [](int device) { memory_reset_accumulated(device_or_current(device)); },
        py::arg("device") = -1);
    m.def("empty_cache", memory_empty_cache);
    m.def(
        "memory_snapshot",
        [](std::optional<PoolId> pool) {
            py::list list;

            for (const SegmentInfo &segment : memory_snapshot()) {
                if (!pool || *pool == segment.pool)
                    list.append(segment_dict(segment));
            }
            return list;
        },
        py::arg("pool") = py::none());
    m.def("record_memory_history", memory_record_history, py::arg("enabled"), py::arg("max_entries") = SIZE_MAX);
    m.def("device_traces", traces_list);
    m.def(
        "caching_allocator_alloc",
        [](size_t size, int device, c10::StreamId stream) {
            return number(memory_alloc(size, stream_find(device_or_current(device), stream)));
        },
        py::call_guard<py::gil_scoped_release>());
    m.def("caching_allocator_delete", [](uintptr_t address) { memory_free((void *)address); });
    m.def("set_memory_fraction",
          [](double fraction, int device) { memory_set_fraction(fraction, device_or_current(device)); });
    m.def("get_memory_fraction", [](int device) { return memory_fraction(device_or_current(device)); });
    m.def("set_allocator_settings", memory_set_settings);
    m.def("attach_oom_observer", [](py::function function) {
        auto *held = new py::function(std::move(function)); /* for the life of the process */

        memory_on_oom([held](int device, size_t size, size_t total, size_t free) {
            py::gil_scoped_acquire gil;

            (*held)(device, size, total, free);
        });
    });
    m.def("export_segment", [](uintptr_t address) { return py::bytes(memory_export((void *)address)); });
    m.def("base_allocation", [](uintptr_t address) { return memory_base((void *)address); });
    m.def("erase_stream", [](const Tensor &tensor, c10::StreamId id) {
        record_stream(tensor.storage().data_ptr(), stream_find(tensor.device().index(), id), false);
    });
    m.def("host_empty_cache", host_memory_empty_cache);
    m.def("host_memory_stats", [] {
        HostStats stats = host_memory_stats();
        py::dict dict;

        dict["allocations"] = stat_dict(stats.allocations);
        dict["allocated_bytes"] = stat_dict(stats.allocated_bytes);
        dict["active_requests"] = stat_dict(stats.active_requests);
        dict["active_bytes"] = stat_dict(stats.active_bytes);
        dict["num_host_alloc"] = stats.num_host_alloc;
        dict["num_host_free"] = stats.num_host_free;
        return dict;
    });
    m.def("reset_peak_host_memory_stats", [] { host_memory_reset(true); });
    m.def("reset_accumulated_host_memory_stats", [] { host_memory_reset(false); });
}

/* ---- pluggable allocators and pools ---- */

template <class Function> auto setter(Function PluggableAllocator::*member)
{
    return [member](PluggableAllocator &allocator, uintptr_t address) {
        allocator.*member = reinterpret_cast<Function>(address);
    };
}

/* A MemPool of Python. */
class MemPool
{
  public:
    MemPool(std::shared_ptr<PluggableAllocator> allocator, bool is_user_created) : id(pool_new_id(is_user_created))
    {
        pool_make(id, std::move(allocator));
    }
    MemPool(const MemPool &) = delete;
    MemPool &operator=(const MemPool &) = delete;
    ~MemPool()
    {
        pool_unmake(id);
    }
    PoolId id;
};

void bind_pools(py::module &m)
{
    py::class_<PluggableAllocator, std::shared_ptr<PluggableAllocator>>(m, "PluggableAllocator")
        .def(py::init([](uintptr_t alloc, uintptr_t free) {
            auto allocator = std::make_shared<PluggableAllocator>();

            allocator->alloc = reinterpret_cast<PluggableAllocator::Alloc>(alloc);
            allocator->free = reinterpret_cast<PluggableAllocator::Free>(free);
            return allocator;
        }))
        .def("set_init_fn", setter(&PluggableAllocator::init))
        .def("set_reset_fn", setter(&PluggableAllocator::reset))
        .def("set_memory_fraction_fn", setter(&PluggableAllocator::memory_fraction))
        .def("set_base_alloc_fn", setter(&PluggableAllocator::base_alloc))
        .def("set_record_stream_fn", setter(&PluggableAllocator::record_stream))
        .def("set_erase_stream_fn", setter(&PluggableAllocator::erase_stream))
        .def("set_begin_allocate_to_pool", setter(&PluggableAllocator::begin_pool))
        .def("set_end_allocate_to_pool_fn", setter(&PluggableAllocator::end_pool))
        .def("set_release_pool", setter(&PluggableAllocator::release_pool));
    m.def("change_current_allocator", set_current_allocator);
    m.def("get_allocator_backend", [] { return std::string(has_current_allocator() ? "pluggable" : "native"); });
    py::class_<MemPool>(m, "MemPool")
        .def(py::init<std::shared_ptr<PluggableAllocator>, bool>(), py::arg("allocator") = nullptr,
             py::arg("is_user_created") = true)
        .def_readonly("id", &MemPool::id)
        .def("use_count", [](const MemPool &pool) { return 1 + pool_use_count(pool.id); });
    m.def("begin_allocate_to_pool", [](int device, PoolId id) { pool_begin(device_or_current(device), id, false); });
    m.def("end_allocate_to_pool", [](int device, PoolId id) { pool_end(device_or_current(device), id); });
    m.def("release_pool", [](int device, PoolId id) { pool_release(device_or_current(device), id); });
    m.def("graph_pool_handle", [] { return pool_new_id(true); });
}

/* ---- tensors at addresses ---- */

Tensor tensor_at(void *address, std::vector<int64_t> sizes, std::vector<int64_t> strides, at::ScalarType type,
                 int device, std::shared_ptr<void> owner)
{
    auto *held = new std::shared_ptr<void>(std::move(owner));
    size_t n_bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
    c10::DataPtr data(
        address, held, [](void *context) { delete static_cast<std::shared_ptr<void> *>(context); },
        Device(kDevice, (DeviceIndex)device));
    Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(c10::Storage::use_byte_size_t(), n_bytes, std::move(data), nullptr, false),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), at::scalarTypeToTypeMeta(type));

    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
}

void bind_tensors(py::module &m)
{
    m.def("weak_ref_tensor", [](const Tensor &tensor) {
        return tensor_at((char *)tensor.storage().mutable_data() + tensor.storage_offset() * tensor.itemsize(),
                         tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(), tensor.device().index(),
                         nullptr);
    });
    m.def(
        "tensor_from_address",
        [](uintptr_t address, std::vector<int64_t> sizes, std::vector<int64_t> strides, py::object type, int device,
           py::object owner) {
            auto held = std::shared_ptr<void>(new py::object(std::move(owner)), [](void *object) {
                py::gil_scoped_acquire gil;

                delete static_cast<py::object *>(object);
            });

            return tensor_at((void *)address, std::move(sizes), std::move(strides),
                             reinterpret_cast<THPDtype *>(type.ptr())->scalar_type, device_or_current(device), held);
        },
        py::arg("address"), py::arg("sizes"), py::arg("strides"), py::arg("dtype"), py::arg("device") = -1,
        py::arg("owner") = py::none());
    m.def(
        "default_generator", [](int device) { return default_generator(device); }, py::arg("device") = -1);
}

/* ---- operators ---- */

void bind_operators(py::module &m)
{
    m.def("operator_stats", [] {
        py::dict dict;

        operators_each([&](Operator &op) {
            py::dict entry;
            std::lock_guard<std::mutex> guard(op.lock);

            entry["queued"] = op.stats.queued.load();
            entry["synchronous"] = op.stats.synchronous.load();
            entry["views"] = op.stats.views.load();
            entry["inferences"] = op.stats.inferences.load();
            entry["reason"] = op.reason;
            dict[py::str(op.name)] = entry;
        });
        return dict;
    });
    m.def("reset_operator_stats", [] {
        operators_each([](Operator &op) {
            std::lock_guard<std::mutex> guard(op.lock);

            op.stats.queued = op.stats.synchronous = op.stats.views = op.stats.inferences = 0;
            op.reason.clear();
        });
    });
    m.def("synchronous_operators", [] {
        std::map<std::string, std::string> operators;

        operators_each([&](Operator &op) {
            std::lock_guard<std::mutex> guard(op.lock);

            if (op.stats.synchronous > 0)
                operators[op.name] = op.reason;
        });
        return operators;
    });
    m.def("force_synchronous", set_launch_blocking);
    m.def("set_inference_cache", set_plans_max);
}

void bind_graphs(py::module &m)
{
    py::class_<Graph>(m, "NPUGraph")
        .def(py::init<>())
        .def("capture_begin", &Graph::capture_begin, py::arg("pool") = py::none(), py::arg("mode") = "global")
        .def("capture_end", &Graph::capture_end)
        .def("replay", &Graph::replay)
        .def("reset", &Graph::reset)
        .def("pool", &Graph::pool)
        .def("debug_dump", &Graph::debug_dump);
    py::class_<TaskGroup, std::shared_ptr<TaskGroup>>(m, "TaskGroup");
    m.def("graph_task_group_begin", [](c10::StreamId id, int device) { group_begin(stream_find(device, id)); });
    m.def("graph_task_group_end", [](c10::StreamId id, int device) { return group_end(stream_find(device, id)); });
    m.def("graph_task_update_begin", [](c10::StreamId id, int device, std::shared_ptr<TaskGroup> group) {
        group_update_begin(stream_find(device, id), std::move(group));
    });
    m.def("graph_task_update_end", [](c10::StreamId id, int device) { group_update_end(stream_find(device, id)); });
    m.def("is_current_stream_capturing",
          [] { return is_initialized() && is_capturing(current_stream(current_device())); });
}

} // namespace

} // namespace npu

PYBIND11_MODULE(_C, m)
{
    npu::register_hooks();
    npu::register_graphs();
    npu::bind_devices(m);
    npu::bind_streams(m);
    npu::bind_memory(m);
    npu::bind_pools(m);
    npu::bind_tensors(m);
    npu::bind_operators(m);
    npu::bind_graphs(m);
    py::module::import("atexit").attr("register")(py::cpp_function(npu::shutdown));
}
