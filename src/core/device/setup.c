/* See setup.h. */
#include "core/device/setup.h"

struct am_setup am_setup = {.default_device = -1};
