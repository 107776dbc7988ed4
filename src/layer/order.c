/* See order.h. */
#include "layer/order.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define AGENTS_MAX 65536
#define HOST 0

struct am_agents am_agents = TAILQ_HEAD_INITIALIZER(am_agents);

static struct {
    struct am_clock clock;
    uint64_t version;  /* of the clock */
    uint64_t *steps;   /* the last step of each number, over all its agents */
    uint64_t *handles; /* of the stream that has the number */
    uint32_t n;        /* numbers that were used */
    uint32_t *spare;   /* numbers that are free */
    uint32_t n_spare;
    uint64_t n_queued;        /* pieces of work so far */
    size_t n_pending;         /* works that stand in lists */
    struct am_clock released; /* what records of shared events and notifies knew */
} host;

void am_order_open(void)
{
    if (host.n == 0 && host.steps == NULL) {
        host.steps = am_sys_calloc(AGENTS_MAX, sizeof *host.steps);
        host.handles = am_sys_calloc(AGENTS_MAX, sizeof *host.handles);
        host.spare = am_sys_calloc(AGENTS_MAX, sizeof *host.spare);
        host.n = 1;
    }
}

static bool is_open(void)
{
    return host.steps != NULL && host.handles != NULL && host.spare != NULL;
}

static uint64_t step_next(uint32_t number, struct am_clock *clock)
{
    uint64_t step = ++host.steps[number];

    am_clock_set(clock, number, step);
    return step;
}

/* ---- agents ---- */

struct am_agent *am_agent_make(uint64_t handle)
{
    struct am_agent *agent;

    if (!is_open() || (host.n_spare == 0 && host.n == AGENTS_MAX))
        return NULL;
    agent = am_sys_calloc(1, sizeof *agent);
    if (agent == NULL)
        return NULL;
    agent->refs = 1;
    agent->number = host.n_spare > 0 ? host.spare[--host.n_spare] : host.n++;
    agent->handle = handle;
    agent->device = -1;
    host.handles[agent->number] = handle;
    TAILQ_INIT(&agent->works);
    TAILQ_INSERT_TAIL(&am_agents, agent, link);
    am_clock_join(&agent->clock, &host.clock);
    return agent;
}

/* A function's work has two owners, the list and the function. */
static void work_delete(struct am_work *work)
{
    if (work->type == AM_WORK_FUNCTION && --work->n_owners > 0) {
        work->is_dropped = true;
        return;
    }
    for (size_t i = 0; i < work->n_pieces; i++)
        am_bytes_put(work->pieces[i].bytes);
    if (work->pieces != work->inline_pieces)
        free(work->pieces);
    am_signal_put(work->signal);
    am_clock_free(&work->host);
    free(work);
}

void am_agent_put(struct am_agent *agent)
{
    if (agent == NULL || --agent->refs > 0)
        return;
    am_agent_abort(agent);
    TAILQ_REMOVE(&am_agents, agent, link);
    host.spare[host.n_spare++] = agent->number;
    am_clock_free(&agent->clock);
    free(agent);
}

const char *am_agent_text(uint32_t number, char *text, size_t n)
{
    if (number == HOST)
        snprintf(text, n, "the host");
    else
        snprintf(text, n, "stream 0x%llx", (unsigned long long)host.handles[number]);
    return text;
}

/* ---- signals ---- */

struct am_signal *am_signal_make(bool is_notify)
{
    struct am_signal *signal = am_sys_calloc(1, sizeof *signal);

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
    am_clock_free(&signal->clock);
    free(signal);
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
}

void am_work_piece(struct am_work *work, struct am_object *area, uint64_t at,
                   uint64_t size, bool is_write)
{
    struct am_bytes *bytes = am_bytes_of(area);

    if (bytes == NULL)
        return;
    if (work->n_pieces == work->n_max) {
        bool is_inline = work->pieces == work->inline_pieces;
        struct am_piece *more = am_sys_realloc(is_inline ? NULL : work->pieces,
                                               2 * work->n_max * sizeof *more);

        if (more == NULL)
            return;
        if (is_inline)
            memcpy(more, work->inline_pieces, sizeof work->inline_pieces);
        work->pieces = more;
        work->n_max *= 2;
    }
    work->pieces[work->n_pieces++] = (struct am_piece){
        am_bytes_get(bytes), at, size, is_write, area->key + at, area->key};
}

