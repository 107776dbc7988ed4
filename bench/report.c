/* See report.h. */
#include "report.h"

#include <stdio.h>

#include "apart.h"
#include "machine.h"

/* Shared with the children that make the rows. */
static struct {
    bool is_json;
    bool has_row; /* a comma is due */
    const char *section;
    size_t n_budgets;
    size_t n_missed;
} * report;

void report_begin(bool is_json)
{
    report = apart_memory(sizeof *report);
    report->is_json = is_json;
    machine_print(is_json);
    if (is_json)
        printf(",\n\"rows\": [");
    else
        printf("%-58s %11s %11s %7s  %s\n", "what", "ours", "limit", "ratio", "budget");
}

void report_section(const char *title)
{
    report->section = title;
    if (!report->is_json)
        printf("\n%s\n", title);
}

void report_note(const char *text)
{
    if (!report->is_json)
        printf("    %s\n", text);
}

static bool row_is_kept(const struct row *row)
{
    switch (row->kind) {
    case BUDGET_AT_MOST:
        return row->ours <= row->budget * row->limit;
    case BUDGET_AT_LEAST:
        return row->ours >= row->budget * row->limit;
    case BUDGET_MORE:
        return row->ours <= row->budget + row->limit;
    default:
        return true;
    }
}

/* "  123 ns"; small numbers with a digit behind the point. */
static const char *number_text(char *text, size_t size, double value, const char *unit)
{
    snprintf(text, size, value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
    return text;
}

static void row_print(const struct row *row, bool is_kept)
{
    static const char *const sign[] = {
        [BUDGET_AT_MOST] = "<= ", [BUDGET_AT_LEAST] = ">= ", [BUDGET_MORE] = "<= + "};
    char ours[32];
    char limit[32];

    printf("  %-56s %11s", row->what,
           number_text(ours, sizeof ours, row->ours, row->unit));
    if (row->limit > 0)
        printf(" %11s %7.2f", number_text(limit, sizeof limit, row->limit, row->unit),
               row->ours / row->limit);
    if (row->kind == BUDGET_MORE)
        printf("  %s%.0f %s", sign[row->kind], row->budget, row->unit);
    else if (row->kind != BUDGET_NONE)
        printf("  %s%.2f", sign[row->kind], row->budget);
    if (row->kind != BUDGET_NONE)
        printf("  %s", is_kept ? "ok" : "MISS");
    printf("\n");
    fflush(stdout);
}

static void row_print_json(const struct row *row, bool is_kept)
{
    static const char *const kind[] = {[BUDGET_NONE] = "none",
                                       [BUDGET_AT_MOST] = "at most",
                                       [BUDGET_AT_LEAST] = "at least",
                                       [BUDGET_MORE] = "at most more"};

    printf(
        "%s\n  {\"section\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"ours\": %.3f",
        report->has_row ? "," : "", report->section, row->what, row->unit, row->ours);
    if (row->limit > 0)
        printf(", \"limit\": %.3f, \"ratio\": %.4f", row->limit, row->ours / row->limit);
    if (row->kind != BUDGET_NONE)
        printf(", \"kind\": \"%s\", \"budget\": %.2f, \"ok\": %s", kind[row->kind],
               row->budget, is_kept ? "true" : "false");
    printf("}");
    report->has_row = true;
}

void report_row(const struct row *row)
{
    bool is_kept = row_is_kept(row);

    report->n_budgets += row->kind != BUDGET_NONE;
    report->n_missed += !is_kept;
    if (report->is_json)
        row_print_json(row, is_kept);
    else
        row_print(row, is_kept);
}

static void growth_print(const size_t *live, const struct growth_row *rows, size_t n_rows)
{
    printf("  %-26s", "live objects");
    for (size_t i = 0; i < GROWTH_POINTS; i++)
        printf(" %15zu", live[i]);
    printf("\n");
    for (size_t r = 0; r < n_rows; r++) {
        printf("  %-26s", rows[r].what);
        for (size_t i = 0; i < GROWTH_POINTS; i++)
            printf(" %7.0f ns %4.1fx", rows[r].ns[i], rows[r].ns[i] / rows[r].ns[0]);
        printf("\n");
    }
}

static void growth_print_json(const size_t *live, const struct growth_row *rows,
                              size_t n_rows)
{
    printf("],\n\"growth\": [");
    for (size_t r = 0; r < n_rows; r++) {
        printf("%s\n  {\"what\": \"%s\", \"ns\": {", r > 0 ? "," : "", rows[r].what);
        for (size_t i = 0; i < GROWTH_POINTS; i++)
            printf("%s\"%zu\": %.1f", i > 0 ? ", " : "", live[i], rows[r].ns[i]);
        printf("}}");
    }
}

void report_growth(const size_t *live, const struct growth_row *rows, size_t n_rows)
{
    if (report->is_json)
        growth_print_json(live, rows, n_rows);
    else
        growth_print(live, rows, n_rows);
}

size_t report_end(void)
{
    if (report->is_json)
        printf("],\n\"budgets\": %zu, \"missed\": %zu}\n", report->n_budgets,
               report->n_missed);
    else
        printf("\nbudgets: %zu, missed: %zu\n", report->n_budgets, report->n_missed);
    return report->n_missed;
}
