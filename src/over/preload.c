/*
 * libaclmem_layers.so: the layers over somebody else's libascendcl.so.
 *
 * It is preloaded, and has the name that programs know the vendor's library by, so that
 * those which dlopen it get this one.  Functions of api.def go through the layers to the
 * library in ACLMEM_OVER; other functions that our headers declare are passed on by a jump.
 * A function that the other library lacks is no error until it is called.  Functions that
 * that are unknown here are found in the other library, which is preloaded too.
 *
 * Calls that the other library makes of itself are not the program's and go past the
 * layers; but those from a callback are, which runs within aclrtProcessReport.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "aclmem/aclmem.h"
#include "api/api.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "core/watch.h"
#include "layer/layers.h"

#define EXPORT __attribute__((visibility("default")))

static struct am_api real; /* written once */
static _Atomic(const struct am_api *) top;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static _Thread_local bool is_inside __attribute__((tls_model("initial-exec")));

/* ---- what layers ask the library that they are part of ---- */

/* The states that layers ask for: down after aclFinalize, up otherwise. */
_Atomic(const struct am_api *) am_api_top;
const struct am_api am_api_boot, am_api_down, am_api_forked;

aclError am_check_state(const char *function)
{
    return ACL_SUCCESS;
}

static aclError (*real_init)(const char *path);
static aclError (*real_finalize)(void);

static aclError over_aclInit(const char *path)
{
    aclError rc = real_init(path);

    if (rc == ACL_SUCCESS)
        atomic_store(&am_api_top, &real);
    return rc;
}

static aclError over_aclFinalize(void)
{
    aclError rc = real_finalize();

    if (rc == ACL_SUCCESS)
        atomic_store(&am_api_top, &am_api_down);
    return rc;
}

/* Only the other library knows the memory, and has no function to query it. */
bool am_watch_find(uintptr_t addr, struct am_watch_place *ret_place)
{
    return false;
}

bool am_watch_is_reserved(uintptr_t addr)
{
    return false;
}

struct am_watch_left am_watch_count(void)
{
    return (struct am_watch_left){0};
}

void am_watch_function_held(void)
{
}

bool am_watch_pinned(bool is_watched)
{
    return false;
}

/* When its tasks run, and what it holds, neither. */
void am_watch_tasks(void (*ran)(const struct am_watch_task *task))
{
}

void am_watch_held(void (*changed)(int device, uint64_t held))
{
}

/* ---- what the other library lacks ---- */

static void missing_report(const char *name)
{
    if (!am_thread_is_querying()) /* the program called it */
        am_log(AM_LOG_ERROR, "%s is called, and \"%s\" does not have it", name,
               am_option_text(AM_OPTION_over));
}

#define AM_API(ret_, name_, params_, args_, sig_) \
    static aclError missing_##name_ params_ \
    { \
        missing_report(#name_); \
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT; \
    }
#define AM_API_RET(ret_, name_, params_, args_, sig_) \
    static ret_ missing_##name_ params_ \
    { \
        missing_report(#name_); \
        return 0; \
    }
#include "api/api.def"

/* ---- functions that are passed on as they are ---- */

#if defined(__x86_64__)
#define JUMP(name_) "jmp *am_pass_" #name_ "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name_) \
    "adrp x16, am_pass_" #name_ "\n" \
    "ldr x16, [x16, :lo12:am_pass_" #name_ "]\n" \
    "br x16\n"
#else
#error "no jump for this processor"
#endif

#define PASS(name_) \
    __attribute__((visibility("hidden"))) void *am_pass_##name_; \
    __asm__(".text\n.global " #name_ "\n.type " #name_ ", @function\n" #name_ \
            ":\n" JUMP(name_) ".size " #name_ ", .-" #name_ "\n.previous\n");
#define MISSING(name_) \
    static intptr_t missing_##name_(void) \
    { \
        missing_report(#name_); \
        return 0; \
    }

/* The lists name their own types; only the names are used. */
#define AM_UNSUPPORTED(ret_, name_, ...) EACH(name_)
#define AM_API_VARIADIC(ret_, name_, ...) EACH(name_)
#define AM_DATA(name_) EACH(name_)
#define AM_REFUSED(ret_, name_, ...) EACH(name_)

#define EACH(name_) PASS(name_) MISSING(name_)
#include "api/api_unsupported.def"
#include "api/api_variadic.def"
#include "toolkit/ascendcl.def"
#undef EACH

/* ---- the start ---- */

static void *find(const char *name, void *missing)
{
    void *found = dlsym(library != NULL ? library : RTLD_NEXT, name);

    return found != NULL ? found : missing;
}

static void functions_find(void)
{
#define AM_API(ret_, name_, ...) \
    real.name_ = (__typeof__(real.name_))find(#name_, (void *)missing_##name_);
#define EACH(name_) am_pass_##name_ = find(#name_, (void *)missing_##name_);
#include "api/api.def"
#include "api/api_unsupported.def"
#include "api/api_variadic.def"
#include "toolkit/ascendcl.def"
}

/* A child by fork has none of the layers' threads and files: its calls go past them. */
static void forked(void)
{
    atomic_store(&top, &real);
}

static void start(void)
{
    char why[AM_WHY_SIZE];
    const struct am_api *built = &real;
    const char *path;

    am_options_reset();
    if (am_options_read_environment(why) != 0)
        am_log(AM_LOG_WARN, "%s", why);
    am_log_set_level((enum am_log_level)am_option_number(AM_OPTION_log));
    path = am_option_text(AM_OPTION_over);
    if (path[0] != '\0') {
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (library == NULL)
            am_log(AM_LOG_ERROR, "ACLMEM_OVER: %s", dlerror());
    }
    functions_find();
    real_init = real.aclInit;
    real_finalize = real.aclFinalize;
    real.aclInit = over_aclInit;
    real.aclFinalize = over_aclFinalize;
    atomic_store(&am_api_top, &real);
    if (am_stack_build(am_option_text(AM_OPTION_layers), &real, &built) != ACL_SUCCESS) {
        am_log(AM_LOG_ERROR, "no layers: %s", am_error_take_messages());
        built = &real;
    }
    pthread_atfork(NULL, NULL, forked);
    atomic_store(&top, built);
}

/* Before the program's own constructors; a call that comes earlier starts it by itself. */
__attribute__((constructor)) static void loaded(void)
{
    pthread_once(&once, start);
}

/* The table for this call: the layers' for the program, the library's own for itself. */
static inline const struct am_api *enter(bool *ret_was_inside)
{
    const struct am_api *table = atomic_load_explicit(&top, memory_order_acquire);

    *ret_was_inside = is_inside;
    if (table == NULL) {
        pthread_once(&once, start);
        table = atomic_load(&top);
    }
    return is_inside ? &real : table;
}

/* ---- the functions ---- */

#define AM_API(ret_, name_, params_, args_, sig_) \
    EXPORT ret_ name_ params_ \
    { \
        bool was_inside; \
        const struct am_api *table = enter(&was_inside); \
        ret_ result; \
        is_inside = AM_API_##name_ != AM_API_aclrtProcessReport; \
        result = table->name_ args_; \
        is_inside = was_inside; \
        return result; \
    }
#include "api/api.def"
