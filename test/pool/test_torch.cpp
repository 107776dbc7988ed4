/*
 * The entry points of libaclmem_torch.so, called as PyTorch and torch_npu call them.
 *
 *     test_torch npu|cuda
 */
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "acl/acl.h"
#include "aclmem/torch.h"
#include "require.h"

static const ssize_t mb = 1 << 20;

static aclmem_pool_stats stats_now()
{
    aclmem_pool_stats stats;

    REQUIRE(aclmem_torch_get_stats(0, &stats) == 0);
    return stats;
}

/* The pool's events on AscendCL's streams. */
static int n_records;
static int n_waits; /* for the device: during a capture they end it */

aclError aclrtSynchronizeDevice()
{
    static auto wait = reinterpret_cast<aclError (*)()>(dlsym(RTLD_NEXT, "aclrtSynchronizeDevice"));

    n_waits++;
    return wait();
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    static auto record =
        reinterpret_cast<aclError (*)(aclrtEvent, aclrtStream)>(dlsym(RTLD_NEXT, "aclrtRecordEvent"));

    n_records++;
    return record(event, stream);
}

template <typename Function> static Function driver_get(const char *name)
{
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    Function function = nullptr;
    void *symbol = driver != nullptr ? dlsym(driver, name) : nullptr;

    REQUIRE(symbol != nullptr);
    std::memcpy(&function, &symbol, sizeof symbol);
    return function;
}

/* Handles and enumerations of the driver are void * and int here. */
#ifdef __clang__
#define OTHER_TYPES __attribute__((no_sanitize("function")))
#else
#define OTHER_TYPES
#endif

/* In the device's primary context, as PyTorch does. */
OTHER_TYPES static void *cuda_stream_make()
{
    void *context = nullptr, *stream = nullptr;

    REQUIRE(driver_get<int (*)(void **, int)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0);
    REQUIRE(driver_get<int (*)(void *)>("cuCtxSetCurrent")(context) == 0);
    REQUIRE(driver_get<int (*)(void **, unsigned, int)>("cuStreamCreateWithPriority")(&stream, 1,
                                                                                      0) == 0);
    return stream;
}

static void *stream_make(bool is_cuda)
{
    void *stream = nullptr;

    if (is_cuda)
        return cuda_stream_make();
    REQUIRE(aclrtCreateStream(&stream) == ACL_SUCCESS);
    return stream;
}

/*
 * As in test_contract.c: three pages go to and fro, and stay mapped on NVIDIA GPUs alone.  The pool
 * has no idle pages elsewhere.
 */
static void pages_come_back_without_a_call_on_a_gpu(bool is_cuda, void *stream)
{
    void *left = aclmem_torch_malloc(3 * mb, 0, stream);
    void *a = aclmem_torch_malloc(7 * mb, 0, stream);
    void *right = aclmem_torch_malloc(4 * mb, 0, stream);

    for (int i = 0; i < 4; i++) {
        aclmem_torch_free(a, 0, 0, stream);
        a = aclmem_torch_malloc(i % 2 == 0 ? 8 * mb : 7 * mb, 0, stream);
    }
    REQUIRE((stats_now().returns > 0) == is_cuda);
    aclmem_torch_free(left, 3 * mb, 0, stream);
    aclmem_torch_free(a, 7 * mb, 0, stream);
    aclmem_torch_free(right, 4 * mb, 0, stream);
    REQUIRE(aclmem_torch_reset_peaks(0) == 0);
}

static void blocks_come_and_go(void *stream)
{
    void *a, *b;

    REQUIRE(aclmem_torch_malloc(0, 0, stream) == nullptr);
    a = aclmem_torch_malloc(5 * mb, 0, stream);
    b = aclmem_torch_malloc(700, 0, nullptr);
    REQUIRE(a != nullptr && b != nullptr && a != b);
    REQUIRE(stats_now().live == 5 * mb + 700);
    aclmem_torch_free(a, 5 * mb, 0, stream);
    REQUIRE(aclmem_torch_malloc(5 * mb, 0, stream) == a);
    aclmem_torch_free(a, 5 * mb, 0, stream);
    aclmem_torch_free(b, 700, 0, nullptr);
    aclmem_torch_free(nullptr, 0, 0, stream);
    REQUIRE(stats_now().live == 0 && stats_now().peak_live == 5 * mb + 700);
    REQUIRE(aclmem_torch_reset_peaks(0) == 0 && stats_now().peak_live == 0);
}

