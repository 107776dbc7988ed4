/*
 * aclmem trace: prints a trace, a line for each call, in the order of time.
 *
 * With --follow it goes on while processes record, until the last of them has ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "output.h"
#include "show.h"
#include "text.h"

static struct {
    const char *grep;
    const char *from;
    const char *to;
    long process;
    bool is_following;
    bool has_stacks;
    bool has_tasks;
} choice;

struct filter {
    regex_t grep;
    bool has_grep;
    uint64_t from;
    uint64_t to;
};

/* Seconds since the beginning of the trace, as 1.5; -1 if the text is not a time. */
static double seconds_parse(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    return end == text || *end != '\0' || !(seconds >= 0) || seconds > 1e9 ? -1 : seconds;
}

static bool time_choose(const char *option, const char *text, uint64_t began,
                        uint64_t *ret_time)
{
    double seconds;

    if (text == NULL)
        return true;
    seconds = seconds_parse(text);
    if (seconds < 0) {
        usage_fail("trace", "%s is \"%s\", and takes seconds from the beginning", option,
                   text);
        return false;
    }
    *ret_time = began + (uint64_t)(seconds * 1e9);
    return true;
}

static bool filter_make(struct filter *filter, uint64_t began)
{
    filter->from = 0;
    filter->to = UINT64_MAX;
    filter->has_grep = choice.grep != NULL;
    if (filter->has_grep && regcomp(&filter->grep, choice.grep, REG_EXTENDED) != 0) {
        usage_fail("trace", "--grep is \"%s\", which is no regular expression",
                   choice.grep);
        return false;
    }
    return time_choose("--from", choice.from, began, &filter->from) &&
           time_choose("--to", choice.to, began, &filter->to);
}

static void frames_print(const struct trace_event *event)
{
    json_t *frames = show_frames(event->process, event->stack);
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame) {
        printf("    %s", text_of(frame, "function"));
        if (text_of(frame, "file")[0] != '\0')
            printf(" (%s:%lld)", text_of(frame, "file"), number_of(frame, "line"));
        printf("\n");
    }
    json_decref(frames);
}

static void duration_print(FILE *out, uint64_t ns)
{
    if (ns < 10000)
        fprintf(out, " <%" PRIu64 " ns>", ns);
    else if (ns < 10000000)
        fprintf(out, " <%.1f us>", (double)ns / 1e3);
    else
        fprintf(out, " <%.1f ms>", (double)ns / 1e6);
}

/* Work of a stream, or the bytes that are held of a device. */
static void figure_print(FILE *out, const struct trace_event *event)
{
    const struct trace_process *process = event->process;
    const struct trace_function *function =
        event->task < process->n_functions ? process->function[event->task] : NULL;

    if (event->kind == TRACE_HELD) {
        fprintf(out, "device %" PRIu64 ": %" PRIu64 " bytes held", event->stream,
                event->size);
        return;
    }
    if (event->kind == TRACE_NODE)
        fprintf(out, "model 0x%" PRIx64 ", task %" PRIu32, event->stream, event->number);
    else
        fprintf(out, "stream 0x%" PRIx64, event->stream);
    fprintf(out, ": %s ran, %.1f us after it was queued",
            function != NULL ? function->name : "work",
            (double)(event->begin - event->queued) / 1e3);
}

static void event_print(struct trace *trace, const struct filter *filter,
                        const struct trace_event *event, bool has_many)
{
    char *line = NULL;
    size_t n = 0;
    FILE *out;
    bool is_figure = event->kind == TRACE_TASK || event->kind == TRACE_NODE ||
                     event->kind == TRACE_HELD;

    if (event->time < filter->from || event->time > filter->to ||
        (event->function == NULL && !(is_figure && choice.has_tasks)) ||
        (choice.process != 0 && event->process->pid != choice.process))
        return;
    out = open_memstream(&line, &n);
    if (out == NULL)
        return;
    fprintf(out, "%.6f ",
            (double)(int64_t)(event->time - trace_about(trace)->began) / 1e9);
    if (has_many)
        fprintf(out, "[%d] ", event->process->pid);
    fprintf(out, "%" PRIu32 " ", event->thread);
    if (is_figure)
        figure_print(out, event);
    else
        show_call(out, trace, event);
    if (event->kind != TRACE_BEGIN && event->kind != TRACE_HELD)
        duration_print(out, event->end - event->begin);
    fclose(out);
    if (!filter->has_grep || regexec(&filter->grep, line, 0, NULL, 0) == 0) {
        printf("%s\n", line);
        if (choice.has_stacks)
            frames_print(event);
    }
    free(line);
}

