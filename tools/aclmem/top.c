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
#include "output.h"
#include "text.h"

static struct {
    bool is_once;
    const char *json;
    const char *prometheus;
    const char *sort;
    long interval;
} choice = {.interval = -1};

const char *const top_sort_names[TOP_SORTS] = {"live", "peak", "rate", "pid", "command"};

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

static void history_add(struct top_history *history, const json_t *device)
{
    double capacity = (double)number_of(device, "capacity");

    if (history->n == TOP_HISTORY)
        memmove(history->share, history->share + 1,
                --history->n * sizeof history->share[0]);
    history->share[history->n++] =
        capacity > 0
            ? (unsigned short)(1000 * (double)number_of(device, "used") / capacity)
            : 0;
}

bool top_sample_next(struct top_sample *sample)
{
    double time = now();
    json_t *configuration;
    json_t *process;
    json_t *device;
    json_t *info;
    size_t n = 0;
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
        json_array_foreach (json_object_get(configuration, "devices"), k, device) {
            if (n < TOP_DEVICES)
                history_add(&sample->history[n++], device);
        }
    }
    json_decref(sample->info);
    sample->info = info;
    sample->time = time;
    return true;
}

void top_sample_free(struct top_sample *sample)
{
    json_decref(sample->info);
    sample->info = NULL;
}

/* ---- lines ---- */

