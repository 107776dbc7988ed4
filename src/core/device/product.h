/* The Ascend products that can be played, and what each can do: products.def. */
#ifndef AM_CORE_PRODUCT_H
#define AM_CORE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

enum {
    AM_PRODUCT_RC = 1u << 0,
    AM_PRODUCT_HBM = 1u << 1,
    AM_PRODUCT_VMM = 1u << 2,
    AM_PRODUCT_VMM_ALL = 1u << 3,
    AM_PRODUCT_MEM_1G = 1u << 4,
    AM_PRODUCT_HBM_1G = 1u << 5,
    AM_PRODUCT_P2P_1G = 1u << 6,
    AM_PRODUCT_NO_UC = 1u << 7,
    AM_PRODUCT_PEER = 1u << 8,
    AM_PRODUCT_UUID = 1u << 9,
    AM_PRODUCT_HCCS = 1u << 10,
    AM_PRODUCT_DIES = 1u << 11,
    AM_PRODUCT_BF16 = 1u << 12,
    AM_PRODUCT_POD = 1u << 13,
    AM_PRODUCT_STREAM_OPS = 1u << 14,
    AM_PRODUCT_MANAGED = 1u << 15,
    AM_PRODUCT_POOL = 1u << 16,
    AM_PRODUCT_PAD = 1u << 17,
    AM_PRODUCT_P2P = 1u << 18,
    AM_PRODUCT_HOST_REG = 1u << 19,
    AM_PRODUCT_VA_FLAG = 1u << 20,
    AM_PRODUCT_USAGE = 1u << 21,
    AM_PRODUCT_HINT = 1u << 22,
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
 * NULL when there is none.  The soc is the chip that was named, otherwise the product's.
 */
const struct am_product *am_product_find(const char *name, char ret_soc[AM_SOC_SIZE]);

/*
 * A figure that aclrtGetDeviceInfo gives, from figures.def; false where the documents
 * have none.
 */
bool am_product_figure(const struct am_product *product, aclrtDevAttr attr,
                       int64_t *ret_value);

/* "950 (Ascend950PR_9589), A3 (Ascend910_9391), ...": for messages. */
const char *am_product_names(void);

#endif
