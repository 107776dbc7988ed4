/*
 * See waits.h.
 *
 * The model has what a stream waits for: the first work of an agent's list is a wait
 * that nothing there has ended.  From it leads a way: the event is recorded by work of
 * another stream, which is behind another wait, and so on.  The chain ends at
 * something that nothing records, or it comes back: a circle.
 */
#include "layer/waits.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/sys.h"
#include "layer/hooks.h"
#include "layer/memory.h"
#include "layer/order.h"
#include "layer/thread.h"

#define POLL_MS 200
#define CHAIN_MAX 32
#define DEPTH_MAX 128 /* streams that wait for each other */

struct am_wait {
    TAILQ_ENTRY(am_wait) link;
    struct am_site site;
    struct am_awaited awaited; /* with references */
    struct am_record *record;  /* of the signal */
    unsigned n_polls;          /* how often the watcher has seen it */
    bool has_timeout; /* only a cycle is reported: the program handles the timeout */
    bool is_reported;
};

static TAILQ_HEAD(, am_wait) waits = TAILQ_HEAD_INITIALIZER(waits); /* am_check.lock */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static pid_t watched; /* the process that has the watcher; a child of fork has none */

/* ---- the way ---- */

/* What the first work of an agent waits for; NULL: it waits for nothing that is known. */
static struct am_work *wait_of(const struct am_agent *agent)
{
    struct am_work *work = TAILQ_FIRST(&agent->works);

    return work != NULL && work->type == AM_WORK_WAIT && work->signal != NULL &&
                   !work->signal->is_shared
               ? work
               : NULL;
}

struct chain {
    struct am_work *work[CHAIN_MAX]; /* the waits, one behind the other */
    size_t n;
    size_t circle; /* where it comes back to; n: it does not */
    bool is_known; /* it ends at a wait that nothing queued can end, or in a circle */
};

/* Whether several streams may record the notify: then the way is not known. */
static bool has_recorders(const struct am_work *wait)
{
    struct am_agent *agent = NULL;
    int n = 0;

    while (wait->record == NULL &&
           (agent = am_recorder_next(NULL, wait->signal, agent)) != NULL)
        n += agent != wait->agent;
    return n > 1;
}

static void chain_follow(struct chain *chain, const struct am_agent *agent)
{
    chain->n = chain->circle = 0;
    chain->is_known = false;
    while (agent != NULL && chain->n < CHAIN_MAX) {
        struct am_work *work = wait_of(agent);

        if (work == NULL)
            return;
        for (size_t i = 0; i < chain->n; i++) {
            if (chain->work[i] == work) {
                chain->circle = i;
                chain->is_known = true;
                return;
            }
        }
        chain->work[chain->n++] = work;
        if (has_recorders(work))
            return;
        agent = am_wait_recorder(work);
    }
    chain->circle = chain->n;
    chain->is_known = agent == NULL;
}

/* ---- telling ---- */

static const char *signal_name(const struct am_signal *signal, char *text, size_t n)
{
    snprintf(text, n, "%s 0x%" PRIx64, signal->is_notify ? "notify" : "event",
             signal->handle);
    return text;
}

static void chain_text(const struct chain *chain, char *text, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < chain->n && at < size; i++) {
        char who[48];
        char what[48];

        at += (size_t)snprintf(
            text + at, size - at, "%s%s waits for %s", i > 0 ? ", " : "",
            am_agent_text(chain->work[i]->agent->number, who, sizeof who),
            signal_name(chain->work[i]->signal, what, sizeof what));
    }
}

/* All threads that wait, for the end of the finding. */
static void others_add(struct am_finding *f, const struct am_wait *reported)
{
    struct am_wait *wait;

    TAILQ_FOREACH (wait, &waits, link) {
        if (wait != reported)
            am_finding_at(f, "this thread waits, too", wait->site);
    }
}