static void line_add(struct top_lines *lines, enum top_colour colour, long long pid,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

static void line_add(struct top_lines *lines, enum top_colour colour, long long pid,
                     const char *format, ...)
{
    struct top_line *grown = realloc(lines->line, (lines->n + 1) * sizeof *grown);
    va_list args;

    if (grown == NULL)
        return;
    lines->line = grown;
    va_start(args, format);
    if (vasprintf(&grown[lines->n].text, format, args) >= 0) {
        grown[lines->n].colour = colour;
        grown[lines->n++].pid = pid;
    }
    va_end(args);
}

/* The last samples as bars of eight heights, each the highest of its samples. */
static void sparkline_make(const struct top_history *history, bool is_utf8, size_t width,
                           char *text)
{
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char plain[] = "_.-=+*%#";
    size_t each = (TOP_HISTORY + width - 1) / width;

    for (size_t i = 0; i < history->n; i += each) {
        unsigned high = 0;

        for (size_t k = i; k < i + each && k < history->n; k++)
            high = history->share[k] > high ? history->share[k] : high;
        high = high >= 1000 ? 7 : high * 8 / 1000;
        if (is_utf8)
            text = stpcpy(text, bars[high]);
        else
            *text++ = plain[high];
    }
    *text = '\0';
}

static void device_add(struct top_lines *lines, const json_t *device,
                       const struct top_history *history, const struct top_view *view)
{
    long long capacity = number_of(device, "capacity");
    long long used = number_of(device, "used");
    double share = capacity > 0 ? (double)used / (double)capacity : 0;
    int filled = (int)(share * 20 + 0.5);
    char spark[20 * 4 + 1] = "";
    char texts[2][32];

    if (view->has_history && history != NULL)
        sparkline_make(history, view->is_utf8, 20, spark);
    line_add(lines,
             share < 0.7   ? TOP_LOW
             : share < 0.9 ? TOP_MIDDLE
                           : TOP_HIGH,
             0, "%7lld [%.*s%.*s] %8s of %8s, %lld process%s%s%s",
             number_of(device, "id"), filled, "####################", 20 - filled,
             "....................", size_text(used, texts[0], sizeof texts[0]),
             size_text(capacity, texts[1], sizeof texts[1]),
             number_of(device, "processes"),
             number_of(device, "processes") == 1 ? "" : "es",
             spark[0] != '\0' ? "  " : "", spark);
}

/* A member in bytes; "-" for null. */
static const char *cell(const json_t *device, const char *key, char *text, size_t n)
{
    if (!json_is_integer(json_object_get(device, key)))
        return "-";
    return size_text(number_of(device, key), text, n);
}

/* The details of a process: what it exports and imports, and each stream that waits. */
static void details_add(struct top_lines *lines, const json_t *process)
{
    long long pid = number_of(process, "pid");
    json_t *device;
    char texts[4][32];
    size_t i;

    line_add(lines, TOP_PLAIN, pid, "        %lld streams, %zu of them wait",
             number_of(process, "streams"),
             json_array_size(json_object_get(process, "waiting")));
    json_array_foreach (json_object_get(process, "devices"), i, device)
        line_add(
            lines, TOP_PLAIN, pid,
            "        device %lld: %s allocated, %s at most, %s exported, %s imported",
            number_of(device, "id"), cell(device, "allocated", texts[0], 32),
            cell(device, "peak", texts[1], 32), cell(device, "exported", texts[2], 32),
            cell(device, "imported", texts[3], 32));
}

static void process_add(struct top_lines *lines, const json_t *process,
                        const struct top_view *view)
{
    static const char *const keys[] = {"live", "peak", "rate", "exported", "imported"};
    const json_t *devices = json_object_get(process, "devices");
    long long pid = number_of(process, "pid");
    char texts[5][32];
    const char *cells[5];
    json_t *device;
    json_t *stream;
    size_t i;

    if (json_array_size(devices) == 0)
        line_add(lines, TOP_PLAIN, pid, "%7lld %-13.13s   -", pid,
                 text_of(process, "command"));
    json_array_foreach (devices, i, device) {
        for (size_t k = 0; k < 5; k++)
            cells[k] = cell(device, keys[k], texts[k], sizeof texts[k]);
        line_add(lines, TOP_PLAIN, pid, "%7lld %-13.13s %3lld %9s %9s %9s %9s %9s %4lld",
                 pid, text_of(process, "command"), number_of(device, "id"), cells[0],
                 cells[1], cells[2], cells[3], cells[4], number_of(process, "streams"));
    }
    if (number_of(process, "models") > 0)
        line_add(lines, TOP_PLAIN, pid,
                 "        captured models: %lld, their streams: %lld",
                 number_of(process, "models"), number_of(process, "model_streams"));
    if (view->detailed == pid)
        details_add(lines, process);
    json_array_foreach (json_object_get(process, "waiting"), i, stream)
        line_add(lines, TOP_WAITING, pid,
                 "        stream %lld, %lld queued: until %s (%s)",
                 number_of(stream, "stream"), number_of(stream, "queued"),
                 text_of(stream, "until"), text_of(stream, "function"));
}

/* The sum of a member over the devices of a process. */
static long long sum_of(const json_t *process, const char *key)
{
    long long sum = 0;
    json_t *device;
    size_t i;

    json_array_foreach (json_object_get(process, "devices"), i, device)
        sum += number_of(device, key);
    return sum;
}

static enum top_sort sorted_by;

static int process_compare(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a;
    const json_t *y = *(json_t *const *)b;
    int order = 0;

    if (sorted_by == TOP_BY_COMMAND) {
        order = strcmp(text_of(x, "command"), text_of(y, "command"));
    } else if (sorted_by != TOP_BY_PID) {
        long long left = sum_of(x, top_sort_names[sorted_by]);
        long long right = sum_of(y, top_sort_names[sorted_by]);

        order = left > right ? -1 : left < right;
    }
    if (order != 0)
        return order;
    return number_of(x, "pid") < number_of(y, "pid") ? -1 : 1;
}

static void processes_add(struct top_lines *lines, const json_t *processes,
                          const struct top_view *view)
{
    size_t n = json_array_size(processes);
    json_t **sorted = malloc((n + 1) * sizeof *sorted);

    if (n == 0)
        line_add(lines, TOP_PLAIN, 0, "        no process uses them");
    else
        line_add(lines, TOP_TITLE, 0, "%7s %-13s %3s %9s %9s %9s %9s %9s %4s", "PROCESS",
                 "COMMAND", "DEV", "LIVE", "PEAK", "RATE/S", "EXPORTED", "IMPORTED",
                 "STRM");
    for (size_t i = 0; sorted != NULL && i < n; i++)
        sorted[i] = json_array_get(processes, i);
    sorted_by = view->sort;
    if (sorted != NULL && n > 0)
        qsort(sorted, n, sizeof *sorted, process_compare);
    for (size_t i = 0; sorted != NULL && i < n; i++)
        process_add(lines, sorted[i], view);
    free(sorted);
}

struct top_lines top_lines_of(const struct top_sample *sample,
                              const struct top_view *view)
{
    struct top_lines lines = {0};
    json_t *configuration;
    json_t *device;
    size_t n = 0;
    size_t i;
    size_t k;

    if (text_of(sample->info, "problem")[0] != '\0')
        line_add(&lines, TOP_HIGH, 0, "problem: %s", text_of(sample->info, "problem"));
    json_array_foreach (json_object_get(sample->info, "configurations"), i,
                        configuration) {
        const json_t *devices = json_object_get(configuration, "devices");

        if (i > 0)
            line_add(&lines, TOP_PLAIN, 0, "%s", "");
        line_add(&lines, TOP_TITLE, 0, "%s (%s), %zu device%s, %s backend",
                 text_of(configuration, "product"), text_of(configuration, "soc"),
                 json_array_size(devices), json_array_size(devices) == 1 ? "" : "s",
                 text_of(configuration, "backend"));
        json_array_foreach (devices, k, device)
            device_add(&lines, device, n < TOP_DEVICES ? &sample->history[n] : NULL,
                       view),
                n++;
        processes_add(&lines, json_object_get(configuration, "processes"), view);
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

/* ---- Prometheus ---- */

/* A label's value: quotes, backslashes and line ends are escaped. */
static void label_put(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', out);
        fputc((unsigned char)*value < ' ' ? '?' : *value, out);
    }
    fputc('"', out);
}

static const struct metric {
    const char *name;
    const char *help;
    const char *key;
    bool is_process; /* of each device of each process; of each device otherwise */
} metrics[] = {
    {"aclmem_device_capacity_bytes", "Memory of the device", "capacity", false},
    {"aclmem_device_used_bytes", "Memory that processes hold", "used", false},
    {"aclmem_device_processes", "Processes that use the device", "processes", false},
    {"aclmem_process_live_bytes", "Memory of the process", "live", true},
    {"aclmem_process_peak_bytes", "Most memory so far", "peak", true},
    {"aclmem_process_allocated_bytes_total", "Bytes allocated so far", "taken", true},
    {"aclmem_process_exported_bytes", "Memory shared with others", "exported", true},
    {"aclmem_process_imported_bytes", "Memory of others", "imported", true},
};

static void metric_put(FILE *out, const struct metric *metric,
                       const json_t *configuration, const json_t *process,
                       const json_t *device)
{
    char text[32];

    fprintf(out, "%s{", metric->name);
    label_put(out, "product", text_of(configuration, "product"));
    fputc(',', out);
    label_put(out, "backend", text_of(configuration, "backend"));
    snprintf(text, sizeof text, "%lld", number_of(device, "id"));
    fputc(',', out);
    label_put(out, "device", text);
    if (process != NULL) {
        snprintf(text, sizeof text, "%lld", number_of(process, "pid"));
        fputc(',', out);
        label_put(out, "pid", text);
        fputc(',', out);
        label_put(out, "command", text_of(process, "command"));
    }
    fprintf(out, "} %lld\n", number_of(device, metric->key));
}

static void metric_write(FILE *out, const struct metric *metric, const json_t *info)
{
    json_t *configuration, *process, *device;
    size_t i, k, d;

    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
            strstr(metric->name, "_total") != NULL ? "counter" : "gauge");
    json_array_foreach (json_object_get(info, "configurations"), i, configuration) {
        if (!metric->is_process) {
            json_array_foreach (json_object_get(configuration, "devices"), d, device)
                metric_put(out, metric, configuration, NULL, device);
            continue;
        }
        json_array_foreach (json_object_get(configuration, "processes"), k, process)
            json_array_foreach (json_object_get(process, "devices"), d, device)
                metric_put(out, metric, configuration, process, device);
    }
}

static int prometheus_write(const struct top_sample *sample)
{
    FILE *out = output_open("top", choice.prometheus, true);

    if (out == NULL)
        return 1;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        metric_write(out, &metrics[i], sample->info);
    return output_close(out, 0);
}

/* ---- the command ---- */

static int sample_print(const struct top_sample *sample, const struct top_view *view)
{
    struct top_lines lines;
    int rc;

    if (choice.prometheus != NULL)
        return prometheus_write(sample);
    if (choice.json != NULL) {
        json_t *out =
            json_pack("{s:O, s:O}", "problem", json_object_get(sample->info, "problem"),
                      "configurations", json_object_get(sample->info, "configurations"));

        rc = json_write("top", choice.json, out,
                        choice.is_once ? JSON_INDENT(2) : JSON_COMPACT);
        json_decref(out);
        return rc;
    }
    lines = top_lines_of(sample, view);
    for (size_t i = 0; i < lines.n; i++)
        printf("%s\n", lines.line[i].text);
    top_lines_free(&lines);
    return 0;
}

/* One sample, or the second of two where an interval is given, so that it has rates. */
static int once_run(const struct top_view *view)
{
    static struct top_sample sample;
    bool is_good = top_sample_next(&sample);
    int rc = 1;

    if (is_good && choice.interval >= 0) {
        sleep((unsigned)choice.interval);
        is_good = top_sample_next(&sample);
    }
    if (is_good)
        rc = sample_print(&sample, view);
    top_sample_free(&sample);
    return rc;
}

/* A line of JSON, or the metrics, for each sample, until the reader goes. */
static int samples_run(long interval, const struct top_view *view)
{
    static struct top_sample sample;

    while (top_sample_next(&sample)) {
        if (sample_print(&sample, view) != 0)
            break;
        sleep((unsigned)interval);
    }
    top_sample_free(&sample);
    return 1;
}

static int top_run(int argc, char **argv)
{
    long interval = choice.interval > 0 ? choice.interval : 1;
    struct top_view view = {0};

    while (choice.sort != NULL && strcmp(choice.sort, top_sort_names[view.sort]) != 0)
        view.sort++;
    if (choice.is_once || (choice.prometheus != NULL && choice.interval < 0))
        return once_run(&view);
    if (choice.json != NULL || choice.prometheus != NULL)
        return samples_run(interval, &view);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        fprintf(stderr, "aclmem top: there is no terminal; --once prints one sample\n");
        return 1;
    }
    return top_screen_run(interval, view.sort);
}

