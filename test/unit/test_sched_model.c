/*
 * Streams, events and notifies against a model, on random programs.
 *
 *     test_unit_sched_model [first seed] [how many]
 *
 * Stepping: the test does each step of the scheduler itself, with its own clock.  After
 * every step the model is told which stream's task left, and says whether it could; when
 * there is no step to do, the model must agree that no stream can go on.  So a task that
 * runs too early is found, and one that is forgotten. Half of the programs run in chaos
 * mode, whose order is the seed's.
 *
 * Working: real threads run the tasks.  Tasks between the waits and records write down
 * when they ran, and what the program asks for is checked on that list: each stream in
 * its order, and nothing behind a wait before what the record stands for.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/error_codes/rt_error_codes.h"
#include "aclmem/aclmem.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/stream/event.h"
#include "core/stream/sched.h"
#include "core/stream/stream.h"

#define SECOND UINT64_C(1000000000)

enum { STREAMS = 5, EVENTS = 5, PLAIN = 2, NOTIFIES = 3, OPS = 400, RECORDS = 200 };
enum { DEFAULT_PROGRAMS = 3000 };

static uint64_t first_seed = 1, n_seeds = DEFAULT_PROGRAMS;
static uint64_t seed_now; /* the program that runs, for messages */

#define check(cond_) \
    do { \
        if (!(cond_)) { \
            print_error("seed %llu: ", (unsigned long long)seed_now); \
            fail_msg("%s does not hold", #cond_); \
        } \
    } while (0)

/* ---- what both kinds use ---- */

static aclrtStream streams[STREAMS];
static aclrtEvent events[EVENTS]; /* the first PLAIN are plain, the others extended */
static aclrtNotify notifies[NOTIFIES];

static uint64_t clock_ns;

static uint64_t clock_now(void)
{
    return clock_ns;
}

static void make_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        check(aclrtCreateStreamWithConfig(&streams[i], (uint32_t)i % 3, 0) ==
              ACL_SUCCESS);
    for (int i = 0; i < EVENTS; i++)
        check((i < PLAIN ? aclrtCreateEvent(&events[i])
                         : aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC)) ==
              ACL_SUCCESS);
    for (int i = 0; i < NOTIFIES; i++)
        check(aclrtCreateNotify(&notifies[i], 0) == ACL_SUCCESS);
}

static void destroy_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        check(aclrtDestroyStreamForce(streams[i]) == ACL_SUCCESS);
    for (int i = 0; i < EVENTS; i++)
        check(aclrtDestroyEvent(events[i]) == ACL_SUCCESS);
    for (int i = 0; i < NOTIFIES; i++)
        check(aclrtDestroyNotify(notifies[i]) == ACL_SUCCESS);
    check(am_stream_available(0) == am_setup.product->n_streams &&
          am_events.of[0].n == 0 && am_notifies.of[0].n == 0);
}

static void sched_restart(const struct am_sched_setup *setup)
{
    am_sched_stop(&am_sched);
    am_sched_start(&am_sched, setup);
}

/* A task that writes its number down and succeeds or fails. */
struct note {
    struct am_task task;
    unsigned number;
    bool must_fail;
};

static struct am_lock noted_lock = AM_LOCK_INIT(AM_RANK_LEAF, "noted");
static unsigned noted[OPS]; /* noted_lock */
static unsigned n_noted;    /* noted_lock */

static aclError note_run(struct am_task *task)
{
    struct note *note = (struct note *)task;

    am_lock(&noted_lock);
    noted[n_noted++] = note->number;
    am_unlock(&noted_lock);
    return note->must_fail ? am_fail(ACL_ERROR_RT_PARAM_INVALID, "note %u", note->number)
                           : ACL_SUCCESS;
}

static void note_drop(struct am_task *task)
{
    free(task);
}