static void work_clear(struct am_work *work)
{
    for (size_t i = 0; i < work->n_pieces; i++)
        am_bytes_put(work->pieces[i].bytes);
    if (work->pieces != work->inline_pieces)
        free(work->pieces);
}

/* Its pieces, one step of the agent with this number and clock. */
static void work_touch(struct am_work *work, uint32_t number, struct am_clock *clock,
                       bool is_order_unknown)
{
    struct am_access access = {
        .agent = number, .site = work->site, .is_order_unknown = is_order_unknown};

    access.step = step_next(number, clock);
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];
        struct am_access other;
        uint64_t at;

        access.is_write = p->is_write;
        if (am_bytes_conflict(p->bytes, p->at, p->size, &access, clock, &other, &at) &&
            !(other.agent == number && other.step == access.step))
            am_report_race(p, at, work, &other);
    }
    /*
     * What the host did is over before anything that is queued later, so it can be in
     * conflict only with work that was queued earlier and still waits.
     */
    if (number == HOST && host.n_pending == 0)
        return;
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        access.is_write = p->is_write;
        access.area = p->area;
        am_bytes_note(p->bytes, p->at, p->size, &access, clock);
    }
}

/* Whether the work can run in the model. */
static bool work_can_run(const struct am_work *work)
{
    if (work->type == AM_WORK_FUNCTION)
        return work->is_over;
    if (work->type != AM_WORK_WAIT || work->is_order_unknown || work->signal->is_shared)
        return true;
    return work->signal->is_notify ? work->signal->is_set
                                   : work->signal->n_run >= work->record;
}

static void record_run(struct am_work *work)
{
    struct am_signal *signal = work->signal;
    struct am_agent *agent = work->agent;

    step_next(agent->number, &agent->clock);
    if (!signal->is_notify)
        am_clock_free(&signal->clock); /* a new record is the one that counts */
    am_clock_join(&signal->clock, &agent->clock);
    signal->recorded = work->site;
    signal->n_run++;
    signal->is_set = true;
    if (signal->is_shared)
        am_clock_join(&host.released, &agent->clock);
}

static void wait_run(struct am_work *work)
{
    struct am_signal *signal = work->signal;
    struct am_agent *agent = work->agent;

    am_clock_join(&agent->clock, &signal->clock);
    if (signal->is_shared || work->is_order_unknown) {
        am_clock_join(&agent->clock, &host.released);
        agent->is_order_unknown = true;
    }
    if (signal->is_notify) {
        signal->is_set = false;
        am_clock_free(&signal->clock);
    }
}

static void work_run(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    switch (work->type) {
    case AM_WORK_TOUCH:
    case AM_WORK_FREE:
        work_touch(work, agent->number, &agent->clock, agent->is_order_unknown);
        break;
    case AM_WORK_RECORD:
        record_run(work);
        break;
    case AM_WORK_WAIT:
        wait_run(work);
        break;
    case AM_WORK_RESET:
        step_next(agent->number, &agent->clock);
        break;
    case AM_WORK_FUNCTION:
        am_clock_join(&agent->clock, &host.clock); /* what the function knew */
        break;
    }
}

/* Runs what can be run; whether anything did. */
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
    bool is_any = true;

    while (is_any) {
        is_any = false;
        TAILQ_FOREACH (agent, &am_agents, link)
            is_any |= !TAILQ_EMPTY(&agent->works) && agent_progress(agent);
    }
}

/* A copy that outlives the caller; NULL without memory. */
static struct am_work *work_enqueue(struct am_work *work)
{
    struct am_work *queued = am_sys_malloc(sizeof *queued);

    if (queued == NULL)
        return NULL;
    *queued = *work;
    if (work->pieces == work->inline_pieces)
        queued->pieces = queued->inline_pieces;
    if (queued->signal != NULL)
        queued->signal->refs++;
    am_clock_join(&queued->host, &host.clock);
    TAILQ_INSERT_TAIL(&queued->agent->works, queued, link);
    host.n_pending++;
    return queued;
}

