/*
 * The generator of random programs, and the order of their operations by brute force, from
 * the text of a program alone.
 */
#include "oracle.h"

#include <stdio.h>
#include <string.h>

/* ---- text ---- */

static void op_print(int i, const struct op *op)
{
    static const char *const forms[] = {
        [NOTHING] = "",
        [WRITE] = "aclrtMemsetAsync(b%2$d[%3$d] + at(%4$d), 64, 1, size(%4$d), s%1$d);",
        [READ] =
            "aclrtMemcpyAsync(t(), 64, b%2$d[%3$d] + at(%4$d), size(%4$d), D2D, s%1$d);",
        [HOST_WRITE] = "aclrtMemset(b%2$d[%3$d] + at(%4$d), 64, 1, size(%4$d));",
        [HOST_READ] = "aclrtMemcpy(host, 64, b%2$d[%3$d] + at(%4$d), size(%4$d), D2H);",
        [FREE] = "aclrtFree(b%2$d); aclrtMalloc(&b%2$d, 64, 0);",
        [REMAP] = "aclrtUnmapMem(b%2$d[%3$d]); aclrtMapMem(b%2$d[%3$d], CHUNK, 0, h, 0);",
        [RECORD] = "aclrtRecordEvent(e%2$d, s%1$d);",
        [WAIT] = "aclrtStreamWaitEvent(s%1$d, e%2$d);",
        [WAIT_EARLY] = "aclrtStreamWaitEvent(s%1$d, early%2$d);",
        [RECORD_EARLY] = "aclrtRecordEvent(early%2$d, s%1$d);",
        [RESET_EARLY] = "aclrtResetEvent(early%2$d, s%1$d);",
        [RECORD_NOTIFY] = "aclrtRecordNotify(n%2$d, s%1$d);",
        [WAIT_NOTIFY] = "aclrtWaitAndResetNotify(n%2$d, s%1$d, 0);",
        [WRITE_VALUE] = "aclrtValueWrite(&words[%2$d], %4$d, 0, s%1$d);",
        [WAIT_VALUE] = "aclrtValueWait(&words[%2$d], %4$d, %3$d, s%1$d);",
        [HOST_VALUE] = "value = %4$d; aclrtMemcpy(&words[%2$d], 8, &value, 8, H2D);",
        [RENEW] = "aclrtDestroyEvent(e%2$d); aclrtCreateEventExWithFlag(&e%2$d, SYNC);",
        [RENEW_STREAM] = "aclrtDestroyStream(s%1$d); aclrtCreateStream(&s%1$d);",
        [SYNC_STREAM] = "synchronize_stream(s%1$d, %3$d);",
        [SYNC_EVENT] = "synchronize_event(e%2$d, %3$d);",
        [SYNC_DEVICE] = "synchronize_device(%3$d);",
        [GATE] = "aclrtLaunchHostFunc(s%1$d, gate, NULL);",
    };

    if (op->type == NOTHING)
        return;
    printf("    ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    printf(forms[op->type], op->stream, op->what, op->alias, op->part);
#pragma GCC diagnostic pop
    printf(" /* op_%d, thread %d */\n", i, op->thread);
}

void program_print(const struct program *p)
{
    for (int i = 0; i < p->n; i++)
        op_print(i, &p->op[i]);
}

/* ---- order, by brute force ---- */

static bool is_access(const struct op *op)
{
    return op->type >= WRITE && op->type <= REMAP;
}

static bool is_on_stream(const struct op *op)
{
    return op->type == WRITE || op->type == READ || op->type == GATE ||
           (op->type >= RECORD && op->type <= WAIT_VALUE);
}

/* Operations of a type on the same thing before i, in the text. */
static int count_before(const struct program *p, int i, enum type type)
{
    int n = 0;

    for (int k = 0; k < i; k++)
        n += p->op[k].type == type && p->op[k].what == p->op[i].what;
    return n;
}

/* The operation of a type on the same thing as i, with `n` of type `counted` before it. */
static int nth_of(const struct program *p, int i, enum type type, enum type counted,
                  int n)
{
    for (int k = 0; k < p->n; k++) {
        if (p->op[k].type == type && p->op[k].what == p->op[i].what &&
            count_before(p, k, counted) == n)
            return k;
    }
    return -1;
}

/* The record that operation i waits for; -1: none. */
static int record_of(const struct program *p, int i)
{
    const struct op *op = &p->op[i];

    if (op->type == WAIT_EARLY)
        return nth_of(p, i, RECORD_EARLY, RESET_EARLY, count_before(p, i, RESET_EARLY));
    if (op->type == WAIT_NOTIFY)
        return nth_of(p, i, RECORD_NOTIFY, RECORD_NOTIFY,
                      count_before(p, i, WAIT_NOTIFY));
    for (int k = i - 1; k >= 0 && (op->type == WAIT || op->type == SYNC_EVENT); k--) {
        if (p->op[k].what != op->what)
            continue;
        if (p->op[k].type == RECORD)
            return k;
        if (p->op[k].type == RENEW)
            return -1;
    }
    return -1;
}

/* Whether the call returns when all earlier work of the stream is done. */
static bool waits_for_stream(const struct op *op, int stream)
{
    return op->type == SYNC_DEVICE ||
           ((op->type == SYNC_STREAM || op->type == RENEW_STREAM) &&
            op->stream == stream);
}

/* ---- values ---- */

static bool is_value_write(const struct op *op)
{
    return op->type == WRITE_VALUE || op->type == HOST_VALUE;
}

/* Whether operation k writes a value that ends the wait i. */
static bool satisfies(const struct program *p, int k, int i)
{
    const struct op *wait = &p->op[i];
    int value = p->op[k].part;

    if (wait->alias == ACL_VALUE_WAIT_GEQ)
        return value >= wait->part;
    return wait->alias == ACL_VALUE_WAIT_EQ ? value == wait->part
                                            : (value & wait->part) != 0;
}

/* Whether k ended before i began, in every execution. */
static bool is_before(const struct order *o, int k, int i)
{
    return (o->work[i] & (uint64_t)1 << k) != 0;
}

static bool is_value_write_of(const struct program *p, int k, int i)
{
    return is_value_write(&p->op[k]) && p->op[k].what == p->op[i].what;
}

/*
 * Whether some execution may end the wait i by the value that k writes: k is not after the
 * wait, and no other value is written after k and before the wait begins.
 */
static bool is_visible(const struct program *p, const struct order *o, int k, int i)
{
    if (!is_value_write_of(p, k, i) || !satisfies(p, k, i) || is_before(o, i, k))
        return false;
    for (int n = 0; n < p->n; n++) {
        if (is_value_write_of(p, n, i) && is_before(o, k, n) &&
            (o->begin[i] & (uint64_t)1 << n) != 0)
            return false;
    }
    return true;
}

/* Whether the wait is sure to end by the value that k writes, if it did not end before. */
static bool does_end(const struct program *p, const struct order *o, int k, int i)
{
    if (!is_visible(p, o, k, i) ||
        (k > i && p->op[k].type == WRITE_VALUE && p->op[k].stream != STREAM_LAST))
        return false;
    for (int n = 0; n < p->n; n++) {
        if (is_value_write_of(p, n, i) && !satisfies(p, n, i) && !is_before(o, n, k) &&
            !is_before(o, i, n))
            return false;
    }
    return true;
}

/* What is before the end of the wait, whichever value ends it. */
static uint64_t value_awaited(const struct program *p, const struct order *o, int i)
{
    uint64_t awaited = UINT64_MAX;

    for (int k = 0; k < p->n; k++) {
        if (is_visible(p, o, k, i))
            awaited &= o->work[k] | (uint64_t)1 << k;
    }
    return awaited != UINT64_MAX ? awaited : 0;
}

/*
 * Whether a wait for a value ends in every execution, and the layer guarantees its order: a
 * value that is written later in the text may end it only if no earlier one is sure to, and
 * then each other one is written after the first one.
 */
static bool is_value_sound(const struct program *p, const struct order *o, int i)
{
    bool is_sure = false;
    bool is_sure_before;
    int first = -1;

    for (int k = 0; k < i; k++)
        is_sure |= does_end(p, o, k, i);
    is_sure_before = is_sure;
    for (int k = i + 1; k < p->n; k++) {
        if (!is_visible(p, o, k, i))
            continue;
        if (is_sure_before || (first >= 0 && !is_before(o, first, k)))
            return false;
        first = first >= 0 ? first : k;
        is_sure |= does_end(p, o, k, i);
    }
    return is_sure;
}

static bool are_values_sound(const struct program *p, const struct order *o)
{
    for (int i = 0; i < p->n; i++) {
        if (p->op[i].type == WAIT_VALUE && !is_value_sound(p, o, i))
            return false;
    }
    return true;
}

static void op_order(const struct program *p, struct order *o, int i)
{
    const struct op *op = &p->op[i];
    uint64_t known = i > 0 ? o->host[i - 1] : 0;
    int record = record_of(p, i);
    uint64_t awaited = record >= 0 ? o->work[record] | (uint64_t)1 << record : 0;

    o->work[i] = o->host[i] = known;
    if (!is_on_stream(op))
        o->host[i] |= awaited | (uint64_t)1 << i;
    for (int k = 0; k < i; k++) {
        uint64_t with_k = o->work[k] | (uint64_t)1 << k;

        if (!is_on_stream(&p->op[k]))
            continue;
        if (is_on_stream(op) && p->op[k].stream == op->stream)
            o->work[i] |= with_k;
        if (waits_for_stream(op, p->op[k].stream))
            o->host[i] |= with_k;
    }
    o->begin[i] = o->work[i];
    if (op->type == WAIT_VALUE)
        awaited = value_awaited(p, o, i);
    if (is_on_stream(op))
        o->work[i] |= awaited;
}

/* Repeats the rules until nothing changes: a wait may stand before its record. */
void order_compute(const struct program *p, struct order *o)
{
    struct order before;

    memset(o, 0, sizeof *o);
    do {
        before = *o;
        for (int i = 0; i < p->n; i++)
            op_order(p, o, i);
    } while (memcmp(&before, o, sizeof before) != 0);
}

static bool is_write(const struct op *op)
{
    return op->type == WRITE || op->type == HOST_WRITE || op->type == FREE ||
           op->type == REMAP;
}

bool is_race(const struct program *p, const struct order *o, int k, int i)
{
    const struct op *a = &p->op[k];
    const struct op *b = &p->op[i];

    if (!is_access(a) || !is_access(b) || a->what != b->what ||
        (!is_write(a) && !is_write(b)) || a->type == FREE || a->type == REMAP)
        return false;
    if (a->part != 0 && b->part != 0 && a->part != b->part)
        return false;
    for (int n = k + 1; n < i; n++) {
        if (p->op[n].type == FREE && p->op[n].what == a->what)
            return false; /* another buffer has the name since */
        if (p->op[n].type == REMAP && b->type == REMAP && p->op[n].alias == b->alias)
            return false; /* and another mapping the address */
    }
    if (b->type == REMAP && (a->alias != b->alias || !is_on_stream(a)))
        return false; /* the memory stays: only uses by that address matter */
    return !(o->work[i] & (uint64_t)1 << k) && !(o->work[k] & (uint64_t)1 << i);
}

bool has_race(const struct program *p, const struct order *o)
{
    for (int i = 0; i < p->n; i++) {
        for (int k = 0; k < i; k++) {
            if (is_race(p, o, k, i))
                return true;
        }
    }
    return false;
}

void races_print(const struct program *p)
{
    struct order o;

    order_compute(p, &o);
    for (int i = 0; i < p->n; i++) {
        for (int k = 0; k < i; k++) {
            if (is_race(p, &o, k, i))
                printf("nothing orders op_%d and op_%d\n", k, i);
        }
    }
}

/* Whether both are about the same notify, or the same early event. */
static bool are_paired(const struct op *a, const struct op *b)
{
    bool are_notifies = (a->type == RECORD_NOTIFY || a->type == WAIT_NOTIFY) &&
                        (b->type == RECORD_NOTIFY || b->type == WAIT_NOTIFY);
    bool are_early =
        (a->type == WAIT_EARLY || a->type == RECORD_EARLY) && b->type == RESET_EARLY;

    if (b->type == WAIT_EARLY || b->type == RECORD_EARLY)
        are_early = a->type == RESET_EARLY;
    return a->what == b->what && (are_notifies || are_early);
}

/*
 * Whether each wait has one record only: a notify is recorded again after the wait, and the
 * next wait begins after the wait; an event is reset after all waits for the record before
 * it, and before later ones.
 */
static bool is_sound(const struct program *p, const struct order *o)
{
    for (int i = 0; i < p->n; i++) {
        for (int k = 0; k < i; k++) {
            bool are_waits = p->op[i].type == WAIT_NOTIFY && p->op[k].type == WAIT_NOTIFY;
            uint64_t before = are_waits ? o->begin[i] : o->work[i];

            if (are_paired(&p->op[k], &p->op[i]) && !(before & (uint64_t)1 << k))
                return false;
        }
    }
    return are_values_sound(p, o);
}

/* ---- the generator ---- */

struct generator {
    uint64_t state;
    struct program *p;
    bool is_early[N_EARLY];  /* a wait is queued, and its record is not */
    bool was_early[N_EARLY]; /* the event was recorded, and not reset since */
};

static int below(struct generator *g, int n)
{
    return random_below(&g->state, n);
}

static void add(struct generator *g, enum type type, int stream, int what)
{
    int thread = g->p->has_threads ? below(g, N_THREADS) : 0;

    if (g->p->n < N_OPS)
        g->p->op[g->p->n++] = (struct op){type, stream, what, below(g, 2), 0, thread};
}

/* Operations that are not sound go again; true: they stay. */
static bool is_kept(struct generator *g, int n_before)
{
    struct order o;

    order_compute(g->p, &o);
    if (is_sound(g->p, &o))
        return true;
    g->p->n = n_before;
    return false;
}

static void add_value(struct generator *g, enum type type, int stream, int word,
                      int value)
{
    add(g, type, stream, word);
    g->p->op[g->p->n - 1].part = value;
    g->p->op[g->p->n - 1].alias = below(g, 3); /* ACL_VALUE_WAIT_GEQ, _EQ, _AND */
}

/* Records that early waits are for, before the host waits for anything. */
static void early_end(struct generator *g)
{
    for (int e = 0; e < N_EARLY; e++) {
        if (g->is_early[e])
            add(g, RECORD_EARLY, STREAM_LAST, e);
        g->is_early[e] = false;
    }
}

/* Stream `to` waits for what stream `from` did. */
static void streams_order(struct generator *g, int from, int to)
{
    int n_before = g->p->n;
    int which = below(g, 6);
    int what = below(g, N_NOTIFIES);
    int word = below(g, N_VALUES);

    if (which == 0) {
        add(g, RECORD_NOTIFY, from, what);
        add(g, WAIT_NOTIFY, to, what);
        if (is_kept(g, n_before))
            return;
    } else if (which <= 2) {
        add_value(g, WRITE_VALUE, from, word, 1 + below(g, VALUE_MAX));
        add_value(g, WAIT_VALUE, to, word, 1 + below(g, VALUE_MAX));
        if (is_kept(g, n_before))
            return;
    }
    what = below(g, N_EVENTS);
    add(g, RECORD, from, what);
    add(g, WAIT, to, what);
}

/* The host waits for what stream `from` did. */
static void host_order(struct generator *g, int from)
{
    int which = below(g, 8);
    int e = below(g, N_EVENTS);

    early_end(g);
    if (which < 4) {
        add(g, RECORD, from, e);
        add(g, SYNC_EVENT, 0, e);
    } else if (which < 6) {
        add(g, SYNC_STREAM, from, 0);
    } else if (which < 7 && from != STREAM_DEFAULT) {
        add(g, RENEW_STREAM, from, 0);
    } else {
        add(g, SYNC_DEVICE, 0, 0);
    }
}

/* Orders the last operation after k: by a stream's wait, or by the host. */
static void order_after(struct generator *g, int k)
{
    struct op last = g->p->op[--g->p->n];
    int from = g->p->op[k].stream;

    if ((last.type == WRITE || last.type == READ) && last.stream != STREAM_LAST &&
        below(g, 3) > 0)
        streams_order(g, from, last.stream);
    else
        host_order(g, from);
    if (g->p->n < N_OPS)
        g->p->op[g->p->n++] = last;
}

/* An early event is used once more. */
static void early_reset(struct generator *g, int e)
{
    int n_before = g->p->n;

    early_end(g);
    add(g, SYNC_DEVICE, 0, 0);
    add(g, RESET_EARLY, STREAM_LAST, e);
    add(g, SYNC_STREAM, STREAM_LAST, 0);
    g->was_early[e] = !is_kept(g, n_before);
}

/* A value is written, or waited for, or waited for before it is written. */
static void value_add(struct generator *g, int stream)
{
    int n_before = g->p->n;
    int word = below(g, N_VALUES);
    int which = below(g, 6);
    int writer = which < 3 ? below(g, N_STREAMS) : STREAM_LAST;

    if (which % 3 > 0)
        add_value(g, WAIT_VALUE, stream, word, 1 + below(g, VALUE_MAX));
    if (which % 3 != 1)
        add_value(g, below(g, 3) > 0 ? WRITE_VALUE : HOST_VALUE, writer, word,
                  below(g, VALUE_MAX + 1));
    is_kept(g, n_before);
}

static void noise_add(struct generator *g)
{
    int stream = below(g, N_STREAMS - 1);
    int e = below(g, N_EARLY);

    switch (below(g, 9)) {
    case 0:
        add(g, RECORD, stream, below(g, N_EVENTS));
        break;
    case 1:
        add(g, WAIT, stream, below(g, N_EVENTS));
        break;
    case 2:
        add(g, RENEW, 0, below(g, N_EVENTS));
        break;
    case 3:
        add(g, GATE, stream, 0);
        break;
    case 4:
        streams_order(g, stream, below(g, N_STREAMS - 1));
        break;
    case 5:
    case 6:
        value_add(g, stream);
        break;
    default:
        if (!g->was_early[e]) {
            add(g, WAIT_EARLY, stream, e);
            g->is_early[e] = g->was_early[e] = true;
        } else if (!g->is_early[e] && below(g, 2) == 0) {
            early_reset(g, e);
        }
    }
}

/* One access, ordered after all that it conflicts with. */
static void access_add(struct generator *g)
{
    static const enum type types[] = {WRITE,     WRITE,      READ, READ, READ,
                                      HOST_READ, HOST_WRITE, FREE, REMAP};
    struct program *p = g->p;
    struct order o;

    add(g, types[below(g, 9)], below(g, N_STREAMS), below(g, N_BUFFERS));
    if (p->op[p->n - 1].type == REMAP)
        p->op[p->n - 1].what = N_BUFFERS - 1;
    else if (p->op[p->n - 1].type != FREE)
        p->op[p->n - 1].part = below(g, 3);
    else if (p->op[p->n - 1].what == N_BUFFERS - 1)
        p->n--;
    for (int k = 0; k < p->n - 1;) {
        order_compute(p, &o);
        if (!is_race(p, &o, k, p->n - 1)) {
            k++;
        } else if (p->n > N_OPS - 6) {
            p->n--; /* no room to order it */
            return;
        } else {
            order_after(g, k);
            k = 0;
        }
    }
}

void program_generate(uint64_t seed, struct program *p)
{
    struct generator g = {.state = random_seed(seed), .p = p};
    struct order o;

    memset(p, 0, sizeof *p);
    p->has_threads = seed % 4 == 0;
    while (p->n < N_OPS - 14) {
        if (below(&g, 3) == 0)
            noise_add(&g);
        else
            access_add(&g);
    }
    early_end(&g);
    add(&g, SYNC_DEVICE, 0, 0);
    order_compute(p, &o);
    if (has_race(p, &o) || !is_sound(p, &o)) /* the last access had no room */
        p->n = 0;
}

/* Without it the waits of a notify would be for other records. */
static bool is_last_wait(const struct program *p, int i)
{
    return nth_of(p, i, WAIT_NOTIFY, WAIT_NOTIFY, count_before(p, i, WAIT_NOTIFY) + 1) <
           0;
}

static bool is_removable(const struct program *p, int i)
{
    const struct op *op = &p->op[i];

    return op->type == WAIT || op->type == WAIT_VALUE || op->type == SYNC_STREAM ||
           op->type == SYNC_EVENT || op->type == SYNC_DEVICE ||
           (op->type == WAIT_NOTIFY && is_last_wait(p, i));
}

bool program_break(struct program *p)
{
    uint64_t state = random_seed((uint64_t)p->n);
    int first = random_below(&state, p->n);

    for (int i = 0; i < p->n - 1; i++) {
        int at = (first + i) % (p->n - 1);
        struct op saved = p->op[at];
        struct order o;

        if (!is_removable(p, at))
            continue;
        p->op[at].type = NOTHING;
        order_compute(p, &o);
        if (has_race(p, &o) && is_sound(p, &o))
            return true;
        p->op[at] = saved;
    }
    return false;
}
