/* See setup.h. */
#include "core/device/setup.h"

struct am_setup am_setup = {.soc = "", .default_device = -1};

struct am_idmap am_ids = AM_IDMAP_INIT("handles");
