/*
 * AscendCL: a program's own allocator for a stream.  Its functions are declared in
 * acl_rt.h.
 */
#ifndef ACL_ACL_RT_ALLOCATOR_H
#define ACL_ACL_RT_ALLOCATOR_H

#include "acl_rt.h"

#endif
