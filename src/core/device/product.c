/* See product.h. */
#include "core/device/product.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

#define ASCEND "Ascend" /* the beginning of each soc, which a name may lack */
#define REST_MAX 12     /* letters that a name may have beyond its known beginning */

/* In products.def features go by their short names. */
enum {
#define AM_FEATURE(name_) name_ = AM_PRODUCT_##name_,
#include "core/device/features.def"
#undef AM_FEATURE
};

static const struct am_product products[] = {
#define AM_PRODUCT(name_, soc_, title_, features_, streams_, events_, processes_) \
    {name_, soc_, title_, features_, streams_, events_, processes_},
#include "core/device/products.def"
#undef AM_PRODUCT
};

static const struct {
    const char *product;
    aclrtDevAttr attr;
    int64_t value;
} attrs[] = {
#define AM_FIGURE(product_, attr_, value_) {product_, ACL_DEV_ATTR_##attr_, value_},
#include "core/device/product_attrs.def"
#undef AM_FIGURE
};

static const struct {
    const char *product;
    const char *alias; /* NULL: a soc */
    const char *soc;
} names[] = {
#define AM_SOC(product_, soc_) {product_, NULL, soc_},
#define AM_ALIAS(name_, product_) {product_, name_, NULL},
#include "core/device/socs.def"
#undef AM_ALIAS
#undef AM_SOC
};

static const struct am_product *find_by_name(const char *name)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(products); i++) {
        if (strcasecmp(products[i].name, name) == 0)
            return &products[i];
    }
    return NULL;
}

/* Whether a name goes on with letters and digits, and not for long. */
static bool is_rest(const char *text)
{
    size_t n = 0;

    while (isalnum((unsigned char)text[n]))
        n++;
    return n > 0 && n <= REST_MAX && text[n] == '\0';
}

/* Whether the name, which may lack "Ascend", names the soc; its spelling then. */
static bool soc_is(const char *soc, const char *name, char ret_soc[AM_SOC_SIZE])
{
    const char *end = strchr(soc, '*');
    size_t n = end != NULL ? (size_t)(end - soc) : strlen(soc);
    size_t skip = strncasecmp(name, soc, strlen(ASCEND)) == 0 ? 0 : strlen(ASCEND);
    const char *rest;

    if (strncasecmp(soc + skip, name, n - skip) != 0)
        return false;
    rest = name + (n - skip);
    if (end != NULL ? !is_rest(rest) : rest[0] != '\0')
        return false;
    snprintf(ret_soc, AM_SOC_SIZE, "%.*s%s", (int)n, soc, rest);
    return true;
}

/* The product of a name or an alias, with the name of its usual chip. */
static const struct am_product *find_family(const char *name, char ret_soc[AM_SOC_SIZE])
{
    const struct am_product *product = find_by_name(name);

    for (size_t i = 0; product == NULL && i < AM_ARRAY_SIZE(names); i++) {
        if (names[i].alias != NULL && strcasecmp(names[i].alias, name) == 0)
            product = find_by_name(names[i].product);
    }
    if (product != NULL)
        snprintf(ret_soc, AM_SOC_SIZE, "%s", product->soc);
    return product;
}

const struct am_product *am_product_find(const char *name, char ret_soc[AM_SOC_SIZE])
{
    const struct am_product *product = find_family(name, ret_soc);

    if (product != NULL)
        return product;
    for (size_t i = 0; i < AM_ARRAY_SIZE(names); i++) {
        if (names[i].soc != NULL && soc_is(names[i].soc, name, ret_soc))
            return find_by_name(names[i].product);
    }
    if (strncasecmp(name, ASCEND, strlen(ASCEND)) != 0)
        return NULL;
    return find_family(name + strlen(ASCEND), ret_soc);
}

bool am_product_attr(const struct am_product *product, aclrtDevAttr attr,
                     int64_t *ret_value)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(attrs); i++) {
        if (attrs[i].attr == attr && strcmp(attrs[i].product, product->name) == 0) {
            *ret_value = attrs[i].value;
            return true;
        }
    }
    return false;
}

const char *am_product_names(void)
{
    static const char text[] =
#define AM_PRODUCT(name_, soc_, title_, features_, streams_, events_, processes_) \
    ", " name_ " (" soc_ ")"
#include "core/device/products.def"
#undef AM_PRODUCT
        ;

    return text + 2;
}
