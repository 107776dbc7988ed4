/*
 * aclmem_facts: what a libascendcl.so answers to small questions.
 *
 * The program uses the public functions alone, so it runs over the vendor's library on an
 * NPU as over aclmem's: the one that LD_LIBRARY_PATH leads to.  Each question is put by
 * a separate process, which is ended after a time limit; the answer is one line.  Two
 * files of answers are compared by name.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "facts.h"

enum state { NOTHING, INIT, DEVICE };

struct fact {
    const char *name;
    enum state state;
    const char *sentence;
    long (*ask)(void);
};

#define FACT(name_, state_, sentence_, expression_) \
    static long fact_##name_(void) \
    { \
        return (long)(expression_); \
    }
#include "facts.def"
#undef FACT

static const struct fact facts[] = {
#define FACT(name_, state_, sentence_, expression_) \
    {#name_, state_, sentence_, fact_##name_},
#define FACTS_ROWS_ONLY
#include "facts.def"
#undef FACT
};

#define N_FACTS (sizeof facts / sizeof facts[0])

static const struct fact *fact_find(const char *name, size_t n)
{
    for (size_t i = 0; i < N_FACTS; i++) {
        if (strlen(facts[i].name) == n && strncmp(facts[i].name, name, n) == 0)
            return &facts[i];
    }
    return NULL;
}

/* ---- one fact ---- */

/* In a separate process.  What would be done at its end is no part of the answer. */
static int fact_ask(const struct fact *fact)
{
    if (fact->state >= INIT)
        STEP(aclInit, NULL);
    if (fact->state >= DEVICE)
        STEP(aclrtSetDevice, device);
    printf("%ld\n", fact->ask());
    fflush(stdout);
    _exit(0);
}

/* Milliseconds. */
static long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static volatile pid_t asked; /* the process group of the current question */

/* The first line that the process writes, or how it ended; `limit` is in seconds. */
static void answer_read(pid_t child, int fd, long limit, char *answer, size_t size)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};
    long end = now() + limit * 1000;
    size_t n = 0;
    int status;

    while (n < size - 1 && memchr(answer, '\n', n) == NULL) {
        long left = end - now();
        ssize_t got = 0;

        if (left > 0 && poll(&poll_fd, 1, (int)left) > 0)
            got = read(fd, answer + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    answer[n] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    kill(-child, SIGKILL); /* and the processes that it started */
    waitpid(child, &status, 0);
    asked = 0;
    if (n > 0)
        return;
    if (now() >= end)
        snprintf(answer, size, "no answer within %ld seconds", limit);
    else
        snprintf(answer, size, "the process ended by signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Ctrl-C ends the question with the program; both have process groups of their own. */
static void stop(int signal_number)
{
    if (asked > 0)
        kill(-asked, SIGKILL);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Asks `name` of the library in a separate process. */
static int answer_get(const char *name, long limit, char *answer, size_t size)
{
    char number[16];
    int fds[2];
    pid_t child;

    if (pipe(fds) != 0 || (child = fork()) < 0) {
        perror("aclmem_facts");
        return -1;
    }
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR);

        setpgid(0, 0);
        dup2(fds[1], STDOUT_FILENO);
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        snprintf(number, sizeof number, "%d", device);
        execl("/proc/self/exe", "aclmem_facts", "--one", name, number, (char *)NULL);
        _exit(127);
    }
    setpgid(child, child);
    asked = child;
    close(fds[1]);
    answer_read(child, fds[0], limit, answer, size);
    close(fds[0]);
    return 0;
}

/* Facts of the machine that a comparison needs; in a separate process too. */
static int about_print(void)
{
    int32_t major = 0, minor = 0, patch = 0;
    const char *soc;

    STEP(aclInit, NULL);
    STEP(aclrtSetDevice, device);
    soc = soc_name();
    STEP(aclrtGetVersion, &major, &minor, &patch);
    printf("soc %s, runtime %d.%d.%d\n", soc != NULL ? soc : "unknown", major, minor,
           patch);
    fflush(stdout);
    _exit(0);
}

static int all_ask(long limit, FILE *into)
{
    char answer[256];

    if (answer_get("about", limit, answer, sizeof answer) != 0)
        return 1;
    fprintf(into, "# %s\n", answer);
    for (size_t i = 0; i < N_FACTS; i++) {
        if (answer_get(facts[i].name, limit, answer, sizeof answer) != 0)
            return 1;
        fprintf(into, "%s: %s\n", facts[i].name, answer);
        fflush(into);
    }
    return 0;
}

/* ---- two files of answers ---- */

/* The answer to `name` in the file, without its line end; NULL: it has none. */
static const char *answer_in(FILE *file, const char *name, char *line, int size)
{
    size_t n = strlen(name);

    rewind(file);
    while (fgets(line, size, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, name, n) == 0 && strncmp(line + n, ": ", 2) == 0)
            return line + n + 2;
    }
    return NULL;
}

/* Only a number says something of the question itself. */
static bool is_known(const char *answer)
{
    return answer != NULL && answer[0] != '\0' &&
           strspn(answer, "-0123456789") == strlen(answer);
}

/* How many differ. */
static int files_compare(FILE *theirs, FILE *ours)
{
    int agreed = 0, differs = 0, unknown = 0;
    char a[512], b[512];

    for (size_t i = 0; i < N_FACTS; i++) {
        const char *left = answer_in(theirs, facts[i].name, a, sizeof a);
        const char *right = answer_in(ours, facts[i].name, b, sizeof b);

        if (!is_known(left) || !is_known(right)) {
            printf("not known  %s (%s): theirs %s, ours %s\n", facts[i].name,
                   facts[i].sentence, left != NULL ? left : "is missing",
                   right != NULL ? right : "is missing");
            unknown++;
        } else if (strcmp(left, right) != 0) {
            printf("differs    %s (%s): theirs %s, ours %s\n", facts[i].name,
                   facts[i].sentence, left, right);
            differs++;
        } else {
            agreed++;
        }
    }
    printf("%d agreed, %d differ, %d are not known\n", agreed, differs, unknown);
    return differs;
}

static bool has_answers(FILE *file)
{
    char line[512];

    for (size_t i = 0; i < N_FACTS; i++) {
        if (answer_in(file, facts[i].name, line, sizeof line) != NULL)
            return true;
    }
    return false;
}

static FILE *file_open(const char *path)
{
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        fprintf(stderr, "aclmem_facts: ");
        perror(path);
        exit(2);
    }
    if (!has_answers(file)) {
        fprintf(stderr, "aclmem_facts: %s: it has no answer to any question\n", path);
        exit(2);
    }
    rewind(file);
    return file;
}

