/* See findings.h. */
#include "findings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "text.h"

void findings_open(struct findings *findings, const char *folder)
{
    findings->folder = folder;
    findings->list = json_array();
    findings->files = json_object();
    findings->by_key = json_object();
    findings->calls = json_array();
    findings->functions = json_object();
    findings->shares = json_object();
    findings->imports = json_array();
}

void findings_close(struct findings *findings)
{
    json_decref(findings->list);
    json_decref(findings->files);
    json_decref(findings->by_key);
    json_decref(findings->calls);
    json_decref(findings->functions);
    json_decref(findings->shares);
    json_decref(findings->imports);
}

/* ---- printing ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* The frames up to main: what is below it is the system's. */
static void stack_print(const json_t *stack)
{
    json_t *frame;
    size_t i;

    json_array_foreach (stack, i, frame) {
        const char *function = text_of(frame, "function");

        if (text_of(frame, "file")[0] != '\0' && number_of(frame, "line") > 0)
            fprintf(stderr, "        #%zu %s  %s:%lld\n", i, function,
                    text_of(frame, "file"), number_of(frame, "line"));
        else
            fprintf(stderr, "        #%zu %s  (%s)\n", i, function,
                    base_of(text_of(frame, "module")));
        if (strcmp(function, "main") == 0)
            break;
    }
}

void finding_print(const json_t *finding)
{
    json_t *calls = json_object_get(finding, "calls");
    json_t *first = json_array_get(json_object_get(json_array_get(calls, 0), "stack"), 0);
    json_t *call;
    size_t i;

    fprintf(stderr, "aclmem: %s: %s\n", text_of(finding, "kind"),
            text_of(finding, "message"));
    json_array_foreach (calls, i, call) {
        fprintf(stderr, "    %s: %s, process %lld, thread %lld\n", text_of(call, "what"),
                text_of(call, "function"), number_of(call, "pid"),
                number_of(call, "thread"));
        stack_print(json_object_get(call, "stack"));
    }
    if (text_of(finding, "advice")[0] != '\0')
        fprintf(stderr, "    what to do: %s\n", text_of(finding, "advice"));
    fprintf(stderr, "SUMMARY: aclmem: %s", text_of(finding, "kind"));
    if (text_of(first, "file")[0] != '\0' && number_of(first, "line") > 0)
        fprintf(stderr, " %s:%lld", base_of(text_of(first, "file")),
                number_of(first, "line"));
    fprintf(stderr, " in %s\n\n", text_of(first, "function"));
}

/* ---- reading ---- */

