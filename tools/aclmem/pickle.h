/* Data of a pickle as JSON.  Nothing is executed: what is no plain data is refused. */
#ifndef ACLMEM_PICKLE_H
#define ACLMEM_PICKLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* NULL, and why. */
json_t *pickle_read(const uint8_t *bytes, size_t n, const char **ret_why);

#endif
