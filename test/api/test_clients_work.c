/*
 * What well-known programs do on streams and between processes; test_clients.c has their
 * side of virtual memory.  Only the order and shape of their calls is theirs.
 */
#include "support/events.h"
#include "support/peer.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- torch_npu: memory is used again when an event says that it may be ---- */

/*
 * A block that another stream has used waits for an event of that stream, which is only
 * ever asked, never waited for.
 */
static void torch_uses_a_block_again_when_its_event_is_complete(const char *chaos)
{
    enum { ROUNDS = 6, SIZE = 3 * MIB };
    aclrtStream own, side;
    struct block segment;
    char *pinned = NULL;

    start("default", chaos);
    assert_acl_ok(aclrtSetDevice(0));
    segment = block_create(20 * MIB);
    own = make_stream();
    side = make_stream();
    assert_acl_ok(aclrtMallocHost((void **)&pinned, 2 * SIZE));
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        aclrtEvent filled = make_ex(ACL_EVENT_SYNC), used = make_ex(ACL_EVENT_SYNC);

        memset(pinned, round, SIZE);
        assert_acl_ok(aclrtMemcpyAsync(segment.va, SIZE, pinned, SIZE,
                                       ACL_MEMCPY_HOST_TO_DEVICE, own));
        assert_acl_ok(aclrtRecordEvent(filled, own));
        assert_acl_ok(aclrtStreamWaitEvent(side, filled));
        assert_acl_ok(aclrtMemcpyAsync(pinned + SIZE, SIZE, segment.va, SIZE,
                                       ACL_MEMCPY_DEVICE_TO_HOST, side));
        assert_acl_ok(aclrtRecordEvent(used, side));
        while (!is_complete(used))
            ;
        assert_all_bytes(pinned + SIZE, SIZE, round);
        end_event(filled);
        end_event(used);
    }
    assert_acl_ok(aclrtFreeHost(pinned));
    end_stream(own);
    end_stream(side);
    block_destroy(&segment);
    assert_acl_ok(aclFinalize());
}

static void torch_asks_events_and_never_waits(void **state)
{
    torch_uses_a_block_again_when_its_event_is_complete("ACLMEM_LOG=warn");
    torch_uses_a_block_again_when_its_event_is_complete("ACLMEM_CHAOS=1");
    torch_uses_a_block_again_when_its_event_is_complete("ACLMEM_CHAOS=7");
}

/* ---- MindSpore: each event is waited for and then reset by the stream that waits ---- */

/* 0xe is the default of its events, TIME_LINE that of its timers; neither has SYNC. */
static void mindspore_resets_an_event_behind_each_wait(void **state)
{
    static const uint32_t flags[] = {0xe, ACL_EVENT_TIME_LINE, ACL_EVENT_SYNC};
    aclrtStream computes = make_stream(), copies = make_stream();

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        aclrtEvent begin = make_flagged(flags[i]), end = make_flagged(flags[i]);
        float ms = -1;

        for (int step = 0; step < 3; step++) {
            assert_acl_ok(aclrtRecordEvent(begin, computes));
            assert_acl_ok(aclrtStreamWaitEvent(copies, begin));
            assert_acl_ok(aclrtResetEvent(begin, copies));
        }
        assert_acl_ok(aclrtRecordEvent(begin, copies));
        assert_acl_ok(aclrtRecordEvent(end, copies));
        assert_acl_ok(aclrtSynchronizeEvent(end));
        assert_true(is_complete(end));
        if (flags[i] & ACL_EVENT_TIME_LINE) {
            assert_acl_ok(aclrtEventElapsedTime(&ms, begin, end));
            assert_true(ms >= 0);
        }
        end_event(begin);
        end_event(end);
    }
    end_stream(computes);
    end_stream(copies);
}

/* ---- FlagCX: a proxy thread sends a chunk when its event says that it is there ---- */

enum { FLAGCX_CHUNKS = 4, FLAGCX_CHUNK = 64 * 1024 };

/*
 * The question is aclrtQueryEventWaitStatus, though no stream ever waits for the event.
 * An answer that comes too early would send bytes that have not arrived.
 */
