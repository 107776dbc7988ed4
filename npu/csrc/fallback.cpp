/*
 * The kernel of all operators that have no other one: it queues the CPU kernel as a task, or runs it synchronously.
 *
 * Synchronous are operators that return a value, whose result size depends on data, or without a usable meta kernel.
 * An error of an inference is not reported: the synchronous path raises the CPU kernel's own message in the caller.
 */
#include "npu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <torch/library.h>

namespace npu
{

Tensor HostTensors::wrap(const Tensor &tensor)
{
    const auto *impl = tensor.storage().unsafeGetStorageImpl();
    auto found = std::find_if(storages_.begin(), storages_.end(), [&](auto &entry) { return entry.first == impl; });

    if (found == storages_.end()) {
        HostAddress address = host_address(impl);

        storages_.emplace_back(impl, c10::Storage(c10::Storage::use_byte_size_t(), impl->nbytes(),
                                                  c10::DataPtr(address.host, Device(at::kCPU)), nullptr, false));
        found = std::prev(storages_.end());
        if (address.host == nullptr && address.device != nullptr && impl->nbytes() > 0)
            late.push_back({found->second, address.device, tensor.device().index(), tensor.itemsize()});
    }
    for (Late &entry : late) {
        if (entry.storage.unsafeGetStorageImpl() == found->second.unsafeGetStorageImpl())
            entry.item = std::min(entry.item, tensor.itemsize());
    }
    Tensor result = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(found->second), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    auto *view = result.unsafeGetTensorImpl();

    view->set_storage_offset(tensor.storage_offset());
    view->set_sizes_and_strides(tensor.sizes(), tensor.strides());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
        view->set_wrapped_number(true);
    if (tensor.is_conj())
        result._set_conj(true);
    if (tensor.is_neg())
        result._set_neg(true);
    return result;
}

namespace
{

void copy_bytes(int device, void *target, const void *source, size_t size, aclrtMemcpyKind kind)
{
    OnDevice on(device);

    NPU_CHECK(aclrtMemcpy(target, size, source, size, kind));
}

} // namespace

HostBytes::HostBytes(void *address, size_t size, size_t item, int device)
    : address_(address), item_(item), device_(device)
{
    aclError rc = aclmem_host_view(address, size, &view_);

    if (rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) {
        view_ = nullptr;
        copy_.resize(size);
        copy_bytes(device, copy_.data(), address, size, ACL_MEMCPY_DEVICE_TO_HOST);
        original_ = copy_;
        return;
    }
    NPU_CHECK(rc);
}

/* Only what changed: another stream may write the bytes between. */
HostBytes::~HostBytes()
{
    size_t size = copy_.size();
    size_t begin = 0;
    auto is_equal = [&](size_t at) {
        return memcmp(&copy_[at], &original_[at], std::min(item_, size - at)) == 0;
    };

    if (view_ != nullptr)
        aclmem_host_view_end(view_);
    try {
        while (begin < size) {
            size_t end;

            for (; begin < size && is_equal(begin); begin += item_)
                ;
            for (end = begin; end < size && !is_equal(end); end += item_)
                ;
            if (end > begin)
                copy_bytes(device_, static_cast<char *>(address_) + begin, &copy_[begin], std::min(end, size) - begin,
                           ACL_MEMCPY_HOST_TO_DEVICE);
            begin = end;
        }
    } catch (const std::exception &error) {
        fprintf(stderr, "aclmem.npu: the results of an operator are lost: %s\n", error.what());
    }
}

LateViews::LateViews(std::vector<HostTensors::Late> &late)
{
    for (auto &entry : late) {
        auto *impl = entry.storage.unsafeGetStorageImpl();

        views_.emplace_back(entry.address, impl->nbytes(), entry.item, entry.device);
        impl->set_data_ptr_noswap(c10::DataPtr(views_.back().get(), Device(at::kCPU)));
    }
}

/* ---- sizes ---- */

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, Device device)
{
    c10::DeviceGuard guard(device);

    return at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

void storage_resize(c10::StorageImpl *storage, size_t n_bytes)
{
    c10::DeviceGuard guard(storage->device());
    c10::DataPtr data = device_allocator()->allocate(n_bytes);
    size_t n = std::min(n_bytes, storage->nbytes());
    Callers callers("resize storage");

    if (n > 0)
        NPU_CHECK(aclrtMemcpyAsync(data.get(), n_bytes, storage->data(), n, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                   current_stream(storage->device().index()).handle));
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(n_bytes);
}

void tensor_resize(const Tensor &tensor, at::IntArrayRef sizes, at::IntArrayRef strides)
{
    size_t n_bytes =
        at::detail::computeStorageNbytes(sizes, strides, tensor.itemsize(), (size_t)tensor.storage_offset());
    auto *storage = tensor.storage().unsafeGetStorageImpl();

    if (n_bytes > storage->nbytes())
        storage_resize(storage, n_bytes);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
}

namespace
{

/* ---- the call of one operator ---- */

struct Call {
    const c10::OperatorHandle &handle;
    Operator &op;
    Stack *stack;
    Arguments arguments;
    Device device;

    Call(const c10::OperatorHandle &handle, Operator &op, Stack *stack)
        : handle(handle), op(op), stack(stack), arguments(op, *stack), device(device_of())
    {
        check_devices();
    }

    const IValue &argument(size_t i) const
    {
        return (*stack)[arguments.base + i];
    }

    Device device_of() const
    {
        for (const Tensor &tensor : arguments.tensors) {
            if (is_npu(tensor))
                return tensor.device();
        }
        if (op.device >= 0 && argument(op.device).isDevice() && argument(op.device).toDevice().has_index())
            return argument(op.device).toDevice();
        return Device(kDevice, (DeviceIndex)current_device());
    }

    /* The generated check of other backends does not exist for boxed kernels. */
    void check_devices() const
    {
        for (const Tensor &tensor : arguments.tensors)
            TORCH_CHECK(is_npu(tensor) ? tensor.device() == device : tensor.dim() == 0 || op.may_index,
                        "Expected all tensors to be on the same device, but found at least two devices, ", device,
                        " and ", tensor.device(), "! (", op.name, ")");
    }

    std::optional<Draw> draw() const
    {
        if (op.generator < 0)
            return std::nullopt;
        const IValue &value = argument(op.generator);

        return generator_draw(value.isNone() ? std::nullopt : std::optional<at::Generator>(value.toGenerator()),
                              device.index());
    }

    void finish(std::vector<IValue> results)
    {
        stack->resize(arguments.base);
        for (IValue &result : results)
            stack->push_back(std::move(result));
    }
};

/* ---- synchronously ---- */

/* A device tensor like a CPU tensor, with its bytes. */
Tensor to_device(const Tensor &tensor, Device device)
{
    Tensor result = empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), device);

    synchronize_stream(current_stream(device.index())); /* earlier work may use the block */
    HostTensors host;
    Tensor target = host.wrap(result);
    LateViews views(host.late);
    at::AutoDispatchBelowADInplaceOrView guard;

    target.copy_(tensor);
    if (tensor.is_conj())
        result._set_conj(true);
    return result;
}