static void the_size_of_a_block_is_known(void *stream)
{
    size_t size = 0;
    void *a = aclmem_torch_malloc(3 * mb, 0, stream);

    REQUIRE(aclmem_torch_base_alloc(a, &size) == a && size == size_t(3 * mb));
    aclmem_torch_free(a, 3 * mb, 0, stream);
}

static void no_memory_is_an_exception(void *stream)
{
    bool is_thrown = false;

    try {
        aclmem_torch_malloc(ssize_t(1) << 50, 0, stream);
    } catch (const std::exception &error) {
        is_thrown = std::strstr(error.what(), "out of memory") != nullptr &&
                    std::strstr(error.what(), "would fit now") != nullptr;
    }
    REQUIRE(is_thrown);
    REQUIRE(aclmem_torch_try_malloc(ssize_t(1) << 50, 0, stream) == nullptr);
    REQUIRE(aclmem_torch_try_malloc(512, 99, stream) == nullptr);
}

static void a_device_without_a_pool_is_an_exception(void *stream)
{
    static const struct {
        int device;
        const char *words;
    } wrong[] = {{-1, "from 0 to 63"}, {99, "from 0 to 63"}, {63, "aclrtSetDevice returned"}};

    for (const auto &w : wrong) {
        bool is_thrown = false;

        try {
            aclmem_torch_malloc(512, w.device, stream);
        } catch (const std::exception &error) {
            is_thrown = std::strstr(error.what(), w.words) != nullptr &&
                        std::strstr(error.what(), "out of memory") == nullptr;
        }
        REQUIRE(is_thrown);
    }
}

static void a_block_used_on_a_second_stream_stays_whole(bool is_cuda, void *stream)
{
    void *other = stream_make(is_cuda);
    void *a = aclmem_torch_malloc(8 * mb, 0, stream);

    aclmem_torch_record_stream(a, other);
    aclmem_torch_free(a, 8 * mb, 0, stream);
    a = aclmem_torch_malloc(20 * mb, 0, other);
    aclmem_torch_free(a, 20 * mb, 0, other);
    aclmem_torch_reset();
    REQUIRE(stats_now().live == 0);
}

static void blocks_of_a_graph_are_the_graphs_own(void *stream)
{
    void *inside, *again, *outside;

    aclmem_torch_begin_allocate_to_pool(0, 7, 1, nullptr);
    inside = aclmem_torch_malloc(4 * mb, 0, stream);
    aclmem_torch_free(inside, 4 * mb, 0, stream);
    again = aclmem_torch_malloc(4 * mb, 0, stream);
    REQUIRE(again == inside); /* in the order of the capture */
    aclmem_torch_free(again, 4 * mb, 0, stream);
    aclmem_torch_end_allocate_to_pool(0, 7, 1);
    outside = aclmem_torch_malloc(4 * mb, 0, stream);
    REQUIRE(outside != inside); /* replays write there */
    REQUIRE(stats_now().n_live == 1);
    aclmem_torch_begin_allocate_to_pool(0, 7, 1, nullptr); /* a second graph in the same pool */
    again = aclmem_torch_malloc(2 * mb, 0, stream);
    aclmem_torch_end_allocate_to_pool(0, 7, 1);
    aclmem_torch_release_pool(0, 7, 1);
    REQUIRE(stats_now().n_live == 2);
    aclmem_torch_free(again, 2 * mb, 0, stream); /* the last block: the pool goes */
    aclmem_torch_free(outside, 4 * mb, 0, stream);
    REQUIRE(stats_now().n_live == 0);
}

/* The engine gets the block at once, since two streams used it, and an event would be due. */
static void nothing_is_recorded_while_a_graph_is_captured(bool is_cuda, void *stream)
{
    void *other = stream_make(is_cuda);
    void *before = aclmem_torch_malloc(80 * mb, 0, stream);
    int n;

    aclmem_torch_record_stream(before, other);
    aclmem_torch_begin_allocate_to_pool(0, 9, 1, nullptr);
    n = n_records;
    aclmem_torch_free(before, 80 * mb, 0, stream);
    aclmem_torch_reset();
    REQUIRE(n_records == n);
    aclmem_torch_end_allocate_to_pool(0, 9, 1);
    aclmem_torch_release_pool(0, 9, 1);
    aclmem_torch_reset();
    REQUIRE(is_cuda || n_records > n);
}

