/*
 * The model's list of what physical memory can be asked for, on an Atlas A2.
 *
 * Each attribute is for device memory, for host memory, or for both.  The attributes that
 * are not in the list are known to the headers, but no page offers them for physical
 * memory.
 */
#include "model.h"

enum {
    ON_DEVICE = 1,
    ON_HOST = 2,
    ON_BOTH = 3,
    TORCH_HOST = 4,
    EVERY_EDITION = 8,
    OTHER_CARD = 16
};

static const int attr_rules[] = {
    [ACL_DDR_MEM_HUGE] = ON_HOST,
    [ACL_DDR_MEM_NORMAL] = ON_HOST,
    [ACL_HBM_MEM_HUGE] = ON_DEVICE | TORCH_HOST | EVERY_EDITION,
    [ACL_HBM_MEM_NORMAL] = ON_DEVICE | TORCH_HOST | EVERY_EDITION,
    [ACL_DDR_MEM_P2P_HUGE] = ON_HOST,
    [ACL_DDR_MEM_P2P_NORMAL] = ON_HOST,
    [ACL_HBM_MEM_HUGE1G] = ON_DEVICE,
    [ACL_MEM_NORMAL] = ON_BOTH,
    [ACL_MEM_HUGE] = ON_BOTH,
    [ACL_MEM_HUGE1G] = ON_DEVICE,
    [ACL_MEM_P2P_NORMAL] = ON_BOTH,
    [ACL_MEM_P2P_HUGE] = ON_BOTH,
    [ACL_MEM_P2P_HUGE1G] = ON_DEVICE | OTHER_CARD,
};

static int attr_rule(int attr)
{
    bool is_known =
        attr >= 0 && (size_t)attr < sizeof(attr_rules) / sizeof(attr_rules[0]);

    return is_known ? attr_rules[attr] : 0;
}

size_t model_granule(const aclrtPhysicalMemProp *prop)
{
    bool is_1g = prop->memAttr == ACL_HBM_MEM_HUGE1G || prop->memAttr == ACL_MEM_HUGE1G ||
                 prop->memAttr == ACL_MEM_P2P_HUGE1G;

    return is_1g ? MODEL_GIB : MODEL_CHUNK;
}

static void check_location(const struct model *m, struct verdict *v,
                           const aclrtPhysicalMemProp *prop, int rule)
{
    int type = (int)prop->location.type;
    bool is_numa = type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    bool is_host = type == ACL_MEM_LOCATION_TYPE_HOST || is_numa;
    bool is_device = type == ACL_MEM_LOCATION_TYPE_DEVICE;
    bool is_no_node = is_numa && prop->location.id >= 1024;

    deny(v, !is_host && !is_device, ACL_ERROR_INVALID_PARAM);
    deny(v, is_device && !model_is_device_id(m, prop->location.id),
         ACL_ERROR_RT_INVALID_DEVICEID);
    deny(v, is_device && rule != 0 && (rule & ON_DEVICE) == 0, ACL_ERROR_INVALID_PARAM);
    deny(v, is_host && rule != 0 && (rule & (ON_HOST | TORCH_HOST)) == 0,
         ACL_ERROR_INVALID_PARAM);
    deny_strict(m, v, is_host, ACL_ERROR_INVALID_PARAM);
    deny(v, is_no_node, ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, is_numa && !is_no_node && prop->location.id > 0, ACL_ERROR_RT_PARAM_INVALID);
}

struct verdict model_may_use_prop(const struct model *m, const aclrtPhysicalMemProp *prop)
{
    struct verdict v = {0};
    int rule;

    deny(&v, prop == NULL, ACL_ERROR_INVALID_PARAM);
    if (prop == NULL)
        return v;

    rule = attr_rule((int)prop->memAttr);
    deny(&v, prop->handleType != ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM);
    doubt(&v, (int)prop->handleType == 2, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    deny(&v, (int)prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED,
         ACL_ERROR_INVALID_PARAM);
    deny(&v, rule == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, (rule & OTHER_CARD) != 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    deny_strict(m, &v, (rule & EVERY_EDITION) == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, prop->reserve != 0, ACL_ERROR_INVALID_PARAM);
    check_location(m, &v, prop, rule);
    return v;
}