class Synchronous
{
  public:
    Synchronous(Call &call, const std::string &reason) : call_(call)
    {
        std::lock_guard<std::mutex> guard(call.op.lock);

        call.op.stats.synchronous++;
        if (call.op.reason.empty())
            call.op.reason = reason;
    }

    void run()
    {
        TORCH_CHECK_NOT_IMPLEMENTED(call_.op.has_cpu, "npu: the operator ", call_.op.name, " has no CPU kernel");
        synchronize_stream(current_stream(call_.device.index()));
        Stack cpu = arguments();
        std::vector<IValue> results;

        declare();
        LateViews views(host_.late);
        Stack alive(cpu); /* results may be references to freed arguments */

        {
            at::AutoDispatchBelowADInplaceOrView guard;

            call_.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &cpu);
        }
        for (auto &[tensor, copy] : written_)
            write_back(tensor, copy);
        for (size_t i = 0; i < cpu.size(); i++) {
            int written = call_.op.returned[i];

            if (written >= 0 && call_.argument(written).isTensor())
                results.push_back(call_.argument(written));
            else
                results.push_back(map_tensors(cpu[i], [&](const Tensor &tensor) { return result(tensor); }));
        }
        call_.finish(std::move(results));
    }

  private:
    /* Written arguments are copies, so that the kernel may change their size. */
    Stack arguments()
    {
        Stack cpu;
        std::optional<Draw> draw = call_.draw();

        for (size_t i = 0; i < call_.op.is_written.size(); i++) {
            const IValue &value = call_.argument(i);

            if ((int)i == call_.op.generator) {
                cpu.emplace_back(draw_generator(*draw));
            } else if (value.isDevice()) {
                cpu.emplace_back(Device(at::kCPU));
            } else {
                cpu.push_back(map_tensors(value, [&](const Tensor &tensor) -> Tensor {
                    if (!is_npu(tensor))
                        return tensor;
                    Tensor wrapped = host_.wrap(tensor);

                    if (!call_.op.is_written[i])
                        return wrapped;
                    LateViews views(host_.late);
                    at::AutoDispatchBelowADInplaceOrView guard;

                    written_.emplace_back(tensor, at::clone(wrapped));
                    return written_.back().second;
                }));
            }
        }
        return cpu;
    }

    /* For the layer check: an empty task with the accesses, which the host waits for. */
    void declare()
    {
        Accesses accesses;
        Stream &stream = current_stream(call_.device.index());

        if (!wants_accesses())
            return;
        for (size_t i = 0; i < call_.arguments.tensors.size(); i++) {
            if (is_npu(call_.arguments.tensors[i]))
                accesses.push_back(access_of(call_.arguments.tensors[i], call_.arguments.is_written[i]));
        }
        launch_function(stream, call_.op.name, &accesses, [] {});
        synchronize_stream(stream);
    }

    void write_back(const Tensor &tensor, const Tensor &copy)
    {
        if (tensor.sizes() != copy.sizes())
            tensor_resize(tensor, copy.sizes(), copy.strides());
        synchronize_stream(current_stream(call_.device.index()));
        HostTensors host;
        Tensor target = host.wrap(tensor);
        LateViews views(host.late);
        at::AutoDispatchBelowADInplaceOrView guard;

        target.copy_(copy);
    }

    Tensor result(const Tensor &tensor)
    {
        for (auto &[written, copy] : written_) {
            if (copy.is_same(tensor))
                return written;
        }
        for (const Tensor &argument : call_.arguments.tensors) {
            if (!is_npu(argument) || argument.numel() == 0 || !tensor.has_storage() ||
                host_.wrap(argument).storage().unsafeGetStorageImpl() != tensor.storage().unsafeGetStorageImpl())
                continue;
            Tensor view = at::detail::make_tensor<c10::TensorImpl>(
                c10::TensorImpl::VIEW, c10::Storage(argument.storage()), argument.key_set(), tensor.dtype());

            view.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
            view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
            return view;
        }
        return to_device(tensor, call_.device);
    }

    Call &call_;
    HostTensors host_;
    std::vector<std::pair<Tensor, Tensor>> written_;
};

