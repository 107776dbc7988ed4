/* Identifiers made from names: RFC 4122, version 5. */
#ifndef AM_BASE_UUID_H
#define AM_BASE_UUID_H

#include <stdint.h>

#define AM_UUID_SIZE 16

/*
 * The same space and name always give the same identifier, which does not reveal them:
 * internal names of a machine stay private, so the hash has to be a cryptographic one.
 * Only the first 128 bytes of the name count.
 */
void am_uuid_make(const uint8_t *space, const char *name, uint8_t *ret_uuid);

#endif
