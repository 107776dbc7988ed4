/* See attr.h. */
#include "core/device/attr.h"

#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"

enum {
    NORMAL = AM_PAGE_NORMAL,
    HUGE = AM_PAGE_HUGE,
    HUGE1G = AM_PAGE_HUGE1G,
};

enum {
    NOWHERE = 0,
    DEVICE = AM_ATTR_DEVICE,
    HOST = AM_ATTR_HOST,
};

static const struct am_attr attrs[] = {
#define AM_ATTR(name_, page_, where_, feature_, since_) \
    [name_] = {#name_, (enum am_page)(page_), where_, feature_, since_},
#include "core/device/attrs.def"
#undef AM_ATTR
};

const struct am_attr *am_attr_find(aclrtMemAttr attr)
{
    return (size_t)attr < AM_ARRAY_SIZE(attrs) ? &attrs[attr] : NULL;
}

size_t am_attr_granularity(const struct am_attr *attr)
{
    return attr->page == AM_PAGE_HUGE1G ? AM_GIB : AM_CHUNK;
}

uint32_t am_attr_page_size(aclrtMemAttr attr)
{
    switch (attrs[attr].page) {
    case AM_PAGE_HUGE1G:
        return (uint32_t)AM_GIB;
    case AM_PAGE_HUGE:
        return (uint32_t)AM_CHUNK;
    default:
        /* Documented: a request for normal pages of HBM is served with huge ones. */
        return attr == ACL_HBM_MEM_NORMAL ? (uint32_t)AM_CHUNK : 4096;
    }
}

/* Refusals of the strict rules only: everything that the 8.0 edition does not have. */
static aclError attr_check_strict(const aclrtPhysicalMemProp *prop,
                                  const struct am_attr *attr)
{
    AM_REQUIRE(
        prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE, ACL_ERROR_INVALID_PARAM,
        "location.type is %s (%d): editions before 8.5 allocate physical memory of "
        "devices only (ACLMEM_RULES=strict)",
        prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ? "HOST" : "HOST_NUMA",
        prop->location.type);
    AM_REQUIRE(
        attr->since <= 800, ACL_ERROR_INVALID_PARAM,
        "memAttr is %s, which came with edition %d.%d; 8.0 takes ACL_HBM_MEM_HUGE and "
        "ACL_HBM_MEM_NORMAL (ACLMEM_RULES=strict)",
        attr->name, attr->since / 100, attr->since % 100);
    return ACL_SUCCESS;
}

aclError am_attr_check(const aclrtPhysicalMemProp *prop)
{
    const struct am_attr *attr = am_attr_find(prop->memAttr);
    bool is_device = prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;

    AM_REQUIRE(attr != NULL && attr->where != 0, ACL_ERROR_INVALID_PARAM,
               "memAttr is %d (%s), which is not an attribute for physical memory",
               (int)prop->memAttr, attr ? attr->name : "unknown");
    AM_REQUIRE(is_device || prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ||
                   prop->location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA,
               ACL_ERROR_INVALID_PARAM,
               "location.type is %d; it takes HOST (0), DEVICE (1) or HOST_NUMA (4)",
               (int)prop->location.type);
    AM_REQUIRE(attr->where & (is_device ? AM_ATTR_DEVICE : AM_ATTR_HOST),
               ACL_ERROR_INVALID_PARAM, "%s is for %s memory only", attr->name,
               is_device ? "host" : "device");
    AM_REQUIRE((attr->feature & ~am_setup.product->features) == 0,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "%s is not supported on %s (ACLMEM_PRODUCT=%s)", attr->name,
               am_setup.product->title, am_setup.product->name);
    return am_setup.is_strict ? attr_check_strict(prop, attr) : ACL_SUCCESS;
}
