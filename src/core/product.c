/* See product.h. */
#include "core/product.h"

#include <stddef.h>
#include <string.h>
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
    PEER = AM_PRODUCT_PEER,
    UUID = AM_PRODUCT_UUID,
    HCCS = AM_PRODUCT_HCCS,
    DIES = AM_PRODUCT_DIES,
    BF16 = AM_PRODUCT_BF16,
    POD = AM_PRODUCT_POD,
    STREAM_OPS = AM_PRODUCT_STREAM_OPS,
    MANAGED = AM_PRODUCT_MANAGED,
    POOL = AM_PRODUCT_POOL,
    PAD = AM_PRODUCT_PAD,
    P2P = AM_PRODUCT_P2P,
    HOST_REG = AM_PRODUCT_HOST_REG,
    VA_FLAG = AM_PRODUCT_VA_FLAG,
    USAGE = AM_PRODUCT_USAGE,
};

static const struct am_product products[] = {
#define AM_PRODUCT(name_, soc_, title_, features_, streams_, events_, processes_) \
    {name_, soc_, title_, features_, streams_, events_, processes_},
#include "core/products.def"
#undef AM_PRODUCT
};

static const struct {
    const char *product;
    aclrtDevAttr attr;
    int64_t value;
} figures[] = {
#define AM_FIGURE(product_, attr_, value_) {product_, ACL_DEV_ATTR_##attr_, value_},
#include "core/figures.def"
#undef AM_FIGURE
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

bool am_product_figure(const struct am_product *product, aclrtDevAttr attr,
                       int64_t *ret_value)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(figures); i++) {
        if (figures[i].attr == attr && strcmp(figures[i].product, product->name) == 0) {
            *ret_value = figures[i].value;
            return true;
        }
    }
    return false;
}

const char *am_product_names(void)
{
    static const char names[] =
#define AM_PRODUCT(name_, soc_, title_, features_, streams_, events_, processes_) \
    ", " name_
#include "core/products.def"
#undef AM_PRODUCT
        ;

    return names + 2;
}
