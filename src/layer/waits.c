/* See waits.h. */
#include "layer/waits.h"

void am_waits_begin(struct am_call *call, struct am_actor *actor,
                    struct am_signal *signal)
{
}

void am_waits_end(struct am_call *call)
{
}
