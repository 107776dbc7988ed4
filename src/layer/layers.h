/* The layers of this build, for src/api/stack.c, and what their options must be. */
#ifndef AM_LAYER_LAYERS_H
#define AM_LAYER_LAYERS_H

#include <stdbool.h>

#include "api/api.h"

extern const struct am_layer am_check_layer;
extern const struct am_layer am_trace_layer;

/* Fails with 100000 where an option of a layer has a wrong value. */
aclError am_layers_configure(void);
/* Whatever the layer check holds back is passed on: the next look shows the truth. */
void am_check_settle(void);
/* Whether ACLMEM_LAYERS_PID leaves this process its layers. */
bool am_layers_are_for_us(void);

#endif