/* ---- as a task ---- */

class OperatorTask final : public Task
{
  public:
    OperatorTask(const c10::OperatorHandle &handle, const std::string &name) : Task(name), handle(handle)
    {
    }

    void run() override
    {
        LateViews views(late);
        Stack call(arguments);

        if (generator >= 0)
            call[generator] = draw_generator(draw);
        Stack alive(call); /* results may be references to freed arguments */

        handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call);
        for (size_t i = 0; i < outputs.size(); i++) {
            if (outputs[i].empty())
                continue;
            if (call[i].isTensor())
                copy(outputs[i][0], call[i].toTensor());
            else
                copy_list(outputs[i], call[i].toTensorVector());
        }
    }

    c10::OperatorHandle handle;
    Stack arguments; /* CPU tensors */
    int generator = -1;
    Draw draw{};
    std::vector<HostTensors::Late> late;
    std::vector<std::vector<Tensor>> outputs; /* for each return; undefined: written by the kernel */

  private:
    void copy_list(const std::vector<Tensor> &targets, const std::vector<Tensor> &results) const
    {
        TORCH_CHECK(targets.size() == results.size(), "npu: ", name, ": ", results.size(), " results instead of ",
                    targets.size());
        for (size_t i = 0; i < targets.size(); i++)
            copy(targets[i], results[i]);
    }

    void copy(const Tensor &target, const Tensor &result) const
    {
        if (!target.defined() || !result.defined())
            return;
        if (result.numel() == 0 && target.numel() > 0) { /* CPU kernels leave out statistics in eval mode */
            target.zero_();
            return;
        }
        TORCH_CHECK(target.sizes() == result.sizes() && target.scalar_type() == result.scalar_type(), "npu: ", name,
                    ": the meta kernel and the CPU kernel disagree: ", target.sizes(), target.scalar_type(), " and ",
                    result.sizes(), result.scalar_type());
        target.copy_(result);
    }
};