static void submit_note(unsigned stream, unsigned number, bool must_fail)
{
    static const struct am_task_ops ops = {.run = note_run, .free = note_drop};
    struct note *note = malloc(sizeof *note);
    struct am_stream *found = NULL;

    check(note != NULL);
    check(am_stream_get(streams[stream], &found) == ACL_SUCCESS);
    *note = (struct note){
        .task = {.ops = &ops, .function = "note", .deadline = AM_FOREVER},
        .number = number,
        .must_fail = must_fail,
    };
    check(am_stream_submit(found, &note->task) == ACL_SUCCESS);
    am_stream_put(found);
}

static struct am_queue *queue_of(unsigned stream)
{
    struct am_stream *found = NULL;

    check(am_stream_get(streams[stream], &found) == ACL_SUCCESS);
    am_stream_put(found);
    return &found->queue;
}

static uint64_t n_done_of(unsigned stream)
{
    struct am_queue *queue = queue_of(stream);
    uint64_t n_done;

    am_lock(&queue->lock);
    n_done = queue->n_done;
    am_unlock(&queue->lock);
    return n_done;
}

/* ---- the model ---- */

enum kind { NOTE, FAIL, RECORD, WAIT, RESET, SET_NOTIFY, WAIT_NOTIFY, KINDS };

struct op {
    enum kind kind;
    unsigned object;  /* event or notify */
    unsigned record;  /* RECORD, WAIT: its number; RESET: all up to this one */
    uint64_t timeout; /* AM_FOREVER: none */
};

/* LOST: dropped with its stream's work; who waits for it fails. */
enum { QUEUED, RUN, LOST, UNDONE };

static struct {
    struct {
        struct op op[OPS];
        unsigned n_queued;
        unsigned n_done;
        /* of the first op; AM_FOREVER while it has not been looked at */
        uint64_t deadline;
        bool stops;
        bool is_stopped;
        aclError error;
    } stream[STREAMS];
    struct {
        char record[RECORDS];    /* by number, from 1 on */
        aclError cause[RECORDS]; /* of those that are lost */
        unsigned n_records;
        unsigned n_waits;
        unsigned waited; /* plain: the highest record that a wait went by */
    } event[EVENTS];
    bool notify[NOTIFIES];
} m;

static bool is_plain(unsigned event)
{
    return event < PLAIN;
}

static bool is_over(unsigned event, unsigned number)
{
    char record = m.event[event].record[number];

    return record == RUN || record == LOST;
}

/* The record is over and still counts; of a plain event a later one will do as well. */
static bool is_complete(unsigned event, unsigned number)
{
    if (number == 0)
        return true; /* an extended event before its first record */
    if (!is_plain(event))
        return is_over(event, number);
    for (unsigned i = number; i <= m.event[event].n_records; i++) {
        if (is_over(event, i))
            return true;
    }
    return false;
}

/*
 * What one who waits now waits for: the latest record that counts or may; a plain event's
 * next one.
 */
static unsigned awaited(unsigned event)
{
    unsigned n = m.event[event].n_records;

    if (!is_plain(event))
        return n;
    return n > 0 && m.event[event].record[n] != UNDONE ? n : n + 1;
}

static bool is_satisfied(const struct op *op)
{
    switch (op->kind) {
    case WAIT:
        return is_complete(op->object, op->record);
    case WAIT_NOTIFY:
        return m.notify[op->object];
    default:
        return true;
    }
}

static bool can_move(unsigned s)
{
    if (m.stream[s].n_done == m.stream[s].n_queued)
        return false;
    return m.stream[s].is_stopped || clock_ns >= m.stream[s].deadline ||
           is_satisfied(&m.stream[s].op[m.stream[s].n_done]);
}

static void model_fail(unsigned s, aclError rc)
{
    if (m.stream[s].error == ACL_SUCCESS)
        m.stream[s].error = rc;
    if (m.stream[s].stops)
        m.stream[s].is_stopped = true;
}

/* What was queued before the reset, and what a wait went by. */
static void model_undo(const struct op *op)
{
    unsigned waited = m.event[op->object].waited;
    unsigned last = op->record > waited ? op->record : waited;

    for (unsigned i = 1; i <= last; i++) {
        if (is_over(op->object, i))
            m.event[op->object].record[i] = UNDONE;
    }
}

