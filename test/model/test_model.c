/*
 * The library against the model, on random calls.
 *
 *     test_model_random [--seed N] [--seeds N] [--steps N] [--rules default|strict]
 *                       [--devices N] [--memory SIZE] [--isolate 0|1]
 *                       [--commit touch|now] [--chaos N] [--threads N]
 *
 * A seed names a run of that many steps.  Seeds that follow each other take turns with
 * device memory of 64 MB to 3 GB: the small ones run out of memory all the time, the
 * large one has room for 1 GB pages.  On a difference the program shows the calls that
 * led to it and exits with 1; the seed, the steps and the options printed at the start
 * repeat it.
 *
 * With --threads that many seeds run at once, a thread each, on one library and one set
 * of devices.  Ranges, handles, mappings and contexts are each thread's alone, so their
 * models stay exact; the devices' free memory is everybody's, so an allocation may fail
 * at any time, and may never succeed beyond what the thread itself leaves free.
 */
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclmem/aclmem.h"

enum { MAX_THREADS = 64, CHECK_EVERY = 256 };

struct settings {
    uint64_t seed;
    uint64_t n_seeds;
    uint64_t n_steps;
    uint64_t n_threads; /* 0: the main thread, alone */
    uint64_t n_devices;
    const char *rules;
    const char *memory; /* NULL: by turns */
    const char *isolate;
    const char *commit;
    const char *chaos; /* NULL: streams work at once */
};

static void leave(void)
{
    fflush(stderr);
    _exit(1);
}

static void fail(const char *what, aclError rc)
{
    const char *message = aclGetRecentErrMsg();

    fprintf(stderr, "%s: %d %s\n", what, rc, message != NULL ? message : "");
    exit(1);
}

static const char *memory_of(const struct settings *set, uint64_t seed)
{
    static const char *const turns[] = {"64M", "256M", "128M", "3G"};

    return set->memory != NULL ? set->memory : turns[seed % 4];
}

static size_t bytes_of(const char *memory)
{
    char *unit;
    size_t n = strtoull(memory, &unit, 10);

    return *unit == 'G' ? n << 30 : *unit == 'M' ? n << 20 : n;
}

/* Options are read by aclInit, so each run may have its own. */
static void start_library(const struct settings *set, const char *memory)
{
    char devices[24];
    aclError rc;

    snprintf(devices, sizeof(devices), "%llu", (unsigned long long)set->n_devices);
    setenv("ACLMEM_RULES", set->rules, 1);
    setenv("ACLMEM_DEVICES", devices, 1);
    setenv("ACLMEM_MEMORY", memory, 1);
    setenv("ACLMEM_ISOLATE", set->isolate, 1);
    setenv("ACLMEM_COMMIT", set->commit, 1);
    setenv("ACLMEM_LOG", "error", 1);
    if (set->chaos != NULL)
        setenv("ACLMEM_CHAOS", set->chaos, 1);
    else
        unsetenv("ACLMEM_CHAOS");
    unsetenv("ACLMEM_PRODUCT"); /* the model is that of the default one */
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    rc = aclInit(NULL);
    if (rc != ACL_SUCCESS)
        fail("aclInit", rc);
}

static void stop_library(void)
{
    aclmem_stats stats = {0};
    aclError rc = aclFinalize();

    if (rc != ACL_SUCCESS)
        fail("aclFinalize", rc);
    rc = aclmem_get_stats(&stats);
    if (rc != ACL_SUCCESS || stats.reservations + stats.handles + stats.mappings +
                                     stats.contexts + stats.views !=
                                 0)
        fail("something is alive after aclFinalize", rc);
}

static void drive(const struct settings *set, uint64_t seed, const char *memory)
{
    struct source src = source_of_seed(seed);
    struct run_options opt = {.is_strict = strcmp(set->rules, "strict") == 0,
                              .is_alone = set->n_threads == 0,
                              .is_addressable = strcmp(set->isolate, "0") == 0,
                              .n_devices = (int)set->n_devices,
                              .memory = bytes_of(memory)};
    struct run *r = calloc(1, sizeof(*r));
    char label[64];

    if (r == NULL)
        abort();
    snprintf(label, sizeof(label), "seed %llu", (unsigned long long)seed);
    run_open(r, &opt, &src, label, leave);
    while (r->step < set->n_steps) {
        run_step(r);
        if (r->step % CHECK_EVERY == 0)
            run_check_all(r);
    }
    run_check_all(r);
    run_tear_down(r);
    run_close(r);
    free(r->host);
    free(r);
}