static void a_block_of_a_graph_may_be_used_on_a_second_stream(bool is_cuda, void *stream)
{
    void *other = stream_make(is_cuda);
    size_t size = 0;
    void *a, *b;

    aclmem_torch_begin_allocate_to_pool(0, 9, 2, nullptr);
    a = aclmem_torch_malloc(4 * mb, 0, stream);
    REQUIRE(aclmem_torch_base_alloc(a, &size) == a && size == size_t(4 * mb));
    aclmem_torch_record_stream(a, other);
    aclmem_torch_free(a, 4 * mb, 0, stream);
    b = aclmem_torch_malloc(4 * mb, 0, stream);
    REQUIRE(b != a); /* the other stream's captured work may be there */
    aclmem_torch_free(b, 4 * mb, 0, stream);
    aclmem_torch_end_allocate_to_pool(0, 9, 2);
    REQUIRE(aclmem_torch_reset_peaks(0) == 0 && stats_now().peak_live == 0);
    aclmem_torch_release_pool(0, 9, 2);
}

static void a_released_pool_may_begin_again(void *stream)
{
    void *a, *b;

    aclmem_torch_begin_allocate_to_pool(0, 9, 3, nullptr);
    a = aclmem_torch_malloc(4 * mb, 0, stream);
    aclmem_torch_end_allocate_to_pool(0, 9, 3);
    aclmem_torch_release_pool(0, 9, 3); /* stays, for its block */
    aclmem_torch_begin_allocate_to_pool(0, 9, 3, nullptr);
    aclmem_torch_free(a, 4 * mb, 0, stream);
    b = aclmem_torch_malloc(4 * mb, 0, stream);
    REQUIRE(b == a);
    aclmem_torch_free(b, 4 * mb, 0, stream);
    aclmem_torch_release_pool(0, 9, 3);
}

