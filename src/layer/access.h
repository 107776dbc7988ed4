/* Declared accesses of host functions. */
#ifndef AM_LAYER_ACCESS_H
#define AM_LAYER_ACCESS_H

#include "layer/order.h"

/* The call has a declaration: its accesses become the call's work.  False: it has none. */
bool am_access_add(struct am_call *call);

#endif