static void wait_report(struct am_wait *wait, const struct chain *chain)
{
    static struct am_finding f; /* under am_check.lock */
    bool is_circle = chain->circle < chain->n;
    char words[512] = "";
    char what[48];

    wait->is_reported = true;
    if (wait->has_timeout && !is_circle)
        return;
    chain_text(chain, words, sizeof words);
    if (chain->n == 0)
        am_finding_begin(&f, AM_KIND_wait_never,
                         "the host waits for %s, and nothing that is queued records it",
                         signal_name(wait->awaited.signal, what, sizeof what));
    else
        am_finding_begin(&f, is_circle ? AM_KIND_deadlock : AM_KIND_wait_never, "%s%s%s",
                         words,
                         is_circle ? ", and so back to the first"
                                   : ", and nothing that is queued records ",
                         is_circle ? ""
                                   : signal_name(chain->work[chain->n - 1]->signal, what,
                                                 sizeof what));
    f.advice = is_circle ? "let every stream record before it waits, or wait in one order"
                         : "queue the record before anything waits for it";
    am_finding_at(&f, "the host waits here", wait->site);
    for (size_t i = is_circle ? chain->circle : 0; i < chain->n; i++)
        am_finding_at(&f, "this stream waits", chain->work[i]->site);
    others_add(&f, wait);
    am_finding_report(&f);
}

static bool uses_bytes(const struct am_agent *agent, const struct am_bytes *bytes)
{
    const struct am_work *work;

    TAILQ_FOREACH (work, &agent->works, link) {
        for (size_t i = 0; i < work->n_pieces; i++) {
            if (work->pieces[i].bytes == bytes)
                return true;
        }
    }
    return false;
}

/* The next agent after `agent` (NULL: the first one) whose pending work the call waits for. */
static struct am_agent *awaited_next(const struct am_wait *wait, struct am_agent *agent)
{
    const struct am_awaited *w = &wait->awaited;

    if (w->signal != NULL)
        return agent == NULL ? am_recorder_next(wait->record, w->signal, NULL) : NULL;
    agent = agent == NULL ? TAILQ_FIRST(&am_agents) : TAILQ_NEXT(agent, link);
    for (; agent != NULL; agent = TAILQ_NEXT(agent, link)) {
        if (TAILQ_EMPTY(&agent->works))
            continue;
        if (w->agent != NULL   ? agent == w->agent
            : w->bytes != NULL ? uses_bytes(agent, w->bytes)
            : w->context != 0  ? agent->context == w->context
                               : w->device < 0 || agent->device == w->device)
            return agent;
    }
    return NULL;
}

static void wait_check(struct am_wait *wait)
{
    const struct am_signal *signal = wait->awaited.signal;
    struct am_agent *agent = awaited_next(wait, NULL);
    struct chain chain = {.is_known = false};

    if (signal != NULL &&
        (signal->is_shared || wait->record == NULL || wait->record->is_complete))
        return;
    if (signal != NULL && agent == NULL)
        wait_report(wait, &chain);
    for (; agent != NULL && !chain.is_known; agent = awaited_next(wait, agent)) {
        chain_follow(&chain, agent);
        if (chain.is_known)
            wait_report(wait, &chain);
    }
}

/* ---- the watcher ---- */

static void waits_check(void)
{
    unsigned limit = (unsigned)am_option_number(AM_OPTION_stall_timeout) * 1000 / POLL_MS;
    struct am_wait *wait;

    /* Time in which the process was stopped does not count: the limit is a number of polls. */
    TAILQ_FOREACH (wait, &waits, link) {
        if (!wait->is_reported && ++wait->n_polls > limit)
            wait_check(wait);
    }
}

void am_waits_sleep_locked(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    am_check_wait(&begun, &until);
}

static uint64_t n_walks;

static void agent_mark(struct am_agent *agent, unsigned depth);

static void record_mark(struct am_record *record, const struct am_signal *signal,
                        unsigned depth)
{
    struct am_agent *agent = am_recorder_next(record, signal, NULL);

    if (agent == NULL && record != NULL)
        record->is_needed = true;
    for (; agent != NULL; agent = am_recorder_next(record, signal, agent))
        agent_mark(agent, depth + 1);
}

/* What the agent's work depends on next, if it is the end of a function. */
static void agent_mark(struct am_agent *agent, unsigned depth)
{
    const struct am_work *first = TAILQ_FIRST(&agent->works);
    const struct am_work *next = am_agent_next_wait(agent);
    struct am_record *record;

    if (first == NULL || agent->marked == n_walks || depth == DEPTH_MAX)
        return;
    agent->marked = n_walks;
    if (next != NULL)
        record_mark(next->record, next->signal, depth);
    if (first->value == NULL ||
        am_value_is_sure(first->value, &agent->clock, &first->host))
        return;
    for (unsigned n = 0; (record = am_value_pending(first->value, n)) != NULL; n++)
        record_mark(record, NULL, depth);
}

