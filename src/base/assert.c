/* See assert.h. */
#include "base/assert.h"

#include <stdlib.h>

#include "base/log.h"

void am_assert_failed(const char *what, const char *file, int line)
{
    am_log(AM_LOG_ERROR, "%s:%d: %s does not hold", file, line, what);
    abort();
}
