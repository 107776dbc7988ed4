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
 *     {"record":"share-freed",as a finding,"share":..}        by the exporter
 *     {"record":"import-refused",as a finding,"share":..}     by an importer: with the one
 *                                      before, if that is older, they are a finding
 *     {"record":"function","function":..,"since":..,"before":..,"refusing":..}     at the end
 *     {"record":"race.host-off"}     queued work used pinned memory, and the kind is off
 *     {"record":"count","number":..,"count":..}         at the end, where it is not 1
 *     {"record":"end","calls":..,"refused":..,"incomplete":..}
 */
#ifndef AM_LAYER_FINDING_H
#define AM_LAYER_FINDING_H

#include <jansson.h>
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
 * Half of a finding, of which another process has the rest: the record "share-freed" or
 * "import-refused".  `time` is when the call ended, or began.  Only where there is a file.
 */
void am_finding_half(const struct am_finding *finding, const char *record, uint64_t share,
                     uint64_t time);

/*
 * A record of one call: {"record":RECORD,"n":..,"function":..,"stack":..}.  Only where
 * there is a file.
 */
void am_findings_call(const char *record, uint64_t n, struct am_site site);

/* A record without values.  Only where there is a file. */
void am_findings_note(const char *record);

/* By enum am_api_id: "aclrtFree". */
extern const char *const am_api_names[];
/*
 * The finding as JSON, the stack of each call as stack_of() makes it, with frames of Python beside
 * it if has_python.
 */
json_t *am_finding_json(const struct am_finding *finding,
                        json_t *(*stack_of)(const struct am_site *site), bool has_python);
/* Writes counts and the end; once. */
void am_findings_close(uint64_t n_calls, uint64_t n_refused);

/* A string, with a question mark for each byte that is no printable UTF-8. */
json_t *am_json_text(const char *text);

/* ---- lint.c ---- */

/* The name of the product with this number; NULL behind the last one. */
const char *am_lint_product(unsigned index);
/* The needs of a function that the program called; false: none, or it was not called. */
bool am_lint_function(unsigned api, struct am_reach *ret_reach);

/* ---- session.c ---- */

/* The number of the session; 0: none is on. */
uint32_t am_session_number(void);
/* Adds a finding to the session, under am_check.lock. */
void am_session_add(const struct am_finding *finding);
struct am_call;
/* Whether the session that is on has a limit, which was not passed yet. */
bool am_session_has_limit(void);
/*
 * The program holds more device memory than before: reports the first time that the limit is
 * passed.  Under am_check.lock.
 */
void am_session_grown(const struct am_call *call);

/* "1.5 MB" */
const char *am_size_text(uint64_t size, char *text, size_t n);

#endif
