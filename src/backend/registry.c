/* The list of backends. */
#include <strings.h>

#include "backend/backend.h"
#include "base/util.h"

extern const struct am_backend_ops am_backend_host;
extern const struct am_backend_ops am_backend_cuda;

static const struct am_backend_ops *const backends[] = {
    &am_backend_host,
    &am_backend_cuda,
};

const struct am_backend_ops *am_backend_find(const char *name)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(backends); i++) {
        if (strcasecmp(backends[i]->name, name) == 0)
            return backends[i];
    }
    return NULL;
}
