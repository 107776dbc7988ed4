/*
 * Checks of arguments that many functions share, and references of one call.  Checks of
 * single arguments stand in the rows of api.def, and come before all others.
 */
#ifndef AM_API_CHECK_H
#define AM_API_CHECK_H

#include "acl/acl.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/pool/mempool.h"
#include "core/stream/event.h"
#include "core/stream/model.h"
#include "core/stream/stream.h"

/* Refuse an argument, by its name, that is 0. */
#define AM_REQUIRE_NONZERO(x_) AM_REQUIRE((x_) > 0, ACL_ERROR_INVALID_PARAM, #x_ " is 0")

/* Refuse an argument, by its name, that is NULL. */
#define AM_REQUIRE_NONNULL(x_) \
    AM_REQUIRE((x_) != NULL, ACL_ERROR_INVALID_PARAM, #x_ " is NULL")

/* Refuse a reserved argument that is not 0. */
#define AM_REQUIRE_ZERO(x_) \
    AM_REQUIRE((x_) == 0, ACL_ERROR_INVALID_PARAM, #x_ " is 0x%llx; it takes 0", \
               (unsigned long long)(x_))

#define AM_REQUIRE_NULL(x_) \
    AM_REQUIRE((x_) == NULL, ACL_ERROR_INVALID_PARAM, #x_ " is %p; it takes NULL", (x_))

/* Refuse an argument that is not one of 0 to max_. */
#define AM_REQUIRE_TO(x_, max_) \
    AM_REQUIRE((uint64_t)(x_) <= (max_), ACL_ERROR_INVALID_PARAM, \
               #x_ " is %lld; it takes 0 to %d", (long long)(x_), (max_))

/* Refuse a location that is neither the host nor a device. */
#define AM_REQUIRE_LOCATION(location_, name_) \
    AM_REQUIRE((location_)->type == ACL_MEM_LOCATION_TYPE_HOST || \
                   (location_)->type == ACL_MEM_LOCATION_TYPE_DEVICE, \
               ACL_ERROR_INVALID_PARAM, \
               "%s.type is %d; it takes HOST (0) or DEVICE (1)", name_, \
               (int)(location_)->type)

/* Refuse a call that only Atlas A3 has. */
#define AM_REQUIRE_A3(feature_) \
    AM_REQUIRE(am_setup.product->features &(feature_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
               "only Atlas A3 products have this call, not %s (ACLMEM_PRODUCT=%s)", \
               am_setup.product->title, am_setup.product->name)

/* Refuse a call that the product does not have; %s in the text is the product's name. */
#define AM_REQUIRE_FEATURE(feature_, text_) \
    AM_REQUIRE(am_setup.product->features &(feature_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
               text_, am_setup.product->title)

/* Refuse a timeout in milliseconds that is neither -1, which is for ever, nor above 0. */
#define AM_REQUIRE_TIMEOUT(ms_) \
    AM_REQUIRE((ms_) == -1 || (ms_) > 0, ACL_ERROR_INVALID_PARAM, \
               "the timeout is %d ms; it takes -1 (for ever) or more than 0", (ms_))

/* Whether the product has virtual memory management at all, by the rules in force. */
aclError am_vmm_check(void);

/*
 * Checks the arguments for which items of a batch the elements of another array are: n indexes,
 * which begin with 0, ascend, and are less than n_items.
 */
aclError am_indexes_check(const size_t *indexes, size_t n, size_t n_items,
                          const char *indexes_name, const char *n_name);

/*
 * A variable that AM_HELD declares is NULL at first, and gives its reference back when the
 * function returns, so AM_TRY and AM_REQUIRE may stand behind the lookup that fills it.
 * AM_GET(stream, handle) declares such a variable called stream and finds its object, and
 * returns the error code if the handle is refused.
 */
#define AM_HELD(noun_, name_) \
    __attribute__((cleanup(am_held_##noun_))) struct am_##noun_ *name_ = NULL
#define AM_GET(noun_, handle_) \
    AM_HELD(noun_, noun_); \
    AM_TRY(am_##noun_##_get(handle_, &noun_))

/* The device with the id, and the id of the thread's device; declared in the same way. */
#define AM_GET_DEVICE(name_, id_) \
    struct am_device *name_; \
    AM_TRY(am_device_find(id_, &name_))
#define AM_GET_CURRENT_DEVICE(name_) \
    int32_t name_; \
    AM_TRY(am_context_device(&name_))

#define AM_HELD_PUT(noun_) \
    static inline void am_held_##noun_(struct am_##noun_ **held) \
    { \
        if (*held != NULL) \
            am_##noun_##_put(*held); \
    }
AM_HELD_PUT(context)
AM_HELD_PUT(event)
AM_HELD_PUT(model)
AM_HELD_PUT(pool)
AM_HELD_PUT(stream)

#endif
