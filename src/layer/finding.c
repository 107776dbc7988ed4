/* See finding.h. */
#include "layer/finding.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/tree.h"
#include "layer/memory.h"
#include "layer/modules.h"
#include "layer/symbols.h"
#include "layer/python.h"
#include "layer/stacks.h"

static const struct {
    const char *name;
    bool is_default;
} kinds[] = {
#define AM_KIND(id_, name_, is_default_, help_) {name_, is_default_},
#include "layer/kinds.def"
#undef AM_KIND
};

const char *const am_api_names[] = {
#define AM_API(ret_, name_, ...) #name_,
#include "api/api.def"
    [AM_API_COUNT] = "the program itself",
};

/* A reported finding, to count equal ones. */
struct reported {
    RB_ENTRY(reported) node; /* by hash */
    uint64_t hash;
    uint32_t number;
    uint32_t session; /* the last one that has it */
    uint64_t count;
};

static struct {
    atomic_bool is_on[AM_KIND_COUNT];
    struct am_lock lock;
    int fd;                                    /* lock; -1: standard error */
    bool is_closed;                            /* lock */
    bool is_full;                              /* lock; a record was lost, and reported */
    RB_HEAD(reported_tree, reported) reported; /* lock */
    uint32_t n;                                /* lock; findings that differ */
    _Atomic uint64_t n_all;                    /* with equal ones */
    unsigned char is_module_known[4096 / 8];   /* lock; those in the file */
} findings = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "findings"), .fd = -1};

/* ---- which kinds ---- */

/* Whether `word` names the kind: itself, its family, all, or default. */
static bool word_matches(const char *word, size_t n, int kind)
{
    const char *name = kinds[kind].name;

    if (n == 3 && memcmp(word, "all", 3) == 0)
        return kind != AM_KIND_portability; /* no mistake, so it is asked for by name */
    if (n == 7 && memcmp(word, "default", 7) == 0)
        return kinds[kind].is_default;
    return strncmp(name, word, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

bool am_kinds_choose(const char *list, const char **ret_wrong, size_t *ret_n)
{
    bool is_on[AM_KIND_COUNT] = {false};
    bool is_first = true;

    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        bool is_not = n > 3 && memcmp(list, "no-", 3) == 0;
        const char *word = is_not ? list + 3 : list;
        size_t word_n = is_not ? n - 3 : n;
        bool is_known = false;

        for (int kind = 0; kind < AM_KIND_COUNT; kind++) {
            if (is_first && is_not)
                is_on[kind] = kinds[kind].is_default; /* "no-race" is the others */
            if (word_matches(word, word_n, kind)) {
                is_on[kind] = !is_not;
                is_known = true;
            }
        }
        if (!is_known || word_n == 0) {
            *ret_wrong = list;
            *ret_n = n;
            return false;
        }
        is_first = false;
        list += n + (list[n] == ',');
    }
    for (int kind = 0; kind < AM_KIND_COUNT; kind++)
        findings.is_on[kind] = is_on[kind];
    return true;
}

bool am_kind_is_on(enum am_kind_of_finding kind)
{
    return findings.is_on[kind];
}

/* ---- the file ---- */

json_t *am_json_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = am_sys_malloc(n);
    json_t *string;

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, n);
    am_text_clean(copy);
    string = json_string(copy);
    free(copy);
    return string;
}

/* Writes a record as a line, and drops it; NULL: there was no memory for it. */
static void line_write(json_t *record)
{
    char *line = record != NULL ? json_dumps(record, JSON_COMPACT) : NULL;
    size_t n = line != NULL ? strlen(line) : 0;
    struct stat file = {.st_size = 0};
    ssize_t written;
    size_t at = 0;

    if (line != NULL)
        line[n++] = '\n'; /* where its zero was */
    (void)fstat(findings.fd, &file);
    while (at < n && !findings.is_full && am_file_may_have((size_t)file.st_size + n) &&
           (written = write(findings.fd, line + at, n - at)) > 0)
        at += (size_t)written;
    if (at < n && !findings.is_full) { /* findings are lost, not the program */
        findings.is_full = true;
        am_log(AM_LOG_WARN,
               "no room for findings in the temporary folder: %m; further findings "
               "are lost");
    }
    free(line);
    json_decref(record);
}

static void process_write(void)
{
    char command[4096];
    int fd = am_sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? am_sys_read(fd, command, sizeof command - 1) : 0;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i + 1 < n; i++) {
        if (command[i] == '\0')
            command[i] = ' ';
    }
    command[n > 0 ? n : 0] = '\0';
    line_write(json_pack("{ss, si, si, so}", "record", "process", "pid", getpid(),
                         "parent", getppid(), "command", am_json_text(command)));
}

