/*
 * The setup of the library: rules, product, backend.
 *
 * A start of the library writes it, and calls read it without a lock.
 */
#ifndef AM_CORE_SETUP_H
#define AM_CORE_SETUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "core/device/product.h"
#include "core/device/settings.h"

struct am_setup {
    atomic_bool is_strict;
    _Atomic(const struct am_product *) product;
    char soc[AM_SOC_SIZE]; /* the chip's name */
    _Atomic(const struct am_backend_ops *) backend;
    _Atomic int32_t default_device; /* logical; -1: none */
    _Atomic size_t malloc_pad;      /* bytes that aclrtMalloc adds on this product */
    struct am_settings params;      /* of the process */
};

extern struct am_setup am_setup;

#endif
