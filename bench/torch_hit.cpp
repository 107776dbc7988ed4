/*
 * PyTorch's allocator of the process without Python, for torch_pool.py: a hit, which is a block and
 * its end over and over, and a recorded sequence of blocks.
 *
 * PyTorch's allocator is the object that c10::cuda::CUDACachingAllocator::allocator points to, and
 * its first virtual function behind the destructors is allocate(), which torch.empty() calls.
 */
#include "torch_hit.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

/* c10::DataPtr: an address, what ends it, and the device. */
struct DataPtr {
    void *data;
    std::unique_ptr<void, void (*)(void *)> context;
    std::int8_t device[2];
};

using Allocate = DataPtr (*)(void *self, std::size_t size);

const int n_slot_allocate = 2; /* behind the two destructors */
const std::size_t line = 64;

double now_ns()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

/* PyTorch's allocator; its object is null where the process has no PyTorch with CUDA. */
class Allocator
{
    void *object = nullptr;
    Allocate allocate = nullptr;

  public:
    Allocator()
    {
        void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
        void *variable = library != nullptr
                             ? dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")
                             : nullptr;

        object = variable != nullptr ? *static_cast<void **>(variable) : nullptr;
        if (object != nullptr)
            allocate = reinterpret_cast<Allocate>((*static_cast<void ***>(object))[n_slot_allocate]);
    }

    bool is_there() const
    {
        return object != nullptr;
    }

    DataPtr get(std::size_t size) const
    {
        return allocate(object, size);
    }
};

/* Blocks that a sequence has now, and the time that it takes. */
class Player
{
    const Allocator &allocator;
    std::vector<DataPtr> blocks;
    std::vector<unsigned char> other; /* data of other code, read between two calls */
    std::vector<double> least;        /* of the operations that are timed one by one */
    double clock_ns = 1e9;            /* of two looks at the clock */

    void run(const hit_operation &operation)
    {
        if (operation.size > 0)
            blocks[operation.block] = allocator.get(operation.size);
        else
            blocks[operation.block].context.reset();
    }

    /* Nearly n_timed of n, and the same ones in each round: by chance, since programs repeat themselves. */
    static bool is_chosen(std::size_t i, std::size_t n, std::size_t n_timed)
    {
        return n <= n_timed || (i * 0x9e3779b97f4a7c15 >> 32) % n < n_timed;
    }

    /* Pushes the allocator's lines out of the processor's own caches. */
    void other_code() const
    {
        volatile const unsigned char *data = other.data();

        for (std::size_t i = 0; i < other.size(); i += line)
            (void)data[i];
    }

  public:
    Player(const Allocator &of, std::size_t n_blocks, std::size_t n_cold)
        : allocator(of), other(n_cold, 1)
    {
        for (std::size_t i = 0; i < n_blocks; i++)
            blocks.push_back(DataPtr{nullptr, {nullptr, [](void *) {}}, {}});
        for (int i = 0; i < 1000; i++) {
            double start = now_ns();

            clock_ns = std::min(clock_ns, now_ns() - start);
        }
    }

    double warm_ns(const hit_operation *operations, std::size_t n)
    {
        double start = now_ns();

        for (std::size_t i = 0; i < n; i++)
            run(operations[i]);
        return now_ns() - start;
    }

    /* The time of n operations, told by n_timed of them; each counts with the least of all rounds so far. */
    double cold_ns(const hit_operation *operations, std::size_t n, std::size_t n_timed)
    {
        std::size_t n_done = 0;
        double sum = 0;

        for (std::size_t i = 0; i < n; i++) {
            hit_operation operation = operations[i];
            double start;

            if (!is_chosen(i, n, n_timed)) {
                run(operation);
                continue;
            }
            other_code();
            now_ns(); /* the clock is warm */
            start = now_ns();
            run(operation);
            start = now_ns() - start - clock_ns;
            if (n_done == least.size())
                least.push_back(start);
            least[n_done] = std::min(least[n_done], start);
            sum += least[n_done++];
        }
        return n_done > 0 ? sum / double(n_done) * double(n) : 0;
    }
};

} // namespace

double hit_direct_ns(hit_malloc_fn malloc, hit_free_fn free, ssize_t size, std::size_t n)
{
    double start = 0;

    for (std::size_t i = 0; i <= n; i++) {
        void *ptr = malloc(size, 0, nullptr);

        free(ptr, size, 0, nullptr);
        if (i == 0)
            start = now_ns();
    }
    return (now_ns() - start) / double(n);
}

double hit_allocator_ns(std::size_t size, std::size_t n)
{
    Allocator allocator;
    double start = 0;

    if (!allocator.is_there())
        return -1;
    for (std::size_t i = 0; i <= n; i++) {
        DataPtr ptr = allocator.get(size);

        ptr.context.reset();
        if (i == 0)
            start = now_ns();
    }
    return (now_ns() - start) / double(n);
}

double hit_replay_us(const hit_operation *operations, std::size_t n_first, std::size_t n,
                     std::size_t n_blocks, std::size_t n_rounds, std::size_t n_cold,
                     std::size_t n_timed)
{
    Allocator allocator;
    double least = 0;

    if (!allocator.is_there())
        return -1;
    try {
        Player player(allocator, n_blocks, n_cold);

        player.warm_ns(operations, n_first);
        for (std::size_t i = 0; i <= n_rounds; i++) {
            double ns = n_cold > 0 && i > 0 ? player.cold_ns(operations + n_first, n, n_timed)
                                            : player.warm_ns(operations + n_first, n);

            if (i == 1 || (i > 1 && ns < least))
                least = ns;
        }
    } catch (...) {
        return -2;
    }
    return least / 1000;
}