static void run_alone(const struct settings *set)
{
    for (uint64_t i = 0; i < set->n_seeds; i++) {
        const char *memory = memory_of(set, set->seed + i);

        start_library(set, memory);
        drive(set, set->seed + i, memory);
        stop_library();
    }
}

struct thread {
    pthread_t id;
    const struct settings *set;
    const char *memory;
    uint64_t seed;
};

static void *run_thread(void *arg)
{
    struct thread *t = arg;

    drive(t->set, t->seed, t->memory);
    return NULL;
}

/*
 * The main thread keeps every device alive, so that no thread's reset takes others'
 * memory away.
 */
static void set_all_devices(const struct settings *set)
{
    for (uint64_t i = 0; i < set->n_devices; i++) {
        aclError rc = aclrtSetDevice((int32_t)i);

        if (rc != ACL_SUCCESS)
            fail("aclrtSetDevice", rc);
    }
}

static void run_together(const struct settings *set)
{
    static struct thread threads[MAX_THREADS];
    const char *memory = memory_of(set, 1);
    uint64_t done = 0;

    start_library(set, memory);
    set_all_devices(set);
    while (done < set->n_seeds) {
        uint64_t n =
            set->n_seeds - done < set->n_threads ? set->n_seeds - done : set->n_threads;

        for (uint64_t i = 0; i < n; i++) {
            threads[i] =
                (struct thread){.set = set, .memory = memory, .seed = set->seed + done++};
            if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
                fail("pthread_create", 0);
        }
        for (uint64_t i = 0; i < n; i++)
            pthread_join(threads[i].id, NULL);
    }
    stop_library();
}

static const char *help =
    "usage: %s [--seed N] [--seeds N] [--steps N] [--rules default|strict]\n"
    "          [--devices N] [--memory SIZE] [--isolate 0|1] [--commit touch|now]\n"
    "          [--chaos N] [--threads N]\n";

static bool read_number(const char *text, uint64_t limit, uint64_t *ret_value)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno != 0 || *text == '\0' || *end != '\0' || value > limit)
        return false;
    *ret_value = value;
    return true;
}

static bool read_option(struct settings *set, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t limit;
        uint64_t *number;
        const char **text;
    } options[] = {
        {"--seed", UINT64_MAX / 2, &set->seed, NULL},
        {"--seeds", UINT32_MAX, &set->n_seeds, NULL},
        {"--steps", UINT64_MAX, &set->n_steps, NULL},
        {"--threads", MAX_THREADS, &set->n_threads, NULL},
        {"--devices", MODEL_DEVICES, &set->n_devices, NULL},
        {"--rules", 0, NULL, &set->rules},
        {"--memory", 0, NULL, &set->memory},
        {"--isolate", 0, NULL, &set->isolate},
        {"--commit", 0, NULL, &set->commit},
        {"--chaos", 0, NULL, &set->chaos},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        if (options[i].number != NULL)
            return read_number(value, options[i].limit, options[i].number);
        *options[i].text = value;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct settings set = {.seed = 1,
                           .n_seeds = 1,
                           .n_steps = 20000,
                           .n_devices = 2,
                           .rules = "default",
                           .isolate = "1",
                           .commit = "touch"};

    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || !read_option(&set, argv[i], argv[i + 1])) {
            fprintf(stderr, help, argv[0]);
            return 2;
        }

    printf(
        "seeds %llu to %llu, %llu steps each: rules %s, %llu devices of %s, isolate %s, "
        "commit %s, chaos %s, threads %llu\n",
        (unsigned long long)set.seed, (unsigned long long)(set.seed + set.n_seeds - 1),
        (unsigned long long)set.n_steps, set.rules, (unsigned long long)set.n_devices,
        set.memory != NULL ? set.memory : "64M to 3G", set.isolate, set.commit,
        set.chaos != NULL ? set.chaos : "none", (unsigned long long)set.n_threads);
    fflush(stdout);
    if (set.n_threads > 0)
        run_together(&set);
    else
        run_alone(&set);
    return 0;
}
