/* Members of JSON objects, and sizes as people read them. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

json_t *text_json(const char *text)
{
    json_t *string = json_string(text);
    char *copy = string == NULL ? strdup(text) : NULL;

    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    if (copy != NULL)
        string = json_string(copy);
    free(copy);
    return string;
}

long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

const char *size_text(long long size, char *text, size_t n)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)size;
    size_t unit = 0;

    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, n, "%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
    return text;
}
