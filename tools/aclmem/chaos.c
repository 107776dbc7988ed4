/*
 * aclmem run --chaos: the program once for each seed, and which seeds fail.
 *
 * Findings of all seeds are put together: one that is there for every seed is told once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "text.h"

#define SEEDS_MAX 100000

/* "1..50" or "3,7,9": the seeds; NULL after saying what is wrong. */
static long *seeds_parse(const char *text, size_t *ret_n)
{
    long *seeds = malloc(SEEDS_MAX * sizeof *seeds);
    size_t n = 0;

    while (*text != '\0' && n < SEEDS_MAX) {
        char *end;
        long first = strtol(text, &end, 10);
        long last = first;

        if (end == text || first < 0)
            break;
        if (strncmp(end, "..", 2) == 0) {
            text = end + 2;
            last = strtol(text, &end, 10);
            if (end == text)
                break;
        }
        for (long seed = first; seed <= last && n < SEEDS_MAX; seed++)
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
    char patience[24];
    char number[24];
    char *folder = folder_make();
    int rc;

    if (folder == NULL)
        return 1;
    snprintf(number, sizeof number, "%ld", seed);
    run_setup(&setup, check, sizeof check, patience, sizeof patience);
    setup.chaos = number;
    findings->folder = folder;
    json_object_clear(findings->files);
    rc = program_run(argv, &setup, findings, ret_end);
    folder_remove(folder);
    return rc;
}

int chaos_run(char **argv)
{
    struct findings findings;
    size_t n = 0;
    long *seeds = seeds_parse(run_choice.chaos, &n);
    size_t n_failed = 0;
    int code = 0;
    json_t *results = json_array();

    if (seeds == NULL)
        return EXIT_USAGE;
    run_findings(&findings, "");
    for (size_t i = 0; i < n; i++) {
        struct program_end end = {0};
        long long before;
        long long after;
        int rc;

        findings_count(&findings, &before);
        rc = seed_run(argv, seeds[i], &findings, &end);
        if (rc != 0)
            return rc;
        findings_count(&findings, &after);
        json_array_append_new(results,
                              json_pack("{s:I, s:i, s:I}", "seed", (json_int_t)seeds[i],
                                        "exit_code", end.code, "findings",
                                        (json_int_t)(after - before)));
        if (end.code == 0 && after == before)
            continue;
        code = code != 0 ? code : end.code;
        seeds[n_failed++] = seeds[i];
    }
    if (!run_choice.is_quiet) {
        findings_summary(&findings);
        fprintf(stderr, "aclmem: %zu of %zu seeds fail", n_failed, n);
        if (n_failed > 0)
            fprintf(stderr, ": ");
        seeds_print(seeds, n_failed);
        fprintf(stderr, "\n");
    }
    free(seeds);
    if (run_choice.json != NULL) {
        json_t *more = json_pack("{s:o, s:i, s:s}", "seeds", results, "exit_code", code,
                                 "program", argv[0]);

        if (report_json(run_choice.json, &findings, more) != 0)
            code = EXIT_USAGE;
        json_decref(more);
    }
    if (run_choice.junit != NULL &&
        report_junit(run_choice.junit, &findings, argv[0], code) != 0)
        code = EXIT_USAGE;
    code = run_exit_code(n_failed, code);
    findings_close(&findings);
    return code;
}
