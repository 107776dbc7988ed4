/* See order.h. */
#include "layer/order.h"

#include <stdio.h>
#include <string.h>

#include "layer/memory.h"
#include "layer/pinned.h"

#define AGENTS_MAX 65536
#define HOST 0

struct am_agents am_agents = TAILQ_HEAD_INITIALIZER(am_agents);

static struct {
    struct am_clock clock;
    uint64_t version;      /* of the clock */
    atomic_bool is_raised; /* the clock was, by hooks that share, since this version */
    uint64_t steps[AGENTS_MAX];   /* the last step of each number's agents that ended */
    uint64_t handles[AGENTS_MAX]; /* of the stream that has the number */
    uint32_t spare[AGENTS_MAX];   /* numbers that are free */
    uint32_t n_spare;
    uint32_t n_used;          /* numbers so far, without the host's */
    uint64_t n_queued;        /* works so far */
    size_t n_pending;         /* works that stand in lists */
    struct am_clock released; /* what records of shared events and notifies knew */
} host;

/* The next step of an agent; NULL: of the host. */
static uint64_t step_next(struct am_agent *agent)
{
    uint64_t step = agent != NULL ? ++agent->step : ++host.steps[HOST];

    am_clock_set(agent != NULL ? &agent->clock : &host.clock,
                 agent != NULL ? agent->number : HOST, step);
    return step;
}

/* Whether the host's access to the bytes of the work may be a mistake. */
static bool work_touches(const struct am_work *work)
{
    return work->type == AM_WORK_ACCESS || work->type == AM_WORK_FREE;
}

/* ---- agents ---- */

struct am_agent *am_agent_make(uint64_t handle)
{
    struct am_agent *agent;

    if (host.n_spare == 0 && host.n_used == AGENTS_MAX - 1)
        return NULL;
    agent = am_meta_alloc(sizeof *agent);
    if (agent == NULL)
        return NULL;
    agent->refs = 1;
    agent->number = host.n_spare > 0 ? host.spare[--host.n_spare] : ++host.n_used;
    agent->handle = handle;
    agent->device = -1;
    agent->step = host.steps[agent->number];
    host.handles[agent->number] = handle;
    TAILQ_INIT(&agent->works);
    TAILQ_INSERT_TAIL(&am_agents, agent, link);
    am_clock_join(&agent->clock, &host.clock);
    return agent;
}

void am_agent_put(struct am_agent *agent)
{
    if (agent == NULL || --agent->refs > 0)
        return;
    am_agent_abort(agent);
    TAILQ_REMOVE(&am_agents, agent, link);
    host.steps[agent->number] = agent->step;
    host.spare[host.n_spare++] = agent->number;
    am_clock_free(&agent->clock);
    free(agent);
}

void am_agent_end(struct am_agent *agent)
{
    am_agent_abort(agent);
    am_host_joins_agent(agent);
    agent->handle = 0; /* the next stream may have the handle */
    am_agent_put(agent);
}

const char *am_agent_text(uint32_t number, char *text, size_t n)
{
    if (number == HOST)
        snprintf(text, n, "the host");
    else
        snprintf(text, n, "stream 0x%llx", (unsigned long long)host.handles[number]);
    return text;
}

/* ---- records and signals ---- */

struct am_record *am_record_make(void)
{
    struct am_record *record = am_meta_alloc(sizeof *record);

    if (record != NULL)
        record->refs = 1;
    return record;
}

struct am_record *am_record_get(struct am_record *record)
{
    if (record != NULL)
        record->refs++;
    return record;
}

void am_record_put(struct am_record *record)
{
    if (record == NULL || --record->refs > 0)
        return;
    am_clock_free(&record->clock);
    free(record);
}

struct am_signal *am_signal_make(bool is_notify)
{
    struct am_signal *signal = am_meta_alloc(sizeof *signal);

    if (signal != NULL) {
        signal->refs = 1;
        signal->is_notify = is_notify;
    }
    return signal;
}

void am_signal_put(struct am_signal *signal)
{
    if (signal == NULL || --signal->refs > 0)
        return;
    am_record_put(signal->record);
    am_record_put(signal->last);
    am_clock_free(&signal->clock);
    am_clock_free(&signal->waited);
    free(signal);
}

