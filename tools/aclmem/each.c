/*
 * aclmem run --fail 'PATTERN:each': what a program does when a call fails, for one call
 * after the other.
 *
 * A run without failures yields the calls, the program's output and the duration.
 * Then the program runs again for the first, the second and the last call of each place
 * (all of them with --all), once with that call alone failing and once with all from there
 * on.  A program does well when it reports the failure by its exit code, or goes on to
 * the same output as ever; it does badly when it crashes, hangs, gets a new finding, or
 * ends well with another output.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "run.h"
#include "text.h"

enum verdict { REPORTED, SURVIVED, WRONG, FOUND, HUNG, CRASHED, VERDICTS };

static const char *const verdict_names[] = {"reported",    "survived", "went on wrong",
                                            "new finding", "hung",     "crashed"};

struct trial {
    struct findings findings;
    struct program_end end;
    char *output; /* a file */
    char *folder;
};

/* Runs it once with ACLMEM_FAIL; 0 or the exit code. */
static int trial_run(struct trial *trial, char **argv, const char *fail, double limit)
{
    struct program_setup setup;
    char check[1024];
    char stall_timeout[24];
    int rc;

    memset(trial, 0, sizeof *trial);
    trial->folder = folder_make();
    if (trial->folder == NULL ||
        asprintf(&trial->output, "%s/.output", trial->folder) < 0)
        return 1;
    run_setup(&setup, check, sizeof check, stall_timeout, sizeof stall_timeout);
    setup.layers = "check,fail";
    setup.fail = fail;
    setup.limit = limit;
    setup.output = trial->output;
    setup.follows = false; /* the Nth call is one of this process */
    run_findings(&trial->findings, trial->folder);
    trial->findings.is_silent = true;
    trial->findings.generates = false;
    rc = program_run(argv, &setup, &trial->findings, &trial->end);
    if (rc == 0 && trial->end.stop != 0) {
        fprintf(stderr, "aclmem: stopped by signal %d (%s)\n", trial->end.stop,
                strsignal(trial->end.stop));
        rc = 128 + trial->end.stop;
    }
    return rc;
}

static void trial_end(struct trial *trial)
{
    if (trial->output != NULL)
        remove(trial->output);
    free(trial->output);
    if (trial->folder != NULL)
        folder_remove(trial->folder);
    findings_close(&trial->findings);
}

static bool outputs_differ(const char *one, const char *other)
{
    FILE *a = fopen(one, "re");
    FILE *b = fopen(other, "re");
    bool differ = a == NULL || b == NULL;

    while (!differ) {
        int c = getc(a);

        differ = c != getc(b);
        if (c == EOF)
            break;
    }
    if (a != NULL)
        fclose(a);
    if (b != NULL)
        fclose(b);
    return differ;
}

static bool has_kind(const json_t *list, const char *kind)
{
    json_t *finding;
    size_t i;

    json_array_foreach (list, i, finding) {
        if (strcmp(text_of(finding, "kind"), kind) == 0)
            return true;
    }
    return false;
}

static enum verdict judge(const struct trial *trial, const struct trial *clean)
{
    json_t *finding;
    size_t i;

    if (trial->end.is_hung)
        return HUNG;
    if (trial->end.signal != 0)
        return CRASHED;
    json_array_foreach (trial->findings.list, i, finding) {
        if (!has_kind(clean->findings.list, text_of(finding, "kind")))
            return strcmp(text_of(finding, "kind"), "error-ignored") == 0 ? WRONG : FOUND;
    }
    if (trial->end.code != clean->end.code)
        return REPORTED;
    return outputs_differ(trial->output, clean->output) ? WRONG : SURVIVED;
}

/* Whether the call was made by the function of @CALLER, or below it. */
static bool is_of_caller(const json_t *call)
{
    const json_t *frame;
    size_t i;

    if (run_choice.fail_caller[0] == '\0')
        return true;
    json_array_foreach (json_object_get(call, "stack"), i, frame) {
        if (fnmatch(run_choice.fail_caller, text_of(frame, "function"), 0) == 0)
            return true;
    }
    return false;
}

/* The numbers of the calls to try: first, second and last of each place, or all. */
static json_t *choose(const json_t *calls)
{
    json_t *places = json_object();
    json_t *chosen = json_array();
    const char *key;
    json_t *call;
    json_t *numbers;
    size_t i;

    json_array_foreach (calls, i, call) {
        char *place;

        if (!is_of_caller(call))
            continue;
        place = json_dumps(json_object_get(call, "stack"), JSON_COMPACT);

        numbers = json_object_get(places, place);
        if (numbers == NULL) {
            numbers = json_array();
            json_object_set_new(places, place, numbers);
        }
        json_array_append(numbers, json_object_get(call, "n"));
        free(place);
    }
    json_object_foreach (places, key, numbers) {
        size_t n = json_array_size(numbers);

        for (i = 0; i < n; i++) {
            if (run_choice.is_all || i < 2 || i == n - 1)
                json_array_append(chosen, json_array_get(numbers, i));
        }
    }
    json_decref(places);
    return chosen;
}

