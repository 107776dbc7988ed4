/*
 * aclmem top: which process uses which device now, how much, how fast, and which streams
 * wait for what.
 *
 * All of it is read from the ledger: the processes are not asked, and are not slowed down.
 */
#include "top.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "command.h"
#include "text.h"

static struct {
    bool is_once;
    bool is_json;
    long interval;
} choice = {.interval = -1};

/* ---- samples ---- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The member of a list that has the number; NULL: none. */
static json_t *member_find(const json_t *list, const char *key, long long number)
{
    json_t *member;
    size_t i;

    json_array_foreach (list, i, member) {
        if (number_of(member, key) == number)
            return member;
    }
    return NULL;
}

/* The same devices in the sample before: those of the same name and size. */
static const json_t *configuration_before(const json_t *before,
                                          const json_t *configuration)
{
    static const char *const texts[] = {"backend", "product"};
    const json_t *devices = json_object_get(configuration, "devices");
    json_t *other;
    size_t i;

    json_array_foreach (json_object_get(before, "configurations"), i, other) {
        const json_t *theirs = json_object_get(other, "devices");
        bool is_same = json_array_size(theirs) == json_array_size(devices);

        for (size_t k = 0; k < 2; k++)
            is_same &=
                strcmp(text_of(other, texts[k]), text_of(configuration, texts[k])) == 0;
        if (is_same && number_of(json_array_get(theirs, 0), "capacity") ==
                           number_of(json_array_get(devices, 0), "capacity"))
            return other;
    }
    return NULL;
}

/* Adds "live" and "rate" to the devices of one process. */
static void process_rate(json_t *process, const json_t *before, double seconds)
{
    const json_t *old = member_find(json_object_get(before, "processes"), "pid",
                                    number_of(process, "pid"));
    json_t *device;
    size_t i;

    json_array_foreach (json_object_get(process, "devices"), i, device) {
        const json_t *was =
            member_find(json_object_get(old, "devices"), "id", number_of(device, "id"));
        long long taken = number_of(device, "taken") - number_of(was, "taken");
        bool is_known = before != NULL && taken >= 0;

        json_object_set_new(
            device, "live",
            json_integer(number_of(device, "allocated") + number_of(device, "exported")));
        json_object_set_new(device, "rate",
                            is_known ? json_integer((json_int_t)((double)taken / seconds))
                                     : json_null());
    }
}

bool top_sample_next(struct top_sample *sample)
{
    double time = now();
    json_t *configuration;
    json_t *process;
    json_t *info;
    size_t i;
    size_t k;
    char *text;

    if (aclmem_info(&text) != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();

        fprintf(stderr, "aclmem top: %s\n", message != NULL ? message : "no information");
        return false;
    }
    info = json_loads(text, 0, NULL);
    free(text);
    json_array_foreach (json_object_get(info, "configurations"), i, configuration) {
        const json_t *before = configuration_before(sample->info, configuration);

        json_array_foreach (json_object_get(configuration, "processes"), k, process)
            process_rate(process, before, time - sample->time);
    }
    json_decref(sample->info);
    *sample = (struct top_sample){info, time};
    return true;
}

void top_sample_free(struct top_sample *sample)
{
    json_decref(sample->info);
    sample->info = NULL;
}

/* ---- lines ---- */

