/* The part of PyTorch's libc10_cuda.so that bench/torch_hit.cpp calls, for tests. */
#ifndef TEST_POOL_C10_CUDA_H
#define TEST_POOL_C10_CUDA_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#pragma GCC visibility push(default)
namespace c10
{

struct DataPtr {
    void *data;
    std::unique_ptr<void, void (*)(void *)> context;
    std::int8_t device[2];
};

class Allocator
{
  public:
    virtual ~Allocator() = default;
    virtual DataPtr allocate(std::size_t size) = 0;
};

namespace cuda
{
namespace CUDACachingAllocator
{
extern std::atomic<Allocator *> allocator;
}
} // namespace cuda

} // namespace c10

/*
 * The blocks of the library's allocator, which refuses blocks of more than a GB.  The test finds this
 * variable with dlsym().  It has no virtual functions: a sanitizer would want their type in the test too.
 */
struct c10_cuda_counts {
    std::vector<std::size_t> sizes; /* of all requests */
    int n_live;
    int n_live_most;
};
extern "C" struct c10_cuda_counts c10_cuda_counts;
#pragma GCC visibility pop

#endif
