/*
 * Random programs, run eagerly and captured and replayed, leave the same memory.
 *
 * A program is a list of operations on a few streams and blocks: copies in several forms,
 * memsets, writes of values, host functions that change pinned memory, and events between
 * streams.  The generator keeps a vector clock for each stream and adds the events that
 * order two operations on one block, and few others.  So each program has exactly one
 * result, which plain loops over arrays compute as well.
 *
 *     test_api_capture_random [COUNT [FIRST]]
 *
 * runs COUNT programs from seed FIRST on, each plainly and in chaos mode.
 */
#include "support/blocks.h"
#include "support/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_STREAMS = 5,
    N_BLOCKS = 8,
    N_DEVICE = 6, /* of these; the others are pinned */
    BLOCK = 256,
    MOST_OPS = 400,
    N_EVENTS = 3,
    BATCH = 25, /* programs between two starts of the library */
};

enum kind { COPY, COPY_ROWS, MEMSET, VALUE, FUNCTION, EDGE, N_KINDS };

struct op {
    enum kind kind;
    unsigned stream;
    unsigned from;  /* of an edge: the stream that records */
    unsigned event; /* of an edge: N_EVENTS means one that is destroyed at once */
    unsigned dst, src;
    size_t dst_at, src_at, size;
    uint8_t value;
};

/* The latest operation of each stream that read a block, and the latest write. */
struct use {
    unsigned read[MOST_STREAMS];
    unsigned written, writer;
};

static struct program {
    uint64_t seed;
    unsigned n_streams, n_ops, n_replays, replay_on;
    struct op ops[MOST_OPS];
    unsigned clocks[MOST_STREAMS][MOST_STREAMS];
    bool has_joined[MOST_STREAMS];
    struct use uses[N_BLOCKS];
} program;

static uint8_t *blocks[N_BLOCKS];
static uint8_t expected[N_BLOCKS][BLOCK];
static struct call {
    uint8_t *block;
    uint8_t value;
} calls[MOST_OPS];

static unsigned count = 500, first_seed = 1;

static unsigned draw(unsigned n)
{
    return (unsigned)random_to(&program.seed, n);
}

/* ---- the generator ---- */

static struct op *op_add(enum kind kind, unsigned stream)
{
    struct op *op = &program.ops[program.n_ops++];

    *op = (struct op){.kind = kind, .stream = stream};
    if (kind != EDGE)
        program.clocks[stream][stream]++;
    return op;
}

static void edge_add(unsigned from, unsigned to)
{
    struct op *op = op_add(EDGE, to);

    op->from = from;
    op->event = draw(N_EVENTS + 1);
    for (unsigned i = 0; i < MOST_STREAMS; i++)
        if (program.clocks[to][i] < program.clocks[from][i])
            program.clocks[to][i] = program.clocks[from][i];
    program.has_joined[to] = true;
}

/* The next operation of a stream comes after the nth operation of another one. */
static void order(unsigned stream, unsigned other, unsigned nth)
{
    if (stream != other && program.clocks[stream][other] < nth)
        edge_add(other, stream);
}

static void order_read(unsigned stream, unsigned block)
{
    order(stream, program.uses[block].writer, program.uses[block].written);
}

static void order_write(unsigned stream, unsigned block)
{
    order_read(stream, block);
    for (unsigned i = 0; i < program.n_streams; i++)
        order(stream, i, program.uses[block].read[i]);
}

/* A stream joins before its first operation. */
static unsigned stream_pick(void)
{
    unsigned stream = draw(program.n_streams), from;

    if (!program.has_joined[stream]) {
        do
            from = draw(program.n_streams);
        while (!program.has_joined[from]);
        edge_add(from, stream);
    }
    return stream;
}

static void place(struct op *op)
{
    op->size = 1 + draw(BLOCK);
    op->dst_at = draw((unsigned)(BLOCK - op->size + 1));
    op->src_at = draw((unsigned)(BLOCK - op->size + 1));
    if (op->kind == COPY_ROWS) { /* 4 rows of 16 bytes, 32 and 64 bytes apart */
        op->dst_at &= 63;
        op->src_at &= 31;
    } else if (op->kind == VALUE) {
        op->dst_at &= ~(size_t)7 & (BLOCK - 8);
    }
}

