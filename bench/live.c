/* See live.h. */
#include "live.h"

#include <stdlib.h>

void library_start_with(const char *memory, bool is_isolated)
{
    setenv("ACLMEM_MEMORY", memory, 1);
    setenv("ACLMEM_DEVICES", "1", 1);
    setenv("ACLMEM_COMMIT", "touch", 1);
    setenv("ACLMEM_RULES", "default", 1);
    setenv("ACLMEM_ISOLATE", is_isolated ? "1" : "0", 1);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
}

void library_start(bool is_isolated)
{
    library_start_with("4T", is_isolated);
}

void library_stop(void)
{
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}

void live_open(struct live *live, size_t n, aclrtMemLocationType where)
{
    bool is_host = where == ACL_MEM_LOCATION_TYPE_HOST;

    *live = (struct live){
        .n = n,
        .prop = {.memAttr = is_host ? ACL_MEM_HUGE : ACL_HBM_MEM_HUGE,
                 .location.type = where},
        .handle = malloc(n * sizeof *live->handle),
        .random = 88172645463325252,
    };
    MUST_HOLD(live->handle != NULL);
    for (size_t i = 0; i < n; i++)
        MUST(aclrtMallocPhysical(&live->handle[i], CHUNK, &live->prop, 0));
}

/* Handles may have changed where they were drawn. */
static void picks_return(struct live *live)
{
    for (size_t i = 0; i < live->n_picks; i++)
        live->handle[live->pick[i].index] = live->pick[i].handle;
    live->n_picks = 0;
}

void live_map(struct live *live)
{
    void *addr;

    picks_return(live);
    MUST(aclrtReserveMemAddress(&addr, (live->n + 2) * CHUNK, 0, NULL, 1));
    live->addr = (char *)addr + CHUNK;
    for (size_t i = 0; i < live->n; i++)
        MUST(aclrtMapMem(live->addr + i * CHUNK, CHUNK, 0, live->handle[i], 0));
}

void live_close(struct live *live)
{
    free(live->handle);
}

static uint64_t random_next(struct live *live)
{
    live->random ^= live->random << 13;
    live->random ^= live->random >> 7;
    live->random ^= live->random << 17;
    return live->random;
}

/* Draws `count` different members, one from each part of the set, in random order. */
static void picks_draw(struct live *live, size_t count)
{
    size_t part = live->n / count;

    picks_return(live);
    for (size_t i = 0; i < count; i++) {
        size_t index = i * part + random_next(live) % part;
        size_t at = random_next(live) % (i + 1);

        live->pick[i] = live->pick[at];
        live->pick[at] = (struct pick){live->addr, live->handle[index], index};
        if (live->addr != NULL)
            live->pick[at].addr += index * CHUNK;
    }
    live->n_picks = count;
}

static void picks_prepare(void *arg, size_t n)
{
    struct live *live = arg;

    (void)n;
    picks_draw(live, live->n < PICKS ? live->n : PICKS);
}

static size_t pick_after(const struct live *live, size_t i)
{
    return i + 1 < live->n_picks ? i + 1 : 0;
}

static void map_pair_run(void *arg, size_t n)
{
    struct live *live = arg;

    for (size_t i = 0; n-- > 0; i = pick_after(live, i)) {
        MUST(aclrtUnmapMem(live->pick[i].addr));
        MUST(aclrtMapMem(live->pick[i].addr, CHUNK, 0, live->pick[i].handle, 0));
    }
}

struct subject live_map_pair(struct live *live)
{
    return (struct subject){
        .run = map_pair_run, .prepare = picks_prepare, .arg = live, .n = PICKS};
}

static void phys_pair_run(void *arg, size_t n)
{
    struct live *live = arg;

    for (size_t i = 0; n-- > 0; i = pick_after(live, i)) {
        MUST(aclrtFreePhysical(live->pick[i].handle));
        MUST(aclrtMallocPhysical(&live->pick[i].handle, CHUNK, &live->prop, 0));
    }
}

struct subject live_phys_pair(struct live *live)
{
    return (struct subject){
        .run = phys_pair_run, .prepare = picks_prepare, .arg = live, .n = PICKS};
}

static void lookup_run(void *arg, size_t n)
{
    struct live *live = arg;
    aclrtPtrAttributes attributes;

    for (size_t i = 0; n-- > 0; i = pick_after(live, i))
        MUST(aclrtPointerGetAttributes(live->pick[i].addr, &attributes));
    MUST_HOLD(attributes.location.type == live->prop.location.type);
}

struct subject live_lookup(struct live *live)
{
    return (struct subject){
        .run = lookup_run, .prepare = picks_prepare, .arg = live, .n = PICKS};
}

struct subject live_lookup_among(struct live *live, size_t n)
{
    picks_draw(live, n);
    return (struct subject){.run = lookup_run, .prepare = NULL, .arg = live, .n = PICKS};
}
