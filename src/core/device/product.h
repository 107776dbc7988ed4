/* The Ascend products that can be emulated, and their features: products.def. */
#ifndef AM_CORE_PRODUCT_H
#define AM_CORE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

/* AM_PRODUCT_RC and so on, a bit each. */
enum {
#define AM_FEATURE(name_) AM_FEATURE_##name_,
#include "core/device/features.def"
#undef AM_FEATURE
#define AM_FEATURE(name_) AM_PRODUCT_##name_ = 1u << AM_FEATURE_##name_,
#include "core/device/features.def"
#undef AM_FEATURE
};

struct am_product {
    const char *name;
    const char *soc; /* the chip that it has when none is named */
    const char *title;
    unsigned features;  /* AM_PRODUCT_* */
    unsigned n_streams; /* a device can have as many */
    unsigned n_events;
    unsigned n_processes; /* that may use a device */
};

#define AM_SOC_SIZE 32 /* of a chip's name, with the zero at its end */

/*
 * By the product's name, an alias or the name of one of its chips (socs.def), in any case;
 * NULL if there is no such product.  The soc is the chip that was named, otherwise the product's.
 */
const struct am_product *am_product_find(const char *name, char ret_soc[AM_SOC_SIZE]);

/*
 * A value that aclrtGetDeviceInfo returns, from product_attrs.def; false if the documents
 * have none.
 */
bool am_product_attr(const struct am_product *product, aclrtDevAttr attr,
                     int64_t *ret_value);

/* "950 (Ascend950PR_9589), A3 (Ascend910_9391), ...": for messages. */
const char *am_product_names(void);

#endif
