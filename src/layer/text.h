/*
 * Text that grows, and the little of JSON that records need.  Where memory runs out the
 * text stops growing and is_from_region says so.
 */
#ifndef AM_LAYER_TEXT_H
#define AM_LAYER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct am_text {
    char *data; /* with a 0 behind it; NULL while it is empty */
    size_t n;
    size_t max;
    bool is_from_region;
};

void am_text_add(struct am_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* As a string of JSON, with its quotes. */
void am_text_quote(struct am_text *text, const char *string);
void am_text_free(struct am_text *text);

#endif