static void flagcx_sends_what_the_wait_status_says_is_there(void **state)
{
    aclrtEvent events[FLAGCX_CHUNKS];
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    struct block segment = block_create(2 * MIB);
    char *staging = NULL;

    assert_acl_ok(aclrtMallocHost((void **)&staging, FLAGCX_CHUNKS * FLAGCX_CHUNK));
    memset(staging, 0, FLAGCX_CHUNKS * FLAGCX_CHUNK);
    hold(stream, &gate);
    for (int i = 0; i < FLAGCX_CHUNKS; i++) {
        events[i] = make_flagged(ACL_EVENT_SYNC);
        assert_acl_ok(
            aclrtMemsetAsync(segment.va, FLAGCX_CHUNK, i + 1, FLAGCX_CHUNK, stream));
        assert_acl_ok(aclrtMemcpyAsync(staging + i * FLAGCX_CHUNK, FLAGCX_CHUNK,
                                       segment.va, FLAGCX_CHUNK,
                                       ACL_MEMCPY_DEVICE_TO_HOST, stream));
        assert_acl_ok(aclrtRecordEvent(events[i], stream));
        assert_int_equal(waits_of(events[i]), ACL_EVENT_WAIT_STATUS_NOT_READY);
    }
    gate_open(&gate);
    for (int i = 0; i < FLAGCX_CHUNKS; i++) {
        assert_acl_ok(aclrtSynchronizeEvent(events[i]));
        assert_int_equal(waits_of(events[i]), ACL_EVENT_WAIT_STATUS_COMPLETE);
        assert_all_bytes(staging + i * FLAGCX_CHUNK, FLAGCX_CHUNK, (uint8_t)(i + 1));
        end_event(events[i]);
    }
    assert_acl_ok(aclrtFreeHost(staging));
    end_stream(stream);
    block_destroy(&segment);
}

/* ---- torch_npu: a segment goes to another process, one number for each chunk ---- */

enum { N_CHUNKS = 24 };

/*
 * Role "segment": imports what it is told, one after the other; at 0 it compares all of
 * it, in one copy, with pattern 1 and writes pattern 2.  It answers with codes.
 */
static int play_segment(void)
{
    aclrtDrvMemHandle handles[N_CHUNKS];
    uint8_t *bytes = malloc(N_CHUNKS * CHUNK);
    size_t n = 0;
    uint64_t number;
    void *va = NULL;

    if (bytes == NULL || aclInit(NULL) != ACL_SUCCESS ||
        aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtReserveMemAddress(&va, 2 * N_CHUNKS * CHUNK, 0, NULL, 1) != ACL_SUCCESS)
        return 2;
    while (peer_next(&number)) {
        char *at = (char *)va + n * CHUNK;
        aclError rc;

        if (number != 0) {
            rc = aclrtMemImportFromShareableHandle(number, 0, &handles[n]);
            if (rc == ACL_SUCCESS)
                rc = aclrtMapMem(at, CHUNK, 0, handles[n++], 0);
        } else {
            rc = copy(bytes, va, n * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST);
            if (!is_filled(bytes, n * CHUNK, 1))
                rc = ACL_ERROR_FAILURE;
            fill(bytes, n * CHUNK, 2);
            if (rc == ACL_SUCCESS)
                rc = copy(va, bytes, n * CHUNK, ACL_MEMCPY_HOST_TO_DEVICE);
        }
        peer_answer((uint64_t)rc);
    }
    free(bytes);
    for (; n > 0; n--) {
        if (aclrtUnmapMem((char *)va + (n - 1) * CHUNK) != ACL_SUCCESS ||
            aclrtFreePhysical(handles[n - 1]) != ACL_SUCCESS)
            return 3;
    }
    return aclrtReleaseMemAddress(va) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS ? 0
                                                                                     : 4;
}