/* Goes by the first record that will do; fails when that is lost. */
static void model_wait(unsigned s, const struct op *op)
{
    unsigned e = op->object, i = op->record;

    if (i == 0)
        return;
    while (!is_over(e, i))
        i++;
    if (m.event[e].waited < i)
        m.event[e].waited = i;
    if (m.event[e].record[i] == LOST)
        model_fail(s, m.event[e].cause[i]);
}

static void model_lose(unsigned s, const struct op *op)
{
    m.event[op->object].record[op->record] = LOST;
    m.event[op->object].cause[op->record] =
        m.stream[s].is_stopped && m.stream[s].error != ACL_SUCCESS
            ? m.stream[s].error
            : ACL_ERROR_RT_STREAM_ABORT;
}

static void model_do(unsigned s, const struct op *op)
{
    switch (op->kind) {
    case FAIL:
        model_fail(s, ACL_ERROR_RT_PARAM_INVALID);
        break;
    case RECORD:
        m.event[op->object].record[op->record] = RUN;
        break;
    case WAIT:
        model_wait(s, op);
        break;
    case RESET:
        model_undo(op);
        break;
    case SET_NOTIFY:
        m.notify[op->object] = true;
        break;
    case WAIT_NOTIFY:
        m.notify[op->object] = false;
        break;
    default:
        break;
    }
}

