/*
 * Copies between host and device, and single values.
 *
 * Bytes cross by aclrtMemcpyAsync between contiguous tensors of one type.  Types, strides and conjugation are changed
 * before or behind that, on the side that has a kernel for it.  A copy is asynchronous if the host side is pinned,
 * contiguous, of the same type, and non_blocking is set; otherwise the stream is synchronised.
 */
#include "npu.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace npu
{

namespace
{

bool is_plain(const Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

Tensor contiguous_like(const Tensor &tensor, Device device)
{
    return empty_strided(tensor.sizes(), c10::TensorType::contiguousStridesOf(tensor.sizes()), tensor.scalar_type(),
                         device);
}

void move_bytes(const Tensor &source, const Tensor &target, aclrtMemcpyKind kind, Stream &stream)
{
    size_t n = source.nbytes();
    Callers callers(kind == ACL_MEMCPY_HOST_TO_DEVICE ? "copy from host to device" : "copy from device to host");

    use_current_device();
    NPU_CHECK(aclrtMemcpyAsync((char *)target.storage().data() + target.storage_offset() * target.itemsize(), n,
                               (const char *)source.storage().data() + source.storage_offset() * source.itemsize(), n,
                               kind, stream.handle));
}

/* A task that copies between tensors of this process's devices. */
void copy_task(const Tensor &source, const Tensor &target, Stream &stream)
{
    auto host = std::make_shared<HostTensors>();
    Accesses accesses;
    Tensor from = host->wrap(source);
    Tensor to = host->wrap(target);

    if (wants_accesses())
        accesses = {access_of(source, false), access_of(target, true)};
    launch_function(stream, "aten::copy_", &accesses, [host, from, to] {
        LateViews views(host->late);

        to.copy_(from);
    });
}

void stream_wait(Stream &stream, Stream &other)
{
    Event *event = event_make(other.device, ACL_EVENT_SYNC);

    event_record(event, other);
    event_block(event, stream);
    event_destroy(event);
}

/* Once for each pair: a stream of one device may use memory of the other. */
void enable_peer_access(int device, int peer)
{
    static std::mutex lock;
    static std::map<std::pair<int, int>, bool> enabled; /* lock */
    std::lock_guard<std::mutex> guard(lock);
    bool &is_enabled = enabled[{device, peer}];

    if (!is_enabled) {
        OnDevice on(device);

        is_enabled = aclrtDeviceEnablePeerAccess(peer, 0) == ACL_SUCCESS;
    }
}

void device_to_device(const Tensor &source, const Tensor &target)
{
    Stream &stream = current_stream(source.device().index());
    Stream &other = current_stream(target.device().index());

    if (&stream == &other) {
        copy_task(source, target, stream);
        return;
    }
    enable_peer_access(stream.device, other.device);
    stream_wait(stream, other);
    copy_task(source, target, stream);
    stream_wait(other, stream);
}

/* A CPU tensor with the values, of the type and sizes of the target, contiguous. */
Tensor host_prepare(const Tensor &source, const Tensor &target)
{
    at::AutoDispatchBelowADInplaceOrView guard;

    if (source.scalar_type() == target.scalar_type() && is_plain(source) && source.sizes() == target.sizes())
        return source;
    Tensor prepared = at::empty(target.sizes(), source.options().dtype(target.scalar_type()));

    prepared.copy_(source);
    return prepared;
}

void host_to_device(const Tensor &source, const Tensor &target, bool is_async)
{
    Stream &stream = current_stream(target.device().index());
    Tensor from = host_prepare(source, target);
    Tensor to = is_plain(target) ? target : contiguous_like(target, target.device());

    is_async &= is_pinned(from.storage().data());
    if (is_async)
        pinned_record(from.storage().data(), stream);
    move_bytes(from, to, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    if (!to.is_same(target))
        copy_task(to, target, stream);
    if (!is_async)
        synchronize_stream(stream);
}

void device_to_host(const Tensor &source, const Tensor &target, bool is_async)
{
    Stream &stream = current_stream(source.device().index());
    Tensor from = source;
    Tensor to = target;

    if (source.scalar_type() != target.scalar_type() || !is_plain(source) || source.sizes() != target.sizes()) {
        from = contiguous_like(target, source.device());
        copy_task(source, from, stream);
    }
    if (!is_plain(target))
        to = at::empty(target.sizes(), target.options());
    is_async &= to.is_same(target) && is_pinned(to.storage().data());
    if (is_async)
        pinned_record(to.storage().data(), stream);
    move_bytes(from, to, ACL_MEMCPY_DEVICE_TO_HOST, stream);
    if (!is_async)
        synchronize_stream(stream);
    if (!to.is_same(target)) {
        at::AutoDispatchBelowADInplaceOrView guard;

        target.copy_(to);
    }
}

Tensor copy_from(const Tensor &source, const Tensor &target, bool non_blocking)
{
    if (target.numel() == 0)
        return target;
    Tensor from = source.sizes() == target.sizes() ? source : source.expand(target.sizes());
    c10::DeviceGuard guard(is_npu(from) ? from.device() : target.device());

    if (is_npu(from) && is_npu(target))
        device_to_device(from, target);
    else if (is_npu(target))
        host_to_device(from, target, non_blocking);
    else
        device_to_host(from, target, non_blocking);
    return target;
}

Tensor copy_from_and_resize(const Tensor &source, const Tensor &target)
{
    if (source.sizes() != target.sizes())
        target.resize_(source.sizes());
    return copy_from(source, target, false);
}

at::Scalar local_scalar_dense(const Tensor &tensor)
{
    Tensor host = at::empty({}, tensor.options().device(at::kCPU));

    copy_from(tensor, host, false);
    at::AutoDispatchBelowADInplaceOrView guard;

    return at::_local_scalar_dense(host);
}

} // namespace

} // namespace npu

TORCH_LIBRARY_IMPL(aten, Conjugate, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_copy_from", npu::copy_from);
    m.impl("_copy_from_and_resize", npu::copy_from_and_resize);
    m.impl("_local_scalar_dense", npu::local_scalar_dense);
}