void am_findings_open(const char *folder)
{
    char path[4096];
    struct timespec now;

    if (folder[0] == '\0')
        am_symbols_open(); /* they are printed here */
    if (folder[0] == '\0' || findings.fd >= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/%d-%lld%09ld", folder, getpid(),
             (long long)now.tv_sec, now.tv_nsec);
    findings.fd = am_sys_openat(AT_FDCWD, path,
                                O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (findings.fd < 0) {
        am_log(AM_LOG_WARN, "ACLMEM_FINDINGS: %s: %m; findings go to standard error",
               path);
        return;
    }
    findings.fd = am_fd_move_up(findings.fd); /* out of the program's way */
    process_write();
}

/* ---- as records ---- */

/* Whether the module with this number is in the file; notes that it is from now on. */
static bool module_is_known(int number)
{
    unsigned char *byte = &findings.is_module_known[number / 8 % 512];
    bool is_known = *byte & 1u << number % 8;

    *byte |= (unsigned char)(1u << number % 8);
    return is_known;
}

/* A path that is no UTF-8 is there as bytes too: the command opens the file. */
static json_t *module_record(int number)
{
    const struct am_module *module = am_module_get(number);
    size_t n = strlen(module->path);
    json_t *path = am_json_text(module->path);
    json_t *record =
        json_pack("{ss, si, sO, sI, ss}", "record", "module", "number", number, "path",
                  path, "base", (json_int_t)module->base, "build_id", module->build_id);
    char *hex = NULL;

    if (record != NULL && strcmp(json_string_value(path), module->path) != 0)
        hex = am_meta_alloc(2 * n + 1);
    for (size_t i = 0; hex != NULL && i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)module->path[i]);
    if (hex != NULL)
        json_object_set_new(record, "bytes", json_string(hex));
    free(hex);
    json_decref(path);
    return record;
}

static void modules_write(uint32_t stack)
{
    uint32_t era;
    size_t n;
    const uintptr_t *frame = am_stack_frames(stack, &n, &era);

    for (size_t i = 0; i < n; i++) {
        int number = am_module_find(frame[i] - 1, era);

        if (number >= 0 && !module_is_known(number))
            line_write(module_record(number));
    }
}

/* The file's own addresses, of the calls and not of what follows them. */
static json_t *stack_json(const struct am_site *site)
{
    json_t *list = json_array();
    uint32_t era;
    size_t n;
    const uintptr_t *frame = am_stack_frames(site->stack, &n, &era);

    for (size_t i = 0; i < n; i++) {
        int number = am_module_find(frame[i] - 1, era);
        uintptr_t base = number >= 0 ? am_module_get(number)->base : 0;

        json_array_append_new(
            list, json_pack("[iI]", number, (json_int_t)(frame[i] - 1 - base)));
    }
    return list;
}

static json_t *edition_json(unsigned edition)
{
    return edition != 0 ? json_sprintf("%u.%u", edition / 100, edition % 100)
                        : json_string("");
}

static void reach_add(json_t *record, const struct am_reach *reach)
{
    json_t *refusing = json_array();
    const char *name;

    for (unsigned i = 0; (name = am_lint_product(i)) != NULL; i++) {
        if (reach->refusing & 1u << i)
            json_array_append_new(refusing, json_string(name));
    }
    json_object_set_new(record, "since", edition_json(reach->since));
    json_object_set_new(record, "before", edition_json(reach->before));
    json_object_set_new(record, "refusing", refusing);
}

static void functions_write(void)
{
    for (unsigned api = 0; api < AM_API_COUNT; api++) {
        struct am_reach reach;
        json_t *record;

        if (!am_lint_function(api, &reach))
            continue;
        record =
            json_pack("{ss, ss}", "record", "function", "function", am_api_names[api]);
        reach_add(record, &reach);
        line_write(record);
    }
}

json_t *am_finding_json(const struct am_finding *f,
                        json_t *(*stack_of)(const struct am_site *site), bool has_python)
{
    json_t *calls = json_array();

    for (size_t i = 0; i < f->n; i++) {
        const struct am_site *site = &f->at[i].site;
        json_t *call = json_pack("{ss, ss, sI, so}", "function", am_api_names[site->api],
                                 "what", f->at[i].what, "thread",
                                 (json_int_t)site->thread, "stack", stack_of(site));

        if (has_python)
            json_object_set_new(call, "python", am_python_json(site->python));
        json_array_append_new(calls, call);
    }
    return json_pack("{ss, so, ss, si, so}", "kind", kinds[f->kind].name, "message",
                     am_json_text(f->message), "advice",
                     f->advice != NULL ? f->advice : "", "refused", f->refused, "calls",
                     calls);
}