/* The stream's first op leaves: run, too late, or dropped. */
static void model_move(unsigned s, bool is_dropped)
{
    const struct op *op = &m.stream[s].op[m.stream[s].n_done];

    if (is_dropped || m.stream[s].is_stopped) {
        if (op->kind == RECORD)
            model_lose(s, op);
    } else if (is_satisfied(op)) {
        model_do(s, op);
    } else {
        check(clock_ns >= m.stream[s].deadline);
        model_fail(s, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    }
    if (op->kind == WAIT)
        m.event[op->object].n_waits--;
    m.stream[s].n_done++;
    m.stream[s].deadline = AM_FOREVER;
}

static void model_drop(unsigned s)
{
    while (m.stream[s].n_done < m.stream[s].n_queued)
        model_move(s, true);
}

/* ---- stepping ---- */

/* At most one task has left its stream; the model does the same. */
static void follow(void)
{
    unsigned n_moved = 0;

    for (unsigned s = 0; s < STREAMS; s++) {
        uint64_t n_done = n_done_of(s);

        check(n_done == m.stream[s].n_done || n_done == m.stream[s].n_done + 1);
        if (n_done == m.stream[s].n_done)
            continue;
        check(can_move(s));
        model_move(s, false);
        n_moved++;
    }
    check(n_moved <= 1);
}

static bool step(void)
{
    bool has_moved = am_sched_step(&am_sched);

    follow();
    return has_moved;
}

/* Until nothing can go on, which the model must see as well. */
static void settle(void)
{
    while (step())
        ;
    for (unsigned s = 0; s < STREAMS; s++) {
        const struct op *op = &m.stream[s].op[m.stream[s].n_done];

        check(!can_move(s));
        if (m.stream[s].n_done < m.stream[s].n_queued && op->timeout != AM_FOREVER &&
            m.stream[s].deadline == AM_FOREVER)
            m.stream[s].deadline = clock_ns + op->timeout;
    }
}

static aclError submit_event_op(unsigned s, struct op *op)
{
    unsigned e = op->object;

    if (op->kind == RECORD) {
        op->record = ++m.event[e].n_records;
        return aclrtRecordEvent(events[e], streams[s]);
    }
    if (op->kind == RESET) {
        op->record = m.event[e].n_records;
        return aclrtResetEvent(events[e], streams[s]);
    }
    op->record = awaited(e);
    m.event[e].n_waits++;
    if (op->timeout == AM_FOREVER)
        return aclrtStreamWaitEvent(streams[s], events[e]);
    return aclrtStreamWaitEventWithTimeout(streams[s], events[e],
                                           (int32_t)(op->timeout / SECOND));
}

static aclError submit_op(unsigned s, struct op *op)
{
    switch (op->kind) {
    case NOTE:
    case FAIL:
        submit_note(s, m.stream[s].n_queued, op->kind == FAIL);
        return ACL_SUCCESS;
    case SET_NOTIFY:
        return aclrtRecordNotify(notifies[op->object], streams[s]);
    case WAIT_NOTIFY:
        return aclrtWaitAndResetNotify(
            notifies[op->object], streams[s],
            op->timeout == AM_FOREVER ? 0 : (uint32_t)(op->timeout / SECOND));
    default:
        return submit_event_op(s, op);
    }
}

static void submit_any(uint64_t *seed)
{
    static const enum kind often[] = {NOTE,       NOTE,       FAIL,       RECORD, RECORD,
                                      RECORD,     WAIT,       WAIT,       WAIT,   RESET,
                                      SET_NOTIFY, SET_NOTIFY, WAIT_NOTIFY};
    unsigned s = (unsigned)random_below(seed, STREAMS);
    struct op op = {.kind = often[random_below(seed, sizeof often / sizeof often[0])],
                    .timeout = AM_FOREVER};

    op.object = (unsigned)random_below(seed, op.kind >= SET_NOTIFY ? NOTIFIES : EVENTS);
    if (op.kind == RESET)
        op.object %= PLAIN;
    if (op.kind == RECORD && is_plain(op.object))
        s = op.object; /* its records come in order, as those of one stream */
    if ((op.kind == WAIT || op.kind == WAIT_NOTIFY) && random_below(seed, 2) == 0)
        op.timeout = (1 + random_below(seed, 5)) * SECOND;
    check(submit_op(s, &op) == ACL_SUCCESS);
    m.stream[s].op[m.stream[s].n_queued++] = op;
    follow(); /* what is short is done at once on an idle stream */
}

/* The latest record, undone by a reset or not, and the waits. */
static void query_waits(unsigned e, aclError rc, aclrtEventWaitStatus waits)
{
    unsigned latest = m.event[e].n_records;
    char record = m.event[e].record[latest];

    if (record == UNDONE && m.event[e].cause[latest] != ACL_SUCCESS)
        check(rc == m.event[e].cause[latest]);
    else if (record == LOST)
        check(rc == m.event[e].cause[latest]);
    else
        check(rc == ACL_SUCCESS &&
              (waits == ACL_EVENT_WAIT_STATUS_COMPLETE) ==
                  (latest > 0 && record != QUEUED && m.event[e].n_waits == 0));
}

static void query_event(unsigned e)
{
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waits;
    aclError rc = aclrtQueryEventStatus(events[e], &status);

    follow();
    if (is_complete(e, awaited(e)) && m.event[e].record[awaited(e)] == LOST)
        check(rc == m.event[e].cause[awaited(e)]);
    else
        check(rc == ACL_SUCCESS && (status == ACL_EVENT_RECORDED_STATUS_COMPLETE) ==
                                       is_complete(e, awaited(e)));
    if (!is_plain(e))
        return;
    rc = aclrtQueryEventWaitStatus(events[e], &waits);
    follow();
    query_waits(e, rc, waits);
}

static void query_stream(unsigned s)
{
    aclrtStreamStatus status;

    check(aclrtStreamQuery(streams[s], &status) == ACL_SUCCESS);
    follow();
    check((status == ACL_STREAM_STATUS_COMPLETE) ==
          (m.stream[s].n_done == m.stream[s].n_queued));
}

/* Only streams with nothing to do: what else would end the wait? */
static void sync_stream(unsigned s)
{
    if (m.stream[s].n_done < m.stream[s].n_queued)
        return;
    check(aclrtSynchronizeStream(streams[s]) == m.stream[s].error);
    m.stream[s].error = ACL_SUCCESS;
    m.stream[s].is_stopped = false;
}

static void abort_stream(unsigned s, bool must_stop)
{
    check((must_stop ? aclrtStreamStop(streams[s]) : aclrtStreamAbort(streams[s])) ==
          ACL_SUCCESS);
    m.stream[s].is_stopped |= must_stop;
    model_drop(s);
    check(n_done_of(s) == m.stream[s].n_done);
}

static void do_any(uint64_t *seed)
{
    unsigned s = (unsigned)random_below(seed, STREAMS);
    size_t dice = random_below(seed, 100);

    if (dice < 50)
        submit_any(seed);
    else if (dice < 75)
        step();
    else if (dice < 80)
        query_event((unsigned)random_below(seed, EVENTS));
    else if (dice < 84)
        query_stream(s);
    else if (dice < 90)
        sync_stream(s);
    else if (dice < 92)
        abort_stream(s, dice == 91);
    else if (dice < 96)
        settle();
    else {
        settle(); /* one time for all looks between two moves of the clock */
        clock_ns += (1 + random_below(seed, 3)) * SECOND;
    }
}

static void step_program(uint64_t seed)
{
    struct am_sched_setup setup = {
        .now = clock_now, .is_chaotic = seed % 2 == 0, .seed = seed / 2};
    uint64_t random = seed;

    seed_now = seed;
    memset(&m, 0, sizeof m);
    n_noted = 0;
    sched_restart(&setup);
    am_sched.n_threads =
        setup.is_chaotic; /* as if it had its thread: here all steps are ours */
    make_all();
    for (unsigned s = 0; s < STREAMS; s++) {
        m.stream[s].deadline = AM_FOREVER;
        m.stream[s].stops = random_below(&random, 4) == 0;
        check(aclrtSetStreamFailureMode(streams[s], m.stream[s].stops) == ACL_SUCCESS);
    }
    for (int i = 0; i < 200; i++)
        do_any(&random);
    settle();
    for (unsigned s = 0; s < STREAMS; s++) {
        abort_stream(s, false);
        sync_stream(s);
    }
    am_sched.n_threads = 0;
    destroy_all();
}

static void stepped_programs_do_what_the_model_says(void **state)
{
    print_message("seeds %llu to %llu\n", (unsigned long long)first_seed,
                  (unsigned long long)(first_seed + n_seeds - 1));
    clock_ns = 1000 * SECOND;
    for (uint64_t i = 0; i < n_seeds; i++)
        step_program(first_seed + i);
}

/* ---- working ---- */

/*
 * A program for threads.  Each stream's notes are numbered in the order of the program,
 * so that one stream's notes are in order when their numbers are.  A wait comes later in
 * the program than its record, so no program waits for itself.
 */
static struct {
    unsigned stream_of[OPS]; /* of each note */
    unsigned n_notes;
    unsigned last_note[STREAMS]; /* + 1; 0: none yet */
    struct {
        unsigned note; /* the last one before the record in its stream; + 1 */
        bool is_there;
    } record[EVENTS], notified[NOTIFIES];
    struct {
        unsigned before; /* a note + 1 */
        unsigned stream; /* the notes of this stream from `from` on come after it */
        unsigned from;
    } order[OPS];
    unsigned n_orders;
} w;

static void work_note(unsigned s)
{
    w.stream_of[w.n_notes] = s;
    submit_note(s, w.n_notes, false);
    w.last_note[s] = ++w.n_notes;
}

static void work_wait(unsigned s, unsigned note)
{
    w.order[w.n_orders].before = note;
    w.order[w.n_orders].stream = s;
    w.order[w.n_orders++].from = w.n_notes;
}

static void work_event(unsigned s, unsigned e, bool must_record)
{
    if (must_record) {
        check(aclrtRecordEvent(events[e], streams[s]) == ACL_SUCCESS);
        w.record[e].note = w.last_note[s];
        w.record[e].is_there = true;
    } else if (w.record[e].is_there) {
        check(aclrtStreamWaitEvent(streams[s], events[e]) == ACL_SUCCESS);
        work_wait(s, w.record[e].note);
    }
}

/* A notify is set and then waited for, by turns, so that no bit is lost. */
static void work_notify(unsigned s, unsigned n)
{
    if (!w.notified[n].is_there) {
        check(aclrtRecordNotify(notifies[n], streams[s]) == ACL_SUCCESS);
        w.notified[n].note = w.last_note[s];
        w.notified[n].is_there = true;
        return;
    }
    check(aclrtWaitAndResetNotify(notifies[n], streams[s], 0) == ACL_SUCCESS);
    work_wait(s, w.notified[n].note);
    w.notified[n].is_there = false;
    /* The next one who sets it must come after this wait, or it would be set twice. */
    check(aclrtSynchronizeStream(streams[s]) == ACL_SUCCESS);
}

static void host_waits(unsigned e)
{
    if (!w.record[e].is_there)
        return;
    check(aclrtSynchronizeEvent(events[e]) == ACL_SUCCESS);
    if (w.record[e].note == 0)
        return;
    am_lock(&noted_lock);
    for (unsigned i = 0; i < n_noted; i++) {
        if (noted[i] == w.record[e].note - 1)
            w.record[e].note =
                0; /* it is done: nothing to check for those who come later */
    }
    am_unlock(&noted_lock);
    check(w.record[e].note == 0);
}

static void check_noted(void)
{
    unsigned at[OPS], last[STREAMS] = {0};

    check(n_noted == w.n_notes);
    for (unsigned i = 0; i < n_noted; i++) {
        unsigned s = w.stream_of[noted[i]];

        at[noted[i]] = i;
        check(noted[i] + 1 > last[s]);
        last[s] = noted[i] + 1;
    }
    for (unsigned i = 0; i < w.n_orders; i++) {
        if (w.order[i].before == 0)
            continue;
        for (unsigned n = w.order[i].from; n < w.n_notes; n++)
            check(w.stream_of[n] != w.order[i].stream ||
                  at[n] > at[w.order[i].before - 1]);
    }
}

static void work_program(uint64_t seed)
{
    uint64_t random = seed;

    seed_now = seed;
    memset(&w, 0, sizeof w);
    n_noted = 0;
    make_all();
    for (int i = 0; i < 80; i++) {
        unsigned s = (unsigned)random_below(&random, STREAMS);
        size_t dice = random_below(&random, 100);

        if (dice < 40)
            work_note(s);
        else if (dice <
                 92) /* extended ones: a plain one's wait may be for any of its records */
            work_event(s, PLAIN + (unsigned)random_below(&random, EVENTS - PLAIN),
                       dice % 2 == 0);
        else if (dice < 96)
            work_notify(s, (unsigned)random_below(&random, NOTIFIES));
        else
            host_waits(PLAIN + (unsigned)random_below(&random, EVENTS - PLAIN));
    }
    check(aclrtSynchronizeDevice() == ACL_SUCCESS);
    check_noted();
    destroy_all();
}

static void run_worked(const struct am_sched_setup *setup, uint64_t n)
{
    sched_restart(setup);
    for (uint64_t i = 0; i < n; i++)
        work_program(first_seed + i);
}

static void worked_programs_keep_every_order(void **state)
{
    run_worked(&(struct am_sched_setup){.now = am_clock, .n_workers = 4}, n_seeds);
}

static void so_they_do_in_chaos(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        run_worked(
            &(struct am_sched_setup){.now = am_clock, .is_chaotic = true, .seed = seed},
            n_seeds / 20);
}

/* ---- all ---- */

static int setup(void **state)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    setenv("ACLMEM_RULES", "default", 1);
    unsetenv("ACLMEM_CHAOS");
    return aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
    sched_restart(&(struct am_sched_setup){.now = am_clock, .n_workers = 1});
    return aclFinalize() == ACL_SUCCESS ? 0 : -1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(stepped_programs_do_what_the_model_says),
        cmocka_unit_test(worked_programs_keep_every_order),
        cmocka_unit_test(so_they_do_in_chaos),
    };

    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 1)
        n_seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return cmocka_run_group_tests(claims, setup, teardown);
}
