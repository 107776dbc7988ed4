/* See json.h. */
#include "layer/json.h"

#include <string.h>

#include "base/sys.h"
#include "base/text.h"

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
