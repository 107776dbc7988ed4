/*
 * See waits.h.
 *
 * What a stream waits for is in the books: the first work of an actor's list is a wait
 * that nothing there has ended.  From it leads a way: the event is recorded by work of
 * another stream, which stands behind a wait of its own, and so on.  The way ends at
 * something that nothing records, or it comes back: a circle.
 */
#include "layer/waits.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "base/sys.h"
#include "layer/order.h"
#include "layer/thread.h"

#define LOOK_MS 200
#define WAY_MAX 32

struct am_wait {
    TAILQ_ENTRY(am_wait) link;
    struct am_place place;
    struct am_actor *actor;   /* what is waited for */
    struct am_signal *signal; /* or this */
    int16_t device;           /* or all streams of this device */
    unsigned looks;           /* how often the watcher has seen it */
    bool is_told;
};

static TAILQ_HEAD(, am_wait) waits = TAILQ_HEAD_INITIALIZER(waits); /* the books' lock */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool has_watcher;

/* ---- the way ---- */

/* The actor whose list has the record that would end a wait for the signal. */
static struct am_actor *recorder_find(const struct am_signal *signal)
{
    struct am_actor *actor;
    struct am_work *work;

    TAILQ_FOREACH (actor, &am_actors, link) {
        TAILQ_FOREACH (work, &actor->works, link) {
            if (work->type == AM_WORK_RECORD && work->signal == signal)
                return actor;
        }
    }
    return NULL;
}

/* What the first work of an actor waits for; NULL: it waits for nothing that is known. */
static struct am_work *wait_of(const struct am_actor *actor)
{
    struct am_work *work = TAILQ_FIRST(&actor->works);

    return work != NULL && work->type == AM_WORK_WAIT && !work->signal->is_shared ? work
                                                                                  : NULL;
}

struct way {
    struct am_work *work[WAY_MAX]; /* the waits, one behind the other */
    size_t n;
    size_t circle; /* where it comes back to; n: it does not */
    bool is_known; /* it ends at a wait that nothing queued can end, or in a circle */
};

static void way_go(struct way *way, const struct am_actor *actor)
{
    way->n = way->circle = 0;
    way->is_known = false;
    while (actor != NULL && way->n < WAY_MAX) {
        struct am_work *work = wait_of(actor);

        if (work == NULL)
            return;
        for (size_t i = 0; i < way->n; i++) {
            if (way->work[i] == work) {
                way->circle = i;
                way->is_known = true;
                return;
            }
        }
        way->work[way->n++] = work;
        actor = recorder_find(work->signal);
    }
    way->circle = way->n;
    way->is_known = actor == NULL;
}

/* ---- telling ---- */

static const char *signal_name(const struct am_signal *signal, char *text, size_t n)
{
    snprintf(text, n, "%s 0x%" PRIx64, signal->is_notify ? "notify" : "event",
             signal->handle);
    return text;
}

static void way_words(const struct way *way, char *text, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < way->n && at < size; i++) {
        char who[48];
        char what[48];

        at +=
            (size_t)snprintf(text + at, size - at, "%s%s waits for %s", i > 0 ? ", " : "",
                             am_actor_text(way->work[i]->actor->number, who, sizeof who),
                             signal_name(way->work[i]->signal, what, sizeof what));
    }
}

/* All threads that wait, for the end of the finding. */
static void others_add(struct am_finding *f, const struct am_wait *told)
{
    struct am_wait *wait;

    TAILQ_FOREACH (wait, &waits, link) {
        if (wait != told)
            am_finding_at(f, "this thread waits, too", wait->place);
    }
}

