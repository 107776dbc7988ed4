/*
 * aclmem top: samples of what processes do with the devices, as lines.
 *
 * A sample is what aclmem_info() says, with "live" and "rate" added to each device of each
 * process; rates come from the sample before.
 */
#ifndef ACLMEM_TOP_H
#define ACLMEM_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define TOP_COLUMNS 80
#define TOP_HISTORY 180 /* samples of a device: 3 minutes at one a second */
#define TOP_DEVICES 256

enum top_colour {
    TOP_PLAIN,
    TOP_TITLE,
    TOP_LOW,    /* a device below 70 % */
    TOP_MIDDLE, /* below 90 % */
    TOP_HIGH,
    TOP_WAITING, /* a stream that waits */
};

struct top_line {
    char *text;
    enum top_colour colour;
    long long pid; /* of a line about a process; 0: none */
};

struct top_lines {
    struct top_line *line;
    size_t n;
};

/* Used shares of a device, 0 to 1000, the newest last. */
struct top_history {
    unsigned short share[TOP_HISTORY];
    size_t n;
};

struct top_sample {
    json_t *info;                            /* NULL: none yet */
    double time;                             /* seconds */
    struct top_history history[TOP_DEVICES]; /* of the devices, in the order of lines */
};

enum top_sort { TOP_BY_LIVE, TOP_BY_PEAK, TOP_BY_RATE, TOP_BY_PID, TOP_BY_COMMAND };
#define TOP_SORTS 5
extern const char *const top_sort_names[TOP_SORTS];

/* How lines are made. */
struct top_view {
    enum top_sort sort;
    long long detailed; /* the process whose details are shown; 0: none */
    bool has_history;
    bool is_utf8;
};

/* Takes the next sample; the one before is freed.  False after printing the reason. */
bool top_sample_next(struct top_sample *sample);
void top_sample_free(struct top_sample *sample);
struct top_lines top_lines_of(const struct top_sample *sample,
                              const struct top_view *view);
void top_lines_free(struct top_lines *lines);

/*
 * Shows samples on the terminal every `interval` seconds until a key or a signal ends it;
 * returns the exit code.  Where this build has no ncurses it says so.
 */
int top_screen_run(long interval, enum top_sort sort);

#endif
