/* JSON of text that may hold any byte. */
#ifndef AM_LAYER_JSON_H
#define AM_LAYER_JSON_H

#include <jansson.h>

/* A string, with a question mark for each byte that is no printable UTF-8. */
json_t *am_json_text(const char *text);

#endif
