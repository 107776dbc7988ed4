/*
 * A hit, without Python: a block and its end, over and over, by PyTorch's allocator of the process
 * or by two functions.  For torch_pool.py.
 *
 * PyTorch's allocator is the object that c10::cuda::CUDACachingAllocator::allocator points to, and
 * its first virtual function behind the destructors is allocate(), which torch.empty() calls.
 */
#include <dlfcn.h>
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace {

/* c10::DataPtr: an address, what ends it, and the device. */
struct DataPtr {
    void *data;
    std::unique_ptr<void, void (*)(void *)> context;
    std::int8_t device[2];
};

using Allocate = DataPtr (*)(void *self, std::size_t size);
using Malloc = void *(*)(ssize_t size, int device, void *stream);
using Free = void (*)(void *ptr, ssize_t size, int device, void *stream);

const int n_slot_allocate = 2; /* behind the two destructors */

double now_ns()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) double hit_direct_ns(Malloc malloc, Free free,
                                                            ssize_t size, std::size_t n)
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

/* -1: this process has no PyTorch with CUDA, or another kind of it. */
__attribute__((visibility("default"))) double hit_allocator_ns(std::size_t size,
                                                               std::size_t n)
{
    void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    void *variable = library != nullptr
                         ? dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")
                         : nullptr;
    void **allocator = variable != nullptr ? *static_cast<void ***>(variable) : nullptr;
    Allocate allocate;
    double start = 0;

    if (allocator == nullptr)
        return -1;
    allocate = reinterpret_cast<Allocate>((*reinterpret_cast<void ***>(allocator))[n_slot_allocate]);
    for (std::size_t i = 0; i <= n; i++) {
        DataPtr ptr = allocate(allocator, size);

        ptr.context.reset();
        if (i == 0)
            start = now_ns();
    }
    return (now_ns() - start) / double(n);
}
}
