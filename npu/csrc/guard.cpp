/* PyTorch's device guard, hooks and generator. */
#include "npu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace npu
{

namespace
{

Stream &stream_of(const c10::Stream &stream)
{
    return stream_find(stream.device_index(), stream.id());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return kDevice;
    }
    Device exchangeDevice(Device device) const override
    {
        Device previous = getDevice();

        setDevice(device);
        return previous;
    }
    Device getDevice() const override
    {
        return Device(kDevice, (DeviceIndex)current_device());
    }
    void setDevice(Device device) const override
    {
        if (device.index() != current_device())
            set_device(device.index());
    }
    void uncheckedSetDevice(Device device) const noexcept override
    {
        exchange_device(device.index());
    }
    c10::Stream getStream(Device device) const noexcept override
    {
        return current_stream(device_or_current(device.index())).c10();
    }
    c10::Stream getDefaultStream(Device device) const override
    {
        return default_stream(device_or_current(device.index())).c10();
    }
    c10::Stream getStreamFromGlobalPool(Device device, bool is_high_priority) const override
    {
        return getNewStream(device, is_high_priority ? -1 : 0);
    }
    c10::Stream getNewStream(Device device, int priority) const override
    {
        return stream_from_pool(device_or_current(device.index()), priority).c10();
    }
    c10::Stream exchangeStream(c10::Stream stream) const noexcept override
    {
        return exchange_stream(stream.device_index(), stream.id()).c10();
    }
    DeviceIndex deviceCount() const noexcept override
    {
        return (DeviceIndex)device_count();
    }
    bool queryStream(const c10::Stream &stream) const override
    {
        return query_stream(stream_of(stream));
    }
    void synchronizeStream(const c10::Stream &stream) const override
    {
        synchronize_stream(stream_of(stream));
    }
    void synchronizeDevice(const DeviceIndex device) const override
    {
        synchronize_device(device_or_current(device));
    }
    void record(void **event, const c10::Stream &stream, const DeviceIndex, const c10::EventFlag flag) const override
    {
        uint32_t flags = ACL_EVENT_SYNC;

        if (flag == c10::EventFlag::BACKEND_DEFAULT)
            flags |= ACL_EVENT_TIME_LINE;
        if (*event == nullptr)
            *event = event_make(stream.device_index(), flags);
        event_record(static_cast<Event *>(*event), stream_of(stream));
    }
    void block(void *event, const c10::Stream &stream) const override
    {
        event_block(static_cast<Event *>(event), stream_of(stream));
    }
    bool queryEvent(void *event) const override
    {
        return event_query(static_cast<Event *>(event));
    }
    void synchronizeEvent(void *event) const override
    {
        event_synchronize(static_cast<Event *>(event));
    }
    void destroyEvent(void *event, const DeviceIndex) const noexcept override
    {
        event_destroy(static_cast<Event *>(event));
    }
    double elapsedTime(void *start, void *end, const DeviceIndex) const override
    {
        return event_elapsed(static_cast<Event *>(start), static_cast<Event *>(end));
    }
    void recordDataPtrOnStream(const c10::DataPtr &data, const c10::Stream &stream) const override
    {
        record_stream(data, stream_of(stream));
    }
#if NPU_HAS_CAPABILITY
    c10::DeviceCapability getDeviceCapability(Device) const override
    {
        return {}; /* all types: the kernels are the CPU's */
    }
#endif
#if NPU_HAS_STREAM_CAPTURING
    bool isStreamCapturing(const c10::Stream &stream) const override
    {
        return is_capturing(stream_of(stream));
    }
#endif
};

/* ---- generator ---- */

/*
 * The state is (seed, offset).  A random operator reads the state and advances the offset when it is queued; its task
 * makes a CPU generator from them.  So results do not depend on the order in which tasks run.
 */
struct Generator final : c10::GeneratorImpl {
    std::atomic<uint64_t> seed_{c10::default_rng_seed_val};
    std::atomic<uint64_t> offset_{0};

    explicit Generator(DeviceIndex device)
        : GeneratorImpl(Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1))
    {
    }
    void set_current_seed(uint64_t seed) override
    {
        seed_ = seed;
        offset_ = 0;
    }
    void set_offset(uint64_t offset) override
    {
        offset_ = offset;
    }
    uint64_t get_offset() const override
    {
        return offset_;
    }
    uint64_t current_seed() const override
    {
        return seed_;
    }
    uint64_t seed() override
    {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return seed_;
    }
    void set_state(const c10::TensorImpl &state) override
    {
        uint64_t words[2] = {0, 0};

        at::detail::check_rng_state(state);
        TORCH_CHECK(state.numel() == 16 || state.numel() == 8, "RNG state is wrong size");
        memcpy(words, state.data(), (size_t)state.numel());
        seed_ = words[0];
        offset_ = words[1];
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override
    {
        uint64_t words[2] = {seed_, offset_};
        Tensor tensor = at::detail::empty_cpu({16}, c10::TensorOptions().dtype(at::kByte));

        memcpy(tensor.mutable_data_ptr(), words, sizeof words);
        return tensor.getIntrusivePtr();
    }
    Generator *clone_impl() const override
    {
        auto *copy = new Generator(device().index());

        copy->seed_ = seed_.load();
        copy->offset_ = offset_.load();
        return copy;
    }
};

at::Generator generator_make(DeviceIndex device)
{
    return at::make_generator<Generator>((DeviceIndex)device_or_current(device));
}

#if !NPU_HAS_IS_BUILT /* newer versions call getNewGenerator */
REGISTER_GENERATOR_PRIVATEUSE1(generator_make)
#endif

} // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

