/* The interface of the caching allocator: PyTorch's allocator, statistics, settings, snapshots, pools. */
#include "blocks.h"

#include <c10/util/Exception.h>

namespace npu
{

namespace
{

/* ---- the current allocator of the program: each tensor is one call ---- */

struct PluggedBlock {
    std::shared_ptr<PluggableAllocator> source;
    void *address;
    size_t size;
    Stream *stream;
};

void plugged_free(void *context)
{
    auto *block = static_cast<PluggedBlock *>(context);

    WithoutGil without; /* the function may wait for a stream */

    if (!is_in_bad_fork())
        block->source->free(block->address, block->size, block->stream->device, block->stream->handle);
    delete block;
}

c10::DataPtr plugged_alloc(size_t size, Stream &stream, Device device)
{
    void *address = memory.current->alloc(size, stream.device, stream.handle);

    TORCH_CHECK_WITH(OutOfMemoryError, address != nullptr, "NPU out of memory. Tried to allocate ", size,
                     " bytes with the pluggable allocator");
    return {address, new PluggedBlock{memory.current, address, size, &stream}, plugged_free, device};
}

void nothing_free(void *)
{
}

#if NPU_HAS_DEVICE_ALLOCATOR
struct Allocator final : c10::DeviceAllocator {
    bool initialized() override
    {
        return is_initialized();
    }
    void emptyCache(c10::MempoolId_t = {0, 0}) override
    {
        memory_empty_cache();
    }
    void recordStream(const c10::DataPtr &data, c10::Stream stream) override
    {
        record_stream(data, stream_find(stream.device_index(), stream.id()));
    }
    Stats getDeviceStats(DeviceIndex device) override
    {
        return memory_stats(device);
    }
    void resetAccumulatedStats(DeviceIndex device) override
    {
        memory_reset_accumulated(device);
    }
    void resetPeakStats(DeviceIndex device) override
    {
        memory_reset_peak(device);
    }
#if NPU_HAS_MEMORY_INFO
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override
    {
        return memory_info(device);
    }
#endif
#else
struct Allocator final : c10::Allocator {
#endif
    c10::DataPtr allocate(size_t size) override
    {
        int index = current_device();
        Device device(kDevice, (DeviceIndex)index);

        if (size == 0)
            return {nullptr, nullptr, nothing_free, device};
        use_current_device();
        Stream &stream = current_stream(index);

        if (memory.current)
            return plugged_alloc(size, stream, device);
        Block *block = block_alloc(size, stream);

        return {(void *)block->address, block, block_free, device};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *target, const void *source, size_t size) const override
    {
        NPU_CHECK(aclrtMemcpy(target, size, source, size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    }
};

Allocator allocator;

} // namespace

REGISTER_ALLOCATOR(kDevice, &allocator)

c10::Allocator *device_allocator()
{
    return &allocator;
}

HostAddress host_address(const c10::StorageImpl *storage)
{
    const c10::DataPtr &data = storage->data_ptr();

    if (data.get() == nullptr)
        return {nullptr, nullptr};
    if (data.get_deleter() != block_free)
        return {nullptr, data.get()};

    const Segment *segment = static_cast<Block *>(data.get_context())->segment;

    return {segment->view != nullptr ? static_cast<char *>(segment->view) + ((uintptr_t)data.get() - segment->address)
                                     : nullptr,
            data.get()};
}

void record_stream(const c10::DataPtr &data, Stream &stream, bool is_used)
{
    if (data.get_deleter() == plugged_free) {
        auto *block = static_cast<PluggedBlock *>(data.get_context());
        auto function = is_used ? block->source->record_stream : block->source->erase_stream;

        if (function != nullptr)
            function(block->address, stream.handle);
    } else if (data.get_deleter() == block_free) {
        std::lock_guard<std::recursive_mutex> guard(memory.lock);
        auto *block = static_cast<Block *>(data.get_context());

        if (!is_used)
            block->users.streams.erase(&stream);
        else if (block->stream != &stream)
            block->users.streams.insert(&stream);
    }
}

int device_of_address(const void *address)
{
    aclrtPtrAttributes attributes;

    NPU_CHECK(aclrtPointerGetAttributes(address, &attributes));
    return (int)attributes.location.id;
}

/* ---- addresses instead of tensors ---- */

void *memory_alloc(size_t size, Stream &stream)
{
    OnDevice on(stream.device);

    return size == 0 ? nullptr : (void *)block_alloc(size, stream)->address;
}

void memory_free(void *address)
{
    if (address == nullptr)
        return;
    Entry entry("npu allocator: free");
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    for (auto &[device, m] : memory.devices) {
        auto found = m.allocated.find((uintptr_t)address);

        if (found != m.allocated.end()) {
            block_free(found->second);
            return;
        }
    }
    TORCH_CHECK(false, "invalid device pointer: ", address);
}

static Segment *segment_of(void *address)
{
    for (auto &[device, m] : memory.devices) {
        auto found = m.heads.upper_bound((uintptr_t)address);

        if (found == m.heads.begin())
            continue;
        Segment *segment = std::prev(found)->second->segment;

        if ((uintptr_t)address < segment->address + segment->size)
            return segment;
    }
    TORCH_CHECK(false, "invalid device pointer: ", address);
}

std::pair<uintptr_t, size_t> memory_base(void *address)
{
    if (memory.current) {
        size_t size = 0;
        void *base = memory.current->base_alloc != nullptr ? memory.current->base_alloc(address, &size) : nullptr;

        TORCH_CHECK(base != nullptr && size > 0, "the pluggable allocator does not know the base of ", address,
                    " (set_base_alloc_fn)");
        return {(uintptr_t)base, size};
    }
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    const Segment *segment = segment_of(address);

    return {segment->address, segment->size};
}

/* The library exports no memory of which a view is open. */
std::string memory_export(void *address)
{
    Entry entry("npu allocator: export");
    auto [base, size] = memory_base(address);

    synchronize_device(device_of_address(address)); /* tasks have addresses in the view */
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    void *none = nullptr;
    void *&view = memory.current ? none : segment_of(address)->view;
    char key[ACL_IPC_HANDLE_SIZE];
    aclError rc;

    if (view != nullptr)
        NPU_CHECK(aclmem_host_view_end(view));
    rc = aclrtIpcMemGetExportKey((void *)base, size, key, sizeof key,
                                 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
    if (view != nullptr)
        NPU_CHECK(aclmem_host_view((void *)base, size, &view));
    NPU_CHECK(rc);
    return std::string(key, sizeof key);
}

/* ---- statistics, settings ---- */

std::pair<size_t, size_t> memory_info(int device)
{
    size_t free = 0;
    size_t total = 0;
    OnDevice on(device);

    NPU_CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return {free, total};
}

Stats memory_stats(int device)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    return memory.devices[device].stats;
}

namespace
{

template <class Function> void each_stat(Stats &s, Function function)
{
    for (StatArray *array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                             &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
        for (Stat &stat : *array)
            function(stat);
    function(s.oversize_allocations);
    function(s.oversize_segments);
}

} // namespace

void memory_reset_peak(int device)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    each_stat(memory.devices[device].stats, [](Stat &stat) { stat.reset_peak(); });
}

void memory_reset_accumulated(int device)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    Stats &stats = memory.devices[device].stats;