static void work_add(void)
{
    enum kind kind = (enum kind)draw(EDGE);
    unsigned stream = stream_pick(), dst = draw(N_BLOCKS), src = draw(N_BLOCKS);
    struct op *op;

    if (kind == MEMSET || kind == VALUE)
        dst = draw(N_DEVICE);
    if (kind == FUNCTION)
        dst = N_DEVICE + draw(N_BLOCKS - N_DEVICE);
    if ((kind == COPY || kind == COPY_ROWS) && (src == dst || dst >= N_DEVICE))
        src = (dst + 1) % N_DEVICE;
    if (kind == COPY || kind == COPY_ROWS)
        order_read(stream, src);
    order_write(stream, dst);
    op = op_add(kind, stream);
    op->dst = dst;
    op->src = src;
    op->value = (uint8_t)draw(256);
    place(op);
    if (kind == COPY || kind == COPY_ROWS)
        program.uses[src].read[stream] = program.clocks[stream][stream];
    program.uses[dst].writer = stream;
    program.uses[dst].written = program.clocks[stream][stream];
}

/* Each stream that joined comes back, perhaps through another one. */
static void come_back(void)
{
    for (unsigned i = program.n_streams - 1; i > 0; i--)
        if (program.has_joined[i]) {
            unsigned to = draw(i);

            edge_add(i, program.has_joined[to] ? to : 0);
        }
}

static void generate(uint64_t seed)
{
    unsigned n;

    memset(&program, 0, sizeof program);
    program.seed = seed * 2654435761U + 1;
    program.n_streams = 1 + draw(MOST_STREAMS);
    program.n_replays = 1 + draw(3);
    program.replay_on = draw(program.n_streams + 1);
    program.has_joined[0] = true;
    n = 1 + draw(40);
    for (unsigned i = 0; i < n; i++)
        work_add();
    come_back();
    assert_true(program.n_ops <= MOST_OPS);
}

/* ---- three ways to run it ---- */

static void expect_op(const struct op *op)
{
    uint8_t *dst = expected[op->dst] + op->dst_at;
    const uint8_t *src = expected[op->src] + op->src_at;
    uint64_t value = op->value;

    switch (op->kind) {
    case COPY:
        memmove(dst, src, op->size);
        break;
    case COPY_ROWS:
        for (size_t row = 0; row < 4; row++)
            memmove(dst + 32 * row, src + 48 * row, 16);
        break;
    case MEMSET:
        memset(dst, op->value, op->size);
        break;
    case VALUE:
        memcpy(dst, &value, sizeof value);
        break;
    case FUNCTION:
        for (size_t i = 0; i < BLOCK; i++)
            expected[op->dst][i] = (uint8_t)(expected[op->dst][i] * 3 + op->value);
        break;
    default:
        break;
    }
}

static void change_block(void *arg)
{
    struct call *call = arg;

    for (size_t i = 0; i < BLOCK; i++)
        call->block[i] = (uint8_t)(call->block[i] * 3 + call->value);
}

static aclrtMemcpyKind kind_of(const struct op *op)
{
    if (op->dst >= N_DEVICE)
        return ACL_MEMCPY_DEVICE_TO_HOST;
    return op->src >= N_DEVICE ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_DEVICE;
}

static void issue_edge(const struct op *op, aclrtStream *streams, aclrtEvent *events)
{
    if (op->event == N_EVENTS) {
        order_after(streams[op->stream], streams[op->from]);
        return;
    }
    assert_acl_ok(aclrtRecordEvent(events[op->event], streams[op->from]));
    assert_acl_ok(aclrtStreamWaitEvent(streams[op->stream], events[op->event]));
}

static void issue(const struct op *op, aclrtStream *streams, aclrtEvent *events)
{
    aclrtStream stream = streams[op->stream];
    uint8_t *dst = blocks[op->dst] + op->dst_at;
    const uint8_t *src = blocks[op->src] + op->src_at;
    struct call *call = &calls[op - program.ops];

    switch (op->kind) {
    case COPY:
        assert_acl_ok(
            aclrtMemcpyAsync(dst, op->size, src, op->size, kind_of(op), stream));
        break;
    case COPY_ROWS:
        assert_acl_ok(aclrtMemcpy2dAsync(dst, 32, src, 48, 16, 4, kind_of(op), stream));
        break;
    case MEMSET:
        assert_acl_ok(aclrtMemsetAsync(dst, op->size, op->value, op->size, stream));
        break;
    case VALUE:
        assert_acl_ok(aclrtValueWrite(dst, op->value, 0, stream));
        break;
    case FUNCTION:
        *call = (struct call){blocks[op->dst], op->value};
        assert_acl_ok(aclrtLaunchHostFunc(stream, change_block, call));
        break;
    default:
        issue_edge(op, streams, events);
    }
}