struct am_record *am_signal_record(struct am_signal *signal)
{
    if (signal->record != NULL && signal->record->n_queued > 0) {
        am_record_put(signal->record);
        signal->record = NULL;
    }
    if (signal->record == NULL)
        signal->record = am_record_make();
    am_record_put(signal->last);
    signal->last = am_record_get(signal->record);
    return signal->record;
}

void am_signal_reset(struct am_signal *signal)
{
    if (signal->record != NULL && signal->record->n_queued > 0) {
        am_record_put(signal->record);
        signal->record = NULL;
    }
}

struct am_record *am_signal_target(struct am_signal *signal)
{
    if (signal->record == NULL && !signal->is_repeated)
        signal->record = am_record_make();
    return signal->record;
}

/* ---- work ---- */

void am_work_begin(struct am_work *work, enum am_work_type type, struct am_call *call,
                   struct am_agent *agent)
{
    memset(work, 0, offsetof(struct am_work, inline_pieces));
    work->type = type;
    work->site = call->site;
    work->agent = agent;
    work->pieces = work->inline_pieces;
    work->n_max = AM_PIECES_INLINE;
    if (agent == NULL) /* a function may run, and notify the host, during the call */
        am_clock_join(&work->host, &host.clock);
}

void am_work_piece(struct am_work *work, struct am_object *area, uint64_t at,
                   uint64_t size, bool is_write)
{
    struct am_bytes *bytes = am_bytes_root(am_bytes_of(area));

    if (bytes == NULL)
        return;
    if (work->n_pieces == work->n_max) {
        bool is_inline = work->pieces == work->inline_pieces;
        struct am_piece *more = am_meta_realloc(is_inline ? NULL : work->pieces,
                                                2 * work->n_max * sizeof *more);

        if (more == NULL)
            return;
        if (is_inline)
            memcpy(more, work->inline_pieces, sizeof work->inline_pieces);
        work->pieces = more;
        work->n_max *= 2;
    }
    work->pieces[work->n_pieces++] = (struct am_piece){
        am_bytes_get(bytes), at, size, is_write, area->key + at, area->serial};
}

void am_work_drop(struct am_work *work)
{
    for (size_t i = 0; i < work->n_pieces; i++)
        am_bytes_put(work->pieces[i].bytes);
    if (work->pieces != work->inline_pieces)
        free(work->pieces);
    work->n_pieces = 0;
    work->pieces = work->inline_pieces;
    am_clock_free(&work->host);
}

/* A work of a list, that was allocated. */
static void work_delete(struct am_work *work)
{
    am_work_drop(work);
    am_signal_put(work->signal);
    am_record_put(work->record);
    am_value_wait_put(work->value);
    free(work);
}

/* The next pending work, of one agent after the other; after NULL: the first one. */
static struct am_work *pending_next(const struct am_work *work)
{
    const struct am_agent *agent;

    if (work != NULL && TAILQ_NEXT(work, link) != NULL)
        return TAILQ_NEXT(work, link);
    agent = work != NULL ? TAILQ_NEXT(work->agent, link) : TAILQ_FIRST(&am_agents);
    while (agent != NULL && TAILQ_EMPTY(&agent->works))
        agent = TAILQ_NEXT(agent, link);
    return agent != NULL ? TAILQ_FIRST(&agent->works) : NULL;
}

static void use_note(const struct am_piece *piece, const struct am_access *access)
{
    struct am_object *area = am_area_find(piece->addr);

    if (area != NULL && area->serial == piece->area)
        am_uses_note(area, access, &host.clock);
}

/*
 * Reports conflicts of the work, a step of an agent (NULL: of the host), with work that is
 * not `known`, and adds it to the history.
 */
static void access_run(struct am_work *work, struct am_agent *agent,
                       const struct am_clock *known)
{
    const struct am_clock *clock = agent != NULL ? &agent->clock : &host.clock;
    uint32_t number = agent != NULL ? agent->number : HOST;
    struct am_access access = {
        .agent = number,
        .site = work->site,
        .is_order_unknown = agent != NULL && agent->is_order_unknown,
    };

    access.step = step_next(agent);
    for (size_t i = 0; i < work->n_pieces && work->type != AM_WORK_USE; i++) {
        const struct am_piece *p = &work->pieces[i];
        struct am_access other;
        uint64_t at;

        access.is_write = p->is_write;
        if (am_bytes_conflict(p->bytes, p->at, p->size, &access, known, &other, &at) &&
            !(other.agent == number && other.step == access.step))
            am_report_race(p, at, work, &other);
    }
    /*
     * An access of the host is over before anything that is queued later, so it can be in
     * conflict only with work that was queued earlier and is pending.
     */
    if (number == HOST && host.n_pending == 0)
        return;
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        access.is_write = p->is_write;
        if (work->type != AM_WORK_USE) {
            if (host.n_pending == 0 && am_bytes_are_long(p->bytes))
                am_bytes_prune(p->bytes, &host.clock);
            am_bytes_note(p->bytes, p->at, p->size, &access, clock);
        }
        if (number != HOST)
            use_note(p, &access);
    }
}

