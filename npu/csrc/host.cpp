/*
 * Pinned host memory: a cache over aclrtMallocHost.
 *
 * Sizes are rounded up to a power of two.  A freed block is reused when the streams that copied from it or to it have
 * passed these copies.
 */
#include "memory.h"

#include <deque>

#include <ATen/core/CachingHostAllocator.h>

namespace npu
{

namespace
{

constexpr size_t kMin = 512;

struct Pinned {
    char *address;
    size_t size;
    Users users;
};

struct {
    std::mutex lock; /* protects all */
    std::map<uintptr_t, Pinned *> blocks;
    std::map<size_t, std::vector<Pinned *>> free;
    std::deque<Pinned *> pending;
    HostStats stats;
} host;

size_t round_size(size_t size)
{
    size_t rounded = kMin;

    while (rounded < size)
        rounded *= 2;
    return rounded;
}

void pending_process_locked()
{
    while (!host.pending.empty() && host.pending.front()->users.poll()) {
        Pinned *block = host.pending.front();

        host.pending.pop_front();
        host.stats.active_requests.decrease(1);
        host.stats.active_bytes.decrease(block->size);
        host.free[block->size].push_back(block);
    }
}

Pinned *find_locked(const void *address)
{
    auto it = host.blocks.upper_bound((uintptr_t)address);

    if (it == host.blocks.begin())
        return nullptr;
    Pinned *block = std::prev(it)->second;

    return (const char *)address < block->address + block->size ? block : nullptr;
}

Pinned *make_locked(size_t size)
{
    void *address;

    use_current_device();
    if (aclrtMallocHost(&address, size) != ACL_SUCCESS)
        TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of pinned host memory. Tried to allocate ", size, " bytes");
    host.stats.num_host_alloc++;
    host.stats.allocations.increase(1);
    host.stats.allocated_bytes.increase(size);
    return host.blocks[(uintptr_t)address] = new Pinned{static_cast<char *>(address), size, {}};
}

void pinned_free(void *context)
{
    Callers callers("npu pinned allocator: free"); /* before the lock: it needs the GIL */
    Pinned *block = static_cast<Pinned *>(context);
    std::lock_guard<std::mutex> guard(host.lock);

    if (is_in_bad_fork())
        return;
    if (is_shut_down()) {
        aclrtFreeHost(block->address);
        return;
    }
    block->users.record();
    host.pending.push_back(block);
    pending_process_locked();
}

#if NPU_HAS_HOST_ALLOCATOR
struct PinnedAllocator final : at::HostAllocator {
    bool record_event(void *address, void *, c10::Stream stream) override
    {
        pinned_record(address, stream_find(stream.device_index(), stream.id()));
        return true;
    }
    void empty_cache() override
    {
        host_memory_empty_cache();
    }
    at::HostStats get_stats() override
    {
        HostStats mine = host_memory_stats();
        at::HostStats stats;

        stats.allocations = mine.allocations;
        stats.allocated_bytes = mine.allocated_bytes;
        stats.active_requests = mine.active_requests;
        stats.active_bytes = mine.active_bytes;
        stats.num_host_alloc = mine.num_host_alloc;
        stats.num_host_free = mine.num_host_free;
        return stats;
    }
    void reset_accumulated_stats() override
    {
        host_memory_reset(false);
    }
    void reset_peak_stats() override
    {
        host_memory_reset(true);
    }
#else
struct PinnedAllocator final : c10::Allocator {
#endif
    c10::DataPtr allocate(size_t size) override
    {
        Device device(at::kCPU);

        if (size == 0)
            return {nullptr, device};
        size = round_size(size);
        Callers callers("npu pinned allocator: allocate");
        std::lock_guard<std::mutex> guard(host.lock);

        pending_process_locked();
        auto &free = host.free[size];
        Pinned *block = free.empty() ? make_locked(size) : free.back();

        if (!free.empty())
            free.pop_back();
        host.stats.active_requests.increase(1);
        host.stats.active_bytes.increase(size);
        return {block->address, block, pinned_free, device};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *target, const void *source, size_t size) const override
    {
        memcpy(target, source, size);
    }
};

PinnedAllocator allocator;

} // namespace

#if NPU_HAS_HOST_ALLOCATOR
REGISTER_HOST_ALLOCATOR(kDevice, &allocator)
#endif

c10::Allocator *pinned_allocator()
{
    return &allocator;
}

bool is_pinned(const void *address)
{
    std::lock_guard<std::mutex> guard(host.lock);

    return find_locked(address) != nullptr;
}

void pinned_record(const void *address, Stream &stream)
{
    std::lock_guard<std::mutex> guard(host.lock);
    Pinned *block = find_locked(address);

    if (block != nullptr)
        block->users.streams.insert(&stream);
}

HostStats host_memory_stats()
{
    std::lock_guard<std::mutex> guard(host.lock);

    return host.stats;
}

void host_memory_reset(bool is_peak)
{
    std::lock_guard<std::mutex> guard(host.lock);

    for (Stat *stat : {&host.stats.allocations, &host.stats.allocated_bytes, &host.stats.active_requests,
                       &host.stats.active_bytes}) {
        if (is_peak)
            stat->reset_peak();
        else
            stat->reset_accumulated();
    }
}

void host_memory_empty_cache()
{
    std::lock_guard<std::mutex> guard(host.lock);

    if (!is_initialized())
        return;
    pending_process_locked();
    for (auto &[size, free] : host.free) {
        for (Pinned *block : free) {
            host.blocks.erase((uintptr_t)block->address);
            host.stats.num_host_free++;
            host.stats.allocations.decrease(1);
            host.stats.allocated_bytes.decrease(size);
            aclrtFreeHost(block->address);
            delete block;
        }
        free.clear();
    }
}

} // namespace npu
