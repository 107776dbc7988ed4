/*
 * A cache of keys and values on the pool.
 *
 * Sequences come, grow by a few tokens a step, and end.  Growing is the plain way: a larger
 * block, a copy in stream order, and the old block is freed at once; the stream keeps the order,
 * so nothing waits.  The pool lays the blocks side by side, and what is freed in one place
 * is mapped where it is needed.
 *
 * A block's tag is the number of its sequence, so the pool's snapshot can be looked at by
 * sequence:
 *
 *     build/bin/kv_cache [SNAPSHOT]      with a name: writes the pool's blocks at the end
 *     build/bin/aclmem report SNAPSHOT   makes a page of them
 */
#include <stdbool.h>

#include "acl/acl.h"
#include "aclmem/pool.h"
#include "example.h"

#define N_SEQUENCES 24
#define STEPS 400
#define TOKEN ((size_t)96 * 1024) /* bytes of one token: keys and values of all layers */

struct sequence {
    char *block; /* NULL: not there */
    size_t n_tokens;
    size_t room; /* tokens */
};

static unsigned random_state = 7;

static unsigned below(unsigned n)
{
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % n;
}

/* Room for more tokens; those that are there move. */
static void sequence_grow(aclmem_pool *pool, struct sequence *s, uint32_t tag,
                          aclrtStream stream)
{
    size_t room = s->n_tokens + 32;
    void *block;

    CHECK(aclmem_pool_malloc_tagged(pool, room * TOKEN, stream, tag, 0, &block));
    if (s->block != NULL) {
        CHECK(aclrtMemcpyAsync(block, room * TOKEN, s->block, s->room * TOKEN,
                               ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        CHECK(aclmem_pool_free(pool, s->block));
    }
    s->block = block;
    s->room = room;
}

static void step(aclmem_pool *pool, struct sequence *s, uint32_t tag, aclrtStream stream)
{
    if (s->block != NULL && below(100) == 0) {
        CHECK(aclmem_pool_free(pool, s->block));
        *s = (struct sequence){0};
        return;
    }
    if (s->n_tokens == s->room)
        sequence_grow(pool, s, tag, stream);
    /* The new token, tagged with its number. */
    CHECK(aclrtMemsetAsync(s->block + s->n_tokens * TOKEN, TOKEN,
                           (int)(s->n_tokens & 127), TOKEN, stream));
    s->n_tokens++;
}

static bool sequence_is_whole(const struct sequence *s)
{
    for (size_t i = 0; i < s->n_tokens; i++) {
        unsigned char byte;

        CHECK(aclrtMemcpy(&byte, 1, s->block + i * TOKEN, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        if (byte != (i & 127))
            return false;
    }
    return true;
}

static void snapshot_write(aclmem_pool *pool, const char *path)
{
    FILE *file = fopen(path, "w");
    char *json;

    CHECK(aclmem_pool_snapshot(pool, &json));
    if (file == NULL || fputs(json, file) < 0 || fclose(file) != 0)
        perror(path);
    free(json);
}

int main(int argc, char **argv)
{
    struct sequence sequences[N_SEQUENCES] = {{0}};
    aclmem_pool_stats stats;
    aclrtStream stream;
    aclmem_pool *pool;
    int n_whole = 0, n_there = 0;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclmem_pool_create(0, NULL, &pool));

    for (int i = 0; i < STEPS; i++) {
        for (uint32_t j = 0; j < N_SEQUENCES; j++)
            step(pool, &sequences[j], j, stream);
    }
    CHECK(aclrtSynchronizeStream(stream));

    CHECK(aclmem_pool_get_stats(pool, &stats));
    printf("at the peak    %.1f MB in blocks, %.1f MB held: %.1f %% in use\n",
           (double)stats.peak_live / MB, (double)stats.peak_held / MB,
           100.0 * (double)stats.peak_live / (double)stats.peak_held);
    printf("pages          %llu created, %llu moved\n", (unsigned long long)stats.creates,
           (unsigned long long)stats.remaps);
    if (argc > 1)
        snapshot_write(pool, argv[1]);
    for (int i = 0; i < N_SEQUENCES; i++) {
        n_there += sequences[i].block != NULL;
        n_whole += sequences[i].block != NULL && sequence_is_whole(&sequences[i]);
        if (sequences[i].block != NULL)
            CHECK(aclmem_pool_free(pool, sequences[i].block));
    }
    printf("sequences      %d there, %d with every token in its place\n", n_there,
           n_whole);

    CHECK(aclmem_pool_destroy(pool));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return n_whole == n_there ? 0 : 1;
}