static json_t *record_make(const struct am_finding *f, const char *name, uint64_t time)
{
    json_t *record;

    for (size_t i = 0; i < f->n; i++)
        modules_write(f->at[i].site.stack);
    record = am_finding_json(f, stack_json, true);
    json_object_set_new(record, "record", json_string(name));
    json_object_set_new(record, "time", json_integer((json_int_t)time));
    if (f->kind == AM_KIND_portability)
        reach_add(record, &f->reach);
    return record;
}

static void record_write(const struct am_finding *f, uint32_t number)
{
    json_t *record = record_make(f, "finding", am_clock());

    json_object_set_new(record, "number", json_integer(number));
    line_write(record);
}

void am_finding_half(const struct am_finding *f, const char *name, uint64_t share,
                     uint64_t time)
{
    json_t *record;

    if (!findings.is_on[f->kind])
        return;
    am_lock(&findings.lock);
    if (findings.fd >= 0) {
        record = record_make(f, name, time);
        json_object_set_new(record, "share",
                            json_sprintf("%llx", (unsigned long long)share));
        line_write(record);
    }
    am_unlock(&findings.lock);
}

/* ---- as text ---- */

struct frame {
    FILE *out;
    size_t n; /* frames printed so far */
    const struct am_module *module;
    uintptr_t addr;
    bool is_main;
};

static void symbol_print(const struct am_symbol *symbol, void *arg)
{
    struct frame *frame = arg;

    fprintf(frame->out, "        #%zu %s  ", frame->n++, symbol->function);
    if (symbol->file != NULL)
        fprintf(frame->out, "%s:%d\n", symbol->file, symbol->line);
    else
        fprintf(frame->out, "(%s+0x%llx)\n", frame->module->path,
                (unsigned long long)(frame->addr - frame->module->base));
    frame->is_main = strcmp(symbol->function, "main") == 0;
}

/* Prints the frames at addr; true: the last one is main, and the rest is the system's. */
static bool frame_print(struct frame *frame, uintptr_t addr, uint32_t era)
{
    int number = am_module_find(addr, era);
    Dl_info info;

    frame->module = number >= 0 ? am_module_get(number) : NULL;
    frame->addr = addr;
    frame->is_main = false;
    if (frame->module != NULL &&
        am_symbolize(frame->module->path, addr - frame->module->base, symbol_print,
                     frame) > 0)
        return frame->is_main;
    if (frame->module == NULL)
        fprintf(frame->out, "        #%zu 0x%llx\n", frame->n++,
                (unsigned long long)addr);
    else if (dladdr((void *)addr, &info) != 0 && info.dli_sname != NULL)
        symbol_print(&(struct am_symbol){.function = info.dli_sname}, frame);
    else
        fprintf(frame->out, "        #%zu (%s+0x%llx)\n", frame->n++, frame->module->path,
                (unsigned long long)(addr - frame->module->base));
    return frame->is_main;
}

static void finding_print(const struct am_finding *f)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return;
    fprintf(out, "aclmem: %s: %s\n", kinds[f->kind].name, f->message);
    for (size_t i = 0; i < f->n; i++) {
        const struct am_site *site = &f->at[i].site;
        uint32_t era;
        size_t n;
        const uintptr_t *frame = am_stack_frames(site->stack, &n, &era);
        struct frame printed = {.out = out};

        fprintf(out, "    %s: %s, process %d, thread %u\n", f->at[i].what,
                am_api_names[site->api], getpid(), site->thread);
        am_python_print(out, site->python);
        for (size_t k = 0; site->python == 0 && k < n; k++) {
            if (frame_print(&printed, frame[k] - 1, era))
                break;
        }
    }
    if (f->advice != NULL)
        fprintf(out, "    what to do: %s\n", f->advice);
    if (fclose(out) == 0 && write(STDERR_FILENO, text, size) < 0)
        findings.is_closed = true; /* there is nowhere to report */
    free(text);
}

/* ---- telling ---- */

void am_finding_begin(struct am_finding *finding, enum am_kind_of_finding kind,
                      const char *format, ...)
{
    va_list args;

    finding->kind = kind;
    finding->advice = NULL;
    finding->refused = 0;
    finding->needs_refusal = false;
    finding->reach = (struct am_reach){0};
    finding->n = 0;
    va_start(args, format);
    vsnprintf(finding->message, sizeof finding->message, format, args);
    va_end(args);
}

void am_finding_at(struct am_finding *finding, const char *what, struct am_site site)
{
    if (finding->n == AM_SITES_MAX)
        return;
    finding->at[finding->n].what = what;
    finding->at[finding->n].site = site;
    finding->n++;
}