    each_stat(stats, [](Stat &stat) { stat.reset_accumulated(); });
    stats.num_alloc_retries = stats.num_ooms = stats.num_device_alloc = stats.num_device_free = 0;
}

void memory_empty_cache()
{
    if (!is_initialized())
        return;
    if (memory.current) {
        if (memory.current->reset != nullptr)
            memory.current->reset(true);
        return;
    }
    for (int device = 0; device < device_count(); device++) {
        if (memory.devices.count(device) == 0)
            continue;
        synchronize_device(device);
        Entry entry("npu allocator: empty cache");

        segments_free(device, is_cache);
    }
}

void memory_shutdown()
{
    Entry entry("npu allocator: end of the process");
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    for (auto &[device, m] : memory.devices) {
        pending_process(m);
        for (auto &[address, head] : m.heads) {
            const Segment *segment = head->segment;

            if (segment->view != nullptr)
                aclmem_host_view_end(segment->view);
            if (!head->pool->source)
                aclrtFree((void *)segment->address);
        }
    }
}

void memory_set_fraction(double fraction, int device)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    if (memory.current && memory.current->memory_fraction != nullptr)
        memory.current->memory_fraction(fraction, device);
    memory.devices[device].fraction = fraction;
}

double memory_fraction(int device)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    return memory.devices[device].fraction;
}

namespace
{

/* Settings that have a meaning on hardware only. */
const std::set<std::string> settings_without_effect = {"garbage_collection_threshold",
                                                       "expandable_segments",
                                                       "base_addr_aligned_kb",
                                                       "page_size",
                                                       "segment_size_mb",
                                                       "roundup_power2_divisions",
                                                       "pinned_mem_register",
                                                       "multi_stream_lazy_reclaim",
                                                       "large_segment_size_mb",
                                                       "max_non_split_rounding_mb",
                                                       "pin_memory_expandable_segments",
                                                       "pinned_use_background_threads",
                                                       "pinned_max_round_threshold_mb",
                                                       "pinned_max_cached_size_mb",
                                                       "pinned_reserve_segment_size_mb",
                                                       "release_lock_on_npumalloc",
                                                       "throw_on_npumalloc_oom"};

} // namespace

void configure()
{
    const char *text = getenv("PYTORCH_NPU_ALLOC_CONF");

    if (memory.is_configured)
        return;
    memory.is_configured = true;
    if (text != nullptr)
        memory_set_settings(text);
}

void memory_set_settings(const std::string &text)
{
    std::istringstream entries(text);
    std::string entry;
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    while (std::getline(entries, entry, ',')) {
        size_t colon = entry.find(':');
        std::string key = entry.substr(0, colon);
        std::string value = colon == std::string::npos ? "" : entry.substr(colon + 1);

        if (key == "max_split_size_mb") {
            size_t n = strtoull(value.c_str(), nullptr, 10);

            TORCH_CHECK(n > kLargeSegment / kMiB, "CachingAllocator option max_split_size_mb too small, must be > ",
                        kLargeSegment / kMiB);
            memory.max_split = n * kMiB;
        } else if (key == "per_process_memory_fraction") {
            for (int device = 0; device < device_count(); device++)
                memory.devices[device].fraction = atof(value.c_str());
        } else {
            TORCH_CHECK(entry.empty() || settings_without_effect.count(key) > 0,
                        "Unrecognized CachingAllocator option: ", key);
        }
    }
}

/* ---- snapshots and history ---- */

std::vector<SegmentInfo> memory_snapshot()
{
    std::vector<SegmentInfo> segments;
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    for (auto &[device, m] : memory.devices) {
        for (auto &[address, head] : m.heads) {
            const Segment *segment = head->segment;
            SegmentInfo info{
                device, segment->address, segment->size, head->stream->handle, head->is_small, head->pool->id, {}};

            for (const Block *block = head; block != nullptr; block = block->next)
                info.blocks.push_back({block->address, block->size, block->requested,
                                       block->is_allocated                               ? "active_allocated"
                                       : !block->users.empty() ? "active_pending_free"
                                                                                         : "inactive",
                                       block->where});
            segments.push_back(std::move(info));
        }
    }
    return segments;
}

void memory_record_history(bool is_on, size_t entries_max)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    memory.has_history = is_on;
    memory.history_max = entries_max;
    if (!is_on)
        memory.history.clear();
}

