/*
 * The blocks of the caching allocator: what memory.cpp uses of blocks.cpp.
 *
 * memory.lock protects all.  A thread that has it must not wait for the GIL, since a thread with the GIL may wait for
 * the lock: who needs Python, for frames or an observer, needs it before or after.
 */
#pragma once

#include "memory.h"

#include <deque>
#include <thread>

namespace npu
{

constexpr size_t kMiB = 1024 * 1024;
constexpr size_t kLargeSegment = 20 * kMiB; /* of blocks below 10 MiB */

using StatArray = c10::CachingDeviceAllocator::StatArray;

struct Pool;

struct Segment {
    int device;
    uintptr_t address;
    size_t size;
    void *view; /* NULL: of a pluggable allocator, or of a GPU */
};

struct Block {
    Stream *stream;
    uintptr_t address;
    size_t size;
    size_t requested = 0;
    Pool *pool;
    bool is_small;
    bool is_allocated = false;
    Segment *segment;
    Block *previous = nullptr; /* in the segment */
    Block *next = nullptr;
    Users users; /* other streams */
    Where where;
    Block(Stream *stream, uintptr_t address, size_t size, Pool *pool, bool is_small, Segment *segment)
        : stream(stream), address(address), size(size), pool(pool), is_small(is_small), segment(segment)
    {
    }
    bool is_split() const
    {
        return previous != nullptr || next != nullptr;
    }
};

struct ByStreamAndSize {
    bool operator()(const Block *a, const Block *b) const
    {
        return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
    }
};
using Blocks = std::set<Block *, ByStreamAndSize>;

struct Pool {
    PoolId id{0, 0};
    std::shared_ptr<PluggableAllocator> source;
    int n_uses = 0;
    size_t n_segments = 0;
    Blocks free[2]; /* large, small */
};

/* What sends allocations to a private pool. */
struct Redirect {
    PoolId id;
    std::thread::id thread;
    bool is_capture; /* then allocations on captured streams, of any thread */
};

struct DeviceMemory {
    std::map<PoolId, std::unique_ptr<Pool>> pools;
    std::vector<Redirect> redirects;
    std::unordered_map<uintptr_t, Block *> allocated;
    std::deque<Block *> pending;        /* freed, and other streams may use them */
    std::map<uintptr_t, Block *> heads; /* the first block of each segment */
    Stats stats;
    double fraction = 1.0;
};

struct Memory {
    std::recursive_mutex lock; /* protects all */
    std::map<int, DeviceMemory> devices;
    std::map<PoolId, std::shared_ptr<PluggableAllocator>> sources; /* of private pools */
    std::shared_ptr<PluggableAllocator> current;
    uint64_t n_ids[2] = {0, 0};
    OomObserver observer;
    bool has_history = false;
    size_t history_max = 0;
    std::deque<TraceEntry> history;
    size_t max_split = SIZE_MAX;
    bool is_configured = false;
};
extern Memory memory;

/* The caller's Python line and frames, taken before the lock. */
extern thread_local Where here;

struct Entry {
    Callers callers;
    explicit Entry(const char *operation) : callers(operation)
    {
        here = memory.has_history ? where() : Where();
    }
};

Block *block_alloc(size_t requested, Stream &stream);
void block_free(void *block);
/* Blocks whose users have passed the events become free. */
void pending_process(DeviceMemory &m);
/*
 * Frees the segments without blocks of the pools that are wanted.  Queued work may use such segments, so the device is
 * waited for, without the lock: a function on a stream may free blocks.
 */
void segments_free(int device, const std::function<bool(const Pool &)> &is_wanted);
/* The pool of the process, and private pools that neither a MemPool, a context nor a graph has. */
bool is_cache(const Pool &pool);
bool is_unused(const Pool &pool);
Pool &pool_get(DeviceMemory &m, PoolId id);
/* Reads PYTORCH_NPU_ALLOC_CONF when memory is first allocated: programs set the variable after the import. */
void configure();

} // namespace npu
