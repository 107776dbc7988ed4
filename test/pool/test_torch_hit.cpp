/* The loops of bench/torch_hit.cpp, with a stand-in for PyTorch's libc10_cuda.so. */
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>

#include "../../bench/torch_hit.h"
#include "c10_cuda.h"
#include "require.h"

/* Block 0 stays; the others come and go. */
static const hit_operation operations[] = {{100, 0}, {200, 1}, {300, 2}, {0, 1}, {400, 1}, {0, 2}, {0, 1}};
static const std::size_t n_operations = 6; /* of a round */

static struct c10_cuda_counts *counts_find()
{
    void *library = dlopen(TEST_C10_CUDA, RTLD_NOW);
    void *variable = library != nullptr ? dlsym(library, "c10_cuda_counts") : nullptr;

    REQUIRE(variable != nullptr);
    return static_cast<struct c10_cuda_counts *>(variable);
}

static void rounds_play_all_blocks(struct c10_cuda_counts &counts, std::size_t n_cold, std::size_t n_timed)
{
    counts.sizes.clear();
    counts.n_live_most = 0;
    REQUIRE(hit_replay_us(operations, 1, n_operations, 3, 4, n_cold, n_timed) >= 0);
    REQUIRE(counts.sizes.size() == 1 + 5 * 3); /* one round is not timed */
    REQUIRE(counts.sizes[0] == 100);
    for (std::size_t i = 1; i < counts.sizes.size(); i++)
        REQUIRE(counts.sizes[i] == 200 + (i - 1) % 3 * 100);
    REQUIRE(counts.n_live_most == 3);
    REQUIRE(counts.n_live == 0);
}

static void a_refused_block_ends_the_replay(struct c10_cuda_counts &counts)
{
    const hit_operation large[] = {{100, 0}, {std::size_t(1) << 40, 1}, {0, 1}};

    REQUIRE(hit_replay_us(large, 1, 2, 2, 4, 0, 0) == -2);
    REQUIRE(counts.n_live == 0);
}

int main()
{
    REQUIRE(hit_replay_us(operations, 1, n_operations, 3, 4, 0, 0) == -1);
    REQUIRE(hit_allocator_ns(512, 10) == -1);

    struct c10_cuda_counts &counts = *counts_find();

    rounds_play_all_blocks(counts, 0, 0);
    rounds_play_all_blocks(counts, 4096, n_operations);
    rounds_play_all_blocks(counts, 4096, 2);
    a_refused_block_ends_the_replay(counts);
    REQUIRE(hit_allocator_ns(512, 10) >= 0);
    REQUIRE(counts.n_live == 0);
    return 0;
}
