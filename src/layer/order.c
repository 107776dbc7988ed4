/* See order.h. */
#include "layer/order.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define ACTORS_MAX 65536
#define HOST 0

struct am_actors am_actors = TAILQ_HEAD_INITIALIZER(am_actors);

static struct {
    struct am_clock clock;
    uint64_t version;  /* of the clock */
    uint64_t *steps;   /* the last step of each number, over all its actors */
    uint64_t *handles; /* of the stream that has the number */
    uint32_t n;        /* numbers that were used */
    uint32_t *spare;   /* numbers that are free */
    uint32_t n_spare;
    uint64_t n_queued;        /* pieces of work so far */
    size_t n_kept;            /* works that stand in lists */
    struct am_clock released; /* what records of shared events and notifies knew */
} host;

void am_order_open(void)
{
    if (host.n == 0 && host.steps == NULL) {
        host.steps = am_sys_calloc(ACTORS_MAX, sizeof *host.steps);
        host.handles = am_sys_calloc(ACTORS_MAX, sizeof *host.handles);
        host.spare = am_sys_calloc(ACTORS_MAX, sizeof *host.spare);
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

/* ---- actors ---- */

struct am_actor *am_actor_make(uint64_t handle)
{
    struct am_actor *actor;

    if (!is_open() || (host.n_spare == 0 && host.n == ACTORS_MAX))
        return NULL;
    actor = am_sys_calloc(1, sizeof *actor);
    if (actor == NULL)
        return NULL;
    actor->refs = 1;
    actor->number = host.n_spare > 0 ? host.spare[--host.n_spare] : host.n++;
    actor->handle = handle;
    actor->device = -1;
    host.handles[actor->number] = handle;
    TAILQ_INIT(&actor->works);
    TAILQ_INSERT_TAIL(&am_actors, actor, link);
    am_clock_join(&actor->clock, &host.clock);
    return actor;
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

void am_actor_put(struct am_actor *actor)
{
    if (actor == NULL || --actor->refs > 0)
        return;
    am_actor_abort(actor);
    TAILQ_REMOVE(&am_actors, actor, link);
    host.spare[host.n_spare++] = actor->number;
    am_clock_free(&actor->clock);
    free(actor);
}

const char *am_actor_text(uint32_t number, char *text, size_t n)
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
                   struct am_actor *actor)
{
    memset(work, 0, offsetof(struct am_work, inline_pieces));
    work->type = type;
    work->place = am_here(call);
    work->actor = actor;
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

/* Its pieces, one step of the actor with this number and clock. */
static void work_touch(struct am_work *work, uint32_t number, struct am_clock *clock,
                       bool is_vague)
{
    struct am_access access = {
        .actor = number, .place = work->place, .is_vague = is_vague};

    access.step = step_next(number, clock);
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];
        struct am_access other;
        uint64_t at;

        access.is_write = p->is_write;
        if (am_bytes_conflict(p->bytes, p->at, p->size, &access, clock, &other, &at) &&
            !(other.actor == number && other.step == access.step))
            am_tell_race(p, at, work, &other);
    }
    /*
     * What the host did is over before anything that is queued later, so it can be in
     * conflict only with work that was queued earlier and still waits.
     */
    if (number == HOST && host.n_kept == 0)
        return;
    for (size_t i = 0; i < work->n_pieces; i++) {
        const struct am_piece *p = &work->pieces[i];

        access.is_write = p->is_write;
        access.area = p->area;
        am_bytes_note(p->bytes, p->at, p->size, &access, clock);
    }
}

/* Whether the work can go on in the books. */
static bool work_can_run(const struct am_work *work)
{
    if (work->type == AM_WORK_FUNCTION)
        return work->is_over;
    if (work->type != AM_WORK_WAIT || work->is_vague || work->signal->is_shared)
        return true;
    return work->signal->is_notify ? work->signal->is_set
                                   : work->signal->n_run >= work->record;
}

static void record_run(struct am_work *work)
{
    struct am_signal *signal = work->signal;
    struct am_actor *actor = work->actor;

    step_next(actor->number, &actor->clock);
    if (!signal->is_notify)
        am_clock_free(&signal->clock); /* a new record is the one that counts */
    am_clock_join(&signal->clock, &actor->clock);
    signal->recorded = work->place;
    signal->n_run++;
    signal->is_set = true;
    if (signal->is_shared)
        am_clock_join(&host.released, &actor->clock);
}

static void wait_run(struct am_work *work)
{
    struct am_signal *signal = work->signal;
    struct am_actor *actor = work->actor;

    am_clock_join(&actor->clock, &signal->clock);
    if (signal->is_shared || work->is_vague) {
        am_clock_join(&actor->clock, &host.released);
        actor->is_vague = true;
    }
    if (signal->is_notify) {
        signal->is_set = false;
        am_clock_free(&signal->clock);
    }
}

static void work_run(struct am_work *work)
{
    struct am_actor *actor = work->actor;

    switch (work->type) {
    case AM_WORK_TOUCH:
    case AM_WORK_FREE:
        work_touch(work, actor->number, &actor->clock, actor->is_vague);
        break;
    case AM_WORK_RECORD:
        record_run(work);
        break;
    case AM_WORK_WAIT:
        wait_run(work);
        break;
    case AM_WORK_RESET:
        step_next(actor->number, &actor->clock);
        break;
    case AM_WORK_FUNCTION:
        am_clock_join(&actor->clock, &host.clock); /* what the function knew */
        break;
    }
}

/* Runs what can be run; whether anything did. */
static bool actor_progress(struct am_actor *actor)
{
    struct am_work *work;
    bool is_any = false;

    while ((work = TAILQ_FIRST(&actor->works)) != NULL && work_can_run(work)) {
        TAILQ_REMOVE(&actor->works, work, link);
        host.n_kept--;
        am_clock_join(&actor->clock, &work->host);
        work_run(work);
        work_delete(work);
        is_any = true;
    }
    return is_any;
}

static void all_progress(void)
{
    struct am_actor *actor;
    bool is_any = true;

    while (is_any) {
        is_any = false;
        TAILQ_FOREACH (actor, &am_actors, link)
            is_any |= !TAILQ_EMPTY(&actor->works) && actor_progress(actor);
    }
}

/* A copy that outlives the caller; NULL without memory. */
static struct am_work *work_keep(struct am_work *work)
{
    struct am_work *kept = am_sys_malloc(sizeof *kept);

    if (kept == NULL)
        return NULL;
    *kept = *work;
    if (work->pieces == work->inline_pieces)
        kept->pieces = kept->inline_pieces;
    if (kept->signal != NULL)
        kept->signal->refs++;
    am_clock_join(&kept->host, &host.clock);
    TAILQ_INSERT_TAIL(&kept->actor->works, kept, link);
    host.n_kept++;
    return kept;
}

static void actor_joins_host(struct am_actor *actor)
{
    if (actor->host_version != host.version) {
        am_clock_join(&actor->clock, &host.clock);
        actor->host_version = host.version;
    }
}

void am_work_queue(struct am_work *work)
{
    struct am_actor *actor = work->actor;

    if (!is_open()) {
        work_clear(work);
        return;
    }
    host.n_queued++;
    for (size_t i = 0; actor != NULL && i < work->n_pieces; i++)
        am_touch_watch(work->pieces[i].bytes);
    if (actor == NULL) {
        work_touch(work, HOST, &host.clock, false);
        host.version++;
        work_clear(work);
        return;
    }
    if (TAILQ_EMPTY(&actor->works) && work_can_run(work)) {
        actor_joins_host(actor);
        work_run(work);
        work_clear(work);
    } else if (work_keep(work) == NULL) {
        work_clear(work);
    }
    if (work->type == AM_WORK_RECORD || work->type == AM_WORK_WAIT)
        all_progress();
}

/* ---- functions of the program ---- */

struct am_work *am_function_queue(struct am_call *call, struct am_actor *actor)
{
    struct am_work work;

    struct am_work *kept;

    am_work_begin(&work, AM_WORK_FUNCTION, call, actor);
    kept = is_open() ? work_keep(&work) : NULL;
    if (kept != NULL) {
        kept->n_owners = 2;
        actor->refs++;
    }
    return kept;
}

/* What stands before the work was done, whatever the books say. */
static void works_force(struct am_actor *actor, const struct am_work *until)
{
    struct am_work *work;

    all_progress();
    while ((work = TAILQ_FIRST(&actor->works)) != NULL && work != until) {
        work->is_over = true;
        work->is_vague = true; /* a wait ended by something that is not in the books */
        if (!actor_progress(actor))
            break;
        all_progress();
    }
}

void am_function_begin(struct am_work *work)
{
    struct am_actor *actor = work->actor;

    if (work->is_dropped)
        return;
    works_force(actor, work);
    /* Whoever the function tells knows as much as it does. */
    am_clock_join(&host.clock, &actor->clock);
    host.version++;
}

void am_function_end(struct am_work *work)
{
    struct am_actor *actor = work->actor;

    work->is_over = true;
    if (!work->is_dropped) {
        actor_progress(actor);
        all_progress();
    }
    work_delete(work);
    am_actor_put(actor);
}

/* ---- the host waits ---- */

/* With those that the work in the list will take, or a few more. */
uint64_t am_actor_step(const struct am_actor *actor)
{
    uint64_t step = host.steps[actor->number];
    const struct am_work *work;

    TAILQ_FOREACH (work, &actor->works, link)
        step++;
    return step;
}

void am_host_joins_actor(struct am_actor *actor, uint64_t step)
{
    uint64_t own;

    works_force(actor, NULL);
    own = am_clock_get(&actor->clock, actor->number);
    /* What another thread queued meanwhile was not waited for. */
    if (step != 0 && own > step && TAILQ_EMPTY(&actor->works))
        am_clock_set(&actor->clock, actor->number, step);
    am_clock_join(&host.clock, &actor->clock);
    am_clock_set(&actor->clock, actor->number, own);
    actor->is_vague = false;
    host.version++;
}

void am_host_joins_signal(struct am_signal *signal)
{
    struct am_actor *actor;
    struct am_work *work;
    struct am_work *next;

    all_progress();
    /* The record ran, so everything before it did. */
    TAILQ_FOREACH (actor, &am_actors, link) {
        for (work = TAILQ_FIRST(&actor->works); work != NULL; work = next) {
            next = TAILQ_NEXT(work, link);
            if (work->type == AM_WORK_RECORD && work->signal == signal) {
                works_force(actor, next);
                break;
            }
        }
    }
    am_clock_join(&host.clock, &signal->clock);
    host.version++;
}

void am_actor_abort(struct am_actor *actor)
{
    struct am_work *work;
    struct am_work *next;

    for (work = TAILQ_FIRST(&actor->works); work != NULL; work = next) {
        next = TAILQ_NEXT(work, link);
        TAILQ_REMOVE(&actor->works, work, link);
        host.n_kept--;
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
    struct am_access free_it = {.actor = HOST, .is_write = true, .area = area->key};
    struct am_actor *actor;
    struct am_work *work;
    uint64_t where;

    if (area->bytes == NULL)
        return false;
    if (am_bytes_conflict(area->bytes, 0, area->size, &free_it, &host.clock, ret_access,
                          &where))
        return true;
    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            const struct am_piece *p = work_uses(work, area->key);

            if (p != NULL && p->bytes == area->bytes && !actor->is_vague) {
                *ret_access = (struct am_access){.actor = actor->number,
                                                 .place = work->place,
                                                 .is_write = p->is_write};
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
    struct am_access touch = {.actor = HOST, .is_write = is_write};
    struct am_actor *actor;
    struct am_work *work;
    uint64_t where;

    if (am_bytes_conflict(bytes, at, 1, &touch, &host.clock, ret_access, &where))
        return true;
    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            const struct am_piece *p = work_at(work, bytes, at, is_write);

            if (p != NULL && !actor->is_vague) {
                *ret_access = (struct am_access){.actor = actor->number,
                                                 .place = work->place,
                                                 .is_write = p->is_write};
                return true;
            }
        }
    }
    return false;
}

void am_bytes_in_flight(struct am_bytes *bytes, am_range_fn each, void *arg)
{
    struct am_actor *actor;
    struct am_work *work;

    am_bytes_undone(bytes, &host.clock, each, arg);
    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            for (size_t i = 0; i < work->n_pieces && !actor->is_vague; i++) {
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
    struct am_actor *actor;
    struct am_work *work;

    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            if (work->signal == signal)
                work->is_vague = true;
        }
    }
    all_progress();
}

void am_host_joins_users(struct am_bytes *bytes)
{
    struct am_actor *actor;

    TAILQ_FOREACH (actor, &am_actors, link) {
        if (am_bytes_were_used_by(bytes, actor->number))
            am_host_joins_actor(actor, 0);
    }
}

bool am_signal_is_in_use(const struct am_signal *signal, struct am_place *ret_place)
{
    struct am_actor *actor;
    struct am_work *work;

    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            if (work->signal == signal && work->type == AM_WORK_WAIT) {
                *ret_place = work->place;
                return true;
            }
        }
    }
    return false;
}
