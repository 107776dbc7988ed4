/* The Ascend products that can be played, and what each can do: products.def. */
#ifndef AM_CORE_PRODUCT_H
#define AM_CORE_PRODUCT_H

enum {
    AM_PRODUCT_RC = 1u << 0,
    AM_PRODUCT_HBM = 1u << 1,
    AM_PRODUCT_VMM = 1u << 2,
    AM_PRODUCT_VMM_ALL = 1u << 3,
    AM_PRODUCT_MEM_1G = 1u << 4,
    AM_PRODUCT_HBM_1G = 1u << 5,
    AM_PRODUCT_P2P_1G = 1u << 6,
    AM_PRODUCT_NO_UC = 1u << 7,
    AM_PRODUCT_HINT = 1u << 8,
};

struct am_product {
    const char *name;
    const char *soc;
    const char *title;
    unsigned features; /* AM_PRODUCT_* */
};

/* By its name or its soc's, in any case; NULL when there is none. */
const struct am_product *am_product_find(const char *name);

/* "950, A3, A2, ...": for messages. */
const char *am_product_names(void);

#endif
