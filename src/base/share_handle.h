/*
 * The handle of an export.  The number finds the exporter and the export.  It has 64 bits;
 * kinds whose handle has room for more also have an unguessable secret, others have zeros
 * there.
 */
#ifndef AM_BASE_SHARE_HANDLE_H
#define AM_BASE_SHARE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

struct am_share_handle {
    uint64_t number;
    uint64_t secret[2];
};

/* Whether both have one secret, in a time that reveals nothing about it. */
static inline bool am_secret_is_equal(const struct am_share_handle *a,
                                      const struct am_share_handle *b)
{
    return ((a->secret[0] ^ b->secret[0]) | (a->secret[1] ^ b->secret[1])) == 0;
}

#endif
