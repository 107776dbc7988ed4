/*
 * What was measured, as a table for people or as JSON.
 *
 * A row is a claim: ours, the limit it is held against, and the budget.  A row without a
 * budget is there to be read.  The growth table has no limits: each number stands beside
 * that for one object.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

enum budget {
    BUDGET_NONE,
    BUDGET_AT_MOST,  /* ours <= budget * limit */
    BUDGET_AT_LEAST, /* ours >= budget * limit */
    BUDGET_MORE,     /* ours <= budget + limit */
};

struct row {
    const char *what;
    const char *unit; /* "ns", "GB/s", or "k/s": thousands a second */
    double ours;
    double limit; /* 0: there is none */
    enum budget kind;
    double budget;
};

#define GROWTH_POINTS 4

struct growth_row {
    const char *what;
    double ns[GROWTH_POINTS];
};

void report_begin(bool is_json);

/* What the limit of the following rows is. */
void report_section(const char *title);
void report_row(const struct row *row);
/* A line of explanation, not in the JSON. */
void report_note(const char *text);
void report_growth(const size_t *live, const struct growth_row *rows, size_t n_rows);

/* How many budgets were missed. */
size_t report_end(void);

#endif