static void wait_tell(struct am_wait *wait, const struct way *way)
{
    static struct am_finding f; /* under the books' lock */
    bool is_circle = way->circle < way->n;
    char words[512] = "";
    char what[48];

    way_words(way, words, sizeof words);
    if (way->n == 0)
        am_finding_begin(&f, AM_KIND_wait_never,
                         "the host waits for %s, and nothing that is queued records it",
                         signal_name(wait->signal, what, sizeof what));
    else
        am_finding_begin(
            &f, is_circle ? AM_KIND_deadlock : AM_KIND_wait_never, "%s%s%s", words,
            is_circle ? ", and so back to the first"
                      : ", and nothing that is queued records ",
            is_circle ? ""
                      : signal_name(way->work[way->n - 1]->signal, what, sizeof what));
    f.advice = is_circle ? "let every stream record before it waits, or wait in one order"
                         : "queue the record before anything waits for it";
    am_finding_at(&f, "the host waits here", wait->place);
    for (size_t i = is_circle ? way->circle : 0; i < way->n; i++)
        am_finding_at(&f, "this stream waits", way->work[i]->place);
    others_add(&f, wait);
    am_finding_tell(&f);
    wait->is_told = true;
}

/* A wait of the host for a stream, a signal, or all streams of a device. */
static void wait_look(struct am_wait *wait)
{
    struct way way = {.is_known = false};
    struct am_actor *actor = wait->actor;

    if (actor == NULL && wait->signal != NULL) {
        if (wait->signal->is_shared || wait->signal->n_run > 0)
            return;
        actor = recorder_find(wait->signal);
        if (actor == NULL) {
            wait_tell(wait, &way);
            return;
        }
    }
    if (actor != NULL) {
        way_go(&way, actor);
        if (way.is_known)
            wait_tell(wait, &way);
        return;
    }
    TAILQ_FOREACH (actor, &am_actors, link) {
        if (actor->device != wait->device || TAILQ_EMPTY(&actor->works))
            continue;
        way_go(&way, actor);
        if (way.is_known) {
            wait_tell(wait, &way);
            return;
        }
    }
}

/* ---- the watcher ---- */

static void all_look(void)
{
    unsigned patience = (unsigned)am_option_number(AM_OPTION_patience) * 1000 / LOOK_MS;
    struct am_wait *wait;

    /* Time in which the process stood still does not count: patience is spent in looks. */
    TAILQ_FOREACH (wait, &waits, link) {
        if (!wait->is_told && ++wait->looks > patience)
            wait_look(wait);
    }
}

AM_NO_LOCK_ANALYSIS static void *watcher_main(void *arg)
{
    am_lock(&am_books.lock);
    for (;;) {
        struct timespec until;

        while (TAILQ_EMPTY(&waits))
            pthread_cond_wait(&changed, &am_books.lock.mutex);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&changed, &am_books.lock.mutex, &until);
        all_look();
    }
    return NULL;
}

static void watcher_make(void)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    pthread_t thread;

    if (has_watcher || pthread_attr_init(&attr) != 0)
        return;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    has_watcher = am_sys_pthread_create(&thread, &attr, watcher_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

void am_waits_begin(struct am_call *call, struct am_actor *actor,
                    struct am_signal *signal)
{
    struct am_thread *thread = am_thread_get();
    struct am_wait *wait = am_sys_calloc(1, sizeof *wait);

    if (wait == NULL || thread->wait != NULL) {
        free(wait);
        return;
    }
    wait->place = am_here(call);
    wait->actor = actor;
    wait->signal = signal;
    wait->device = call->device;
    if (actor != NULL)
        actor->refs++;
    if (signal != NULL)
        signal->refs++;
    thread->wait = wait;
    TAILQ_INSERT_TAIL(&waits, wait, link);
    watcher_make();
    if (TAILQ_FIRST(&waits) == wait)
        pthread_cond_signal(&changed);
}

void am_waits_end(struct am_call *call)
{
    struct am_thread *thread = am_thread_get();
    struct am_wait *wait = thread->wait;

    if (wait == NULL)
        return;
    TAILQ_REMOVE(&waits, wait, link);
    am_actor_put(wait->actor);
    am_signal_put(wait->signal);
    free(wait);
    thread->wait = NULL;
}
