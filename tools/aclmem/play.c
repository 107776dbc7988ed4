/*
 * Replays a recorded trace: the same calls in the same order, by as many threads and
 * processes as there were.
 *
 * A call begins after all calls that ended before it began in the recording; calls that
 * overlapped may overlap.  Handles, addresses, keys and process ids are translated
 * (translate.h).  The program's own memory and functions are not in a trace: copies use
 * memory of the replay, callbacks do nothing.
 *
 * A trace comes from strangers.  Arguments are decoded by the rows of this library
 * (play_calls.c); a trace whose signatures differ is refused.
 */
#include "play.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "output.h"
#include "show.h"
#include "text.h"
#include "translate.h"

#define PROCESSES_MAX 256
#define THREADS_MAX 4096
#define FUNCTIONS_MAX 512
#define ARRAY_MAX 1024u /* elements that a trace has of an array */
/* Bytes of calls in memory: at most this, and as many times the bytes of the file. */
#define CALLS_BASE ((uint64_t)256 << 20)
#define CALLS_RATIO 256u

struct call {
    const struct play_function *function; /* NULL: the call is left out */
    const char *name;
    struct trace_value *value;
    uint64_t begin, end;
    uint64_t turn;    /* number of calls that ended before it began */
    uint64_t n_begun; /* number of calls that began before it ended */
    int64_t result;
    uint32_t process; /* of the recording */
    uint32_t thread;
    bool is_counted; /* it returns an error code: leaving it out is reported */
};

/* The memory that processes of the replay share. */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint64_t n_ended; /* the first n_ended calls, in the order of ends, have ended */
    uint64_t n_begun; /* the same for begins: their arguments are translated */
    uint64_t n_played, n_differences, n_shortened;
    _Atomic uint64_t n_skipped;
    uint64_t live, peak_live, peak_held;
    bool is_failed;  /* a process could not begin */
    bool is_started; /* every process is known by its id */
    struct translate_shared names;
    struct {
        uint64_t n, ns, recorded_ns;
    } stats[FUNCTIONS_MAX];
    char difference[8][256]; /* the first ones */
    uint8_t flags[];         /* for each call */
};

#define HAS_ENDED 1u /* by place in the order of ends */
#define HAS_BEGUN 2u /* by place in the order of begins */

static struct {
    const char *path;
    const struct play_choice *choice;
    struct call *call; /* in the order of their begins */
    size_t n_calls, max_calls;
    uint64_t calls_size; /* bytes */
    uint64_t *place;     /* of a call, in the order of ends */
    struct shared *shared;
    const char *function[FUNCTIONS_MAX];
    size_t n_functions;
    uint32_t report_thread; /* that runs callbacks, in the recording */
    uint64_t began;         /* of the recording: times that are printed count from it */
    uint64_t first;         /* begin of the first call */
    uint64_t started;       /* of the replay */
} p;

/* ---- reading ---- */

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "aclmem: no memory for the trace\n");
        exit(1);
    }
    return memory;
}

static void refuse(const char *why)
{
    fprintf(stderr, "aclmem replay: %s: %s\n", p.path, why);
    exit(1);
}

/*
 * The row of this library for a recorded function; NULL if it has none.  Exits if the
 * trace's signature differs: the same bytes would be other arguments.
 */
static const struct play_function *function_check(const struct trace_function *recorded)
{
    const struct play_function *function = play_function_find(recorded->name);

    if (function == NULL || play_function_agrees(function, recorded))
        return function;
    fprintf(
        stderr,
        "aclmem replay: %s: the trace has other arguments of %s than this version: it "
        "is damaged, or was recorded by another version\n",
        p.path, recorded->name);
    exit(1);
}

/* Exits if an array or a struct has another size than the call's own arguments say. */
static void call_check(const struct call *call)
{
    for (uint32_t i = 0; call->function != NULL && i < call->function->n; i++) {
        const struct play_param *param = &call->function->param[i];
        const struct trace_value *value = &call->value[i];
        size_t size =
            strcmp(param->name, "cfg") == 0 ? sizeof(aclrtMallocAttribute) : param->size;
        uint64_t count = param->count >= 0 ? call->value[param->count].number : 1;
        bool is_right = true;

        if (value->bytes != NULL && param->element == 't')
            is_right = size > 0 && value->size % size == 0 && value->size / size <= count;
        else if (value->bytes != NULL && param->element == 0 && size > 0)
            is_right = strcmp(param->name, "cfg") == 0 ? value->size % size == 0
                                                       : value->size == size;
        else if (value->item != NULL)
            is_right = value->n_items == (count < ARRAY_MAX ? count : ARRAY_MAX);
        if (is_right)
            continue;
        fprintf(stderr,
                "aclmem replay: %s: %s in a call of %s has another length than the call "
                "says: the trace is damaged\n",
                p.path, param->name, call->name);
        exit(1);
    }
}

