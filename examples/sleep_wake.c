/*
 * Sleep and wake.
 *
 * A program that is idle gives its device memory back and keeps its addresses.  What was
 * there is saved in host memory; later new physical memory is mapped at the same place
 * and filled again.  Pointers into it, wherever they are kept, never learn that it was
 * gone.
 */
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE (32 * MB)
#define N_LAYERS 4

struct pool {
    char *addr; /* reserved for as long as the program runs */
    aclrtDrvMemHandle handle;
    char *saved; /* the bytes while asleep */
};

static void pool_back(struct pool *pool)
{
    CHECK(aclrtMallocPhysical(&pool->handle, SIZE, &device_memory, 0));
    CHECK(aclrtMapMem(pool->addr, SIZE, 0, pool->handle, 0));
}

static void pool_unback(struct pool *pool)
{
    CHECK(aclrtUnmapMem(pool->addr));
    CHECK(aclrtFreePhysical(pool->handle));
}

static void pool_sleep(struct pool *pool)
{
    pool->saved = malloc(SIZE);
    if (pool->saved == NULL)
        exit(1);
    CHECK(aclrtMemcpy(pool->saved, SIZE, pool->addr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    pool_unback(pool);
}

static void pool_wake(struct pool *pool)
{
    pool_back(pool);
    CHECK(aclrtMemcpy(pool->addr, SIZE, pool->saved, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    free(pool->saved);
}

int main(void)
{
    struct pool pool;
    const char *layer[N_LAYERS]; /* pointers that somebody keeps */
    char text[64];
    char back[64];
    size_t before;
    int n_right = 0;
    int is_away;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    before = free_memory();
    CHECK(aclrtReserveMemAddress((void **)&pool.addr, SIZE, 0, NULL, 1));
    pool_back(&pool);
    for (int i = 0; i < N_LAYERS; i++) {
        layer[i] = pool.addr + (size_t)i * (SIZE / N_LAYERS);
        snprintf(text, sizeof text, "layer %d", i);
        CHECK(aclrtMemcpy((void *)layer[i], sizeof text, text, sizeof text,
                          ACL_MEMCPY_HOST_TO_DEVICE));
    }
    printf("awake    %zu MB in use at %p\n", (before - free_memory()) / MB,
           (void *)pool.addr);

    pool_sleep(&pool);
    is_away = free_memory() == before &&
              aclrtMemcpy(back, 1, layer[0], 1, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS;
    printf(
        "asleep   %zu MB in use; the addresses stay ours, with nothing behind them: %s\n",
        (before - free_memory()) / MB, is_away ? "yes" : "no");

    pool_wake(&pool);
    printf("awake    %zu MB in use at %p\n", (before - free_memory()) / MB,
           (void *)pool.addr);
    for (int i = 0; i < N_LAYERS; i++) {
        snprintf(text, sizeof text, "layer %d", i);
        CHECK(aclrtMemcpy(back, sizeof back, layer[i], sizeof back,
                          ACL_MEMCPY_DEVICE_TO_HOST));
        printf("         %p still points to \"%s\"\n", (const void *)layer[i], back);
        n_right += strcmp(text, back) == 0;
    }

    pool_unback(&pool);
    CHECK(aclrtReleaseMemAddress(pool.addr));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return n_right != N_LAYERS || !is_away;
}
