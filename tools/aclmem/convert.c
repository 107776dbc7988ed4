/*
 * aclmem convert: a trace in the form of another tool, and traces of other tools.
 */
#include "convert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "names.h"
#include "output.h"
#include "show.h"

static struct {
    const char *to;
    const char *of;
    const char *output;
    bool is_replacing;
} choice;

#define FORMS "folded|speedscope|perfetto|pytorch|csv|chrome|lines"

const char *const of_names[OF_COUNT] = {"peak", "allocated", "calls", "time"};

uint64_t where_value(const struct where *where, enum of of)
{
    switch (of) {
    case OF_PEAK:
        return where->at_peak;
    case OF_ALLOCATED:
        return where->allocated;
    case OF_CALLS:
        return where->n_calls;
    default:
        return where->ns;
    }
}

/* ---- memory over time ---- */

static int step_compare(const void *left, const void *right)
{
    const struct step *a = left;
    const struct step *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int64_t)a->bytes < (int64_t)b->bytes ? -1 : 1; /* frees, negative, first */
}

struct step *steps_make(const struct history *history, size_t *ret_n)
{
    struct step *step = calloc(2 * history->n_blocks + 1, sizeof *step);
    uint64_t live[256] = {0};
    size_t n = 0;

    *ret_n = 0;
    if (step == NULL)
        return NULL;
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (!kind_is_memory(block->kind) || block->device < -1 || block->device > 254)
            continue;
        step[n++] = (struct step){block->made, block->device, block->size};
        if (block->freed != 0)
            step[n++] = (struct step){block->freed, block->device, -block->size};
    }
    qsort(step, n, sizeof *step, step_compare);
    for (size_t i = 0; i < n; i++)
        step[i].bytes = live[step[i].device + 1] += step[i].bytes;
    *ret_n = n;
    return step;
}

/* ---- forms ---- */

static const struct form {
    const char *name;
    bool is_by_calls;
    void (*by_blocks)(FILE *out, struct history *history);
    void (*by_calls)(FILE *out, struct history *history, struct trace *trace);
} forms[] = {
    {"folded", false, NULL, NULL},
    {"speedscope", false, write_speedscope, NULL},
    {"perfetto", true, NULL, write_perfetto},
    {"pytorch", false, write_pytorch, NULL},
    {"csv", true, NULL, write_csv},
    {"chrome", true, NULL, write_chrome},
    {"lines", false, write_lines, NULL},
};

#define N_FORMS (sizeof forms / sizeof forms[0])

static const struct form *form_find(const char *name)
{
    for (size_t i = 0; i < N_FORMS; i++) {
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    }
    return NULL;
}

static enum of of_find(const char *name)
{
    enum of of = OF_PEAK;

    while (name != NULL && strcmp(of_names[of], name) != 0)
        of++;
    return of;
}

static int failed(const char *path, const char *why)
{
    fprintf(stderr, "aclmem convert: %s: %s\n", path, why);
    return 1;
}

static int form_write(const struct form *form, const char *path, FILE *out)
{
    char why[TRACE_WHY_SIZE];
    struct trace *trace;
    struct history history;
    int rc = 0;

    if (!history_load("convert", path, &history, &trace))
        return 1;
    if (form->is_by_calls && trace == NULL)
        rc = failed(path, "it has blocks and no calls; it can be made folded, "
                          "speedscope, pytorch, lines");
    else if (form->is_by_calls && trace_rewind(trace, why))
        form->by_calls(out, &history, trace);
    else if (form->by_blocks != NULL)
        form->by_blocks(out, &history);
    else
        write_folded(out, &history, of_find(choice.of));
    history_free(&history);
    trace_close(trace);
    names_close();
    return rc;
}

static int convert_run(int argc, char **argv)
{
    const struct form *form = choice.to != NULL ? form_find(choice.to) : NULL;
    const char *path;
    FILE *out;
    int rc;

    if (argc != 1)
        return usage_fail("convert", "which file?");
    if (form == NULL)
        return usage_fail("convert", "--to is missing: it takes %s", FORMS);
    if (choice.of != NULL && strcmp(form->name, "folded") != 0)
        return usage_fail("convert", "--of is for --to folded; %s %s", form->name,
                          strcmp(form->name, "speedscope") == 0
                              ? "has all four"
                              : "has all calls or blocks");
    out = output_open("convert", choice.output, choice.is_replacing);
    if (out == NULL)
        return 1;
    path = input_path("convert", argv[0]);
    rc = path != NULL ? form_write(form, path, out) : 1;
    return output_close(out, rc);
}

static const struct option options[] = {
    {"to", OPTION_WORD, &choice.to, FORMS,
     "Write this form: folded is for flame graphs, pytorch for its\n"
     "memory_viz page, lines are \"a ID SIZE STREAM\" and \"f ID\"",
     0},
    {"of", OPTION_WORD, &choice.of, "peak|allocated|calls|time",
     "With --to folded: bytes at the peak (default), bytes\nallocated, calls, or time",
     0},
    {"output", OPTION_TEXT, &choice.output, "FILE",
     "Write FILE instead of standard output", 'o'},
    {"force", OPTION_FLAG, &choice.is_replacing, NULL, "Replace an existing FILE", 0},
    {0},
};

const struct command convert_command = {
    .name = "convert",
    .group = GROUP_TRACE,
    .operands = "FILE",
    .help = "Convert a trace of aclmem, PyTorch (JSON, pickle), RMM, or lines",
    .options = options,
    .examples =
        "  aclmem convert run.trace --to perfetto -o run.pftrace\n"
        "                         Open it in ui.perfetto.dev\n"
        "  aclmem convert snapshot.pickle --to folded | flamegraph.pl > peak.svg\n"
        "                         Draw who held the memory at the peak\n",
    .run = convert_run,
};
