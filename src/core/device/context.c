/* See context.h. */
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"

static _Atomic uint64_t n_contexts;

_Thread_local void *am_current;

void am_context_put(struct am_context *context)
{
    am_named_put(&context->named);
}

static aclError context_create_locked(int32_t device, bool is_primary,
                                      struct am_context **ret_context)
    AM_REQUIRES(am_devices.lock)
{
    struct am_domain *domain = am_devices.device[device].domain;
    struct am_context *context;

    if (domain != NULL) /* fails if too many processes use the device */
        AM_TRY(am_domain_use(domain));
    context = am_named_alloc(AM_KIND_CONTEXT, sizeof *context);
    AM_REQUIRE(context != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a context");
    context->device = device;
    context->is_primary = is_primary;
    am_settings_reset(&context->params);
    am_named_publish(&context->named);
    n_contexts += !is_primary;
    if (am_setup.backend->caps & AM_CAP_DEVICES)
        am_setup.backend->device_choose(am_devices.device[device].driver_id);
    *ret_context = context;
    return ACL_SUCCESS;
}

static void context_kill_locked(struct am_context *context) AM_REQUIRES(am_devices.lock)
{
    am_named_unpublish(&context->named);
    n_contexts -= !context->is_primary;
    am_context_put(context);
}

void am_context_kill_all_locked(int32_t device)
{
    struct am_context *context;
    uint32_t at = 0;

    while ((context = am_named_next(AM_KIND_CONTEXT, &at)) != NULL) {
        if (context->device == device)
            context_kill_locked(context);
    }
}

void am_context_make_current(struct am_context *context)
{
    am_current = context->named.handle;
}

aclError am_context_create(int32_t device, void **ret_handle)
{
    struct am_context *context;
    aclError rc;

    am_lock(&am_devices.lock);
    rc = context_create_locked(device, false, &context);
    if (rc == ACL_SUCCESS) {
        am_context_make_current(context);
        *ret_handle = context->named.handle;
    }
    am_unlock(&am_devices.lock);
    return rc;
}

aclError am_device_enter(struct am_device *device, bool is_counted)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&am_devices.lock);
    if (device->primary == NULL)
        rc = context_create_locked(device->id, true, &device->primary);
    if (rc == ACL_SUCCESS) {
        am_context_make_current(device->primary);
        device->n_set += is_counted;
    }
    am_unlock(&am_devices.lock);
    return rc;
}

aclError am_context_get(void *handle, struct am_context **ret_context)
{
    *ret_context = am_named_get(AM_KIND_CONTEXT, handle);
    AM_REQUIRE(*ret_context != NULL, ACL_ERROR_RT_INVALID_HANDLE, "context %p %s", handle,
               am_handle_why(AM_KIND_CONTEXT, handle));
    return ACL_SUCCESS;
}

aclError am_context_kill(struct am_context *context)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&am_devices.lock);
    if (context->is_primary)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "context %p is the default context of device %d; aclrtResetDevice ends it",
            context->named.handle, (int)context->device);
    else if (context->named.handle != NULL)
        context_kill_locked(context);
    else
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE,
                     "another thread has just destroyed the context");
    am_unlock(&am_devices.lock);
    return rc;
}

void *am_context_current(void)
{
    struct am_device *device;

    if (am_current_find() != NULL)
        return am_current;
    /* The default device of aclInit's file is not counted as set. */
    if (am_setup.default_device >= 0 &&
        am_device_find(am_setup.default_device, &device) == ACL_SUCCESS &&
        am_device_enter(device, false) == ACL_SUCCESS)
        return am_current;
    return NULL;
}

/* The thread's current context, valid in this read section. */
static aclError current_find(struct am_context **ret_context)
{
    struct am_context *context = am_current_find();

    if (context == NULL && am_context_current() != NULL)
        context = am_current_find();
    AM_REQUIRE(
        context != NULL, ACL_ERROR_RT_CONTEXT_NULL,
        "this thread has no device; call aclrtSetDevice or aclrtSetCurrentContext first");
    *ret_context = context;
    return ACL_SUCCESS;
}

aclError am_context_get_current(struct am_context **ret_context)
{
    AM_TRY(current_find(ret_context));
    AM_REQUIRE(am_ref_try(&(*ret_context)->named.refs), ACL_ERROR_RT_CONTEXT_NULL,
               "the device of this thread has just been reset");
    return ACL_SUCCESS;
}

aclError am_context_device(int32_t *ret_device)
{
    struct am_context *context;

    AM_TRY(current_find(&context));
    *ret_device = context->device;
    return ACL_SUCCESS;
}

uint64_t am_context_count(void)
{
    return n_contexts;
}

aclError am_peer_set(int32_t peer, bool is_enabled)
{
    struct am_device *found;
    int32_t device;

    AM_TRY(am_device_find(peer, &found));
    AM_TRY(am_context_device(&device));
    AM_REQUIRE(am_setup.product->features & AM_PRODUCT_PEER,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s have no peer access",
               am_setup.product->title);
    AM_REQUIRE(
        peer != device, ACL_ERROR_RT_PARAM_INVALID,
        "peerDeviceId is %d, the current device of this thread; it takes another device",
        peer);
    AM_REQUIRE(am_peer_is_possible(device, peer), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "device %d (%s) cannot access the memory of device %d (%s)", device,
               am_device_info(&am_devices.device[device]).bus_id, peer,
               am_device_info(found).bus_id);
    if (is_enabled)
        atomic_fetch_or(&am_devices.device[device].peers, UINT64_C(1) << peer);
    else
        atomic_fetch_and(&am_devices.device[device].peers, ~(UINT64_C(1) << peer));
    return ACL_SUCCESS;
}
