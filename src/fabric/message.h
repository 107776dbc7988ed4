/*
 * How the bytes of puts travel: as active messages of UCX, in parcels.
 *
 * UCX's own put over TCP copies the bytes once more, has each of its segments acknowledged,
 * and lets a peer write at any address.  A parcel is sent from where its bytes are, as one
 * message of UCX, and says which memory it is for.  The exporter's records tell where that
 * memory is and whether the parcel may be written there (am_registry_put()).
 *
 * The parcels of a connection are numbered from 1.  The importer asks for word with one of
 * them.  The exporter sends it when all parcels up to that one have arrived, in whatever
 * order they came.  The numbers are little-endian.
 */
#ifndef AM_FABRIC_MESSAGE_H
#define AM_FABRIC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A secret of the two processes, of one connection (am_link.token).  Bytes that arrive when
 * their connection is gone belong to no process that the exporter knows.
 */
#define AM_TOKEN_SIZE 16

struct am_put_head {
    uint8_t token[AM_TOKEN_SIZE];
    uint64_t grant;  /* the exporter's number of the memory */
    uint64_t offset; /* in it */
    uint64_t number;
    uint64_t asks; /* 1: for word of the arrival, 0 */
};

/* The word. */
struct am_ack {
    uint8_t token[AM_TOKEN_SIZE];
    uint64_t number; /* parcels up to this one have arrived */
};

_Static_assert(sizeof(struct am_put_head) == 48, "the format is fixed");
_Static_assert(sizeof(struct am_ack) == 24, "the format is fixed");

/*
 * The bytes of a parcel, at most.  With its head and UCX's it fits in one buffer of UCX's
 * receiver, from which it is copied to its place without being put together first.
 */
#define AM_PUT_MAX (UINT64_C(128) << 10)

/* How many parcels a put is; without bytes it is one. */
static inline size_t am_put_count(size_t size)
{
    return size == 0 ? 1 : (size + AM_PUT_MAX - 1) / AM_PUT_MAX;
}

/* Where the parcel begins, from 0 on: all are of about the same size. */
static inline size_t am_put_at(size_t size, size_t i)
{
    return size * i / am_put_count(size);
}

#endif
