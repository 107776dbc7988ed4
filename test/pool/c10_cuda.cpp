#include "c10_cuda.h"

#include <new>

struct c10_cuda_counts c10_cuda_counts;

namespace c10 {

static void block_end(void *context)
{
    static_cast<struct c10_cuda_counts *>(context)->n_live--;
}

class CountingAllocator : public Allocator
{
  public:
    DataPtr allocate(std::size_t size) override
    {
        struct c10_cuda_counts *counts = &c10_cuda_counts;

        if (size > std::size_t(1) << 30)
            throw std::bad_alloc();
        counts->sizes.push_back(size);
        if (++counts->n_live > counts->n_live_most)
            counts->n_live_most = counts->n_live;
        return DataPtr{counts, {counts, block_end}, {}};
    }
};

static CountingAllocator counting;

namespace cuda {
namespace CUDACachingAllocator {
std::atomic<Allocator *> allocator(&counting);
}
} // namespace cuda

} // namespace c10
