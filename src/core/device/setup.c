/* See setup.h. */
#include "core/device/setup.h"

struct am_setup am_setup = {.soc = "", .default_device = -1};