/* Answers are asked for here where there is no second file.  The exit code is 1 if any differ. */
static int compare(const char *theirs, const char *ours, long limit)
{
    FILE *left = file_open(theirs);
    FILE *right = ours != NULL ? file_open(ours) : tmpfile();
    char soc[64];
    char line[256];

    if (right == NULL || (ours == NULL && fgets(line, sizeof line, left) != NULL &&
                          sscanf(line, "# soc %63[^,]", soc) == 1 &&
                          setenv("ACLMEM_PRODUCT", soc, 0) != 0)) {
        perror("aclmem_facts");
        return 2;
    }
    if (ours == NULL && all_ask(limit, right) != 0)
        return 2;
    return files_compare(left, right) > 0 ? 1 : 0;
}

/* ---- the program ---- */

static int usage(void)
{
    fprintf(stderr, "usage: aclmem_facts [--device N] [--limit SECONDS] [--only FACT]\n"
                    "       aclmem_facts --compare FILE [--with FILE]\n"
                    "       aclmem_facts --list\n");
    return 2;
}

static int list(void)
{
    for (size_t i = 0; i < N_FACTS; i++)
        printf("%s: %s\n", facts[i].name, facts[i].sentence);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int one(const char *name)
{
    const struct fact *fact = fact_find(name, strlen(name));

    if (strcmp(name, "about") == 0)
        return about_print();
    return fact != NULL ? fact_ask(fact) : usage();
}

int main(int argc, char **argv)
{
    const char *theirs = NULL, *ours = NULL, *only = NULL;
    char answer[256];
    long limit = 20;

    if (argc == 4 && strcmp(argv[1], "--one") == 0) {
        device = atoi(argv[3]);
        return one(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "--import") == 0) {
        device = atoi(argv[2]);
        return import_for_another();
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (strcmp(argv[i], "--device") == 0)
            device = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--limit") == 0)
            limit = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--compare") == 0)
            theirs = argv[i + 1];
        else if (strcmp(argv[i], "--with") == 0)
            ours = argv[i + 1];
        else
            return usage();
    }
    if (device < 0 || limit < 1 || (ours != NULL && theirs == NULL))
        return usage();
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    signal(SIGHUP, stop);
    if (only != NULL && fact_find(only, strlen(only)) == NULL) {
        fprintf(stderr,
                "aclmem_facts: there is no question \"%s\"; --list has them all\n", only);
        return 2;
    }
    if (theirs != NULL)
        return compare(theirs, ours, limit);
    if (only == NULL)
        return all_ask(limit, stdout);
    if (answer_get(only, limit, answer, sizeof answer) != 0)
        return 1;
    printf("%s: %s\n", only, answer);
    return 0;
}
