/*
 * The plan of the devices: how many there are and how much memory each has, by the options,
 * the machine and, where the backend's devices are real, by those.
 */
#ifndef AM_CORE_PLAN_H
#define AM_CORE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "backend/backend.h"
#include "core/ledger/ledger.h"

struct am_plan {
    int32_t n_all;
    size_t memory;   /* of the machine */
    size_t capacity; /* of each device; real ones may have less */
    int32_t n_real;  /* 0: devices are emulated */
};

aclError am_plan_make(struct am_plan *plan);

/*
 * The driver ids in ASCEND_RT_VISIBLE_DEVICES: a comma list, ascending, without blanks.
 * Reading stops at the first item that is not one.  Returns how many there are.
 */
int32_t am_plan_visible(const char *text, int32_t n_all, int32_t *ret_ids);

/*
 * The memory of a real device, ACLMEM_MEMORY being the most that is used of it.  A real
 * device that is several of ours is divided among them.
 */
size_t am_plan_capacity(const struct am_plan *plan, const struct am_device_info *info);

/* The configuration by which processes find the same ledger. */
aclError am_plan_config(const struct am_plan *plan, struct am_ledger_config *ret_config);

#endif
