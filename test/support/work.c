#include "work.h"

#include "support.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gate_pass(void *arg)
{
    struct gate *gate = arg;

    pthread_mutex_lock(&gate->mutex);
    gate->n_in++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->n_out++;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->changed);
    while (gate->n_out < gate->n_in)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

void gate_await(struct gate *gate, unsigned n)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->n_in < n)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

unsigned gate_passed(struct gate *gate)
{
    unsigned n;

    pthread_mutex_lock(&gate->mutex);
    n = gate->n_out;
    pthread_mutex_unlock(&gate->mutex);
    return n;
}

void hold(aclrtStream stream, struct gate *gate)
{
    unsigned n;

    pthread_mutex_lock(&gate->mutex);
    n = gate->n_in;
    pthread_mutex_unlock(&gate->mutex);
    assert_acl_ok(aclrtLaunchHostFunc(stream, gate_pass, gate));
    gate_await(gate, n + 1);
}

struct gate *gate_close(aclrtStream stream)
{
    struct gate *gate = malloc(sizeof(*gate));

    assert_non_null(gate);
    *gate = (struct gate)GATE_INIT;
    gate->stream = stream;
    assert_acl_ok(aclrtLaunchHostFunc(stream, gate_pass, gate));
    return gate;
}

void gate_end_to(struct gate *gate, aclError code)
{
    gate_open(gate);
    assert_acl(aclrtSynchronizeStream(gate->stream), code);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->mutex);
    free(gate);
}

void gate_end(struct gate *gate)
{
    gate_end_to(gate, ACL_SUCCESS);
}

/* ---- marks ---- */

void mark_down(struct marks *marks, char letter)
{
    pthread_mutex_lock(&marks->mutex);
    if (marks->n < sizeof(marks->text) - 1)
        marks->text[marks->n++] = letter;
    pthread_cond_broadcast(&marks->changed);
    pthread_mutex_unlock(&marks->mutex);
}

struct mark {
    struct marks *marks;
    char letter;
    struct mark *next;
};

static void mark_run(void *arg)
{
    struct mark *mark = arg;

    mark_down(mark->marks, mark->letter);
}

/* A function that is dropped never runs, so marks are freed when the program ends. */
static struct mark *all;
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;

static void free_all(void)
{
    while (all != NULL) {
        struct mark *next = all->next;

        free(all);
        all = next;
    }
}

aclError mark_on(aclrtStream stream, struct marks *marks, char letter)
{
    struct mark *mark = malloc(sizeof(*mark));

    if (mark == NULL)
        abort();
    *mark = (struct mark){.marks = marks, .letter = letter};
    pthread_mutex_lock(&all_mutex);
    if (all == NULL)
        atexit(free_all);
    mark->next = all;
    all = mark;
    pthread_mutex_unlock(&all_mutex);
    return aclrtLaunchHostFunc(stream, mark_run, mark);
}

const char *marks_now(struct marks *marks)
{
    static char text[sizeof(marks->text)];

    pthread_mutex_lock(&marks->mutex);
    memcpy(text, marks->text, marks->n);
    text[marks->n] = '\0';
    pthread_mutex_unlock(&marks->mutex);
    return text;
}

void marks_await(struct marks *marks, unsigned n)
{
    pthread_mutex_lock(&marks->mutex);
    while (marks->n < n)
        pthread_cond_wait(&marks->changed, &marks->mutex);
    pthread_mutex_unlock(&marks->mutex);
}

/* ---- the end of a stream ---- */

static void nothing(void *arg)
{
}

/* The other thread may take long to get there: the later, the fewer functions. */
void await_closing(aclrtStream stream)
{
    aclError rc = aclrtLaunchHostFunc(stream, nothing, NULL);

    for (unsigned n = 1; rc == ACL_SUCCESS; n += n < 1000) {
        for (unsigned i = 0; i < n; i++)
            sched_yield();
        rc = aclrtLaunchHostFunc(stream, nothing, NULL);
    }
    assert_int_equal(rc, ACL_ERROR_RT_INVALID_HANDLE);
}

/* ---- threads ---- */

/*
 * Whether the thread has not begun to exit.  A thread that was joined may stay in the
 * list for a moment: the kernel wakes who joins it before it takes it out.
 */
static bool is_living(const char *thread)
{
    const unsigned pf_exiting = 0x4;
    char path[64], text[512];
    unsigned flags = pf_exiting;
    const char *after_name;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/stat", thread);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(text, sizeof(text), file) != NULL) {
        after_name = strrchr(text, ')');
        assert_non_null(after_name);
        assert_int_equal(sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %u", &flags), 1);
    }
    fclose(file);
    return (flags & pf_exiting) == 0;
}

unsigned n_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.' && is_living(entry->d_name);
    closedir(dir);
    return n;
}
