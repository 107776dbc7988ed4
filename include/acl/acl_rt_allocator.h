/*
 * AscendCL: a program's own allocator for a stream.  What belongs to it is declared in
 * acl_rt.h.
 */
#ifndef ACL_ACL_RT_ALLOCATOR_H
#define ACL_ACL_RT_ALLOCATOR_H

#include "acl_rt.h"

#endif