/* A replay writes its block, which PyTorch has freed, with its pool. */
static void a_pool_lives_as_long_as_its_models(void *stream)
{
    aclrtStream captured = stream;
    aclmdlRI models[2];
    uint8_t byte = 0;
    void *a = nullptr, *b;
    size_t held;

    for (int i = 0; i < 2; i++) {
        REQUIRE(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
        aclmem_torch_begin_allocate_to_pool(0, 9, 4, nullptr);
        a = aclmem_torch_malloc(4 * mb, 0, stream);
        REQUIRE(aclrtMemsetAsync(a, 4 * mb, 7, 4 * mb, captured) == 0);
        aclmem_torch_free(a, 4 * mb, 0, stream);
        aclmem_torch_end_allocate_to_pool(0, 9, 4);
        REQUIRE(aclmdlRICaptureEnd(captured, &models[i]) == 0);
    }
    aclmem_torch_release_pool(0, 9, 4);
    aclmem_torch_reset();
    held = stats_now().held;
    for (int i = 0; i < 2; i++) {
        b = aclmem_torch_malloc(4 * mb, 0, stream);
        REQUIRE(b != a);
        REQUIRE(aclmdlRIExecuteAsync(models[i], captured) == 0);
        REQUIRE(aclrtSynchronizeStream(captured) == 0);
        REQUIRE(aclrtMemcpy(&byte, 1, a, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
        REQUIRE(byte == 7);
        aclmem_torch_free(b, 4 * mb, 0, stream);
        REQUIRE(aclmdlRIDestroy(models[i]) == 0);
        aclmem_torch_reset();
        REQUIRE((stats_now().held < held) == (i == 1));
    }
    REQUIRE(aclrtMemcpy(&byte, 1, a, 1, ACL_MEMCPY_DEVICE_TO_HOST) != 0);
}

static void no_pool_ends_while_a_graph_is_captured(bool is_cuda, void *stream)
{
    void *block;
    int n = n_waits;

    aclmem_torch_begin_allocate_to_pool(0, 9, 5, nullptr);
    block = aclmem_torch_malloc(4 * mb, 0, stream);
    aclmem_torch_end_allocate_to_pool(0, 9, 5);
    aclmem_torch_begin_allocate_to_pool(0, 9, 6, nullptr);
    aclmem_torch_release_pool(0, 9, 5);
    aclmem_torch_free(block, 4 * mb, 0, stream); /* its last block */
    REQUIRE(n_waits == n);
    aclmem_torch_end_allocate_to_pool(0, 9, 6);
    REQUIRE(is_cuda || n_waits > n);
    aclmem_torch_release_pool(0, 9, 6);
}

/* Without a lock around the other threads' calls the graph's pool ends under one of them. */
static void a_graph_ends_while_other_threads_ask_for_blocks(void *stream)
{
    std::thread threads[3];

    for (std::thread &thread : threads)
        thread = std::thread([&] {
            for (int i = 0; i < 3000; i++) {
                void *a = aclmem_torch_malloc(512 * (1 + i % 7), 0, stream);

                REQUIRE(a != nullptr);
                aclmem_torch_free(a, 512 * (1 + i % 7), 0, stream);
            }
        });
    for (uint64_t i = 0; i < 100; i++) {
        aclmem_torch_begin_allocate_to_pool(0, 8, i, nullptr);
        aclmem_torch_free(aclmem_torch_malloc(512, 0, stream), 512, 0, stream);
        aclmem_torch_release_pool(0, 8, i);
    }
    for (std::thread &thread : threads)
        thread.join();
    REQUIRE(stats_now().live == 0);
}

static void a_thread_without_a_device_frees(void *stream)
{
    void *a = aclmem_torch_malloc(9 * mb, 0, stream);
    std::thread thread([&] {
        void *b = aclmem_torch_malloc(12 * mb, 0, nullptr);

        aclmem_torch_free(a, 9 * mb, 0, stream);
        aclmem_torch_free(b, 12 * mb, 0, nullptr);
        aclmem_torch_reset();
    });

    thread.join();
    REQUIRE(stats_now().live == 0);
}

static void a_fraction_limits_the_pool(void *stream)
{
    size_t free_now, total;
    void *a;

    REQUIRE(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total) == ACL_SUCCESS);
    std::thread([] { aclmem_torch_memory_fraction(0.25, 0); }).join(); /* it has no device */
    REQUIRE(aclmem_torch_try_malloc(ssize_t(total / 2), 0, stream) == nullptr);
    a = aclmem_torch_try_malloc(ssize_t(total / 8), 0, stream);
    REQUIRE(a != nullptr);
    aclmem_torch_free(a, ssize_t(total / 8), 0, stream);
    aclmem_torch_memory_fraction(1, 0);
}

static void a_snapshot_lists_the_blocks(void *stream)
{
    void *a = aclmem_torch_malloc(12345, 0, stream);
    char *json;

    REQUIRE(aclmem_torch_snapshot(0, &json) == 0);
    REQUIRE(std::strstr(json, "\"size\": 12345") != nullptr);
    std::free(json);
    aclmem_torch_free(a, 12345, 0, stream);
}

int main(int argc, char **argv)
{
    bool is_cuda = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    void *stream;

    aclmem_torch_init(1);
    REQUIRE(aclmem_torch_use_cuda_streams(is_cuda) == 1);
    aclmem_torch_free(aclmem_torch_malloc(512, 0, nullptr), 512, 0, nullptr);
    REQUIRE(aclmem_torch_use_cuda_streams(!is_cuda) == 0); /* too late */
    stream = stream_make(is_cuda);
    pages_come_back_without_a_call_on_a_gpu(is_cuda, stream);
    blocks_come_and_go(stream);
    the_size_of_a_block_is_known(stream);
    no_memory_is_an_exception(stream);
    a_device_without_a_pool_is_an_exception(stream);
    a_block_used_on_a_second_stream_stays_whole(is_cuda, stream);
    blocks_of_a_graph_are_the_graphs_own(stream);
    nothing_is_recorded_while_a_graph_is_captured(is_cuda, stream);
    a_block_of_a_graph_may_be_used_on_a_second_stream(is_cuda, stream);
    a_released_pool_may_begin_again(stream);
    if (!is_cuda)
        a_pool_lives_as_long_as_its_models(stream);
    no_pool_ends_while_a_graph_is_captured(is_cuda, stream);
    a_graph_ends_while_other_threads_ask_for_blocks(stream);
    a_thread_without_a_device_frees(stream);
    a_fraction_limits_the_pool(stream);
    a_snapshot_lists_the_blocks(stream);
    return 0;
}
