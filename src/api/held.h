/*
 * References of one call.  A variable that AM_HELD declares is NULL at first, and gives its
 * reference back when the function returns, so AM_TRY and AM_REQUIRE may stand behind the
 * lookup that fills it.  AM_GET(stream, handle) declares such a variable called stream and
 * finds its object, and returns the error code if the handle is refused.
 */
#ifndef AM_API_HELD_H
#define AM_API_HELD_H

#include "base/error.h"
#include "core/device/context.h"
#include "core/stream/event.h"
#include "core/stream/stream.h"

#define AM_HELD(noun_, name_) \
    __attribute__((cleanup(am_held_##noun_))) struct am_##noun_ *name_ = NULL
#define AM_GET(noun_, handle_) \
    AM_HELD(noun_, noun_); \
    AM_TRY(am_##noun_##_get(handle_, &noun_))

#define AM_HELD_PUT(noun_) \
    static inline void am_held_##noun_(struct am_##noun_ **held) \
    { \
        if (*held != NULL) \
            am_##noun_##_put(*held); \
    }
AM_HELD_PUT(context)
AM_HELD_PUT(event)
AM_HELD_PUT(stream)
#undef AM_HELD_PUT

#endif