static void issue_all(aclrtStream *streams, aclrtEvent *events)
{
    for (unsigned i = 0; i < program.n_ops; i++)
        issue(&program.ops[i], streams, events);
}

static void compare(uint64_t seed, const char *how)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        uint8_t found[BLOCK];

        if (i < N_DEVICE)
            assert_acl_ok(
                aclrtMemcpy(found, BLOCK, blocks[i], BLOCK, ACL_MEMCPY_DEVICE_TO_HOST));
        else
            memcpy(found, blocks[i], BLOCK);
        if (memcmp(found, expected[i], BLOCK) != 0)
            fail_msg("seed %llu, %s: block %u differs", (unsigned long long)seed, how, i);
    }
}

static void expect_all(void)
{
    for (unsigned i = 0; i < program.n_ops; i++)
        expect_op(&program.ops[i]);
}

static void run_captured(uint64_t seed, aclrtStream *streams, aclrtEvent *events)
{
    aclmdlRI model;

    begin_capture(streams[0], (aclmdlRICaptureMode)draw(3));
    issue_all(streams, events);
    model = end_capture(streams[0]);
    compare(seed, "captured and not replayed");
    for (unsigned i = 0; i < program.n_replays; i++) {
        expect_all();
        assert_acl_ok(aclmdlRIExecuteAsync(model, streams[program.replay_on]));
    }
    assert_acl_ok(aclrtSynchronizeStream(streams[program.replay_on]));
    compare(seed, "replayed");
    end_model(model);
}

static void run_program(uint64_t seed)
{
    aclrtStream streams[MOST_STREAMS + 1] = {NULL};
    aclrtEvent events[N_EVENTS];

    generate(seed);
    for (unsigned i = 0; i < program.n_streams; i++)
        streams[i] = make_stream(); /* the last one stays the default stream */
    for (unsigned i = 0; i < N_EVENTS; i++)
        events[i] = make_ex(ACL_EVENT_SYNC);
    expect_all();
    issue_all(streams, events);
    assert_acl_ok(aclrtSynchronizeDevice());
    compare(seed, "eager");
    run_captured(seed, streams, events);
    for (unsigned i = 0; i < program.n_streams; i++)
        end_stream(streams[i]);
    for (unsigned i = 0; i < N_EVENTS; i++)
        end_event(events[i]);
}

static void run_batch(unsigned first, unsigned n, const char *option)
{
    start("default", option);
    assert_acl_ok(aclrtSetDevice(0));
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        blocks[i] = (uint8_t *)(i < N_DEVICE ? device_malloc(BLOCK) : host_malloc(BLOCK));
        memset(expected[i], (int)i, BLOCK);
        if (i < N_DEVICE)
            assert_acl_ok(aclrtMemset(blocks[i], BLOCK, (int)i, BLOCK));
        else
            memset(blocks[i], (int)i, BLOCK);
    }
    for (unsigned i = 0; i < n; i++)
        run_program(first + i);
    for (unsigned i = 0; i < N_BLOCKS; i++)
        if (i < N_DEVICE)
            device_free(blocks[i]);
        else
            host_free(blocks[i]);
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclFinalize());
}

static void random_programs_replay_as_they_run(void **state)
{
    for (unsigned i = 0; i < count; i += BATCH)
        run_batch(first_seed + i, count - i < BATCH ? count - i : BATCH,
                  "ACLMEM_LOG=error");
}

static void random_programs_replay_in_any_order_of_chaos(void **state)
{
    for (unsigned i = 0; i < count; i += BATCH) {
        char option[40];

        snprintf(option, sizeof option, "ACLMEM_CHAOS=%u", 1 + first_seed + i);
        run_batch(first_seed + i, count - i < BATCH ? count - i : BATCH, option);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(random_programs_replay_as_they_run),
        claim_alone(random_programs_replay_in_any_order_of_chaos),
    };

    if (argc > 1)
        count = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = (unsigned)strtoul(argv[2], NULL, 10);
    return run_claims(claims);
}