static void place_print(const json_t *calls, long long n)
{
    json_t *call;
    json_t *frame;
    size_t i;

    json_array_foreach (calls, i, call) {
        if (number_of(call, "n") != n)
            continue;
        frame = json_array_get(json_object_get(call, "stack"), 0);
        fprintf(stderr, "%s in %s  %s:%lld", text_of(call, "function"),
                text_of(frame, "function"), text_of(frame, "file"),
                number_of(frame, "line"));
    }
}

static void verdict_print(enum verdict verdict, const struct trial *trial, long long n,
                          bool is_lasting, const json_t *calls)
{
    json_t *finding;
    size_t i;

    fprintf(stderr, "aclmem: %s: call %lld%s: ", verdict_names[verdict], n,
            is_lasting ? " and all after it" : "");
    place_print(calls, n);
    if (trial->end.signal != 0 && !trial->end.is_hung)
        fprintf(stderr, ": signal %d", trial->end.signal);
    fprintf(stderr, "\n");
    json_array_foreach (trial->findings.list, i, finding)
        finding_print(finding);
}

/* One call fails, once or from there on. */
static int one(char **argv, const char *pattern, long long n, bool is_lasting,
               const struct trial *clean, size_t *counts, json_t *results)
{
    double limit = clean->end.seconds * 10 > 5 ? clean->end.seconds * 10 : 5;
    struct trial trial;
    enum verdict verdict;
    char fail[256];
    int rc;

    snprintf(fail, sizeof fail, "%s:%lld%s%s", pattern, n, is_lasting ? "+" : "",
             run_choice.fail_code);
    rc = trial_run(&trial, argv, fail, limit);
    if (rc == 0) {
        verdict = judge(&trial, clean);
        counts[verdict]++;
        if (!run_choice.is_silent && verdict >= WRONG)
            verdict_print(verdict, &trial, n, is_lasting, clean->findings.calls);
        json_array_append_new(results,
                              json_pack("{s:I, s:b, s:s, s:i, s:O}", "call",
                                        (json_int_t)n, "lasting", is_lasting, "verdict",
                                        verdict_names[verdict], "exit_code",
                                        trial.end.code, "findings", trial.findings.list));
    }
    trial_end(&trial);
    return rc;
}

static void summary(const size_t *counts)
{
    const char *between = " ";

    fprintf(stderr, "aclmem: calls that failed:");
    for (int i = 0; i < VERDICTS; i++) {
        if (counts[i] == 0)
            continue;
        fprintf(stderr, "%s%zu %s%s", between, counts[i], verdict_names[i],
                i == FOUND && counts[i] > 1 ? "s" : "");
        between = ", ";
    }
    fprintf(stderr, "%s\n", between[0] == ' ' ? " none" : "");
}

int each_run(char **argv, const char *pattern)
{
    size_t counts[VERDICTS] = {0};
    json_t *results = json_array();
    struct trial clean;
    json_t *chosen;
    json_t *number;
    char fail[256];
    bool is_wrong = false;
    size_t i;
    int rc;

    snprintf(fail, sizeof fail, "%s:list", pattern);
    rc = trial_run(&clean, argv, fail, 0);
    chosen = choose(clean.findings.calls);
    if (rc == 0 && !run_choice.is_silent)
        fprintf(
            stderr,
            "aclmem: calls that match %s: %zu; calls that fail in turn, each alone and "
            "with all later calls: %zu\n",
            pattern, json_array_size(clean.findings.calls), json_array_size(chosen));
    if (rc == 0 && json_array_size(chosen) == 0 && run_choice.fail_caller[0] != '\0') {
        fprintf(stderr, "aclmem run: --fail: \"%s\" makes none of them\n",
                run_choice.fail_caller);
        is_wrong = true;
    }
    json_array_foreach (chosen, i, number) {
        if (!run_choice.is_silent)
            progress_line("call", i + 1, json_array_size(chosen));
        for (int is_lasting = 0; is_lasting < 2 && rc == 0; is_lasting++)
            rc = one(argv, pattern, json_integer_value(number), is_lasting, &clean,
                     counts, results);
    }
    if (rc == 0) {
        json_t *more = json_pack("{s:O, s:o, s:i}", "failures", results, "program",
                                 text_json(argv[0]), "exit_code", clean.end.code);

        if (!run_choice.is_silent)
            summary(counts);
        if (run_choice.json != NULL &&
            report_json(run_choice.json, &clean.findings, more) != 0)
            is_wrong = true;
        json_decref(more);
        rc = is_wrong
                 ? EXIT_USAGE
                 : run_exit_code(
                       counts[WRONG] + counts[FOUND] + counts[HUNG] + counts[CRASHED], 0);
    }
    json_decref(chosen);
    json_decref(results);
    trial_end(&clean);
    return rc;
}