const at::Generator &default_generator(int device)
{
    static const std::vector<at::Generator> generators = [] {
        std::vector<at::Generator> list;

        for (int i = 0; i < device_count(); i++)
            list.push_back(generator_make((DeviceIndex)i));
        return list;
    }();

    return generators.at(device_or_current(device));
}

Draw generator_advance(const at::Generator &generator, uint64_t n)
{
    auto *impl = static_cast<Generator *>(generator.unsafeGetGeneratorImpl());

    return {impl->seed_, impl->offset_.fetch_add(n * kDrawStep), nullptr};
}

Draw generator_draw(const std::optional<at::Generator> &generator, int device)
{
    const at::Generator &source = generator && generator->defined() ? *generator : default_generator(device);
    aclmdlRI capture = capture_of(current_stream(device));

    TORCH_CHECK(source.device().type() == kDevice, "Expected a 'npu' device type for generator but found '",
                source.device().type(), "'");
    return capture != nullptr ? capture_draw(capture, source) : generator_advance(source, 1);
}

at::Generator draw_generator(const Draw &draw)
{
    uint64_t seed = draw.replay ? draw.replay->seed : draw.seed;
    uint64_t offset = draw.replay ? draw.replay->offset + draw.offset : draw.offset;
    uint64_t x = seed + 0x9e3779b97f4a7c15 * (offset + 1); /* splitmix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return at::detail::createCPUGenerator(x ^ x >> 31);
}

/* ---- hooks ---- */

namespace
{

struct Hooks final : at::PrivateUse1HooksInterface {
    bool hasPrimaryContext(DeviceIndex) const override
    {
        return is_initialized();
    }
    void init() const override
    {
        npu::init();
    }
    DeviceIndex deviceCount() const override
    {
        return (DeviceIndex)device_count();
    }
    void setCurrentDevice(DeviceIndex device) const override
    {
        set_device(device);
    }
    DeviceIndex getCurrentDevice() const override
    {
        return (DeviceIndex)current_device();
    }
    DeviceIndex exchangeDevice(DeviceIndex device) const override
    {
        auto previous = (DeviceIndex)current_device();

        set_device(device);
        return previous;
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override
    {
        return exchangeDevice(device); /* a negative index changes nothing */
    }
    bool isPinnedPtr(const void *address) const override
    {
        return is_pinned(address);
    }
    at::Allocator *getPinnedMemoryAllocator() const override
    {
        return pinned_allocator();
    }
    Device getDeviceFromPtr(void *address) const override
    {
        return Device(kDevice, (DeviceIndex)device_of_address(address));
    }
    const at::Generator &getDefaultGenerator(DeviceIndex device) const override
    {
        return default_generator(device);
    }
    at::Generator getNewGenerator(DeviceIndex device) const override
    {
        return generator_make(device);
    }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t n_bytes) const override
    {
        storage_resize(storage.unsafeGetStorageImpl(), n_bytes);
    }
#if NPU_HAS_IS_BUILT
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return device_count() > 0;
    }
#endif
};

} // namespace

/* Called once, when the module is loaded. */
void register_hooks()
{
    static Hooks hooks;

    c10::register_privateuse1_backend("npu");
    at::RegisterPrivateUse1HooksInterface(&hooks);
}

} // namespace npu