static void line_add(struct top_lines *lines, bool is_title, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void line_add(struct top_lines *lines, bool is_title, const char *format, ...)
{
    struct top_line *grown = realloc(lines->line, (lines->n + 1) * sizeof *grown);
    va_list args;

    if (grown == NULL)
        return;
    lines->line = grown;
    va_start(args, format);
    if (vasprintf(&grown[lines->n].text, format, args) >= 0)
        grown[lines->n++].is_title = is_title;
    va_end(args);
}

static void device_add(struct top_lines *lines, const json_t *device)
{
    long long capacity = number_of(device, "capacity");
    long long used = number_of(device, "used");
    int filled = capacity > 0 ? (int)((double)used / (double)capacity * 20 + 0.5) : 0;
    char texts[2][32];

    line_add(lines, false, "%7lld [%.*s%.*s] %8s of %8s, %lld process%s",
             number_of(device, "id"), filled, "####################", 20 - filled,
             "....................", size_text(used, texts[0], sizeof texts[0]),
             size_text(capacity, texts[1], sizeof texts[1]),
             number_of(device, "processes"),
             number_of(device, "processes") == 1 ? "" : "es");
}

/* A member in bytes; "-" for null. */
static const char *cell(const json_t *device, const char *key, char *text, size_t n)
{
    if (!json_is_integer(json_object_get(device, key)))
        return "-";
    return size_text(number_of(device, key), text, n);
}

static void process_add(struct top_lines *lines, const json_t *process)
{
    static const char *const keys[] = {"live", "peak", "rate", "exported", "imported"};
    const json_t *devices = json_object_get(process, "devices");
    char texts[5][32];
    const char *cells[5];
    json_t *device;
    json_t *stream;
    size_t i;

    if (json_array_size(devices) == 0)
        line_add(lines, false, "%7lld %-13.13s   -", number_of(process, "pid"),
                 text_of(process, "command"));
    json_array_foreach (devices, i, device) {
        for (size_t k = 0; k < 5; k++)
            cells[k] = cell(device, keys[k], texts[k], sizeof texts[k]);
        line_add(lines, false, "%7lld %-13.13s %3lld %9s %9s %9s %9s %9s %4lld",
                 number_of(process, "pid"), text_of(process, "command"),
                 number_of(device, "id"), cells[0], cells[1], cells[2], cells[3],
                 cells[4], number_of(process, "streams"));
    }
    json_array_foreach (json_object_get(process, "waiting"), i, stream)
        line_add(lines, false, "        stream %lld, %lld queued: until %s (%s)",
                 number_of(stream, "stream"), number_of(stream, "queued"),
                 text_of(stream, "until"), text_of(stream, "function"));
}

static long long live_of(const json_t *process)
{
    long long live = 0;
    json_t *device;
    size_t i;

    json_array_foreach (json_object_get(process, "devices"), i, device)
        live += number_of(device, "live");
    return live;
}

static int by_live(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a;
    const json_t *y = *(json_t *const *)b;

    if (live_of(x) != live_of(y))
        return live_of(x) > live_of(y) ? -1 : 1;
    return number_of(x, "pid") < number_of(y, "pid") ? -1 : 1;
}

static void processes_add(struct top_lines *lines, const json_t *processes)
{
    size_t n = json_array_size(processes);
    json_t **sorted = malloc((n + 1) * sizeof *sorted);

    if (n == 0)
        line_add(lines, false, "        no process uses them");
    else
        line_add(lines, true, "%7s %-13s %3s %9s %9s %9s %9s %9s %4s", "PROCESS",
                 "COMMAND", "DEV", "LIVE", "PEAK", "RATE/S", "EXPORTED", "IMPORTED",
                 "STRM");
    for (size_t i = 0; sorted != NULL && i < n; i++)
        sorted[i] = json_array_get(processes, i);
    if (sorted != NULL && n > 0)
        qsort(sorted, n, sizeof *sorted, by_live);
    for (size_t i = 0; sorted != NULL && i < n; i++)
        process_add(lines, sorted[i]);
    free(sorted);
}

struct top_lines top_lines_of(const struct top_sample *sample)
{
    struct top_lines lines = {0};
    json_t *configuration;
    json_t *device;
    size_t i;
    size_t k;

    if (text_of(sample->info, "problem")[0] != '\0')
        line_add(&lines, false, "not all processes are seen: %s",
                 text_of(sample->info, "problem"));
    json_array_foreach (json_object_get(sample->info, "configurations"), i,
                        configuration) {
        const json_t *devices = json_object_get(configuration, "devices");

        if (i > 0)
            line_add(&lines, false, "%s", "");
        line_add(&lines, true, "%s (%s), %zu device%s, %s backend",
                 text_of(configuration, "product"), text_of(configuration, "soc"),
                 json_array_size(devices), json_array_size(devices) == 1 ? "" : "s",
                 text_of(configuration, "backend"));
        json_array_foreach (devices, k, device)
            device_add(&lines, device);
        processes_add(&lines, json_object_get(configuration, "processes"));
    }
    return lines;
}

void top_lines_free(struct top_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        free(lines->line[i].text);
    free(lines->line);
    *lines = (struct top_lines){0};
}

/* ---- the command ---- */

static void sample_print(const struct top_sample *sample)
{
    struct top_lines lines;

    if (choice.is_json) {
        json_t *out =
            json_pack("{s:O, s:O}", "problem", json_object_get(sample->info, "problem"),
                      "configurations", json_object_get(sample->info, "configurations"));

        json_dumpf(out, stdout, choice.is_once ? JSON_INDENT(2) : JSON_COMPACT);
        printf("\n");
        json_decref(out);
        return;
    }
    lines = top_lines_of(sample);
    for (size_t i = 0; i < lines.n; i++)
        printf("%s\n", lines.line[i].text);
    top_lines_free(&lines);
}

/* One sample, or the second of two where an interval is given, so that it has rates. */
static int once_run(void)
{
    struct top_sample sample = {0};
    bool is_good = top_sample_next(&sample);

    if (is_good && choice.interval >= 0) {
        sleep((unsigned)choice.interval);
        is_good = top_sample_next(&sample);
    }
    if (is_good)
        sample_print(&sample);
    top_sample_free(&sample);
    return is_good ? 0 : 1;
}

/* A line of JSON for each sample, until the reader goes. */
static int json_run(long interval)
{
    struct top_sample sample = {0};

    while (top_sample_next(&sample)) {
        sample_print(&sample);
        if (fflush(stdout) != 0)
            break;
        sleep((unsigned)interval);
    }
    top_sample_free(&sample);
    return 1;
}

static int top_run(int argc, char **argv)
{
    long interval = choice.interval > 0 ? choice.interval : 1;

    if (choice.is_once)
        return once_run();
    if (choice.is_json)
        return json_run(interval);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        fprintf(stderr, "aclmem top: there is no terminal; --once prints one sample\n");
        return 1;
    }
    return top_screen_run(interval);
}

static const struct option options[] = {
    {"once", OPTION_FLAG, &choice.is_once, NULL,
     "prints one sample and ends; with --interval it has rates"},
    {"json", OPTION_FLAG, &choice.is_json, NULL,
     "as JSON, a line for each sample; with --once one object"},
    {"interval", OPTION_NUMBER, &choice.interval, "SECONDS",
     "between samples; 1 when not given"},
    {0},
};

const struct command top_command = {
    "top",   "",    "watches which process uses which device: live, peak, rate, waits",
    options, false, top_run,
};
