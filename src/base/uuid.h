/* Identifiers made from names: RFC 4122, version 5. */
#ifndef AM_BASE_UUID_H
#define AM_BASE_UUID_H

#include <stdint.h>

#define AM_UUID_SIZE 16

/*
 * The same space and name always give the same identifier, and it does not tell them:
 * what a machine is called inside stays there.  Of the name, the first 128 bytes count.
 */
void am_uuid_make(const uint8_t *space, const char *name, uint8_t *ret_uuid);

#endif