static void wait_mark(const struct am_wait *wait)
{
    struct am_agent *agent = NULL;

    n_walks++;
    while ((agent = awaited_next(wait, agent)) != NULL)
        agent_mark(agent, 0);
}

void am_waits_mark(void)
{
    const struct am_wait *wait;

    TAILQ_FOREACH (wait, &waits, link)
        wait_mark(wait);
}

static void *watcher_main(void *arg)
{
    am_check_lock();
    for (;;) {
        while (TAILQ_EMPTY(&waits))
            am_check_wait(&changed, NULL);
        am_check_unlock();
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
        am_check_lock();
        waits_check();
    }
    return NULL;
}

static void watcher_make(void)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    pthread_t thread;

    if (watched == getpid() || pthread_attr_init(&attr) != 0)
        return;
    if (watched != 0) /* the watcher of the parent still seems to wait */
        changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (am_sys_pthread_create(&thread, &attr, watcher_main, NULL) == 0)
        watched = getpid();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

/* Other calls return at once, or end the wait of a stream themselves. */
static bool is_wait(const struct am_call *call)
{
    switch (call->id) {
    case AM_API_aclrtStreamQuery:
    case AM_API_aclrtQueryEvent:
    case AM_API_aclrtQueryEventStatus:
    case AM_API_aclrtQueryEventWaitStatus:
    case AM_API_aclrtEventGetTimestamp:
    case AM_API_aclrtStreamAbort:
    case AM_API_aclrtDeviceTaskAbort:
    case AM_API_aclrtDestroyStreamForce:
    case AM_API_aclrtResetDeviceForce:
        return false;
    default:
        return true;
    }
}

static bool has_timeout(const struct am_call *call)
{
    switch (call->id) {
    case AM_API_aclrtSynchronizeStreamWithTimeout:
    case AM_API_aclrtSynchronizeEventWithTimeout: { /* both begin with a handle */
        AM_ARGS(aclrtSynchronizeEventWithTimeout);
        return a->ms > 0;
    }
    case AM_API_aclrtSynchronizeDeviceWithTimeout: {
        AM_ARGS(aclrtSynchronizeDeviceWithTimeout);
        return a->ms > 0;
    }
    default:
        return false;
    }
}

void am_waits_begin(struct am_call *call, struct am_awaited awaited)
{
    struct am_thread *thread = am_thread_get();
    struct am_wait *wait;

    if (!is_wait(call))
        thread->n_polls++;
    if (am_thread_is_sharing()) /* all work ran in the model, so the wait ends */
        return;
    wait = am_meta_alloc(sizeof *wait);
    if (wait == NULL || thread->wait != NULL) {
        free(wait);
        return;
    }
    wait->site = call->site;
    wait->awaited = awaited;
    wait->record = awaited.signal != NULL ? am_record_get(call->record) : NULL;
    wait->has_timeout = has_timeout(call);
    wait->is_reported = !is_wait(call);
    if (awaited.agent != NULL)
        awaited.agent->refs++;
    if (awaited.signal != NULL)
        awaited.signal->refs++;
    am_bytes_get(awaited.bytes);
    call->wait = thread->wait = wait;
    TAILQ_INSERT_TAIL(&waits, wait, link);
    watcher_make();
    if (TAILQ_FIRST(&waits) == wait)
        pthread_cond_signal(&changed);
    wait_mark(wait);
    pthread_cond_broadcast(&begun);
}

void am_waits_end(struct am_call *call)
{
    struct am_wait *wait = call->wait;

    if (wait == NULL)
        return;
    TAILQ_REMOVE(&waits, wait, link);
    am_agent_put(wait->awaited.agent);
    am_signal_put(wait->awaited.signal);
    am_bytes_put(wait->awaited.bytes);
    am_record_put(wait->record);
    free(wait);
    am_thread_get()->wait = NULL;
}