static bool work_can_run(const struct am_work *work)
{
    if (work->type != AM_WORK_WAIT || work->is_forced ||
        (work->signal != NULL && work->signal->is_shared))
        return true;
    if (work->value != NULL)
        return am_value_has_ended(work->value, &work->agent->clock, &work->host);
    return work->record != NULL ? work->record->is_complete : work->signal->is_set;
}

static void record_run(struct am_work *work)
{
    struct am_record *record = work->record;
    struct am_signal *signal = work->signal;
    struct am_agent *agent = work->agent;
    struct am_access access = {
        .agent = agent->number,
        .site = work->site,
        .is_write = true,
        .is_order_unknown = agent->is_order_unknown,
    };

    access.step = step_next(agent);
    for (size_t i = 0; i < work->n_pieces; i++)
        use_note(&work->pieces[i], &access);
    if (record != NULL) {
        am_clock_join(&record->clock, &agent->clock);
        record->is_order_unknown |= agent->is_order_unknown;
        record->n_learned = agent->n_learned;
        record->is_complete = --record->n_pending == 0;
    } else if (!signal->is_set) {
        am_clock_free(&signal->clock);
        am_clock_join(&signal->clock, &agent->clock);
    } else { /* either record may end the wait: only what both know is sure */
        am_clock_meet(&signal->clock, &agent->clock);
    }
    if (signal != NULL)
        signal->is_set = true;
    if (signal != NULL && signal->is_shared)
        am_clock_join(&host.released, &agent->clock);
}

static void wait_run(struct am_work *work)
{
    struct am_record *record = work->record;
    struct am_signal *signal = work->signal;
    struct am_agent *agent = work->agent;

    agent->n_learned++;
    if (record != NULL) {
        am_clock_join(&agent->clock, &record->clock);
        agent->is_order_unknown |= record->is_order_unknown;
    }
    if (work->value != NULL && !am_value_join(work->value, &agent->clock, &work->host))
        agent->is_order_unknown = true;
    if (work->is_forced || (signal != NULL && signal->is_shared)) {
        am_clock_join(&agent->clock, &host.released);
        agent->is_order_unknown = true;
    }
    if (signal == NULL)
        return;
    if (signal->is_notify) {
        am_clock_join(&agent->clock, &signal->clock);
        am_clock_free(&signal->clock);
        signal->is_set = false;
    }
    am_clock_join(&signal->waited, &agent->clock);
}

static void work_run(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    if (work->type == AM_WORK_RECORD)
        record_run(work);
    else if (work->type == AM_WORK_WAIT)
        wait_run(work);
    else
        access_run(work, agent, &agent->clock);
}

/* Runs the works that can run; true: there was one. */
static bool agent_progress(struct am_agent *agent)
{
    struct am_work *work;
    bool is_any = false;

    while ((work = TAILQ_FIRST(&agent->works)) != NULL && work_can_run(work)) {
        TAILQ_REMOVE(&agent->works, work, link);
        host.n_pending--;
        am_clock_join(&agent->clock, &work->host);
        work_run(work);
        work_delete(work);
        is_any = true;
    }
    return is_any;
}

static void all_progress(void)
{
    struct am_agent *agent;
    bool is_any = host.n_pending > 0;

    while (is_any) {
        is_any = false;
        TAILQ_FOREACH (agent, &am_agents, link)
            is_any |= !TAILQ_EMPTY(&agent->works) && agent_progress(agent);
    }
}

void am_order_progress(void)
{
    all_progress();
}

void am_record_complete(struct am_record *record, bool is_order_unknown)
{
    record->is_complete = true;
    record->is_order_unknown |= is_order_unknown;
    all_progress();
}

