/* Shared by the files of virtual memory management. */
#ifndef AM_API_VMM_H
#define AM_API_VMM_H

#include "acl/acl_base.h"

/* Whether the product has virtual memory management at all, by the rules in force. */
aclError am_vmm_check(void);

#endif