static void call_add(const struct trace *trace, const struct trace_event *event)
{
    uint32_t n = event->function->n;
    bool is_played = event->function->result == 'r' && event->kind != TRACE_BEGIN;
    struct call *call;

    if (p.n_calls == p.max_calls) {
        p.max_calls = p.max_calls > 0 ? 2 * p.max_calls : 4096;
        p.call = must(realloc(p.call, p.max_calls * sizeof *p.call));
    }
    call = &p.call[p.n_calls++];
    *call = (struct call){
        .function = is_played ? function_check(event->function) : NULL,
        .name = event->function->name,
        .begin = event->begin,
        .end = event->end,
        .result = event->result,
        .process = event->process->number,
        .thread = event->thread,
        .is_counted = event->function->result == 'r',
    };
    p.calls_size += sizeof *call + (n + 1) * sizeof *call->value;
    call->value = must(calloc(n + 1, sizeof *call->value));
    for (uint32_t i = 0; i < n; i++) {
        struct trace_value *value = &call->value[i];

        *value = event->value[i];
        p.calls_size += value->size + value->n_items * sizeof *value->item;
        if (value->bytes != NULL)
            value->bytes =
                memcpy(must(malloc(value->size + 8)), value->bytes, value->size);
        if (value->item != NULL)
            value->item = memcpy(must(malloc((value->n_items + 1) * sizeof *value->item)),
                                 value->item, value->n_items * sizeof *value->item);
    }
    if (p.calls_size > CALLS_BASE + CALLS_RATIO * trace_about(trace)->n_bytes)
        refuse("it has more calls than its size allows: it is damaged");
    call_check(call);
    if (strcmp(event->function->name, "aclrtProcessReport") == 0 && p.report_thread == 0)
        p.report_thread = event->thread;
}