void am_record_by_host(struct am_record *record)
{
    step_next(NULL);
    host.version++;
    am_clock_join(&record->clock, &host.clock);
    am_record_complete(record, false);
}

/* A copy that outlives the caller goes into the agent's list; false: no memory. */
static bool work_enqueue(struct am_work *work)
{
    struct am_work *queued = am_meta_alloc(sizeof *queued);

    if (queued == NULL)
        return false;
    *queued = *work;
    if (work->pieces == work->inline_pieces)
        queued->pieces = queued->inline_pieces;
    if (queued->signal != NULL)
        queued->signal->refs++;
    am_record_get(queued->record);
    am_clock_join(&queued->host, &host.clock);
    TAILQ_INSERT_TAIL(&queued->agent->works, queued, link);
    host.n_pending++;
    return true;
}

/* The calling thread's: of the host, or of the function of a stream that it runs. */
static void own_work_run(struct am_work *work)
{
    struct am_agent *agent = am_function_agent();

    if (agent == NULL) {
        am_clock_set(&work->host, HOST, host.steps[HOST] + 1);
        access_run(work, NULL, &work->host);
    } else {
        access_run(work, agent, &agent->clock);
        am_clock_join(&host.clock, &agent->clock); /* the function may notify a thread */
    }
    host.version++;
}

/*
 * Hooks that share the metadata change no version: the host's cache line would move from one
 * processor to the next at each wait.
 */
static void host_was_raised(void)
{
    if (!atomic_load_explicit(&host.is_raised, memory_order_relaxed))
        atomic_store_explicit(&host.is_raised, true, memory_order_relaxed);
}

/* What the host knows, the agent knows from now on. */
static void agent_learn(struct am_agent *agent)
{
    if (am_thread_is_sharing()) {
        am_clock_join(&agent->clock, &host.clock);
        return;
    }
    if (host.is_raised) {
        host.is_raised = false;
        host.version++;
    }
    if (agent->host_version == host.version)
        return;
    am_clock_join(&agent->clock, &host.clock);
    agent->host_version = host.version;
}

/*
 * Whether the work must know what the host knows before it runs.  Of works of a hook that
 * shares, an access does not, since nothing conflicts with it: am_work_conflicts(); and a
 * record without a signal is only for the host.
 */
static bool is_learning(const struct am_work *work)
{
    return !am_thread_is_sharing() || work->signal != NULL;
}

static bool work_conflicts(const struct am_work *work)
{
    const struct am_agent *agent = work->agent;
    struct am_access access = {.agent = agent->number,
                               .is_order_unknown = agent->is_order_unknown};

    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];
        struct am_access other;
        uint64_t at;

        access.is_write = p->is_write;
        if (am_bytes_conflict(p->bytes, p->at, p->size, &access, &agent->clock, &other,
                              &at))
            return true;
    }
    return false;
}

bool am_work_conflicts(const struct am_work *work)
{
    if (!work_conflicts(work))
        return false;
    agent_learn(work->agent);
    return work_conflicts(work);
}

bool am_order_is_settled(void)
{
    return host.n_pending == 0;
}

bool am_host_can_join(const struct am_record *record)
{
    return record == NULL || (record->is_complete && !record->is_order_unknown &&
                              am_clock_fits(&host.clock, &record->clock));
}

void am_work_queue(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    if (am_touch_is_on())
        host.n_queued++;
    if (work->type == AM_WORK_RECORD && work->record != NULL) {
        work->record->n_queued++;
        work->record->n_pending++;
    }
    for (size_t i = 0; agent != NULL && work_touches(work) && i < work->n_pieces; i++)
        am_touch_watch(work->pieces[i].bytes);
    if (agent == NULL) {
        own_work_run(work);
        am_work_drop(work);
    } else if (TAILQ_EMPTY(&agent->works) && work_can_run(work)) {
        if (is_learning(work))
            agent_learn(agent);
        work_run(work);
        am_work_drop(work);
        am_value_wait_put(work->value);
    } else if (!work_enqueue(work)) {
        am_work_drop(work);
        am_value_wait_put(work->value);
        if (work->record != NULL && work->type == AM_WORK_RECORD) {
            work->record->n_pending--;
            am_record_complete(work->record, true);
        }
    }
    if (work->type == AM_WORK_RECORD || work->type == AM_WORK_WAIT)
        all_progress();
}

