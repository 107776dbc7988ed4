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
    struct play_trace calls;
    struct shared *shared;
    const char *function[FUNCTIONS_MAX];
    size_t n_functions;
    uint64_t began;   /* of the recording: times that are printed count from it */
    uint64_t first;   /* begin of the first call */
    uint64_t started; /* of the replay */
} p;

static void refuse(const char *why)
{
    fprintf(stderr, "aclmem replay: %s: %s\n", input_name(p.path), why);
    exit(1);
}

/* ---- turns ---- */

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void turn_wait(const struct play_call *call)
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

static void turn_end(const struct play_call *call)
{
    struct shared *s = p.shared;

    pthread_mutex_lock(&s->lock);
    s->flags[p.calls.place[call - p.calls.call]] |= HAS_ENDED;
    while (s->n_ended < p.calls.n_calls && (s->flags[s->n_ended] & HAS_ENDED) != 0)
        s->n_ended++;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

/* The call's arguments are translated. */
static void turn_begun(const struct play_call *call)
{
    struct shared *s = p.shared;
    uint64_t before;

    pthread_mutex_lock(&s->lock);
    before = s->n_begun;
    s->flags[call - p.calls.call] |= HAS_BEGUN;
    while (s->n_begun < p.calls.n_calls && (s->flags[s->n_begun] & HAS_BEGUN) != 0)
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
static void results_wait(const struct play_call *call)
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
static int64_t bytes_of(const struct play_call *call, struct translation *t)
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

static void result_note(const struct play_call *call, int64_t rc, uint64_t ns,
                        int64_t bytes, bool is_shortened)
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

static void call_play(const struct play_call *call, struct translation *t)
{
    uint64_t argument[TRACE_ARGS_MAX];
    uint64_t begin;
    uint64_t ns;
    int64_t rc;

    t->has_failed = call->result != 0;
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
    translate_done(t, call->function, call->value, argument, rc);
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

    for (size_t i = 0; i < p.calls.n_calls; i++) {
        const struct play_call *call = &p.calls.call[i];

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
    struct thread *thread = play_must(calloc(THREADS_MAX, sizeof *thread));
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
    for (size_t i = 0; i < p.calls.n_calls; i++) {
        size_t k = 0;

        if (p.calls.call[i].process != process)
            continue;
        while (k < n && thread[k].thread != p.calls.call[i].thread)
            k++;
        if (k < n)
            continue;
        if (n == THREADS_MAX)
            refuse("it has a process with more than 4096 threads");
        thread[n].process = process;
        thread[n].thread = p.calls.call[i].thread;
        thread[n++].translation = t;
    }
    for (size_t i = 0; i < n; i++) {
        if (pthread_create(&thread[i].id, NULL, thread_run, &thread[i]) != 0)
            _exit(1);
        if (thread[i].thread == p.calls.report_thread)
            t->report_thread = (uint64_t)thread[i].id;
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(thread[i].id, NULL);
    fflush(NULL);
    _exit(0);
}

/* Half of the memory of this machine. */
static uint64_t host_memory_default(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static void shared_make(void)
{
    uint64_t host_max =
        p.choice->host_memory > 0 ? p.choice->host_memory : host_memory_default();
    size_t size = sizeof *p.shared + p.calls.n_calls;
    pthread_mutexattr_t lock;
    pthread_condattr_t change;

    p.shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p.shared == MAP_FAILED)
        play_must(NULL);
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&p.shared->lock, &lock);
    pthread_mutex_init(&p.shared->names.lock, &lock);
    translate_share(&p.shared->names, host_max);
    pthread_condattr_init(&change);
    pthread_condattr_setpshared(&change, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&p.shared->change, &change);
    for (size_t i = 0; i < p.calls.n_calls; i++) {
        if (function_number(p.calls.call[i].name) == FUNCTIONS_MAX - 1 &&
            p.n_functions < FUNCTIONS_MAX - 1)
            p.function[p.n_functions++] = p.calls.call[i].name;
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
        progress_show("replaying", p.shared->n_ended, p.calls.n_calls);
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
               PLAY_ARRAY_MAX);
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

static void host_memory_report(void)
{
    char max[32];

    fprintf(stderr,
            "aclmem replay: calls that need more than %s of host memory were left out; "
            "--host-memory SIZE raises the limit\n",
            size_text((long long)p.shared->names.host_max, max, sizeof max));
}

int play_calls(const char *path, const struct play_choice *choice)
{
    struct trace *trace = trace_open_or_report("replay", path);
    char why[TRACE_WHY_SIZE];
    size_t n_processes = 0;
    size_t n_children = 0;
    bool is_good;
    double seconds;
    int rc = 0;

    if (trace == NULL)
        return 1;
    p.choice = choice;
    p.path = path;
    if (!play_read(&p.calls, trace, why))
        refuse(why);
    trace_losses_report(trace);
    for (size_t i = 0; i < trace_n_processes(trace); i++)
        n_processes += trace_process_at(trace, i) != NULL;
    if (n_processes > PROCESSES_MAX)
        refuse("it has more than 256 processes");
    shared_make();
    p.began = trace_about(trace)->began;
    p.first = p.calls.n_calls > 0 ? p.calls.call[0].begin : 0;
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
    if (p.shared->names.is_over)
        host_memory_report();
    if (!is_good)
        fprintf(stderr, "aclmem replay: a process of the replay did not end well\n");
    trace_close(trace);
    return is_good && p.shared->n_differences == 0 ? rc : 1;
}