/* Results of the plan: arguments, views, and new tensors, which are also in `fresh`. */
std::vector<IValue> results_make(const Call &call, const Plan &plan, std::vector<std::vector<Tensor>> *fresh)
{
    std::vector<IValue> values;

    for (const Plan::Return &entry : plan.returns) {
        std::vector<Tensor> results;
        std::vector<Tensor> made;
        bool has_fresh = false;

        for (const Plan::Result &result : entry.results) {
            Tensor tensor;

            if (result.kind == Plan::ARGUMENT) {
                tensor = call.arguments.tensors[result.tensor];
            } else if (result.kind == Plan::VIEW) {
                const Tensor &base = call.arguments.tensors[result.tensor];

                tensor =
                    at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             base.key_set(), at::scalarTypeToTypeMeta(result.type));
                tensor.unsafeGetTensorImpl()->set_storage_offset(result.offset);
                tensor.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes, result.strides);
            } else if (result.kind == Plan::FRESH) {
                tensor = empty_strided(result.sizes, result.strides, result.type, call.device);
                has_fresh = true;
            }
            made.push_back(result.kind == Plan::FRESH ? tensor : Tensor());
            results.push_back(std::move(tensor));
        }
        if (!has_fresh)
            made.clear();
        if (entry.is_list)
            values.emplace_back(c10::List<Tensor>(results));
        else
            values.emplace_back(results[0]);
        fresh->push_back(std::move(made));
    }
    return values;
}

void queue(const Call &call, const std::vector<std::vector<Tensor>> &fresh)
{
    auto task = std::make_unique<OperatorTask>(call.handle, call.op.name);
    std::optional<Draw> draw = call.draw();
    HostTensors host;
    Accesses accesses;
    bool is_declared = wants_accesses();

    if (draw) {
        task->generator = call.op.generator;
        task->draw = *draw;
    }
    task->arguments.reserve(call.op.is_written.size());
    for (size_t i = 0; i < call.op.is_written.size(); i++) {
        const IValue &value = call.argument(i);

        if ((int)i == call.op.generator)
            task->arguments.emplace_back();
        else if (value.isDevice())
            task->arguments.emplace_back(Device(at::kCPU));
        else
            task->arguments.push_back(map_tensors(value, [&](const Tensor &tensor) -> Tensor {
                if (!is_npu(tensor)) /* the program may change the CPU tensor */
                    return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : at::clone(tensor);
                if (is_declared)
                    accesses.push_back(access_of(tensor, call.op.is_written[i]));
                return host.wrap(tensor);
            }));
    }
    for (const auto &list : fresh) {
        auto &outputs = task->outputs.emplace_back();

        for (const Tensor &tensor : list) {
            outputs.push_back(tensor.defined() ? host.wrap(tensor) : Tensor());
            if (tensor.defined() && is_declared)
                accesses.push_back(access_of(tensor, true));
        }
    }
    task->late = std::move(host.late);
    launch(current_stream(call.device.index()), std::move(task), &accesses);
}

void fallback(const c10::OperatorHandle &handle, Stack *stack)
{
    run_operator(handle, stack);
}

} // namespace

void run_operator(const c10::OperatorHandle &handle, Stack *stack)
{
    Operator &op = operator_of(handle);
    Call call(handle, op, stack);
    c10::DeviceGuard guard(call.device);
    std::string reason;
    std::shared_ptr<const Plan> plan;

    if (op.has_values)
        reason = "it returns a value";
    else if (!op.has_meta)
        reason = "it has no meta kernel that agrees with the CPU kernel";
    else
        plan = plan_of(handle, op, call.arguments, *stack, &reason);
    if (!plan) {
        Synchronous(call, reason).run();
        return;
    }
    for (const Plan::Result &result : plan->resizes)
        tensor_resize(call.arguments.tensors[result.tensor], result.sizes, result.strides);

    std::vector<std::vector<Tensor>> fresh;
    std::vector<IValue> results = results_make(call, *plan, &fresh);
    const auto &written = call.arguments.is_written;

    if (std::any_of(written.begin(), written.end(), [](char is_written) { return is_written; }) ||
        std::any_of(fresh.begin(), fresh.end(), [](auto &list) { return !list.empty(); })) {
        queue(call, fresh);
        op.stats.queued++;
    } else {
        op.stats.views++;
    }
    call.finish(std::move(results));
}

} // namespace npu

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&npu::fallback>());
}
