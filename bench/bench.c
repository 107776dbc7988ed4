/*
 * The benchmark: what we claim to be fast, beside its limit on this machine.
 *
 * Each limit is measured in the same run, in turn with ours, so the ratios hold on a
 * busy machine too.  Each section has a process of its own.  Missed budgets are
 * reported; with --strict they fail the program.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"
#include "report.h"
#include "sections.h"

static const struct section {
    const char *name;
    void (*run)(void *unused);
} sections[] = {
    {"map", bench_map},
    {"phys", bench_phys},
    {"many", bench_many},
    {"processes", bench_processes},
    {"copy", bench_copy},
    {"pages", bench_pages},
    {"stream", bench_stream},
    {"capture", bench_capture},
    {"threads", bench_threads},
    {"pool", bench_pool},
    {"share", bench_share},
    {"call", bench_call},
    {"trace", bench_trace},
    {"check", bench_check},
    {"cuda", bench_cuda},
    {"cuda_threads", bench_cuda_threads},
    {"cuda_capture", bench_cuda_capture},
    {"growth", bench_growth},
};
#define N_SECTIONS (sizeof sections / sizeof sections[0])

struct choice {
    bool is_json;
    bool is_strict;
    unsigned sections; /* a bit for each; 0: all */
};

static bool section_choose(const char *name, struct choice *choice)
{
    for (size_t i = 0; i < N_SECTIONS; i++) {
        if (strcmp(name, sections[i].name) == 0) {
            choice->sections |= 1u << i;
            return true;
        }
    }
    return false;
}

static void usage(FILE *file)
{
    fprintf(file, "usage: aclmem_bench [--json] [--strict] [section...]\n"
                  "  --json     print JSON instead of a table\n"
                  "  --strict   exit with 1 when a budget is missed\n"
                  "sections, all when none is named:");
    for (size_t i = 0; i < N_SECTIONS; i++)
        fprintf(file, " %s", sections[i].name);
    fprintf(file, "\n");
}

/* 0, or what main returns: 2 for a mistake, -1 when help was asked for. */
static int arguments_read(int argc, char **argv, struct choice *choice)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return -1;
        if (strcmp(argv[i], "--json") == 0)
            choice->is_json = true;
        else if (strcmp(argv[i], "--strict") == 0)
            choice->is_strict = true;
        else if (!section_choose(argv[i], choice))
            return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct choice choice = {0};
    int rc = arguments_read(argc, argv, &choice);
    size_t n_missed;

    if (rc != 0) {
        usage(rc < 0 ? stdout : stderr);
        return rc < 0 ? 0 : rc;
    }
    setenv("ACLMEM_EXPLAIN", "0", 0); /* sections leave memory behind */
    report_begin(choice.is_json);
    for (size_t i = 0; i < N_SECTIONS; i++) {
        if (choice.sections == 0 || (choice.sections >> i & 1) != 0)
            apart(sections[i].run, NULL);
    }
    n_missed = report_end();
    return choice.is_strict && n_missed > 0;
}
