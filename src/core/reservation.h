/* What vspace.c tells mapping.c and arena.c about reservations. */
#ifndef AM_CORE_RESERVATION_H
#define AM_CORE_RESERVATION_H

#include "core/vspace.h"

/* The reservation that addr lies in, or NULL. */
struct am_reservation *am_reservation_find_locked(struct am_vspace *vs, uintptr_t addr)
    AM_REQUIRES(vs->lock);

struct am_backend_ops;

/* An arena, of which the program sees nothing. */
aclError am_reservation_create(struct am_vspace *vs, const struct am_owner *owner,
                               bool is_pinned, size_t size,
                               struct am_reservation **ret_arena);
void am_reservation_destroy_locked(struct am_vspace *vs, struct am_reservation *arena,
                                   const struct am_backend_ops *ops)
    AM_REQUIRES(vs->lock);

#endif