struct am_record *am_agent_record(struct am_call *call, struct am_agent *agent,
                                  struct am_record *record)
{
    struct am_work work;

    if (record == NULL)
        record = am_record_make();
    if (record == NULL)
        return NULL;
    am_work_begin(&work, AM_WORK_RECORD, call, agent);
    work.record = record;
    am_work_queue(&work);
    return record;
}

void am_agent_wait(struct am_call *call, struct am_agent *agent, struct am_record *record)
{
    struct am_work work;

    am_work_begin(&work, AM_WORK_WAIT, call, agent);
    work.record = record;
    am_work_queue(&work);
}

void am_record_uses(struct am_call *call, struct am_agent *agent,
                    struct am_record *record, const struct am_piece *piece)
{
    struct am_object *area = am_area_find(piece->addr);
    struct am_access access = {
        .agent = agent->number,
        .step = am_clock_get(&record->clock, agent->number),
        .site = call->site,
        .is_write = piece->is_write,
    };
    struct am_work *work;

    if (record->is_complete)
        use_note(piece, &access);
    TAILQ_FOREACH (work, &agent->works, link) {
        if (work->type == AM_WORK_RECORD && work->record == record && area != NULL)
            am_work_piece(work, area, piece->addr - area->key, piece->size,
                          piece->is_write);
    }
}

void am_agent_meets_unknown(struct am_call *call, struct am_agent *agent)
{
    static struct am_signal outside = {.refs = 1, .is_shared = true};
    struct am_work work;

    am_work_begin(&work, AM_WORK_RECORD, call, agent);
    work.signal = &outside;
    am_work_queue(&work);
    am_work_begin(&work, AM_WORK_WAIT, call, agent);
    work.signal = &outside;
    am_work_queue(&work);
}

void am_agent_wait_value(struct am_call *call, struct am_agent *agent,
                         struct am_value_wait *value)
{
    struct am_work work;

    if (TAILQ_EMPTY(&agent->works))
        agent_learn(agent); /* what the stream knows when it begins to wait */
    am_work_begin(&work, AM_WORK_WAIT, call, agent);
    work.value = value;
    am_work_queue(&work);
}

/* ---- the host waits ---- */

static bool is_pending(const struct am_agent *agent, const struct am_record *record)
{
    const struct am_work *work;

    TAILQ_FOREACH (work, &agent->works, link) {
        if (record == NULL || (work->type == AM_WORK_RECORD && work->record == record))
            return true;
    }
    return false;
}

#define FORCE_DEPTH 32

static void record_force(const struct am_record *record, int depth);

/*
 * The work of the agent up to the record, or all, is known to be done.  Waits in it are
 * over: because of work that is known to be done, too, or of something outside the model.
 */
static void works_force(struct am_agent *agent, const struct am_record *record, int depth)
{
    struct am_work *work;

    while (is_pending(agent, record)) {
        const struct am_record *awaited;

        work = TAILQ_FIRST(&agent->works);
        if (work->value != NULL) {
            am_value_settle(work->value);
            all_progress();
            if (TAILQ_FIRST(&agent->works) != work)
                continue;
        }
        awaited = work->value != NULL ? am_value_pending(work->value, 0) : work->record;
        if (awaited != NULL && depth < FORCE_DEPTH)
            record_force(awaited, depth + 1);
        all_progress();
        if (TAILQ_FIRST(&agent->works) != work)
            continue;
        work->is_forced = true;
        agent_progress(agent);
        all_progress();
    }
}

static void record_force(const struct am_record *record, int depth)
{
    struct am_agent *agent;

    if (record->n_pending == 0)
        return;
    TAILQ_FOREACH (agent, &am_agents, link)
        works_force(agent, record, depth);
}

/*
 * A call of this thread has waited for what has this clock.  If its order is unknown, it may have
 * waited for each record of a shared event or notify.
 */
static void host_learn(const struct am_clock *clock, bool is_order_unknown)
{
    struct am_agent *agent = am_function_agent();

    if (am_thread_is_sharing()) {
        am_clock_raise(&host.clock, clock);
        host_was_raised();
    } else {
        am_clock_join(&host.clock, clock);
        host.version++;
    }
    if (agent != NULL)
        am_clock_join(&agent->clock, clock);
    if (is_order_unknown)
        host_learn(&host.released, false);
}

