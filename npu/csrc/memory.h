/* The caching allocator: what bind.cpp and graph.cpp use of it. */
#pragma once

#include "npu.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace npu
{

using Stat = c10::CachingDeviceAllocator::Stat;
using Stats = c10::CachingDeviceAllocator::DeviceStats;
using PoolId = std::pair<uint64_t, uint64_t>;

/* A pair of functions of the program; one that is set as the current allocator serves each tensor. */
struct PluggableAllocator {
    using Alloc = void *(*)(size_t size, int device, aclrtStream stream);
    using Free = void (*)(void *address, size_t size, int device, aclrtStream stream);

    Alloc alloc;
    Free free;
    void (*init)(int n_devices) = nullptr;
    void (*reset)(bool check_error) = nullptr;
    void (*memory_fraction)(double fraction, int device) = nullptr;
    void *(*base_alloc)(void *address, size_t *size) = nullptr;
    void (*record_stream)(void *address, aclrtStream stream) = nullptr;
    void (*erase_stream)(void *address, aclrtStream stream) = nullptr;
    void (*begin_pool)(int device, PoolId id, void *filter) = nullptr;
    void (*end_pool)(int device, PoolId id) = nullptr;
    void (*release_pool)(int device, PoolId id) = nullptr;
};

/* Raises if memory was allocated before. */
void set_current_allocator(std::shared_ptr<PluggableAllocator> allocator);
bool has_current_allocator();

Stats memory_stats(int device);
void memory_reset_peak(int device);
void memory_reset_accumulated(int device);
void memory_empty_cache();
/* Frees all segments, also those with blocks. */
void memory_shutdown();
/* (free, total) bytes of the device, of all processes. */
std::pair<size_t, size_t> memory_info(int device);
void memory_set_fraction(double fraction, int device);
double memory_fraction(int device);
void memory_set_settings(const std::string &text);
/* Raises OutOfMemoryError. */
void *memory_alloc(size_t size, Stream &stream);
void memory_free(void *address);
/* The segment of a block; of a pluggable allocator, what its base_alloc returns. */
std::pair<uintptr_t, size_t> memory_base(void *address);
/* A key by which other processes import the segment of a block.  Waits for the device. */
std::string memory_export(void *address);

struct BlockInfo {
    uintptr_t address;
    size_t size;
    size_t requested;
    const char *state;
    Where where;
};
struct SegmentInfo {
    int device;
    uintptr_t address;
    size_t size;
    aclrtStream stream;
    bool is_small;
    PoolId pool;
    std::vector<BlockInfo> blocks;
};
std::vector<SegmentInfo> memory_snapshot();

struct TraceEntry {
    const char *action;
    int device;
    uintptr_t address;
    size_t size;
    aclrtStream stream;
    Where where;
};
void memory_record_history(bool is_on, size_t entries_max);
std::vector<TraceEntry> memory_history();

using OomObserver = std::function<void(int device, size_t size, size_t total, size_t free)>;
void memory_on_oom(OomObserver observer);

/* Private pools: of MemPool and of graphs. */
PoolId pool_new_id(bool is_user_created);
/* A MemPool object exists: its pool keeps its segments.  NULL: they are from aclrtMalloc. */
void pool_make(PoolId id, std::shared_ptr<PluggableAllocator> allocator);
/* The object is deleted: the segments that no block uses are freed. */
void pool_unmake(PoolId id);
int pool_use_count(PoolId id);
/* Allocations of the calling thread, or of streams that are captured, are from the pool until the end. */
void pool_begin(int device, PoolId id, bool is_capture);
void pool_end(int device, PoolId id);
void pool_release(int device, PoolId id);

struct HostStats {
    Stat allocations;
    Stat allocated_bytes;
    Stat active_requests;
    Stat active_bytes;
    int64_t num_host_alloc = 0;
    int64_t num_host_free = 0;
};
HostStats host_memory_stats();
void host_memory_reset(bool is_peak);
void host_memory_empty_cache();

} // namespace npu
