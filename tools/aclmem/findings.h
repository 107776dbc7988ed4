/*
 * Findings of the processes of one run, as they write them into a folder.
 *
 * Each process has a file of records there (src/layer/finding.h); this side reads what is
 * new, adds names, puts equal findings of all processes together and keeps them as the
 * JSON that --json writes.
 */
#ifndef ACLMEM_FINDINGS_H
#define ACLMEM_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>

struct findings {
    const char *folder;
    json_t *list;        /* the findings, as in --json, in the order in which they came */
    json_t *files;       /* of each process: how far it was read, modules, pid ... */
    json_t *shares;      /* memory that its exporter freed, by its share */
    json_t *imports;     /* imports that were refused, and may be of such memory */
    json_t *calls;       /* that the layer fail was asked to list */
    json_t *functions;   /* of --lint: what the functions need that were called */
    json_t *by_key;      /* kind and stacks -> index in list */
    long long n_calls;   /* that were checked, in processes that ended by themselves */
    long long n_refused; /* of these */
    int n_processes;
    int n_ended; /* of these, by themselves */
    int n_suppressed;
    bool is_host_off;   /* pinned memory was used, and race.host was off */
    bool is_incomplete; /* a process had no memory to record a call */
    bool is_lint;       /* print what the program needs */
    bool is_over;       /* over the vendor's library, whose messages are its own */
    bool is_silent;     /* print nothing */
    bool is_raw;        /* do not print what is suppressed, nor generate */
    bool generates;     /* print a suppression with each */
};

void findings_open(struct findings *findings, const char *folder);
/* Reads what came since; new findings are printed. */
void findings_read(struct findings *findings);
/* How many there are, and how often they happened. */
size_t findings_count(const struct findings *findings, long long *ret_all);
/* The last lines: how many, by kind. */
void findings_summary(const struct findings *findings);
void findings_close(struct findings *findings);

/* One finding, as text on standard error. */
void finding_print(const json_t *finding);

/* ---- suppress.c ---- */

/* Reads a file of suppressions; false after saying what is wrong. */
bool suppressions_read(const char *path);
/* Whether one of them matches; it is counted. */
bool suppressions_match(const json_t *finding);
/* A line that would suppress it, on standard error. */
void suppression_print(const json_t *finding);
/* Which were used how often, and which never. */
void suppressions_summary(void);

/* ---- needs.c ---- */

/*
 * The needs of the program, by the findings of portability and the functions that it called:
 * as text on standard error, and as JSON.
 */
void needs_print(const struct findings *findings);
json_t *needs_json(const struct findings *findings);

/* ---- kinds.c ---- */

bool kind_is_known(const char *name, size_t n);
void kinds_print(FILE *out);

/* ---- report.c ---- */

/* 0, or -1 after saying what is wrong. */
int report_json(const char *path, const struct findings *findings, const json_t *more);
int report_junit(const char *path, const struct findings *findings, const char *program,
                 int code);

#endif