const struct am_clock *am_host_clock(void)
{
    return &host.clock;
}

void am_host_joins_record(struct am_record *record)
{
    if (record == NULL)
        return;
    record_force(record, 0);
    host_learn(&record->clock, record->is_order_unknown);
}

void am_host_joins_position(struct am_agent *agent, struct am_record *record)
{
    if (!am_thread_is_sharing() || record->n_learned != agent->n_reported) {
        am_host_joins_record(record);
        agent->n_reported = record->n_learned;
        return;
    }
    am_clock_raise_step(&host.clock, agent->number,
                        am_clock_get(&record->clock, agent->number));
    host_was_raised();
}

void am_host_joins_agent(struct am_agent *agent)
{
    works_force(agent, NULL, 0);
    host_learn(&agent->clock, agent->is_order_unknown);
    agent->is_order_unknown = false;
}

/* Of each stream, what it did up to its last access of the bytes. */
void am_host_joins_users(struct am_bytes *bytes)
{
    struct am_agent *agent;

    TAILQ_FOREACH (agent, &am_agents, link) {
        uint64_t step = am_bytes_last_step(bytes, agent->number);
        uint64_t own = am_clock_get(&agent->clock, agent->number);

        if (step == 0)
            continue;
        am_clock_set(&agent->clock, agent->number, step);
        host_learn(&agent->clock, agent->is_order_unknown);
        am_clock_set(&agent->clock, agent->number, own);
    }
}

void am_host_joins_waits(struct am_signal *signal)
{
    struct am_work *work = NULL;

    all_progress();
    while ((work = pending_next(work)) != NULL) {
        if (work->type != AM_WORK_WAIT || work->signal != signal ||
            work->record == NULL || work->record->n_pending == 0)
            continue;
        record_force(work->record, 0);
        work = NULL; /* it may have run */
    }
    all_progress();
    host_learn(&signal->waited, signal->is_shared);
}

void am_agent_joins_host(struct am_agent *agent)
{
    am_clock_join(&agent->clock, &host.clock);
}

void am_agent_abort(struct am_agent *agent)
{
    struct am_work *work;

    while ((work = TAILQ_FIRST(&agent->works)) != NULL) {
        TAILQ_REMOVE(&agent->works, work, link);
        host.n_pending--;
        if (work->type == AM_WORK_RECORD && work->record != NULL) {
            work->record->n_pending--;
            work->record->is_complete = true; /* waits fail, and their streams go on */
            work->record->is_order_unknown = true;
        }
        work_delete(work);
    }
    all_progress();
}

void am_signal_end(struct am_signal *signal)
{
    struct am_work *work = NULL;

    while ((work = pending_next(work)) != NULL) {
        if (work->signal == signal && work->type == AM_WORK_WAIT &&
            (work->record == NULL || work->record->n_queued == 0))
            work->is_forced = true;
    }
    all_progress();
}

/* ---- in use ---- */

/* The access of a pending work. */
static struct am_access pending_access(const struct am_work *work,
                                       const struct am_piece *piece)
{
    return (struct am_access){
        .agent = work->agent->number, .site = work->site, .is_write = piece->is_write};
}

bool am_area_is_in_use(const struct am_object *area, struct am_access *ret_access)
{
    struct am_work *work = NULL;

    if (area->bytes == NULL)
        return false;
    if (am_uses_find(area, &host.clock, ret_access))
        return true;
    while (host.n_pending > 0 && (work = pending_next(work)) != NULL) {
        for (size_t i = 0; i < work->n_pieces && !work->agent->is_order_unknown; i++) {
            if (work->pieces[i].area != area->serial)
                continue;
            *ret_access = pending_access(work, &work->pieces[i]);
            return true;
        }
    }
    return false;
}

static bool is_recorder(const struct am_agent *agent, const struct am_record *record,
                        const struct am_signal *signal)
{
    const struct am_work *work;

    TAILQ_FOREACH (work, &agent->works, link) {
        if (work->type == AM_WORK_RECORD && work->record == record &&
            (record != NULL || work->signal == signal))
            return true;
    }
    return false;
}

struct am_agent *am_recorder_next(const struct am_record *record,
                                  const struct am_signal *signal, struct am_agent *agent)
{
    if (record == NULL && signal == NULL)
        return NULL;
    agent = agent != NULL ? TAILQ_NEXT(agent, link) : TAILQ_FIRST(&am_agents);
    while (agent != NULL && !is_recorder(agent, record, signal))
        agent = TAILQ_NEXT(agent, link);
    return agent;
}

