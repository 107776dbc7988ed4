/*
 * The caching allocator of device memory.
 *
 * Sizes are torch_npu's: 32 bytes are added to a request, the sum is rounded up to 512.  Up to 1 MiB a block is cut
 * from a segment of 2 MiB, below 10 MiB from one of 20 MiB, else from one of a multiple of 2 MiB.  A block belongs to
 * a stream.  When it is freed it is reused in the order of this stream; other streams that used it are waited for if
 * the program reported them (record_stream).  A segment has a host view, through which tasks use the memory;
 * segments of a pluggable allocator have none, because the program may unmap them.
 *
 * libaclmem_pool cannot replace this file: the functions of a pluggable allocator in a MemPool return segments, from
 * which blocks have to be cut; statistics and snapshots are about segments; another process imports a segment by its
 * key.  With libaclmem_pool 12 of 251 tests fail: 5 of sizes and statistics, 3 of snapshots of pools and graphs, 1 of a
 * pluggable allocator in a MemPool, 1 of the order of streams, 2 of sharing.  As the source of segments it would save
 * nothing, because a segment is whole pages.
 */
#include "blocks.h"

#include <c10/util/Exception.h>

namespace npu
{

Memory memory;
thread_local Where here;

namespace
{

constexpr size_t kPadding = 32;
constexpr size_t kRound = 512;
constexpr size_t kSmall = kMiB;            /* the largest small block */
constexpr size_t kSmallSegment = 2 * kMiB; /* and the unit of large segments */
constexpr size_t kLarge = 10 * kMiB;       /* from here on a block has its own segment */
constexpr size_t kAbsurd = (size_t)1 << 60;

void add(StatArray &stat, bool is_small, int64_t amount)
{
    for (size_t i : {(size_t)0, (size_t)(is_small ? 1 : 2)}) {
        if (amount >= 0)
            stat[i].increase(amount);
        else
            stat[i].decrease(-amount);
    }
}

void count(StatArray &number, StatArray &bytes, const Block *block, int sign)
{
    add(number, block->is_small, sign);
    add(bytes, block->is_small, sign * (int64_t)block->size);
}

void count_inactive(DeviceMemory &m, const Block *block, int sign)
{
    if (block->is_split())
        count(m.stats.inactive_split, m.stats.inactive_split_bytes, block, sign);
}

void trace(const char *action, int device, uintptr_t address, size_t size, const Stream *stream)
{
    if (!memory.has_history)
        return;
    memory.history.push_back({action, device, address, size, stream->handle, here});
    if (memory.history.size() > memory.history_max)
        memory.history.pop_front();
}

/* ---- sizes ---- */

size_t round_size(size_t size)
{
    return (size + kPadding + kRound - 1) / kRound * kRound;
}

size_t segment_size(size_t size)
{
    if (size <= kSmall)
        return kSmallSegment;
    if (size < kLarge)
        return kLargeSegment;
    return (size + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
}

bool should_split(const Block *block, size_t size)
{
    size_t rest = block->size - size;

    if (block->is_small)
        return rest >= kRound;
    return size < memory.max_split && rest > kSmall;
}

} // namespace

/* ---- segments ---- */

Pool &pool_get(DeviceMemory &m, PoolId id)
{
    auto &pool = m.pools[id];

    if (!pool) {
        pool = std::make_unique<Pool>();
        pool->id = id;
        auto source = memory.sources.find(id);
        if (source != memory.sources.end())
            pool->source = source->second;
    }
    return *pool;
}

namespace
{

size_t limit_of(const DeviceMemory &m)
{
    size_t free = 0;
    size_t total = 0;

    if (m.fraction >= 1.0)
        return SIZE_MAX;
    aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
    return (size_t)(m.fraction * (double)total);
}

Block *segment_make(DeviceMemory &m, Pool &pool, Stream &stream, size_t size, bool is_small)
{
    void *address = nullptr;
    void *view = nullptr;
    if (pool.source) {
        address = pool.source->alloc(size, stream.device, stream.handle);
        if (address == nullptr)
            return nullptr;
    } else {
        if (m.stats.reserved_bytes[0].current + size > limit_of(m) ||
            aclrtMallocAlign32(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
            return nullptr;
        if (aclmem_host_view(address, size, &view) != ACL_SUCCESS)
            view = nullptr; /* tasks copy what they use */
    }
    auto *segment = new Segment{stream.device, (uintptr_t)address, size, view};
    auto *block = new Block(&stream, segment->address, size, &pool, is_small, segment);

    pool.n_segments++;
    m.heads[segment->address] = block;
    m.stats.num_device_alloc++;
    count(m.stats.segment, m.stats.reserved_bytes, block, 1);
    if (size >= memory.max_split)
        m.stats.oversize_segments.increase(1);
    trace("segment_alloc", stream.device, segment->address, size, &stream);
    return block;
}

void segment_free(DeviceMemory &m, Block *block)
{
    Segment *segment = block->segment;
    Pool &pool = *block->pool;

    trace("segment_free", segment->device, segment->address, segment->size, block->stream);
    m.heads.erase(segment->address);
    m.stats.num_device_free++;
    count(m.stats.segment, m.stats.reserved_bytes, block, -1);
    if (segment->size >= memory.max_split)
        m.stats.oversize_segments.decrease(1);
    pool.n_segments--;
    if (segment->view != nullptr)
        aclmem_host_view_end(segment->view);
    if (pool.source)
        pool.source->free((void *)segment->address, segment->size, segment->device, block->stream->handle);
    else
        aclrtFree((void *)segment->address);
    delete segment;
    delete block;
}

/* Takes the segments without blocks out of the pool. */
void segments_detach(Pool &pool, std::vector<Block *> &list)
{
    for (Blocks &free : pool.free) {
        for (auto it = free.begin(); it != free.end();) {
            Block *block = *it;

            if (block->is_split()) {
                ++it;
                continue;
            }
            it = free.erase(it);
            list.push_back(block);
        }
    }
}

} // namespace

bool is_unused(const Pool &pool)
{
    return pool.id != PoolId{0, 0} && pool.n_uses == 0 && memory.sources.count(pool.id) == 0;
}

namespace
{

/* ---- blocks ---- */

void merge(DeviceMemory &m, Block *block, Block *other)
{
    if (other == nullptr || other->is_allocated || !other->users.empty())
        return;
    other->pool->free[other->is_small].erase(other);
    count_inactive(m, other, -1);
    if (block->previous == other) {
        block->address = other->address;
        block->previous = other->previous;
        if (block->previous != nullptr)
            block->previous->next = block;
    } else {
        block->next = other->next;
        if (block->next != nullptr)
            block->next->previous = block;
    }
    block->size += other->size;
    if (block->previous == nullptr)
        m.heads[block->segment->address] = block;
    delete other;
}

/* The block is free for its stream. */
void block_release(DeviceMemory &m, Block *block)
{
    trace("free_completed", block->segment->device, block->address, block->requested, block->stream);
    count(m.stats.active, m.stats.active_bytes, block, -1);
    merge(m, block, block->previous);
    merge(m, block, block->next);
    count_inactive(m, block, 1);
    block->pool->free[block->is_small].insert(block);
}

} // namespace

/* Blocks whose users have passed the events become free. */
void pending_process(DeviceMemory &m)
{
    for (auto it = m.pending.begin(); it != m.pending.end();) {
        Block *block = *it;

        if (block->users.poll()) {
            it = m.pending.erase(it);
            block_release(m, block);
        } else {
            ++it;
        }
    }
}

namespace
{

Block *block_find(DeviceMemory &m, Pool &pool, Stream &stream, size_t size, bool is_small)
{
    Block key(&stream, 0, size, &pool, is_small, nullptr);
    Blocks &free = pool.free[is_small];
    auto it = free.lower_bound(&key);

    if (it == free.end() || (*it)->stream != &stream)
        return nullptr;
    if (size < memory.max_split && (*it)->size >= memory.max_split)
        return nullptr;
    Block *block = *it;

    free.erase(it);
    count_inactive(m, block, -1);
    return block;
}

} // namespace

bool is_cache(const Pool &pool)
{
    return pool.id == PoolId{0, 0} || is_unused(pool);
}

void segments_free(int device, const std::function<bool(const Pool &)> &is_wanted)
{
    std::vector<Block *> list;

    if (n_captures > 0 || is_in_bad_fork())
        return; /* the next call frees them */
    wait_device(device); /* events of pending blocks */
    {
        std::lock_guard<std::recursive_mutex> guard(memory.lock);

        pending_process(memory.devices[device]);
        for (auto &[id, pool] : memory.devices[device].pools) {
            if (is_wanted(*pool))
                segments_detach(*pool, list);
        }
    }
    wait_device(device); /* work that other threads queued */
    WithoutGil without;  /* the functions of a pluggable allocator may wait, too */
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    auto &pools = memory.devices[device].pools;

    for (Block *block : list)
        segment_free(memory.devices[device], block);
    for (auto it = pools.begin(); it != pools.end();)
        it = is_unused(*it->second) && it->second->n_segments == 0 ? pools.erase(it) : std::next(it);
}

namespace
{

Pool &pool_choose(DeviceMemory &m, const Stream &stream)
{
    for (auto it = m.redirects.rbegin(); it != m.redirects.rend(); ++it) {
        if (it->is_capture ? is_capturing(stream) : it->thread == std::this_thread::get_id())
            return pool_get(m, it->id);
    }
    return pool_get(m, {0, 0});
}

/* Takes the rest of the block away, as a free block. */
void split(DeviceMemory &m, Block *block, size_t size)
{
    auto *rest = new Block(block->stream, block->address + size, block->size - size, block->pool, block->is_small,
                           block->segment);

    rest->previous = block;
    rest->next = block->next;
    if (rest->next != nullptr)
        rest->next->previous = rest;
    block->next = rest;
    block->size = size;
    count_inactive(m, rest, 1);
    rest->pool->free[rest->is_small].insert(rest);
}

/* NULL: the device has no memory for a segment. */
Block *block_try(size_t requested, Stream &stream)
{
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    DeviceMemory &m = memory.devices[stream.device];
    size_t size = round_size(requested);
    bool is_small = size <= kSmall;
    Block *block;

    configure();
    if (n_captures == 0 && !m.pending.empty())
        pending_process(m);

    Pool &pool = pool_choose(m, stream);

    block = block_find(m, pool, stream, size, is_small);
    if (block == nullptr)
        block = segment_make(m, pool, stream, segment_size(size), is_small);
    if (block == nullptr)
        return nullptr;
    if (should_split(block, size))
        split(m, block, size);
    block->is_allocated = true;
    block->requested = requested;
    block->where = here;
    m.allocated[block->address] = block;
    count(m.stats.allocation, m.stats.allocated_bytes, block, 1);
    count(m.stats.active, m.stats.active_bytes, block, 1);
    add(m.stats.requested_bytes, block->is_small, (int64_t)requested);
    if (size >= memory.max_split)
        m.stats.oversize_allocations.increase(1);
    trace("alloc", stream.device, block->address, requested, &stream);
    return block;
}

[[noreturn]] void raise_oom(const Stream &stream, size_t size)
{
    using c10::CachingDeviceAllocator::format_size;
    size_t free = 0;
    size_t total = 0;
    size_t limit;
    Stats stats;

    aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
    {
        std::lock_guard<std::recursive_mutex> guard(memory.lock);
        DeviceMemory &m = memory.devices[stream.device];

        m.stats.num_ooms++;
        limit = limit_of(m);
        stats = m.stats;
        trace("oom", stream.device, free, size, &stream);
    }
    if (memory.observer)
        memory.observer(stream.device, size, std::min(total, limit), free);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", format_size(size), " (NPU ",
                     stream.device, "; ", format_size(total), " total capacity; ",
                     format_size(stats.allocated_bytes[0].current), " already allocated; ",
                     format_size(stats.active_bytes[0].current), " current active; ", format_size(free), " free; ",
                     limit != SIZE_MAX ? format_size(limit) + " allowed; " : std::string(),
                     format_size(stats.reserved_bytes[0].current),
                     " reserved in total by PyTorch).If reserved memory is >> allocated memory try setting "
                     "max_split_size_mb to avoid fragmentation.");
    std::terminate();
}

} // namespace

Block *block_alloc(size_t requested, Stream &stream)
{
    Entry entry("npu allocator: allocate");
    Block *block;

    TORCH_CHECK_WITH(OutOfMemoryError, requested < kAbsurd,
                     "NPU out of memory. Tried to allocate more than 1EB memory.");
    block = block_try(requested, stream);
    if (block == nullptr && n_captures == 0) {
        segments_free(stream.device, is_cache);
        {
            std::lock_guard<std::recursive_mutex> guard(memory.lock);

            memory.devices[stream.device].stats.num_alloc_retries++;
        }
        block = block_try(requested, stream);
    }
    if (block == nullptr)
        raise_oom(stream, requested);
    return block;
}

void block_free(void *context)
{
    Entry entry("npu allocator: free");
    Block *block = static_cast<Block *>(context);
    std::lock_guard<std::recursive_mutex> guard(memory.lock);
    DeviceMemory &m = memory.devices[block->segment->device];

    if (is_in_bad_fork() || is_shut_down())
        return;
    block->is_allocated = false;
    m.allocated.erase(block->address);
    count(m.stats.allocation, m.stats.allocated_bytes, block, -1);
    add(m.stats.requested_bytes, block->is_small, -(int64_t)block->requested);
    if (block->size >= memory.max_split)
        m.stats.oversize_allocations.decrease(1);
    trace("free_requested", block->segment->device, block->address, block->requested, block->stream);
    block->users.record();
    if (block->users.empty())
        block_release(m, block);
    else
        m.pending.push_back(block);
}

} // namespace npu
