/* See text.h. */
#include "layer/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

static bool room_make(struct am_text *text, size_t n)
{
    size_t max = text->max == 0 ? 1024 : text->max;
    char *data;

    while (max < text->n + n + 1)
        max *= 2;
    if (max == text->max)
        return true;
    data = am_sys_realloc(text->data, max);
    if (data == NULL) {
        text->is_from_region = true;
        return false;
    }
    text->data = data;
    text->max = max;
    return true;
}

void am_text_add(struct am_text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !room_make(text, (size_t)n))
        return;
    va_start(args, format);
    vsnprintf(text->data + text->n, (size_t)n + 1, format, args);
    va_end(args);
    text->n += (size_t)n;
}

void am_text_quote(struct am_text *text, const char *string)
{
    am_text_add(text, "\"");
    while (*string != '\0') {
        size_t plain =
            strcspn(string, "\"\\\b\f\n\r\t\001\002\003\004\005\006\016\017"
                            "\020\021\022\023\024\025\026\027\030\031\032\033");

        am_text_add(text, "%.*s", (int)plain, string);
        string += plain;
        if (*string != '\0')
            am_text_add(text, "\\u%04x", (unsigned char)*string++);
    }
    am_text_add(text, "\"");
}

void am_text_free(struct am_text *text)
{
    free(text->data);
    *text = (struct am_text){0};
}