/* The path of a module's file, which "bytes" has where it is no UTF-8. */
static const char *module_path(const json_t *module)
{
    static char path[4096];
    const char *hex = text_of(module, "bytes");
    size_t n = strlen(hex) / 2;
    unsigned byte;

    if (n == 0 || n >= sizeof path)
        return text_of(module, "path");
    for (size_t i = 0; i < n && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
        path[i] = (char)byte;
    path[n] = '\0';
    return path;
}

/* A record's stack with names: Python's frames where there are some. */
static json_t *stack_name(const json_t *file, const json_t *call)
{
    json_t *modules = json_object_get(file, "modules");
    json_t *stack = json_array();
    json_t *frame;
    size_t i;

    json_array_foreach (json_object_get(call, "python"), i, frame)
        json_array_append_new(
            stack, json_pack("{s:O, s:O, s:O, s:s}", "function", json_array_get(frame, 0),
                             "file", json_array_get(frame, 1), "line",
                             json_array_get(frame, 2), "module", "python"));
    if (json_array_size(stack) > 0)
        return stack; /* what is left is the interpreter's */
    json_array_foreach (json_object_get(call, "stack"), i, frame) {
        char number[16];
        const json_t *module;

        snprintf(number, sizeof number, "%lld",
                 (long long)json_integer_value(json_array_get(frame, 0)));
        module = json_object_get(modules, number);
        names_add(stack, module != NULL ? module_path(module) : "?",
                  (uint64_t)json_integer_value(json_array_get(frame, 1)));
    }
    return stack;
}

/* Equal kinds and stacks, whatever process they are of. */
static char *finding_key(const json_t *finding)
{
    json_t *key = json_pack("[O]", json_object_get(finding, "kind"));
    json_t *call;
    char *text;
    size_t i;

    json_array_foreach (json_object_get(finding, "calls"), i, call) {
        json_array_append(key, json_object_get(call, "function"));
        json_array_append(key, json_object_get(call, "stack"));
    }
    text = json_dumps(key, JSON_COMPACT);
    json_decref(key);
    return text;
}

static json_t *finding_make(const json_t *file, const json_t *record)
{
    static const char *const more[] = {"since", "before", "refusing", "share"};
    json_t *calls = json_array();
    json_t *finding;
    json_t *call;
    size_t i;

    json_array_foreach (json_object_get(record, "calls"), i, call)
        json_array_append_new(calls, json_pack("{s:O, s:O, s:O, s:O, s:o}", "function",
                                               json_object_get(call, "function"), "what",
                                               json_object_get(call, "what"), "pid",
                                               json_object_get(file, "pid"), "thread",
                                               json_object_get(call, "thread"), "stack",
                                               stack_name(file, call)));
    finding = json_pack(
        "{s:O, s:O, s:O, s:O, s:O, s:o, s:i}", "kind", json_object_get(record, "kind"),
        "message", json_object_get(record, "message"), "advice",
        json_object_get(record, "advice"), "refused", json_object_get(record, "refused"),
        "time", json_object_get(record, "time"), "calls", calls, "count", 1);
    for (i = 0; i < sizeof more / sizeof more[0]; i++)
        json_object_set(finding, more[i], json_object_get(record, more[i]));
    return finding;
}

static void count_add(json_t *finding, long long n)
{
    json_object_set_new(finding, "count", json_integer(number_of(finding, "count") + n));
}

/* Adds the finding, or counts it; its index, borrowed, or NULL: it is suppressed. */
static json_t *finding_add(struct findings *findings, json_t *finding)
{
    char *key;
    json_t *index;

    if (suppressions_match(finding)) {
        findings->n_suppressed++;
        json_decref(finding);
        return NULL;
    }
    key = finding_key(finding);
    index = json_object_get(findings->by_key, key);
    if (index != NULL) {
        count_add(json_array_get(findings->list, (size_t)json_integer_value(index)), 1);
        json_decref(finding);
    } else {
        index = json_integer((json_int_t)json_array_size(findings->list));
        json_object_set_new(findings->by_key, key, index);
        json_array_append_new(findings->list, finding);
        if (!findings->is_silent)
            finding_print(finding);
        if (findings->generates)
            suppression_print(finding);
    }
    free(key);
    return index;
}

static void finding_take(struct findings *findings, json_t *file, const json_t *record)
{
    json_t *index = finding_add(findings, finding_make(file, record));
    char number[24];

    /* Its counts come later, by this number. */
    snprintf(number, sizeof number, "%lld", number_of(record, "number"));
    if (index != NULL)
        json_object_set(json_object_get(file, "numbers"), number, index);
}

/* Imports of memory that its exporter freed before: the importer's calls, then the exporter's. */
static void imports_match(struct findings *findings)
{
    for (size_t i = 0; i < json_array_size(findings->imports);) {
        json_t *import = json_array_get(findings->imports, i);
        json_t *freed = json_object_get(findings->shares, text_of(import, "share"));

        if (freed == NULL || number_of(freed, "time") > number_of(import, "time")) {
            i++;
            continue;
        }
        json_object_set(import, "message", json_object_get(freed, "message"));
        json_array_extend(json_object_get(import, "calls"),
                          json_object_get(freed, "calls"));
        json_object_del(import, "share");
        finding_add(findings, json_incref(import));
        json_array_remove(findings->imports, i);
    }
}

static void record_take(struct findings *findings, json_t *file, const json_t *record)
{
    const char *type = text_of(record, "record");
    char number[24];

    snprintf(number, sizeof number, "%lld", number_of(record, "number"));
    if (strcmp(type, "process") == 0) {
        json_object_update((json_t *)file, (json_t *)record);
        findings->n_processes++;
    } else if (strcmp(type, "module") == 0) {
        json_object_set(json_object_get(file, "modules"), number, (json_t *)record);
    } else if (strcmp(type, "finding") == 0) {
        finding_take(findings, file, record);
    } else if (strcmp(type, "share-freed") == 0) {
        json_object_set_new(findings->shares, text_of(record, "share"),
                            finding_make(file, record));
    } else if (strcmp(type, "import-refused") == 0) {
        json_array_append_new(findings->imports, finding_make(file, record));
    } else if (strcmp(type, "function") == 0) {
        json_object_set(findings->functions, text_of(record, "function"),
                        (json_t *)record);
    } else if (strcmp(type, "call") == 0) {
        json_array_append_new(findings->calls,
                              json_pack("{s:O, s:O, s:o}", "n",
                                        json_object_get(record, "n"), "function",
                                        json_object_get(record, "function"), "stack",
                                        stack_name(file, record)));
    } else if (strcmp(type, "count") == 0) {
        const json_t *index = json_object_get(json_object_get(file, "numbers"), number);

        if (index != NULL)
            count_add(json_array_get(findings->list, (size_t)json_integer_value(index)),
                      number_of(record, "count") - 1);
    } else if (strcmp(type, "race.host-off") == 0) {
        findings->is_host_off = true;
    } else if (strcmp(type, "end") == 0) {
        findings->n_calls += number_of(record, "calls");
        findings->n_refused += number_of(record, "refused");
        findings->is_incomplete |= json_is_true(json_object_get(record, "incomplete"));
        findings->n_ended++;
        json_object_set_new(file, "ended", json_true());
    }
}

/* The whole lines from where the file was read to. */
static void file_read(struct findings *findings, const char *name, json_t *file)
{
    char path[4096];
    FILE *stream;
    char *line = NULL;
    size_t max = 0;
    ssize_t n;
    long at = (long)number_of(file, "at");

    snprintf(path, sizeof path, "%s/%s", findings->folder, name);
    stream = fopen(path, "re");
    if (stream == NULL)
        return;
    fseek(stream, at, SEEK_SET);
    while ((n = getline(&line, &max, stream)) > 0 && line[n - 1] == '\n') {
        json_t *record = json_loadb(line, (size_t)n, 0, NULL);

        if (record != NULL)
            record_take(findings, file, record);
        json_decref(record);
        at += n;
    }
    free(line);
    fclose(stream);
    json_object_set_new(file, "at", json_integer(at));
}

void findings_read(struct findings *findings)
{
    DIR *folder = opendir(findings->folder);
    struct dirent *entry;

    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) {
        json_t *file = json_object_get(findings->files, entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        if (file == NULL) {
            file = json_pack("{s:i, s:{}, s:{}}", "at", 0, "modules", "numbers");
            json_object_set_new(findings->files, entry->d_name, file);
        }
        file_read(findings, entry->d_name, file);
    }
    closedir(folder);
    imports_match(findings);
}

/* ---- the end ---- */

size_t findings_count(const struct findings *findings, long long *ret_all)
{
    json_t *finding;
    size_t i;

    *ret_all = 0;
    json_array_foreach (findings->list, i, finding)
        *ret_all += number_of(finding, "count");
    return json_array_size(findings->list);
}

static const char *plural(long long n, const char *ending)
{
    return n == 1 ? "" : ending;
}

/* The calls that the findings are about.  A process that was killed did not count its own. */
static void calls_print(const struct findings *findings)
{
    int n_killed = findings->n_processes - findings->n_ended;

    if (findings->n_processes == 0) {
        fprintf(stderr, "; no process called AscendCL\n");
        return;
    }
    fprintf(stderr, "; ");
    if (findings->n_ended > 0)
        fprintf(stderr, "%lld call%s of %d process%s %s checked", findings->n_calls,
                plural(findings->n_calls, "s"), findings->n_ended,
                plural(findings->n_ended, "es"), findings->n_calls == 1 ? "was" : "were");
    else
        fprintf(stderr, "calls were checked");
    if (n_killed > 0)
        fprintf(stderr, "%s of %d process%s that %s killed or called _exit",
                findings->n_ended > 0 ? ", and those" : "", n_killed,
                plural(n_killed, "es"), n_killed == 1 ? "was" : "were");
    fprintf(stderr, "\n");
    if (findings->n_refused > 0)
        fprintf(stderr, "aclmem: %lld call%s returned an error%s\n", findings->n_refused,
                plural(findings->n_refused, "s"),
                findings->is_over ? ""
                                  : "; ACLMEM_LOG=refusals prints each with its reason");
}

void findings_summary(const struct findings *findings)
{
    long long all;
    size_t n = findings_count(findings, &all);
    json_t *finding;
    size_t i;

    json_array_foreach (findings->list, i, finding) {
        if (number_of(finding, "count") > 1)
            fprintf(stderr, "aclmem: %lld times: %s: %s\n", number_of(finding, "count"),
                    text_of(finding, "kind"), text_of(finding, "message"));
    }
    if (n == 0)
        fprintf(stderr, "aclmem: no findings");
    else if (all == (long long)n)
        fprintf(stderr, "aclmem: %zu finding%s", n, n > 1 ? "s" : "");
    else
        fprintf(stderr, "aclmem: %zu distinct finding%s, reported %lld times", n,
                n > 1 ? "s" : "", all);
    calls_print(findings);
    if (findings->is_host_off)
        fprintf(stderr, "aclmem: race.host was off: --check all also finds touches of "
                        "pinned memory that queued work uses\n");
    if (findings->is_incomplete)
        fprintf(stderr, "aclmem: memory ran out, so findings are incomplete\n");
    needs_print(findings);
    suppressions_summary();
}
