/*
 * Threads that use the layer check at the same time: hooks of several threads share the
 * metadata (src/layer/shared.h), and the findings are those of one thread after the other.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclmem/aclmem.h"
#include "support/support.h"

#define N_THREADS 8
#define N_TURNS 300
#define N_BLOCKS 16
#define SIZE 4096

/* A thread of the test cannot fail an assertion of cmocka. */
static void must(aclError rc)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "%d: %s\n", rc, aclGetRecentErrMsg());
    abort();
}

struct member {
    pthread_t thread;
    aclrtStream stream;
    aclrtStream second;
    aclrtEvent event;
    void *block[N_BLOCKS];
    void *shared; /* read by all members */
    unsigned number;
};

static void member_open(struct member *m)
{
    must(aclrtSetDevice(0));
    must(aclrtCreateStream(&m->stream));
    must(aclrtCreateStream(&m->second));
    must(aclrtCreateEvent(&m->event));
    for (int i = 0; i < N_BLOCKS; i++)
        must(aclrtMalloc(&m->block[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void member_close(struct member *m)
{
    must(aclrtSynchronizeStream(m->second));
    must(aclrtSynchronizeStream(m->stream));
    for (int i = 0; i < N_BLOCKS; i++)
        must(aclrtFree(m->block[i]));
    must(aclrtDestroyEvent(m->event));
    must(aclrtDestroyStream(m->second));
    must(aclrtDestroyStream(m->stream));
}

/* Each turn is ordered after the one before. */
static void member_turn(struct member *m, int turn)
{
    void **from = &m->block[(turn * 7) % N_BLOCKS];
    void **to = &m->block[(turn * 7 + 3) % N_BLOCKS];

    must(aclrtMemsetAsync(*from, SIZE, 1, SIZE, m->stream));
    must(aclrtMemcpyAsync(*to, SIZE, m->shared, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                          m->stream));
    if (turn % 3 == 0) {
        must(aclrtRecordEvent(m->event, m->stream));
        must(aclrtStreamWaitEvent(m->second, m->event));
        must(aclrtMemcpyAsync(*from, SIZE, *to, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                              m->second));
        must(aclrtSynchronizeStream(m->second));
    }
    if (turn % 2 == 0)
        must(aclrtSynchronizeStream(m->stream));
    for (int i = 0; i < 4 && turn % 2 == 0; i++) {
        void **block = &m->block[(turn + i) % N_BLOCKS];

        must(aclrtFree(*block));
        must(
            aclrtMalloc(block, (size_t)(turn % 5 + 1) * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    }
}

static void *member_main(void *arg)
{
    struct member *m = arg;

    member_open(m);
    for (int turn = 0; turn < N_TURNS; turn++)
        member_turn(m, turn);
    member_close(m);
    return NULL;
}

/* Nothing orders the two streams; `depth` makes the stacks of the members differ. */
__attribute__((noinline)) static void race(struct member *m, unsigned depth)
{
    if (depth > 0) {
        race(m, depth - 1);
    } else {
        must(aclrtMemsetAsync(m->block[0], SIZE, 1, SIZE, m->stream));
        must(aclrtMemsetAsync(m->block[0], SIZE, 1, SIZE, m->second));
    }
    must(aclrtSynchronizeStream(m->second));
}

static void *racing_main(void *arg)
{
    struct member *m = arg;

    member_open(m);
    for (int turn = 0; turn < N_TURNS; turn++) {
        member_turn(m, turn);
        if (turn == N_TURNS / 2)
            race(m, m->number);
    }
    member_close(m);
    return NULL;
}

static void crowd_run(void *(*run)(void *), void *shared)
{
    struct member m[N_THREADS];

    memset(m, 0, sizeof m);
    for (int i = 0; i < N_THREADS; i++) {
        m[i].shared = shared;
        m[i].number = (unsigned)i;
        assert_int_equal(pthread_create(&m[i].thread, NULL, run, &m[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(m[i].thread, NULL);
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        n++;
    return n;
}

static void correct_threads_have_no_finding(void **state)
{
    char *found;
    void *shared;

    assert_acl_ok(aclrtMalloc(&shared, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclmem_check_begin(0));
    crowd_run(member_main, shared);
    assert_acl_ok(aclrtFree(shared));
    assert_acl_ok(aclmem_check_end(1, &found));
    assert_string_equal(found, "[]");
    free(found);
}

static void each_race_is_found(void **state)
{
    char *found;
    void *shared;

    assert_acl_ok(aclrtMalloc(&shared, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclmem_check_begin(0));
    crowd_run(racing_main, shared);
    assert_acl_ok(aclrtFree(shared));
    assert_acl_ok(aclmem_check_end(1, &found));
    assert_int_equal(count(found, "\"kind\":\"race\""), N_THREADS);
    assert_int_equal(count(found, "\"kind\":"), N_THREADS);
    free(found);
}

/* ---- threads that use one block in turn ---- */

static pthread_mutex_t in_turn = PTHREAD_MUTEX_INITIALIZER;
static void *written;

static void *writer_main(void *arg)
{
    struct member *m = arg;
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    member_open(m);
    for (int turn = 0; turn < N_TURNS; turn++) {
        pthread_mutex_lock(&in_turn);
        must(aclrtMemsetAsync(written, SIZE, turn, SIZE, m->stream));
        if (turn % 2 == 0)
            must(aclrtSynchronizeStream(m->stream));
        while (turn % 2 != 0 && status != ACL_STREAM_STATUS_COMPLETE)
            must(aclrtStreamQuery(m->stream, &status));
        status = ACL_STREAM_STATUS_NOT_READY;
        pthread_mutex_unlock(&in_turn);
        member_turn(m, turn);
    }
    member_close(m);
    return NULL;
}

static void what_one_thread_waited_for_all_threads_know(void **state)
{
    char *found;
    void *shared;

    assert_acl_ok(aclrtMalloc(&shared, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMalloc(&written, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclmem_check_begin(0));
    crowd_run(writer_main, shared);
    assert_acl_ok(aclrtFree(shared));
    assert_acl_ok(aclrtFree(written));
    assert_acl_ok(aclmem_check_end(1, &found));
    assert_string_equal(found, "[]");
    free(found);
}

/* ---- a block that one thread frees while streams of others read it ---- */

static struct member readers[N_THREADS];

static void *reader_main(void *arg)
{
    struct member *m = arg;

    member_open(m);
    for (int turn = 0; turn < N_TURNS; turn++)
        must(aclrtMemcpyAsync(m->block[0], SIZE, m->shared, SIZE,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, m->stream));
    readers[m->number] = *m; /* the streams stay until the block is freed */
    return NULL;
}

static void readers_of_other_threads_are_known(void **state)
{
    char *found;
    void *shared;

    assert_acl_ok(aclrtMalloc(&shared, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclmem_check_begin(0));
    crowd_run(reader_main, shared);
    assert_acl_ok(aclrtFree(shared));
    assert_acl_ok(aclmem_check_end(0, &found));
    assert_int_equal(count(found, "\"kind\":\"free-in-use\""), 1);
    assert_int_equal(count(found, "\"kind\":"), 1);
    free(found);
    for (int i = 0; i < N_THREADS; i++)
        member_close(&readers[i]);
}

/* ---- what is freed in one thread and used in another ---- */

static void *freed[N_THREADS * N_BLOCKS];

static void *freeing_main(void *arg)
{
    struct member *m = arg;
    static atomic_int n;

    member_open(m);
    for (int i = 0; i < N_BLOCKS; i++) {
        freed[atomic_fetch_add(&n, 1)] = m->block[i];
        must(aclrtFree(m->block[i]));
        m->block[i] = NULL;
    }
    must(aclrtDestroyEvent(m->event));
    must(aclrtDestroyStream(m->second));
    must(aclrtDestroyStream(m->stream));
    return NULL;
}

static void frees_of_all_threads_are_remembered(void **state)
{
    char *found;

    crowd_run(freeing_main, NULL);
    for (int i = 0; i < N_THREADS * N_BLOCKS; i++) {
        assert_acl_ok(aclmem_check_begin(0));
        assert_int_not_equal(aclrtFree(freed[i]), ACL_SUCCESS);
        assert_acl_ok(aclmem_check_end(0, &found));
        assert_int_equal(count(found, "\"kind\":\"double-free\""), 1);
        free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_threads_have_no_finding),
        cmocka_unit_test(each_race_is_found),
        cmocka_unit_test(what_one_thread_waited_for_all_threads_know),
        cmocka_unit_test(frees_of_all_threads_are_remembered),
        cmocka_unit_test(readers_of_other_threads_are_known),
    };
    int rc;

    setenv("ACLMEM_LAYERS", "check", 1);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)aclrtResetDeviceForce(0);
    (void)aclFinalize();
    return rc;
}