static void agent_joins_host(struct am_agent *agent)
{
    if (agent->host_version != host.version) {
        am_clock_join(&agent->clock, &host.clock);
        agent->host_version = host.version;
    }
}

void am_work_queue(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    if (!is_open()) {
        work_clear(work);
        return;
    }
    host.n_queued++;
    for (size_t i = 0; agent != NULL && i < work->n_pieces; i++)
        am_touch_watch(work->pieces[i].bytes);
    if (agent == NULL) {
        work_touch(work, HOST, &host.clock, false);
        host.version++;
        work_clear(work);
        return;
    }
    if (TAILQ_EMPTY(&agent->works) && work_can_run(work)) {
        agent_joins_host(agent);
        work_run(work);
        work_clear(work);
    } else if (work_enqueue(work) == NULL) {
        work_clear(work);
    }
    if (work->type == AM_WORK_RECORD || work->type == AM_WORK_WAIT)
        all_progress();
}

/* ---- functions of the program ---- */

struct am_work *am_function_queue(struct am_call *call, struct am_agent *agent)
{
    struct am_work work;

    struct am_work *queued;

    am_work_begin(&work, AM_WORK_FUNCTION, call, agent);
    queued = is_open() ? work_enqueue(&work) : NULL;
    if (queued != NULL) {
        queued->n_owners = 2;
        agent->refs++;
    }
    return queued;
}

/* The work before `until` is done, even if the model does not know why. */
static void works_force(struct am_agent *agent, const struct am_work *until)
{
    struct am_work *work;

    all_progress();
    while ((work = TAILQ_FIRST(&agent->works)) != NULL && work != until) {
        work->is_over = true;
        work->is_order_unknown = true; /* a wait ended by something outside the model */
        if (!agent_progress(agent))
            break;
        all_progress();
    }
}

void am_function_begin(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    if (work->is_dropped)
        return;
    works_force(agent, work);
    /* A thread that the function notifies knows as much as the function. */
    am_clock_join(&host.clock, &agent->clock);
    host.version++;
}

void am_function_end(struct am_work *work)
{
    struct am_agent *agent = work->agent;

    work->is_over = true;
    if (!work->is_dropped) {
        agent_progress(agent);
        all_progress();
    }
    work_delete(work);
    am_agent_put(agent);
}

/* ---- the host waits ---- */

/* With those that the work in the list will take, or a few more. */
uint64_t am_agent_step(const struct am_agent *agent)
{
    uint64_t step = host.steps[agent->number];
    const struct am_work *work;

    TAILQ_FOREACH (work, &agent->works, link)
        step++;
    return step;
}

void am_host_joins_agent(struct am_agent *agent, uint64_t step)
{
    uint64_t own;

    works_force(agent, NULL);
    own = am_clock_get(&agent->clock, agent->number);
    /* Work that another thread queued since was not waited for. */
    if (step != 0 && own > step && TAILQ_EMPTY(&agent->works))
        am_clock_set(&agent->clock, agent->number, step);
    am_clock_join(&host.clock, &agent->clock);
    am_clock_set(&agent->clock, agent->number, own);
    agent->is_order_unknown = false;
    host.version++;
}

void am_host_joins_signal(struct am_signal *signal)
{
    struct am_agent *agent;
    struct am_work *work;
    struct am_work *next;

    all_progress();
    /* The record ran, so everything before it did. */
    TAILQ_FOREACH (agent, &am_agents, link) {
        for (work = TAILQ_FIRST(&agent->works); work != NULL; work = next) {
            next = TAILQ_NEXT(work, link);
            if (work->type == AM_WORK_RECORD && work->signal == signal) {
                works_force(agent, next);
                break;
            }
        }
    }
    am_clock_join(&host.clock, &signal->clock);
    host.version++;
}

void am_agent_abort(struct am_agent *agent)
{
    struct am_work *work;
    struct am_work *next;

    for (work = TAILQ_FIRST(&agent->works); work != NULL; work = next) {
        next = TAILQ_NEXT(work, link);
        TAILQ_REMOVE(&agent->works, work, link);
        host.n_pending--;
        work_delete(work);
    }
}

