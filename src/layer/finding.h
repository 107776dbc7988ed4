/*
 * Findings: what is wrong with the program, with the call sites that show why.
 *
 * A finding is reported when it happens.  Equal findings (kind, call sites) are printed once and
 * counted.  Where they go: to the file of this process in the folder that ACLMEM_FINDINGS
 * names, as records that the command aclmem reads, adds names to and prints; without it to
 * standard error, with the names that the dynamic linker knows.
 *
 * The records are lines of JSON:
 *     {"record":"process","pid":..,"parent":..,"command":..}
 *     {"record":"module","number":..,"path":..,"base":..,"build_id":..}    before its use
 *     {"record":"finding","number":..,"kind":..,"message":..,"advice":..,"refused":..,
 *      "time":(CLOCK_MONOTONIC, in nanoseconds),"calls":[{"function":..,"what":..,"thread":..,"stack":[[module,offset],..],
 *                "python":[[function,file,line],..]}]}
 *                                      portability: "since":"8.5","before":"","refusing":["950"]
 *     {"record":"function","function":..,"since":..,"before":..,"refusing":..}     at the end
 *     {"record":"count","number":..,"count":..}         at the end, where it is not 1
 *     {"record":"end","calls":..,"refused":..,"incomplete":..}
 */
#ifndef AM_LAYER_FINDING_H
#define AM_LAYER_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum am_kind_of_finding {
#define AM_KIND(id_, name_, is_default_, help_) AM_KIND_##id_,
#include "layer/kinds.def"
#undef AM_KIND
    AM_KIND_COUNT,
};

/* A call of the program. */
struct am_site {
    uint32_t stack;  /* stacks.h */
    uint32_t thread; /* gettid() */
    uint32_t python; /* the Python frames: python.h; 0: none */
    uint16_t api;    /* enum am_api_id; AM_API_COUNT: no call, the program's own */
};

/*
 * Of portability: the first edition that takes the call, the first one that does not, as
 * 100 * major + minor, 0: not known; and a bit for each product that refuses it
 * (am_lint_product()).
 */
struct am_reach {
    uint16_t since;
    uint16_t before;
    uint16_t refusing;
};

#define AM_SITES_MAX 8

struct am_finding {
    enum am_kind_of_finding kind;
    char message[768];
    const char *advice; /* what to do */
    int refused;        /* the code with which the call was refused; 0: it went through */
    struct am_reach reach;
    bool needs_refusal; /* if the call succeeded, the finding is discarded */
    size_t n;
    struct {
        const char *what; /* "freed here" */
        struct am_site site;
    } at[AM_SITES_MAX];
};

/*
 * What ACLMEM_CHECK chooses: "default", "all", kinds, families ("leak"), each with "no-"
 * in front to leave it out.  False: *ret_wrong is the unknown word, and its length.
 */
bool am_kinds_choose(const char *list, const char **ret_wrong, size_t *ret_n);
bool am_kind_is_on(enum am_kind_of_finding kind);

/* With the process's file open, where there is a folder for it. */
void am_findings_open(const char *folder);

void am_finding_begin(struct am_finding *finding, enum am_kind_of_finding kind,
                      const char *format, ...) __attribute__((format(printf, 3, 4)));
void am_finding_at(struct am_finding *finding, const char *what, struct am_site site);
/* Reports the finding, unless its kind is off. */
void am_finding_report(const struct am_finding *finding);

/*
 * A record of one call: {"record":RECORD,"n":..,"function":..,"stack":..}.  Only where
 * there is a file.
 */
void am_findings_call(const char *record, uint64_t n, struct am_site site);

/* "double-free"; "aclrtFree". */
const char *am_finding_kind(const struct am_finding *finding);
const char *am_finding_function(const struct am_site *site);
/* Holds back findings of other threads. */
void am_findings_lock(void);
void am_findings_unlock(void);

/* How many there were so far, each counted as often as it happened. */
uint64_t am_findings_count(void);
/* There was no memory to record a call: the end says so. */
void am_findings_are_incomplete(void);
/* Writes counts and the end; once. */
void am_findings_close(uint64_t n_calls, uint64_t n_refused);

/* "1.5 MB" */
const char *am_size_text(uint64_t size, char *text, size_t n);

#endif
