/*
 * aclmem run --chaos: the program once for each seed, and which seeds fail.
 *
 * Findings of all seeds are put together: a finding of every seed is reported once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "run.h"
#include "text.h"

#define SEEDS_MAX 100000
#define SEED_MAX 999999999 /* the largest value of ACLMEM_CHAOS */

/* "1..50" or "3,7,9": the seeds; NULL after saying what is wrong. */
static long *seeds_parse(const char *text, size_t *ret_n)
{
    long *seeds = malloc(SEEDS_MAX * sizeof *seeds);
    size_t n = 0;

    while (*text != '\0') {
        char *end;
        long first = strtol(text, &end, 10);
        long last = first;

        if (end == text || first < 0 || first > SEED_MAX)
            break;
        if (strncmp(end, "..", 2) == 0) {
            text = end + 2;
            last = strtol(text, &end, 10);
            if (end == text || last < first || last > SEED_MAX)
                break;
        }
        if (last - first >= (long)(SEEDS_MAX - n)) {
            usage_fail("run", "--chaos runs at most %d seeds", SEEDS_MAX);
            free(seeds);
            return NULL;
        }
        for (long seed = first; seed <= last; seed++)
            seeds[n++] = seed;
        text = end + (*end == ',');
        if (*end != ',' && *end != '\0')
            break;
    }
    if (*text != '\0' || n == 0) {
        usage_fail("run", "--chaos takes seeds: 1..50, or 3,7");
        free(seeds);
        return NULL;
    }
    *ret_n = n;
    return seeds;
}

/* The seeds in a row: "1..3, 7". */
static void seeds_print(const long *seeds, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;

        while (end + 1 < n && seeds[end + 1] == seeds[end] + 1)
            end++;
        fprintf(stderr, "%s%ld", i > 0 ? ", " : "", seeds[i]);
        if (end > i)
            fprintf(stderr, "..%ld", seeds[end]);
        i = end + 1;
    }
}

static int seed_run(char **argv, long seed, struct findings *findings,
                    struct program_end *ret_end)
{
    struct program_setup setup;
    char check[1024];
    char stall_timeout[24];
    char number[24];
    char *folder = folder_make();
    int rc;

    if (folder == NULL)
        return 1;
    snprintf(number, sizeof number, "%ld", seed);
    run_setup(&setup, check, sizeof check, stall_timeout, sizeof stall_timeout);
    setup.chaos = number;
    findings->folder = folder;
    json_object_clear(findings->files);
    rc = program_run(argv, &setup, findings, ret_end);
    folder_remove(folder);
    return rc;
}

/* The runs of all seeds together. */
struct chaos {
    struct findings findings;
    json_t *results; /* of each seed, for --json */
    long *seeds;     /* the first n_failed failed */
    size_t n_failed;
    size_t n_run; /* seeds that ran to their end */
    int code;     /* of the first run that did not return 0 */
    int stop;     /* the signal with which the user ended it; 0: none */
};

/* Runs the seeds one after the other; 0, or the exit code when the program cannot run. */
static int seeds_run(struct chaos *chaos, char **argv, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct program_end end = {0};
        long long before;
        long long after;
        int rc;

        if (i == 1) /* all runs have the same ulimit -l: the first run reports it */
            setenv("ACLMEM_LOCK_WARNING", "0", 0);
        if (!run_choice.is_silent)
            progress_line("seed", i + 1, n);
        findings_count(&chaos->findings, &before);
        rc = seed_run(argv, chaos->seeds[i], &chaos->findings, &end);
        if (rc != 0)
            return rc;
        chaos->stop = end.stop;
        if (chaos->stop != 0)
            break;
        chaos->n_run++;
        findings_count(&chaos->findings, &after);
        json_array_append_new(chaos->results, json_pack("{s:I, s:i, s:I}", "seed",
                                                        (json_int_t)chaos->seeds[i],
                                                        "exit_code", end.code, "findings",
                                                        (json_int_t)(after - before)));
        if (end.code == 0 && after == before)
            continue;
        chaos->code = chaos->code != 0 ? chaos->code : end.code;
        chaos->seeds[chaos->n_failed++] = chaos->seeds[i];
    }
    return 0;
}

static void chaos_summary(const struct chaos *chaos, size_t n)
{
    findings_summary(&chaos->findings);
    if (chaos->stop != 0)
        fprintf(stderr, "aclmem: stopped by signal %d (%s) after %zu of %zu seeds\n",
                chaos->stop, strsignal(chaos->stop), chaos->n_run, n);
    fprintf(stderr, "aclmem: %zu of %zu seeds fail", chaos->n_failed, chaos->n_run);
    if (chaos->n_failed > 0)
        fprintf(stderr, ": ");
    seeds_print(chaos->seeds, chaos->n_failed);
    fprintf(stderr, "\n");
}

/* --json and --junit; 0, or -1 after saying what is wrong. */
static int chaos_write(const struct chaos *chaos, const char *program)
{
    json_t *more = json_pack("{s:O, s:i, s:o}", "seeds", chaos->results, "exit_code",
                             chaos->code, "program", text_json(program));
    int rc = 0;

    if (run_choice.json != NULL)
        rc |= report_json(run_choice.json, &chaos->findings, more);
    if (run_choice.junit != NULL)
        rc |= report_junit(run_choice.junit, &chaos->findings, program, chaos->code);
    json_decref(more);
    return rc;
}

int chaos_run(char **argv)
{
    struct chaos chaos = {0};
    size_t n = 0;
    int rc;

    chaos.seeds = seeds_parse(run_choice.chaos, &n);
    if (chaos.seeds == NULL)
        return EXIT_USAGE;
    chaos.results = json_array();
    run_findings(&chaos.findings, "");
    rc = seeds_run(&chaos, argv, n);
    if (rc == 0) {
        if (!run_choice.is_silent)
            chaos_summary(&chaos, n);
        rc = chaos_write(&chaos, argv[0]) != 0 ? EXIT_USAGE
             : chaos.stop != 0                 ? 128 + chaos.stop
                               : run_exit_code(chaos.n_failed, chaos.code);
    }
    findings_close(&chaos.findings);
    json_decref(chaos.results);
    free(chaos.seeds);
    return rc;
}