/* A record behind the wait itself is the last choice. */
struct am_agent *am_wait_recorder(const struct am_work *wait)
{
    const struct am_record *record =
        wait->value != NULL ? am_value_pending(wait->value, 0) : wait->record;
    struct am_agent *first = am_recorder_next(record, wait->signal, NULL);
    struct am_agent *other = NULL;

    if (first != NULL && first == wait->agent)
        other = am_recorder_next(record, wait->signal, first);
    return other != NULL ? other : first;
}

struct am_work *am_agent_next_wait(const struct am_agent *agent)
{
    struct am_work *work;

    TAILQ_FOREACH (work, &agent->works, link) {
        if (work->type == AM_WORK_WAIT && work->value == NULL && !work_can_run(work))
            return work;
    }
    return NULL;
}

bool am_agent_is_behind_function(const struct am_agent *agent)
{
    const struct am_agent *own = am_function_agent();

    if (own == NULL)
        return false;
    for (int i = 0; agent != NULL && i < FORCE_DEPTH; i++) {
        const struct am_work *first = TAILQ_FIRST(&agent->works);

        if (agent == own)
            return true;
        agent = first != NULL ? am_wait_recorder(first) : NULL;
    }
    return false;
}

/* Whether an access of the host that conflicts with the pending work is a mistake. */
static bool host_may_touch(const struct am_work *work)
{
    return work_touches(work) && !work->agent->is_order_unknown;
}

bool am_bytes_in_flight_at(struct am_bytes *bytes, uint64_t at, bool is_write,
                           struct am_access *ret_access)
{
    struct am_access touch = {.agent = HOST, .is_write = is_write};
    struct am_work *work = NULL;
    uint64_t where;

    if (am_bytes_conflict(bytes, at, 1, &touch, &host.clock, ret_access, &where))
        return true;
    while ((work = pending_next(work)) != NULL) {
        for (size_t i = 0; host_may_touch(work) && i < work->n_pieces; i++) {
            const struct am_piece *p = &work->pieces[i];

            if (p->bytes != bytes || at - p->at >= p->size ||
                !(p->is_write || is_write) || am_agent_is_behind_function(work->agent))
                continue;
            *ret_access = pending_access(work, p);
            return true;
        }
    }
    return false;
}

void am_bytes_in_flight(struct am_bytes *bytes, am_range_fn each, void *arg)
{
    struct am_work *work = NULL;

    am_bytes_undone(bytes, &host.clock, each, arg);
    while ((work = pending_next(work)) != NULL) {
        for (size_t i = 0; host_may_touch(work) && i < work->n_pieces; i++) {
            const struct am_piece *p = &work->pieces[i];

            if (p->bytes == bytes)
                each(p->at, p->at + p->size, p->is_write, arg);
        }
    }
}

uint64_t am_order_version(void)
{
    return host.version + host.is_raised + host.n_queued + 1;
}

bool am_wait_is_stalled(const struct am_work *wait)
{
    if (wait->type != AM_WORK_WAIT || wait->signal == NULL || wait->signal->is_shared)
        return false;
    return wait->record != NULL ? wait->record->n_queued == 0
                                : am_wait_recorder(wait) == NULL;
}

bool am_signal_is_in_use(const struct am_signal *signal, struct am_site *ret_site)
{
    struct am_work *work = NULL;

    while ((work = pending_next(work)) != NULL) {
        if (work->signal == signal && am_wait_is_stalled(work)) {
            *ret_site = work->site;
            return true;
        }
    }
    return false;
}

bool am_agent_is_stalled(const struct am_agent *agent, struct am_site *ret_site)
{
    const struct am_work *first = TAILQ_FIRST(&agent->works);
    const struct am_work *wait = first;

    for (int i = 0; wait != NULL && wait->type == AM_WORK_WAIT; i++) {
        if (am_wait_is_stalled(wait) || i == FORCE_DEPTH) { /* or a cycle */
            *ret_site = first->site;
            return true;
        }
        agent = am_wait_recorder(wait);
        wait = agent != NULL ? TAILQ_FIRST(&agent->works) : NULL;
    }
    return false;
}