static int begin_compare(const void *left, const void *right)
{
    const struct call *a = left;
    const struct call *b = right;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static int end_compare(const void *left, const void *right)
{
    const struct call *a = *(const struct call *const *)left;
    const struct call *b = *(const struct call *const *)right;

    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool gives_address(const struct play_function *function)
{
    for (uint32_t i = 0; function != NULL && i < function->n; i++) {
        if (function->param[i].letter == 'P')
            return true;
    }
    return false;
}

/*
 * How many calls began before this one ended, for one that gives an address; 0 otherwise,
 * and if its own thread made calls during this call, which are replayed after it.
 */
static size_t begun_count(size_t i)
{
    const struct call *call = &p.call[i];
    size_t n = i + 1;

    if (!gives_address(call->function))
        return 0;
    for (; n < p.n_calls && p.call[n].begin < call->end; n++) {
        if (p.call[n].thread == call->thread && p.call[n].process == call->process)
            return 0;
    }
    return n;
}

/*
 * Turns: a call waits for all calls that ended before it began.  It waits for no call that is
 * behind it in the order of begins, so the replay ends whatever times the trace has.
 */
static void turns_make(void)
{
    struct call **by_end;
    size_t n = 0;

    p.place = must(calloc(p.n_calls + 1, sizeof *p.place));
    if (p.n_calls == 0) /* qsort() takes no NULL */
        return;
    by_end = must(calloc(p.n_calls, sizeof *by_end));
    qsort(p.call, p.n_calls, sizeof *p.call, begin_compare);
    for (size_t i = 0; i < p.n_calls; i++)
        by_end[i] = &p.call[i];
    qsort(by_end, p.n_calls, sizeof *by_end, end_compare);
    for (size_t i = 0; i < p.n_calls; i++)
        p.place[by_end[i] - p.call] = i;
    for (size_t i = 0; i < p.n_calls; i++) {
        while (n < p.n_calls && by_end[n]->end <= p.call[i].begin &&
               by_end[n] < &p.call[i])
            n++;
        p.call[i].turn = n;
        p.call[i].n_begun = begun_count(i);
    }
    free(by_end);
}

/* ---- turns ---- */

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void turn_wait(const struct call *call)
{
    struct shared *s = p.shared;

    pthread_mutex_lock(&s->lock);
    while ((!s->is_started || s->n_ended < call->turn) && !s->is_failed)
        pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (p.choice->is_recorded_speed) {
        uint64_t due = p.started + (call->begin - p.first);
        uint64_t time = now();

        if (time < due)
            nanosleep(&(struct timespec){(time_t)((due - time) / 1000000000),
                                         (long)((due - time) % 1000000000)},
                      NULL);
    }
}

static void turn_end(const struct call *call)
{
    struct shared *s = p.shared;

    pthread_mutex_lock(&s->lock);
    s->flags[p.place[call - p.call]] |= HAS_ENDED;
    while (s->n_ended < p.n_calls && (s->flags[s->n_ended] & HAS_ENDED) != 0)
        s->n_ended++;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

/* The call's arguments are translated. */
static void turn_begun(const struct call *call)
{
    struct shared *s = p.shared;
    uint64_t before;

    pthread_mutex_lock(&s->lock);
    before = s->n_begun;
    s->flags[call - p.call] |= HAS_BEGUN;
    while (s->n_begun < p.n_calls && (s->flags[s->n_begun] & HAS_BEGUN) != 0)
        s->n_begun++;
    if (s->n_begun != before)
        pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

/*
 * Before an address or a handle that the call gave is entered: another thread may be about
 * to free the object that had the same one before, and means that object.  Calls that began
 * before this one ended have their arguments then.
 */
static void results_wait(const struct call *call)
{
    struct shared *s = p.shared;

    if (call->n_begun == 0)
        return;
    pthread_mutex_lock(&s->lock);
    while (s->n_begun < call->n_begun && !s->is_failed)
        pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* ---- one call ---- */

static size_t function_number(const char *name)
{
    for (size_t i = 0; i < p.n_functions; i++) {
        if (strcmp(p.function[i], name) == 0)
            return i;
    }
    return FUNCTIONS_MAX - 1;
}

/* Bytes that a call gives or takes; for the peak. */
static int64_t bytes_of(const struct call *call, struct translation *t)
{
    const char *name = call->name;
    bool is_take = strncmp(name, "aclrtMalloc", 11) == 0 ||
                   strcmp(name, "aclrtMemPoolMallocAsync") == 0 ||
                   strcmp(name, "aclrtMemAllocManaged") == 0;

    if (!is_take)
        return -(int64_t)t->freed;
    for (uint32_t i = 0; i < call->function->n; i++) {
        if (strcmp(call->function->param[i].name, "size") == 0)
            return (int64_t)call->value[i].number;
    }
    return 0;
}

static void held_update(void)
{
    size_t free_bytes, total;

    if (aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total) == ACL_SUCCESS &&
        total - free_bytes > p.shared->peak_held)
        p.shared->peak_held = total - free_bytes;
}

static void result_note(const struct call *call, int64_t rc, uint64_t ns, int64_t bytes,
                        bool is_shortened)
{
    struct shared *s = p.shared;
    size_t function = function_number(call->name);

    pthread_mutex_lock(&s->lock);
    s->n_played++;
    s->n_shortened += is_shortened;
    s->stats[function].n++;
    s->stats[function].ns += ns;
    s->stats[function].recorded_ns += call->end - call->begin;
    if (rc == 0) {
        s->live += (uint64_t)bytes;
        if (s->live > s->peak_live)
            s->peak_live = s->live;
        if (bytes > 0)
            held_update();
    }
    if (rc != call->result) {
        if (s->n_differences < 8)
            snprintf(s->difference[s->n_differences], sizeof s->difference[0],
                     "%s at %.6f s returned %" PRId64 ", and %" PRId64
                     " in the recording",
                     call->name, (double)(call->begin - p.began) / 1e9, rc, call->result);
        s->n_differences++;
    }
    pthread_mutex_unlock(&s->lock);
}

static void call_play(const struct call *call, struct translation *t)
{
    uint64_t argument[TRACE_ARGS_MAX];
    uint64_t begin;
    uint64_t ns;
    int64_t rc;

    if (call->function == NULL ||
        !translate_arguments(t, call->function, call->value, argument)) {
        turn_begun(call);
        if (call->is_counted)
            atomic_fetch_add(&p.shared->n_skipped, 1);
        return;
    }
    turn_begun(call);
    begin = now();
    rc = call->function->call(argument);
    ns = now() - begin;
    if (rc == 0) {
        results_wait(call);
        translate_results(t, call->function, call->value, argument);
    }
    result_note(call, rc, ns, bytes_of(call, t), t->is_shortened);
}

/* ---- threads and processes ---- */

struct thread {
    pthread_t id;
    uint32_t process, thread;
    struct translation *translation;
};

static void *thread_run(void *arg)
{
    struct thread *thread = arg;
    struct translation t = *thread->translation;

    for (size_t i = 0; i < p.n_calls; i++) {
        const struct call *call = &p.call[i];

        if (call->process != thread->process || call->thread != thread->thread)
            continue;
        turn_wait(call);
        call_play(call, &t);
        turn_end(call);
    }
    translate_end(&t);
    return NULL;
}

/* All calls of a process of the recording, in a separate process. */
static void process_run(uint32_t process)
{
    struct thread *thread = must(calloc(THREADS_MAX, sizeof *thread));
    struct translation *t = translate_begin(&p.shared->names);
    size_t n = 0;

    if (aclInit(NULL) != ACL_SUCCESS) {
        fprintf(stderr, "aclmem replay: aclInit: %s\n", aclGetRecentErrMsg());
        pthread_mutex_lock(&p.shared->lock);
        p.shared->is_failed = true;
        pthread_cond_broadcast(&p.shared->change);
        pthread_mutex_unlock(&p.shared->lock);
        _exit(1);
    }
    for (size_t i = 0; i < p.n_calls; i++) {
        size_t k = 0;

        if (p.call[i].process != process)
            continue;
        while (k < n && thread[k].thread != p.call[i].thread)
            k++;
        if (k < n)
            continue;
        if (n == THREADS_MAX)
            refuse("it has a process with more than 4096 threads");
        thread[n].process = process;
        thread[n].thread = p.call[i].thread;
        thread[n++].translation = t;
    }
    for (size_t i = 0; i < n; i++) {
        if (pthread_create(&thread[i].id, NULL, thread_run, &thread[i]) != 0)
            _exit(1);
        if (thread[i].thread == p.report_thread)
            t->report_thread = (uint64_t)thread[i].id;
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(thread[i].id, NULL);
    fflush(NULL);
    _exit(0);
}

static void shared_make(void)
{
    size_t size = sizeof *p.shared + p.n_calls;
    pthread_mutexattr_t lock;
    pthread_condattr_t change;

    p.shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p.shared == MAP_FAILED)
        must(NULL);
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&p.shared->lock, &lock);
    pthread_mutex_init(&p.shared->names.lock, &lock);
    pthread_condattr_init(&change);
    pthread_condattr_setpshared(&change, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&p.shared->change, &change);
    for (size_t i = 0; i < p.n_calls; i++) {
        if (function_number(p.call[i].name) == FUNCTIONS_MAX - 1 &&
            p.n_functions < FUNCTIONS_MAX - 1)
            p.function[p.n_functions++] = p.call[i].name;
    }
}

/* Devices are as in the trace, unless the user's options say otherwise. */
static void options_set(const struct trace_process *process)
{
    static const char *const names[] = {"ACLMEM_PRODUCT", "ACLMEM_DEVICES",
                                        "ACLMEM_MEMORY", "ACLMEM_RULES"};
    json_t *about = json_loads(process->about != NULL ? process->about : "{}", 0, NULL);
    const json_t *options = json_object_get(about, "options");

    if (p.choice->backend != NULL)
        setenv("ACLMEM_BACKEND", p.choice->backend, 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (text_of(options, names[i])[0] != '\0')
            setenv(names[i], text_of(options, names[i]), 0);
    }
    unsetenv("ACLMEM_LAYERS");
    json_decref(about);
}

/* Waits for all; false when one of them did not end well. */
static bool children_wait(size_t n)
{
    bool is_good = true;

    while (n > 0) {
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG);

        if (child > 0) {
            n--;
            if (status != 0) { /* others may wait for it */
                pthread_mutex_lock(&p.shared->lock);
                p.shared->is_failed = true;
                pthread_cond_broadcast(&p.shared->change);
                pthread_mutex_unlock(&p.shared->lock);
                is_good = false;
            }
            continue;
        }
        progress_show("replaying", p.shared->n_ended, p.n_calls);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    progress_end();
    return is_good;
}

/* ---- the result ---- */

static void result_print(double seconds)
{
    const struct shared *s = p.shared;
    char live[32], held[32];

    printf("%" PRIu64 " calls, %" PRIu64 " results differ", s->n_played,
           s->n_differences);
    if (s->n_skipped > 0)
        printf(", %" PRIu64 " calls were left out", s->n_skipped);
    if (s->n_shortened > 0)
        printf(", %" PRIu64 " with the first %u elements of their arrays", s->n_shortened,
               ARRAY_MAX);
    printf("\npeak live   %s\npeak held   %s\ntime        %.3f s\n",
           size_text((long long)s->peak_live, live, sizeof live),
           size_text((long long)s->peak_held, held, sizeof held), seconds);
    for (uint64_t i = 0; i < s->n_differences && i < 8; i++)
        printf("differs: %s\n", s->difference[i]);
    printf("%-40s %10s %12s %12s\n", "function", "calls", "ns a call", "recorded");
    for (size_t i = 0; i < p.n_functions; i++) {
        if (s->stats[i].n > 0)
            printf("%-40s %10" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", p.function[i],
                   s->stats[i].n, s->stats[i].ns / s->stats[i].n,
                   s->stats[i].recorded_ns / s->stats[i].n);
    }
}

static int result_json(double seconds)
{
    const struct shared *s = p.shared;
    json_t *functions = json_object();
    json_t *all;
    int rc;

    for (size_t i = 0; i < p.n_functions; i++) {
        if (s->stats[i].n > 0)
            json_object_set_new(functions, p.function[i],
                                json_pack("{s:I, s:I, s:I}", "calls",
                                          (json_int_t)s->stats[i].n, "ns",
                                          (json_int_t)s->stats[i].ns, "recorded_ns",
                                          (json_int_t)s->stats[i].recorded_ns));
    }
    all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "calls",
                    (json_int_t)s->n_played, "differences", (json_int_t)s->n_differences,
                    "skipped", (json_int_t)s->n_skipped, "shortened",
                    (json_int_t)s->n_shortened, "peak_live", (json_int_t)s->peak_live,
                    "peak_held", (json_int_t)s->peak_held, "seconds", seconds,
                    "functions", functions);
    rc = json_write("replay", p.choice->json, all, JSON_INDENT(2));
    json_decref(all);
    return rc;
}

int play_calls(const char *path, const struct play_choice *choice)
{
    struct trace *trace = trace_open_or_report("replay", path);
    struct trace_event event;
    size_t n_processes = 0;
    size_t n_children = 0;
    bool is_good;
    double seconds;
    int rc = 0;

    if (trace == NULL)
        return 1;
    p.choice = choice;
    p.path = path;
    while (trace_next(trace, &event)) {
        if (event.kind == TRACE_CALL || event.kind == TRACE_END)
            call_add(trace, &event);
    }
    trace_losses_report(trace);
    for (size_t i = 0; i < trace_n_processes(trace); i++)
        n_processes += trace_process_at(trace, i) != NULL;
    if (n_processes > PROCESSES_MAX)
        refuse("it has more than 256 processes");
    turns_make();
    shared_make();
    p.began = trace_about(trace)->began;
    p.first = p.n_calls > 0 ? p.call[0].begin : 0;
    p.started = now();
    fflush(NULL);
    for (size_t i = 0; i < trace_n_processes(trace); i++) {
        const struct trace_process *process = trace_process_at(trace, i);
        pid_t child;

        if (process == NULL)
            continue;
        child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* Ctrl-C ends all of them */
            options_set(process);
            process_run(process->number);
        }
        n_children += child > 0;
        p.shared->is_failed |= child < 0;
        translate_pid(&p.shared->names, process->pid, child);
    }
    pthread_mutex_lock(&p.shared->lock);
    p.shared->is_started = true;
    pthread_cond_broadcast(&p.shared->change);
    pthread_mutex_unlock(&p.shared->lock);
    is_good = children_wait(n_children) && n_children == n_processes;
    seconds = (double)(now() - p.started) / 1e9;
    if (choice->json != NULL)
        rc = result_json(seconds);
    else
        result_print(seconds);
    if (!is_good)
        fprintf(stderr, "aclmem replay: a process of the replay did not end well\n");
    trace_close(trace);
    return is_good && p.shared->n_differences == 0 ? rc : 1;
}
