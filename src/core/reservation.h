/* What vspace.c tells mapping.c about reservations. */
#ifndef AM_CORE_RESERVATION_H
#define AM_CORE_RESERVATION_H

#include "core/vspace.h"

/* The reservation that addr lies in, or NULL. */
struct am_reservation *am_reservation_find_locked(struct am_vspace *vs, uintptr_t addr)
    AM_REQUIRES(vs->lock);

#endif
