/*
 * Memory attributes: their page size and where they are allowed.  attrs.def is the
 * table.
 */
#ifndef AM_CORE_ATTR_H
#define AM_CORE_ATTR_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"

enum am_page { AM_PAGE_NORMAL, AM_PAGE_HUGE, AM_PAGE_HUGE1G };

struct am_attr {
    const char *name;
    enum am_page page;
    unsigned where;   /* AM_ATTR_DEVICE, AM_ATTR_HOST */
    unsigned feature; /* AM_PRODUCT_* */
    int since;
};

enum { AM_ATTR_DEVICE = 1u << 0, AM_ATTR_HOST = 1u << 1 };

/* NULL for a number that is no attribute. */
const struct am_attr *am_attr_find(aclrtMemAttr attr);

/* In what multiples memory of this attribute is allocated and mapped. */
size_t am_attr_granularity(const struct am_attr *attr);

/* The page size that the documents promise for it, in bytes. */
uint32_t am_attr_page_size(aclrtMemAttr attr);

/*
 * Whether the product and the rules take this description of physical memory, as far as
 * that does not depend on devices and nodes.
 */
aclError am_attr_check(const aclrtPhysicalMemProp *prop);

#endif