static const struct option options[] = {
    {"once", OPTION_FLAG, &choice.is_once, NULL,
     "Print one sample and end; with --interval it has rates", 0},
    {"interval", OPTION_NUMBER, &choice.interval, "SECONDS",
     "Wait this time between samples (default: 1)", 0},
    {"sort", OPTION_WORD, &choice.sort, "live|peak|rate|pid|command",
     "Sort processes by this key (default: live)", 0},
    {"json", OPTION_OUTPUT, &choice.json, "FILE",
     "Print JSON, a line for each sample; with --once one object", 'j'},
    {"prometheus", OPTION_OUTPUT, &choice.prometheus, "FILE",
     "Print metrics in the text format of Prometheus, once; with\n"
     "--interval repeatedly. FILE suits node_exporter's textfile\ncollector",
     0},
    {0},
};

const struct command top_command = {
    .name = "top",
    .group = GROUP_WATCH,
    .operands = "",
    .help = "Watch which process uses which device: live, peak, rate, waits",
    .options = options,
    .examples =
        "  aclmem top                         Watch (keys: l p r n c sort, Enter "
        "details)\n"
        "  aclmem top --once --json           Print one sample as JSON\n"
        "  aclmem top --prometheus=/var/lib/node_exporter/aclmem.prom --interval 15\n"
        "                                     Export metrics\n",
    .run = top_run,
};
