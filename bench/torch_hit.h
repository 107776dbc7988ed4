/* PyTorch's allocator of the process without Python; torch_pool.py calls it through ctypes. */
#ifndef AM_BENCH_TORCH_HIT_H
#define AM_BENCH_TORCH_HIT_H

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

typedef void *(*hit_malloc_fn)(ssize_t size, int device, void *stream);
typedef void (*hit_free_fn)(void *ptr, ssize_t size, int device, void *stream);

struct hit_operation {
    std::uint64_t size;  /* 0: the block ends */
    std::uint64_t block; /* its number */
};

/* A hit by two functions. */
double hit_direct_ns(hit_malloc_fn malloc, hit_free_fn free, ssize_t size, std::size_t n);

/* A hit by PyTorch's allocator; -1: this process has no PyTorch with CUDA, or another kind of it. */
double hit_allocator_ns(std::size_t size, std::size_t n);

/*
 * The time of n operations by PyTorch's allocator, in the quickest of the rounds.  The first n_first
 * operations are for blocks that stay during all rounds, and one round more comes before those that
 * are timed.  With n_cold so many bytes are read before an operation, as other code does between two
 * calls of a program, and that is not counted.  Then n_timed operations of a round are timed, one by
 * one, and the result is for all n.  -1 as above, -2: a block was refused.
 */
double hit_replay_us(const hit_operation *operations, std::size_t n_first, std::size_t n,
                     std::size_t n_blocks, std::size_t n_rounds, std::size_t n_cold,
                     std::size_t n_timed);
}
#pragma GCC visibility pop

#endif