static void torch_sends_a_segment_chunk_by_chunk(void **state)
{
    aclrtDrvMemHandle handles[N_CHUNKS];
    struct peer other = peer_start("segment");
    char *base = reserve(GIB);
    uint64_t number = 0;

    for (size_t i = 0; i < N_CHUNKS; i++) {
        handles[i] = alloc(CHUNK);
        map(base + i * CHUNK, CHUNK, handles[i]);
    }
    put_pattern(base, N_CHUNKS * CHUNK, 1);
    for (size_t i = 0; i < N_CHUNKS; i++) {
        assert_acl_ok(aclrtMemExportToShareableHandle(
            handles[i], ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number));
        assert_int_equal(peer_ask(&other, number), ACL_SUCCESS);
    }
    assert_int_equal(peer_ask(&other, 0), ACL_SUCCESS);
    assert_pattern(base, N_CHUNKS * CHUNK, 2);
    for (size_t i = 0; i < N_CHUNKS; i++) {
        assert_acl_ok(aclrtUnmapMem(base + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(base));
    assert_int_equal(peer_end(&other), 0);
}

/* ---- hcomm: every rank sees the memory of all ranks, side by side ---- */

enum { N_RANKS = 4 };

struct rank {
    uint64_t index;
    char *base;
    aclrtDrvMemHandle handles[N_RANKS];
};

#define STRIDE (8 * CHUNK)

/* Memory for this rank, exported to those processes alone. */
static aclError rank_open(struct rank *rank, int32_t ranks[N_RANKS], uint64_t *ret_number)
{
    aclrtPhysicalMemProp prop = device_prop(rank->index % 2, ACL_HBM_MEM_HUGE);
    char *own = rank->base + rank->index * STRIDE;
    aclrtDrvMemHandle *handle = &rank->handles[rank->index];
    aclError rc = aclrtMallocPhysical(handle, STRIDE, &prop, 0);

    if (rc == ACL_SUCCESS)
        rc = aclrtMapMem(own, STRIDE, 0, *handle, 0);
    if (rc == ACL_SUCCESS)
        rc = aclrtMemset(own, STRIDE, (int32_t)rank->index + 1, STRIDE);
    if (rc == ACL_SUCCESS)
        rc = aclrtMemExportToShareableHandle(*handle, ACL_MEM_HANDLE_TYPE_NONE,
                                             ACL_RT_VMM_EXPORT_FLAG_DEFAULT, ret_number);
    if (rc == ACL_SUCCESS)
        rc = aclrtMemSetPidToShareableHandle(*ret_number, ranks, N_RANKS);
    return rc;
}

static aclError rank_import(struct rank *rank, size_t i, uint64_t number)
{
    int32_t device = (int32_t)rank->index % 2;
    aclError rc;

    if (i == rank->index)
        return ACL_SUCCESS;
    rc = aclrtMemImportFromShareableHandle(number, device, &rank->handles[i]);
    if (rc == ACL_SUCCESS)
        rc = aclrtMapMem(rank->base + i * STRIDE, STRIDE, 0, rank->handles[i], 0);
    return rc;
}

/* Sees what every rank wrote, and leaves a byte with each. */
static aclError rank_exchange(struct rank *rank)
{
    uint8_t mark = (uint8_t)(100 + rank->index);

    for (size_t i = 0; i < N_RANKS; i++) {
        char *theirs = rank->base + i * STRIDE;
        uint8_t last = 0;
        aclError rc = copy(&last, theirs + STRIDE - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST);

        if (rc == ACL_SUCCESS && last != i + 1)
            rc = ACL_ERROR_FAILURE;
        if (rc == ACL_SUCCESS)
            rc = copy(theirs + rank->index, &mark, 1, ACL_MEMCPY_HOST_TO_DEVICE);
        if (rc != ACL_SUCCESS)
            return rc;
    }
    return ACL_SUCCESS;
}

static aclError rank_compare(struct rank *rank)
{
    uint8_t marks[N_RANKS];
    aclError rc = copy(marks, rank->base + rank->index * STRIDE, N_RANKS,
                       ACL_MEMCPY_DEVICE_TO_HOST);

    for (size_t i = 0; i < N_RANKS && rc == ACL_SUCCESS; i++)
        rc = marks[i] == 100 + i ? ACL_SUCCESS : ACL_ERROR_FAILURE;
    return rc;
}

static aclError rank_close(struct rank *rank)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = 0; i < N_RANKS && rc == ACL_SUCCESS; i++) {
        rc = aclrtUnmapMem(rank->base + i * STRIDE);
        if (rc == ACL_SUCCESS)
            rc = aclrtFreePhysical(rank->handles[i]);
    }
    return rc == ACL_SUCCESS ? aclrtReleaseMemAddress(rank->base) : rc;
}

static uint64_t rank_hear(void)
{
    uint64_t number;

    if (!peer_next(&number))
        exit(9);
    return number;
}

/*
 * Role "rank": hears its index and answers with its process id; hears all ids, answers
 * with a number; hears all numbers, answers; then once more when all have exchanged.
 */
static int play_rank(void)
{
    struct rank rank = {.index = rank_hear()};
    int32_t ranks[N_RANKS], pid = 0, device = (int32_t)rank.index % 2;
    uint64_t number = 0;
    void *va = NULL;
    aclError rc = ACL_SUCCESS;

    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(device) != ACL_SUCCESS ||
        aclrtDeviceGetBareTgid(&pid) != ACL_SUCCESS ||
        aclrtDeviceEnablePeerAccess(1 - device, 0) != ACL_SUCCESS ||
        aclrtReserveMemAddress(&va, N_RANKS * STRIDE, 0, NULL, 1) != ACL_SUCCESS)
        return 2;
    rank.base = va;
    peer_answer((uint64_t)pid);
    for (size_t i = 0; i < N_RANKS; i++)
        ranks[i] = (int32_t)rank_hear();
    if (rank_open(&rank, ranks, &number) != ACL_SUCCESS)
        return 3;
    peer_answer(number);
    for (size_t i = 0; i < N_RANKS; i++) {
        number = rank_hear();
        if (rc == ACL_SUCCESS)
            rc = rank_import(&rank, i, number);
    }
    if (rc == ACL_SUCCESS)
        rc = rank_exchange(&rank);
    peer_answer((uint64_t)rc);
    (void)rank_hear();
    peer_answer((uint64_t)rank_compare(&rank));
    (void)rank_hear();
    rc = rank_close(&rank);
    peer_answer((uint64_t)rc);
    return aclFinalize() == ACL_SUCCESS ? 0 : 4;
}

