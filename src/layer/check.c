/*
 * The layer itself: a wrapper for each function that has a hook, made from the lists.
 *
 * A wrapper packs the arguments, takes the stack, and runs the hook before, the call and
 * the hook after.  The hooks run under am_check.lock or share the metadata (shared.h), the
 * call runs under no lock.
 */
#include "layer/metadata.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/refusal.h"
#include "base/options.h"
#include "core/watch.h"
#include "layer/bytes.h"
#include "layer/effects.h"
#include "layer/quarantine.h"
#include "layer/hooks.h"
#include "layer/layers.h"
#include "layer/order.h"
#include "layer/pinned.h"
#include "layer/python.h"
#include "layer/shared.h"
#include "layer/stacks.h"
#include "layer/thread.h"
#include "layer/waits.h"

static const struct hook {
    uint16_t effect;
    uint16_t stream; /* its offset in the arguments; UINT16_MAX: no stream */
    am_hook before;
    am_hook after;
} hooks[AM_API_COUNT] = {
#define STREAM_stream(name_) offsetof(struct am_args_##name_, stream)
#define STREAM__(name_) UINT16_MAX
#define AM_CALL(name_, effect_, stream_, before_, after_, lint_) \
    [AM_API_##name_] = {effect_, (uint16_t)(STREAM_##stream_(name_)), \
                        am_before_##before_, am_after_##after_},
#include "layer/calls.def"
#undef AM_CALL
};

static _Atomic pid_t owner; /* the process that is checked */

/* The handle of the default stream; where the library has none, a number for the context. */
static aclrtStream default_stream_find(const struct am_call *call)
{
    aclrtStream stream = NULL;
    aclrtContext context = NULL;

    if (am_check.below->aclrtCtxGetCurrentDefaultStream(&stream) == ACL_SUCCESS)
        return stream;
    if (am_option_text(AM_OPTION_over)[0] == '\0')
        return NULL;
    am_check.below->aclrtGetCurrentContext(&context);
    return (aclrtStream)(context != NULL ? (uintptr_t)context + 1
                                         : (uintptr_t)(call->device + 2));
}

/*
 * Queries the state of the calling thread.  The queries are the layer's and
 * not the program's, so a refusal leaves no message.
 */
static void thread_query(struct am_call *call, bool wants_context)
{
    const struct hook *hook = &hooks[call->id];
    struct am_capture before;
    char message[256];
    int32_t device = -1;
    aclrtContext context = NULL;
    aclrtStream stream = NULL;

    before = am_error_capture(message, sizeof message);
    if (am_check.below->aclrtGetDevice(&device) == ACL_SUCCESS)
        call->device = (int16_t)device;
    if (wants_context && am_check.below->aclrtGetCurrentContext(&context) == ACL_SUCCESS)
        call->context = (uintptr_t)context;
    if (hook->stream != UINT16_MAX) {
        memcpy(&stream, (const char *)call->args + hook->stream, sizeof stream);
        call->is_default_stream = stream == NULL;
        if (stream == NULL)
            stream = default_stream_find(call);
        call->stream = stream;
    }
    am_error_capture_end(before);
}

/* Passes quarantined frees on; true: there were any. */
static bool quarantine_flush(void)
{
    am_check_lock();
    am_quarantine_release_all();
    am_check_unlock();
    return am_quarantine_drain();
}

bool am_check_is_on(void)
{
    return owner == getpid();
}

void am_check_settle(void)
{
    if (owner == getpid() && am_api_top != &am_api_down)
        quarantine_flush();
}

/* Writes through a view are not seen: its bytes count as written. */
void am_check_view(const void *addr, size_t size)
{
    uint64_t at = (uintptr_t)addr;
    uint64_t end = at + size;

    if (owner != getpid())
        return;
    am_check_lock();
    while (at < end) {
        struct am_object *object = am_area_find(at);

        if (object == NULL)
            break;
        if (am_bytes_of(object) != NULL)
            object->bytes->is_shared = true;
        at = object->key + object->size;
    }
    am_check_unlock();
}

void am_call_before(struct am_call *call)
{
    const struct hook *hook = &hooks[call->id];

    if (hook->stream != UINT16_MAX)
        am_call_use_stream(call);
    if (hook->before != NULL)
        hook->before(call);
}

static void before_alone(struct am_call *call)
{
    const struct hook *hook = &hooks[call->id];

    am_check_lock();
    if (hook->effect & AM_QUEUES)
        am_capture_find(call);
    if (call->model == NULL || am_capture_before(call))
        am_call_before(call);
    am_check_unlock();
}

static void call_begin(struct am_call *call)
{
    const struct hook *hook = &hooks[call->id];
    unsigned what = hook->effect;

    struct am_thread *thread = am_thread_get();

    am_counter_add(&am_check.n_calls, 1);
    call->era = am_check.era;
    call->device = -1;
    call->is_free = (what & AM_FREES) != 0;
    call->is_unseen = thread == NULL || what == AM_QUERIES || what == AM_ASKS_ERROR ||
                      (what == AM_LINTS && !am_kind_is_on(AM_KIND_portability));
    if (thread == NULL)
        return;
    thread->n_calls++;
    if (what & AM_QUERIES)
        quarantine_flush();
    if (what == AM_ASKS_ERROR)
        am_ignored_forget();
    if (call->is_unseen)
        return;
    thread->is_inside = true;
    thread->is_querying = true;
    call->site = (struct am_site){
        .stack = am_stack_take(),
        .thread = thread->id,
        .python = am_python_take(),
        .api = (uint16_t)call->id,
    };
    thread_query(call, what & AM_MAKES);
    if (am_kind_is_on(AM_KIND_portability)) {
        am_check_lock();
        am_lint(call);
        am_check_unlock();
    }
    if (hook->before != NULL || hook->stream != UINT16_MAX) {
        if (!am_shared_before(call, hook->before))
            before_alone(call);
        am_quarantine_drain();
    }
    thread->is_querying = false;
}

/* Whether a call that found no memory is worth another try. */
static bool call_again(const struct am_call *call)
{
    return call->rc == ACL_ERROR_RT_MEMORY_ALLOCATION && quarantine_flush();
}

static void call_finish(void)
{
    struct am_thread *thread = am_thread_get();

    if (thread != NULL)
        thread->is_inside = false;
}

static void refusal_count(const struct am_call *call)
{
    if (!am_refusal_is_expected(call->rc, am_api_names[call->id]))
        atomic_fetch_add_explicit(&am_check.n_refused, 1, memory_order_relaxed);
}

static void after_alone(struct am_call *call)
{
    const struct hook *hook = &hooks[call->id];

    am_check_lock();
    am_waits_end(call);
    if (call->rc != ACL_SUCCESS)
        am_models_refused(call);
    if (call->model != NULL)
        am_capture_after(call);
    else if (hook->after != NULL)
        hook->after(call);
    if (call->finding != NULL) {
        call->finding->refused = call->rc;
        am_finding_report(call->finding);
    }
    am_call_unref(call);
    am_touch_update();
    am_check_unlock();
}

static void call_end(struct am_call *call)
{
    const struct hook *hook = &hooks[call->id];

    if (call->rc != ACL_SUCCESS)
        refusal_count(call);
    if (call->is_unseen)
        return;
    call->is_after = true;
    am_thread_get()->is_querying = true;
    if (call->device < 0 && (hook->effect & AM_MAKES))
        thread_query(call, true); /* the call itself may have chosen the device */
    if (!am_shared_after(call, hook->after))
        after_alone(call);
    am_thread_get()->is_querying = false;
    call_finish();
}

#define AM_API(ret_, name_, params_, args_, sig_) \
    __attribute__((unused)) static aclError check_##name_ params_ \
    { \
        struct am_args_##name_ packed = AM_PACK(args_); \
        struct am_call call = {.id = AM_API_##name_, .args = &packed}; \
        call_begin(&call); \
        if (!call.is_answered) \
            call.rc = am_check.below->name_ AM_UNPACK(args_); \
        if (call_again(&call)) \
            call.rc = am_check.below->name_ AM_UNPACK(args_); \
        call_end(&call); \
        return call.rc; \
    }
#define AM_API_RET(ret_, name_, params_, args_, sig_) \
    __attribute__((unused)) static ret_ check_##name_ params_ \
    { \
        struct am_args_##name_ packed = AM_PACK(args_); \
        struct am_call call = {.id = AM_API_##name_, .args = &packed}; \
        call_begin(&call); \
        call_finish(); \
        return am_check.below->name_ AM_UNPACK(args_); \
    }
#include "api/api.def"

/* A function without a row is not in the table, and costs nothing. */
static const struct am_api check_table = {
#define AM_CALL(name_, ...) .name_ = check_##name_,
#include "layer/calls.def"
#undef AM_CALL
};

/* What the program meant: also memory that was freed, or the block before the address. */
static struct am_object *touched_find(uintptr_t addr)
{
    struct am_object *object = am_area_find(addr);
    struct am_watch_place place;

    if (object == NULL)
        object = am_freed_area_find(addr);
    if (object == NULL && am_watch_find(addr, &place))
        object = am_area_find(place.start);
    return object;
}

/*
 * The program dies of this fault; the report may allocate, which the handler's rules would
 * forbid a program that goes on.
 */
bool am_touch_report(uintptr_t addr, uintptr_t instruction)
{
    static struct am_finding f;
    struct am_site site = {.api = AM_API_COUNT};
    struct am_object *object;
    bool is_reported;
    bool is_unmapped;
    char text[160];

    if (owner == 0 || !am_kind_is_on(AM_KIND_device_touch) || !am_check_lock_try())
        return false;
    site.stack = am_stack_take_from(instruction);
    site.thread = (uint32_t)syscall(SYS_gettid);
    if (addr < AM_NULL_MAX) {
        is_reported = am_ignored_null(addr, site);
        am_check_unlock();
        return is_reported;
    }
    object = touched_find(addr);
    if (object == NULL) {
        am_check_unlock();
        return false;
    }
    is_unmapped = object->is_freed && object->kind == AM_OBJECT_MAPPING;
    am_finding_begin(&f, AM_KIND_device_touch, "the program touched %s%s on device %d%s",
                     addr == object->key ? "byte 0 of " : "",
                     am_object_text(object, addr, text, sizeof text), object->device,
                     is_unmapped        ? ", which was unmapped before"
                     : object->is_freed ? ", which was freed before"
                                        : "");
    f.advice = "copy it (aclrtMemcpy), ask for a view (aclmem_host_view), or set "
               "ACLMEM_ISOLATE=0";
    am_finding_at(&f, "touched here", site);
    if (object->is_freed)
        am_finding_at(&f, is_unmapped ? "unmapped here" : "freed here", object->freed);
    am_finding_at(&f, "made here", object->made);
    am_finding_report(&f);
    am_findings_close(am_counter_sum(&am_check.n_calls), am_check.n_refused);
    am_check_unlock();
    return true;
}

/* The library may start again while other threads use the metadata. */
static void attach(const struct am_api *below)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    am_callers_are_wanted = true;
    am_check.below = below;
    am_check.era++;
    owner = getpid();
    am_stacks_open();
    pthread_once(&once, am_objects_open);
    am_touch_open();
    am_findings_open(am_option_text(AM_OPTION_findings));
}

/* What is left when the process ends without aclFinalize. */
__attribute__((destructor)) static void process_end(void)
{
    struct am_call call = {
        .id = AM_API_COUNT, .is_after = true, .site = {.api = AM_API_COUNT}};

    if (owner != getpid())
        return; /* not in use, or made by fork: the metadata is the parent's */
    am_check_lock();
    if (am_api_top != &am_api_down) {
        am_guards_check(&call);
        am_leaks_report(-1, 0, "the end of the process");
    }
    am_findings_close(am_counter_sum(&am_check.n_calls), am_check.n_refused);
    am_check_unlock();
}

const struct am_layer am_check_layer = {"check", &check_table, attach, NULL};
