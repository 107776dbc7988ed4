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

struct top_line {
    char *text;
    bool is_title;
};

struct top_lines {
    struct top_line *line;
    size_t n;
};

struct top_sample {
    json_t *info; /* NULL: none yet */
    double time;  /* seconds */
};

/* Takes the next sample; the one before is freed.  False after saying why. */
bool top_sample_next(struct top_sample *sample);
void top_sample_free(struct top_sample *sample);
struct top_lines top_lines_of(const struct top_sample *sample);
void top_lines_free(struct top_lines *lines);

/*
 * Shows samples on the terminal every `interval` seconds until a key or a signal ends it;
 * what it returns is the exit code.  Where this build has no ncurses it says so.
 */
int top_screen_run(long interval);

#endif