static uint64_t finding_hash(const struct am_finding *f)
{
    uint64_t hash = (uint64_t)f->kind + 1;

    for (size_t i = 0; i < f->n; i++) {
        const struct am_site *site = &f->at[i].site;

        hash = (hash ^ site->stack ^ (uint64_t)site->api << 32) *
               UINT64_C(0x9e3779b97f4a7c15);
        hash = (hash ^ hash >> 31 ^ site->python) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    return hash;
}

AM_TREE(reported_tree, reported, node, hash)

/* The entry of an equal one, or a new one with count 0; NULL without memory. */
static struct reported *reported_get_locked(uint64_t hash)
{
    struct reported key = {.hash = hash};
    struct reported *found = RB_FIND(reported_tree, &findings.reported, &key);

    if (found != NULL)
        return found;
    found = am_meta_alloc(sizeof *found);
    if (found != NULL) {
        found->hash = hash;
        found->number = findings.n++;
        RB_INSERT(reported_tree, &findings.reported, found);
    }
    return found;
}

/* Whether the session takes it: a touch ends the program, and is printed in both cases. */
static bool session_take_locked(const struct am_finding *finding,
                                struct reported *reported)
{
    uint32_t session = am_session_number();

    if (session == 0 || finding->kind == AM_KIND_device_touch)
        return false;
    if (reported == NULL || reported->session != session)
        am_session_add(finding);
    if (reported != NULL)
        reported->session = session;
    return true;
}

void am_finding_report(const struct am_finding *finding)
{
    struct reported *reported;
    bool is_taken;

    if (!findings.is_on[finding->kind] ||
        (finding->needs_refusal && finding->refused == 0))
        return;
    am_lock(&findings.lock);
    reported = reported_get_locked(finding_hash(finding));
    is_taken = session_take_locked(finding, reported);
    if (reported == NULL || reported->count++ == 0) {
        if (findings.fd >= 0)
            record_write(finding, reported != NULL ? reported->number : findings.n++);
        else if (!is_taken)
            finding_print(finding);
    }
    am_unlock(&findings.lock);
    atomic_fetch_add(&findings.n_all, 1);
}

void am_findings_call(const char *record, uint64_t n, struct am_site site)
{
    am_lock(&findings.lock);
    if (findings.fd >= 0) {
        modules_write(site.stack);
        line_write(json_pack("{ss, sI, ss, so}", "record", record, "n", (json_int_t)n,
                             "function", am_api_names[site.api], "stack",
                             stack_json(&site)));
    }
    am_unlock(&findings.lock);
}

void am_findings_note(const char *record)
{
    am_lock(&findings.lock);
    if (findings.fd >= 0)
        line_write(json_pack("{ss}", "record", record));
    am_unlock(&findings.lock);
}

static void counts_write(void)
{
    struct reported *reported;

    RB_FOREACH (reported, reported_tree, &findings.reported) {
        if (reported->count > 1)
            line_write(json_pack("{ss, sI, sI}", "record", "count", "number",
                                 (json_int_t)reported->number, "count",
                                 (json_int_t)reported->count));
    }
}

void am_findings_close(uint64_t n_calls, uint64_t n_refused)
{
    am_lock(&findings.lock);
    if (findings.fd >= 0 && !findings.is_closed) {
        counts_write();
        functions_write();
        line_write(json_pack("{ss, sI, sI, sb}", "record", "end", "calls",
                             (json_int_t)n_calls, "refused", (json_int_t)n_refused,
                             "incomplete", (int)am_meta_ran_out()));
    } else if (!findings.is_closed && (findings.n > 0 || am_meta_ran_out())) {
        char line[160];
        int n = snprintf(line, sizeof line, "aclmem: %u %sfinding%s", findings.n,
                         findings.n_all > findings.n ? "distinct " : "",
                         findings.n == 1 ? "" : "s");

        if (findings.n_all > findings.n)
            n += snprintf(line + n, sizeof line - (size_t)n, ", reported %llu times",
                          (unsigned long long)findings.n_all);
        n += snprintf(line + n, sizeof line - (size_t)n, "%s\n",
                      am_meta_ran_out() ? "; memory ran out, so findings are incomplete"
                                        : "");
        if (write(STDERR_FILENO, line, (size_t)n) < 0)
            findings.is_closed = true;
    }
    findings.is_closed = true;
    am_unlock(&findings.lock);
}

const char *am_size_text(uint64_t size, char *text, size_t n)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double value = (double)size;
    size_t unit = 0;

    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, n, "%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
    return text;
}
