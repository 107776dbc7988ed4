/* bugs --list, or bugs CASE [fixed]. */
#include "bugs.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static const struct bug *const lists[] = {
    leak_bugs,   life_bugs,    bounds_bugs,   order_bugs,   wait_bugs,
    misc_bugs,   touch_bugs,   model_bugs,    access_bugs,  lint_bugs,
    legal_order, legal_memory, legal_threads, legal_ranges, legal_models};

#define N_LISTS (sizeof lists / sizeof lists[0])

void must(aclError rc, const char *call, int line)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "bugs:%d: %s gives %d: %s\n", line, call, rc, aclGetRecentErrMsg());
    _exit(3);
}

aclrtPhysicalMemProp device_prop(int device)
{
    return (aclrtPhysicalMemProp){
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = (uint32_t)device, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
}

aclrtMemPoolProps pool_prop(size_t size)
{
    return (aclrtMemPoolProps){
        .maxSize = size,
        .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
}

aclrtMemPool pool_open(size_t size)
{
    aclrtMemPoolProps props = pool_prop(size);
    aclrtMemPool pool;

    MUST(aclrtMemPoolCreate(&pool, &props));
    return pool;
}

struct chunk chunk_open(void)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    struct chunk chunk;

    MUST(aclrtReserveMemAddress(&chunk.va, CHUNK, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&chunk.handle, CHUNK, &prop, 0));
    MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
    return chunk;
}

void chunk_close(struct chunk chunk)
{
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtFreePhysical(chunk.handle));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

aclrtStream stream_open(void)
{
    aclrtStream stream;

    MUST(aclrtCreateStream(&stream));
    return stream;
}

void *block_open(size_t size)
{
    void *block;

    MUST(aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return block;
}

void *host_open(size_t size)
{
    void *block;

    MUST(aclrtMallocHost(&block, size));
    return block;
}

static void gate_wait(void *arg)
{
    struct gate *gate = arg;

    while (!atomic_load(&gate->is_open))
        sched_yield();
}

void gate_hold(struct gate *gate, aclrtStream stream)
{
    atomic_store(&gate->is_open, 0);
    MUST(aclrtLaunchHostFunc(stream, gate_wait, gate));
}

void gate_let(struct gate *gate)
{
    atomic_store(&gate->is_open, 1);
}

static void list_print(void)
{
    for (size_t i = 0; i < N_LISTS; i++) {
        for (const struct bug *bug = lists[i]; bug->name != NULL; bug++)
            printf("%s\t%s\t%s\t%s\t%s\t%d\t%s\n", bug->name, bug->kind, bug->words,
                   bug->function, bug->options != NULL ? bug->options : "", bug->code,
                   bug->product != NULL ? bug->product : "");
    }
}

static int bug_run(const struct bug *bug, bool is_fixed)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    bug->run(is_fixed);
    if (bug->ends_by_itself)
        return is_fixed ? 0 : bug->code;
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return is_fixed ? 0 : bug->code;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_print();
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < N_LISTS; i++) {
        for (const struct bug *bug = lists[i]; bug->name != NULL; bug++) {
            if (strcmp(bug->name, argv[1]) == 0)
                return bug_run(bug, argc > 2 && strcmp(argv[2], "fixed") == 0);
        }
    }
    fprintf(stderr, "usage: bugs --list | CASE [fixed]\n");
    return 2;
}
