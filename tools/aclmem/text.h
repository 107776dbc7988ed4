/* What subcommands print: members of JSON objects, sizes. */
#ifndef ACLMEM_TEXT_H
#define ACLMEM_TEXT_H

#include <jansson.h>

/* A member's text, "" if it has no such member. */
const char *text_of(const json_t *object, const char *key);
/* A string of any bytes: where it is no UTF-8, with ? for what is not ASCII. */
json_t *text_json(const char *text);
long long number_of(const json_t *object, const char *key);

/* "1.5 GB"; in the largest unit of which there is one. */
const char *size_text(long long size, char *text, size_t n);

#endif
