/* See product.h. */
#include "core/product.h"

#include <stddef.h>
#include <strings.h>

#include "base/util.h"

enum {
    RC = AM_PRODUCT_RC,
    HBM = AM_PRODUCT_HBM,
    VMM = AM_PRODUCT_VMM,
    VMM_ALL = AM_PRODUCT_VMM_ALL,
    MEM_1G = AM_PRODUCT_MEM_1G,
    HBM_1G = AM_PRODUCT_HBM_1G,
    P2P_1G = AM_PRODUCT_P2P_1G,
    NO_UC = AM_PRODUCT_NO_UC,
    HINT = AM_PRODUCT_HINT,
};

static const struct am_product products[] = {
#define AM_PRODUCT(name_, soc_, title_, features_) {name_, soc_, title_, features_},
#include "core/products.def"
#undef AM_PRODUCT
};

const struct am_product *am_product_find(const char *name)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(products); i++) {
        if (strcasecmp(products[i].name, name) == 0 ||
            strcasecmp(products[i].soc, name) == 0)
            return &products[i];
    }
    return NULL;
}

const char *am_product_names(void)
{
    static const char names[] =
#define AM_PRODUCT(name_, soc_, title_, features_) ", " name_
#include "core/products.def"
#undef AM_PRODUCT
        ;

    return names + 2;
}
