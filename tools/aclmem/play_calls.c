/* A caller for each function that works, from the library's own lists. */
#include <string.h>

#include "layer/args.h"
#include "play.h"

static const uint64_t *argument_load(void *into, size_t size, const uint64_t *from)
{
    memcpy(into, size > sizeof *from ? (const void *)(uintptr_t)*from : from, size);
    return from + 1;
}

#define LOAD(arg_) \
    argument = argument_load((void *)&packed.arg_, sizeof packed.arg_, argument);

#define AM_API(ret_, name_, params_, args_, sig_) \
    static int64_t call_##name_(const uint64_t *argument) \
    { \
        struct am_args_##name_ packed; \
        (void)packed; \
        AM_FOR_EACH(LOAD, args_, args_) \
        return name_ AM_UNPACK(args_); \
    }
#define AM_API_RET(...)
#include "api/api.def"

static const struct {
    const char *name;
    play_call call;
} calls[] = {
#define AM_API(ret_, name_, ...) {#name_, call_##name_},
#define AM_API_RET(...)
#include "api/api.def"
};

play_call play_call_find(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call;
    }
    return NULL;
}