std::vector<TraceEntry> memory_history()
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    return {memory.history.begin(), memory.history.end()};
}

void memory_on_oom(OomObserver observer)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    memory.observer = std::move(observer);
}

/* ---- pluggable allocators and pools ---- */

void set_current_allocator(std::shared_ptr<PluggableAllocator> allocator)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    TORCH_CHECK(!memory.current && !memory.is_configured, "Can't swap an already initialized allocator");
    memory.current = std::move(allocator);
    if (memory.current->init != nullptr)
        memory.current->init(device_count());
}

bool has_current_allocator()
{
    return memory.current != nullptr;
}

PoolId pool_new_id(bool is_user_created)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    uint64_t number = ++memory.n_ids[is_user_created];

    return is_user_created ? PoolId{0, number} : PoolId{number, 0};
}

void pool_make(PoolId id, std::shared_ptr<PluggableAllocator> allocator)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    memory.sources[id] = std::move(allocator);
}

void pool_unmake(PoolId id)
{
    Entry entry("npu allocator: delete pool");
    std::vector<int> devices;

    {
        std::lock_guard<std::recursive_mutex> guard(memory.lock);

        memory.sources.erase(id);
        for (auto &[device, m] : memory.devices) {
            if (m.pools.count(id) > 0)
                devices.push_back(device);
        }
    }
    for (int device : devices)
        segments_free(device, [id](const Pool &pool) { return pool.id == id && is_unused(pool); });
}

int pool_use_count(PoolId id)
{
    int n = 0;
    std::lock_guard<std::recursive_mutex> guard(memory.lock);

    for (auto &[device, m] : memory.devices) {
        auto found = m.pools.find(id);

        n += found != m.pools.end() ? found->second->n_uses : 0;
    }
    return n;
}

void pool_begin(int device, PoolId id, bool is_capture)
{
    if (memory.current && memory.current->begin_pool != nullptr)
        memory.current->begin_pool(device, id, nullptr);
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    DeviceMemory &m = memory.devices[device];

    pool_get(m, id).n_uses++;
    m.redirects.push_back({id, std::this_thread::get_id(), is_capture});
}

void pool_end(int device, PoolId id)
{
    if (memory.current && memory.current->end_pool != nullptr)
        memory.current->end_pool(device, id);
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    auto &redirects = memory.devices[device].redirects;

    for (auto it = redirects.rbegin(); it != redirects.rend(); ++it) {
        if (it->id == id) {
            redirects.erase(std::next(it).base());
            return;
        }
    }
}

void pool_release(int device, PoolId id)
{
    Entry entry("npu allocator: release pool");

    {
        std::lock_guard<std::recursive_mutex> guard(memory.lock);
        auto &pools = memory.devices[device].pools;
        auto found = pools.find(id);

        if (found == pools.end())
            return;
        found->second->n_uses--;
        if (!is_unused(*found->second))
            return;
    }
    if (memory.current && memory.current->release_pool != nullptr)
        memory.current->release_pool(device, id);
    segments_free(device, [id](const Pool &pool) { return pool.id == id && is_unused(pool); });
}

} // namespace npu