/* ---- in use ---- */

static const struct am_piece *work_uses(const struct am_work *work, uint64_t area)
{
    for (size_t i = 0; i < work->n_pieces; i++) {
        if (work->pieces[i].area == area)
            return &work->pieces[i];
    }
    return NULL;
}

bool am_area_is_in_use(const struct am_object *area, struct am_access *ret_access)
{
    struct am_access free_it = {.agent = HOST, .is_write = true, .area = area->key};
    struct am_agent *agent;
    struct am_work *work;
    uint64_t where;

    if (area->bytes == NULL)
        return false;
    if (am_bytes_conflict(area->bytes, 0, area->size, &free_it, &host.clock, ret_access,
                          &where))
        return true;
    TAILQ_FOREACH (agent, &am_agents, link) {
        TAILQ_FOREACH (work, &agent->works, link) {
            const struct am_piece *p = work_uses(work, area->key);

            if (p != NULL && p->bytes == area->bytes && !agent->is_order_unknown) {
                *ret_access = (struct am_access){
                    .agent = agent->number, .site = work->site, .is_write = p->is_write};
                return true;
            }
        }
    }
    return false;
}

static const struct am_piece *work_at(const struct am_work *work,
                                      const struct am_bytes *bytes, uint64_t at,
                                      bool is_write)
{
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        if (p->bytes == bytes && at - p->at < p->size && (p->is_write || is_write))
            return p;
    }
    return NULL;
}

bool am_bytes_in_flight_at(struct am_bytes *bytes, uint64_t at, bool is_write,
                           struct am_access *ret_access)
{
    struct am_access touch = {.agent = HOST, .is_write = is_write};
    struct am_agent *agent;
    struct am_work *work;
    uint64_t where;

    if (am_bytes_conflict(bytes, at, 1, &touch, &host.clock, ret_access, &where))
        return true;
    TAILQ_FOREACH (agent, &am_agents, link) {
        TAILQ_FOREACH (work, &agent->works, link) {
            const struct am_piece *p = work_at(work, bytes, at, is_write);

            if (p != NULL && !agent->is_order_unknown) {
                *ret_access = (struct am_access){
                    .agent = agent->number, .site = work->site, .is_write = p->is_write};
                return true;
            }
        }
    }
    return false;
}

void am_bytes_in_flight(struct am_bytes *bytes, am_range_fn each, void *arg)
{
    struct am_agent *agent;
    struct am_work *work;

    am_bytes_undone(bytes, &host.clock, each, arg);
    TAILQ_FOREACH (agent, &am_agents, link) {
        TAILQ_FOREACH (work, &agent->works, link) {
            for (size_t i = 0; i < work->n_pieces && !agent->is_order_unknown; i++) {
                const struct am_piece *p = &work->pieces[i];

                if (p->bytes == bytes)
                    each(p->at, p->at + p->size, p->is_write, arg);
            }
        }
    }
}

uint64_t am_order_version(void)
{
    return host.version + host.n_queued + 1;
}

void am_signal_end(struct am_signal *signal)
{
    struct am_agent *agent;
    struct am_work *work;

    TAILQ_FOREACH (agent, &am_agents, link) {
        TAILQ_FOREACH (work, &agent->works, link) {
            if (work->signal == signal)
                work->is_order_unknown = true;
        }
    }
    all_progress();
}

void am_host_joins_users(struct am_bytes *bytes)
{
    struct am_agent *agent;

    TAILQ_FOREACH (agent, &am_agents, link) {
        if (am_bytes_were_used_by(bytes, agent->number))
            am_host_joins_agent(agent, 0);
    }
}

bool am_signal_is_in_use(const struct am_signal *signal, struct am_site *ret_site)
{
    struct am_agent *agent;
    struct am_work *work;

    TAILQ_FOREACH (agent, &am_agents, link) {
        TAILQ_FOREACH (work, &agent->works, link) {
            if (work->signal == signal && work->type == AM_WORK_WAIT) {
                *ret_site = work->site;
                return true;
            }
        }
    }
    return false;
}