static size_t processes_count(const struct trace *trace)
{
    size_t n = 0;

    for (size_t i = 0; i < trace_n_processes(trace); i++)
        n += trace_process_at(trace, i) != NULL;
    return n;
}

/* Whether any process of the trace may still record. */
static bool is_recording(const struct trace *trace)
{
    size_t n = 0;

    for (size_t i = 0; i < trace_n_processes(trace); i++) {
        const struct trace_process *process = trace_process_at(trace, i);

        if (process == NULL)
            continue;
        n++;
        if (process->ended == 0 &&
            (process->pid <= 0 || kill(process->pid, 0) == 0 || errno != ESRCH))
            return true;
    }
    return n == 0;
}

/* How it ended, where that was not as it should be. */
static void end_print(const struct trace *trace)
{
    for (size_t i = 0; i < trace_n_processes(trace); i++) {
        const struct trace_process *process = trace_process_at(trace, i);

        if (process != NULL && process->pid > 0 && process->ended == 0)
            fprintf(stderr, "aclmem: process %d %s\n", process->pid,
                    kill(process->pid, 0) == 0 ? "still runs"
                                               : "was killed, or called _exit");
    }
    trace_losses_report(trace);
}

static int trace_run(int argc, char **argv)
{
    char why[TRACE_WHY_SIZE];
    struct filter filter;
    struct trace_event event;
    struct trace *trace;
    bool is_last = false;

    if (argc != 1)
        return usage_fail("trace", "which file?");
    argv[0] = (char *)input_path("trace", argv[0]);
    trace = argv[0] != NULL ? trace_open_or_report("trace", argv[0]) : NULL;
    if (trace == NULL)
        return 1;
    if (!filter_make(&filter, trace_about(trace)->began)) {
        trace_close(trace);
        return EXIT_USAGE;
    }
    for (;;) {
        while (trace_next(trace, &event))
            event_print(trace, &filter, &event, processes_count(trace) > 1);
        if (!choice.is_following || is_last || fflush(stdout) != 0)
            break;
        is_last = !is_recording(trace); /* asked before the last refresh */
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (!trace_refresh(trace, why))
            break;
    }
    end_print(trace);
    if (filter.has_grep)
        regfree(&filter.grep);
    trace_close(trace);
    return 0;
}

static const struct option options[] = {
    {"grep", OPTION_TEXT, &choice.grep, "PATTERN",
     "Print lines that match the regular expression", 0},
    {"process", OPTION_NUMBER, &choice.process, "PID", "Print this process only", 0},
    {"from", OPTION_TEXT, &choice.from, "SECONDS", "Begin at this time of the trace", 0},
    {"to", OPTION_TEXT, &choice.to, "SECONDS", "End at this time", 0},
    {"tasks", OPTION_FLAG, &choice.has_tasks, NULL,
     "Print work on streams and bytes held of devices, too", 0},
    {"stacks", OPTION_FLAG, &choice.has_stacks, NULL, "Print the stack of each call", 0},
    {"follow", OPTION_FLAG, &choice.is_following, NULL,
     "Go on while the program records, like tail -f", 'f'},
    {0},
};

const struct command trace_command = {
    .name = "trace",
    .group = GROUP_TRACE,
    .operands = "FILE",
    .help = "Print a recorded trace, one line for each call",
    .options = options,
    .examples = "  aclmem trace run.trace --grep aclrtMapMem --stacks\n"
                "                         Print the calls that map memory, with stacks\n"
                "  aclmem trace -f run.trace\n"
                "                         Print calls while the program runs\n",
    .run = trace_run,
};