/* What each says now, given to all. */
static void all_tell_all(struct peer ranks[N_RANKS])
{
    uint64_t said[N_RANKS];

    for (size_t i = 0; i < N_RANKS; i++)
        assert_true(peer_hear(&ranks[i], &said[i]));
    for (size_t i = 0; i < N_RANKS; i++) {
        for (size_t k = 0; k < N_RANKS; k++)
            peer_tell(&ranks[i], said[k]);
    }
}

static void hcomm_lays_the_memory_of_all_ranks_side_by_side(void **state)
{
    struct peer ranks[N_RANKS];
    uint64_t rc;

    for (size_t i = 0; i < N_RANKS; i++) {
        ranks[i] = peer_start("rank");
        peer_tell(&ranks[i], i);
    }
    all_tell_all(ranks); /* process ids */
    all_tell_all(ranks); /* numbers */
    for (size_t step = 0; step < 3; step++) {
        for (size_t i = 0; i < N_RANKS; i++) {
            assert_true(peer_hear(&ranks[i], &rc));
            assert_int_equal(rc, ACL_SUCCESS);
        }
        for (size_t i = 0; i < N_RANKS && step < 2; i++)
            peer_tell(&ranks[i], 0);
    }
    for (size_t i = 0; i < N_RANKS; i++)
        assert_int_equal(peer_end(&ranks[i]), 0);
    assert_int_equal(free_memory(), total_memory());
}

/* ---- Mooncake: registered memory, many threads, each with many streams ---- */

enum { N_THREADS = 8, N_STREAMS = 4, PIECE = 64 * KIB };
#define HALF (N_THREADS * N_STREAMS * (size_t)PIECE)

struct transfer {
    char *host; /* registered; the first half goes out, the second comes back */
    char *device;
};

static const char *move_on_streams(struct worker *self)
{
    struct transfer *t = self->shared;
    aclrtStream streams[N_STREAMS];
    aclrtPtrAttributes attributes;

    worker_check(aclrtPointerGetAttributes(t->device, &attributes) == ACL_SUCCESS);
    worker_check(aclrtSetDevice((int32_t)attributes.location.id) == ACL_SUCCESS);
    for (size_t i = 0; i < N_STREAMS; i++) {
        size_t at = (self->index * N_STREAMS + i) * PIECE;

        worker_check(aclrtCreateStreamWithConfig(&streams[i], 0,
                                                 ACL_STREAM_FAST_LAUNCH) == ACL_SUCCESS);
        worker_check(aclrtMemcpyAsync(t->device + at, PIECE, t->host + at, PIECE,
                                      ACL_MEMCPY_DEFAULT, streams[i]) == ACL_SUCCESS);
        worker_check(aclrtMemcpyAsync(t->host + HALF + at, PIECE, t->device + at, PIECE,
                                      ACL_MEMCPY_DEFAULT, streams[i]) == ACL_SUCCESS);
    }
    for (size_t i = 0; i < N_STREAMS; i++) {
        worker_check(aclrtSynchronizeStreamWithTimeout(streams[i], 600000) ==
                     ACL_SUCCESS);
        worker_check(aclrtDestroyStream(streams[i]) == ACL_SUCCESS);
    }
    return NULL;
}

static void mooncake_moves_registered_memory_in_all_its_threads(void **state)
{
    struct worker workers[N_THREADS];
    struct transfer t;
    void *seen = NULL;

    t.host =
        mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(t.host, MAP_FAILED);
    fill((uint8_t *)t.host, HALF, 3);
    assert_acl_ok(aclrtHostRegister(t.host, 2 * HALF, ACL_HOST_REGISTER_MAPPED, &seen));
    assert_acl_ok(aclrtMalloc((void **)&t.device, HALF, ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = move_on_streams, .index = i, .shared = &t};
    assert_null(run_workers(workers, N_THREADS));
    assert_true(is_filled((uint8_t *)t.host + HALF, HALF, 3));
    assert_acl_ok(aclrtHostUnregister(t.host));
    assert_acl_ok(aclrtFree(t.device));
    assert_int_equal(munmap(t.host, 2 * HALF), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(torch_asks_events_and_never_waits),
        claim(mindspore_resets_an_event_behind_each_wait),
        claim(flagcx_sends_what_the_wait_status_says_is_there),
        claim(torch_sends_a_segment_chunk_by_chunk),
        claim(hcomm_lays_the_memory_of_all_ranks_side_by_side),
        claim(mooncake_moves_registered_memory_in_all_its_threads),
    };

    if (argc == 2 && strcmp(argv[1], "segment") == 0)
        return play_segment();
    if (argc == 2 && strcmp(argv[1], "rank") == 0)
        return play_rank();
    return run_claims(claims);
}
