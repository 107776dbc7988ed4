/* See runtime.h. */
#include "core/runtime.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "backend/remote/remote.h"
#include "base/config.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/log.h"
#include "base/maps.h"
#include "base/options.h"
#include "core/copy/copy.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/heap/heap.h"
#include "core/hostmem/hostmem.h"
#include "core/ledger/rundir.h"
#include "core/devices.h"
#include "core/managed/managed.h"
#include "core/pool/allocator.h"
#include "core/stream/event.h"
#include "core/stream/call.h"
#include "core/stream/sched.h"
#include "core/stream/stream.h"
#include "core/vmm/vspace.h"

struct am_runtime am_rt = {.lock = AM_LOCK_INIT(AM_RANK_RUNTIME, "runtime")};

bool am_runtime_lock(void)
{
    unsigned depth = am_epoch_suspend(); /* the holder may wait for all sections */
    bool is_locked = true;

    if (!am_call_is_inside()) {
        am_lock(&am_rt.lock);
    } else {
        while (!(is_locked = am_lock_try(&am_rt.lock)) && !am_rt.is_stopping)
            sched_yield();
    }
    am_epoch_resume(depth);
    return is_locked;
}

/* Translates the result of am_config_read() into a code. */
static aclError config_error(int error, const char *why)
{
    switch (error) {
    case ENOENT:
        return am_fail(ACL_ERROR_INVALID_FILE, "%s", why);
    case EFBIG:
        return am_fail(ACL_ERROR_INVALID_FILE_SIZE, "%s", why);
    case EILSEQ:
        return am_fail(ACL_ERROR_PARSE_FILE, "%s", why);
    case ENOMEM:
        return am_fail(ACL_ERROR_BAD_ALLOC, "%s", why);
    default:
        return am_fail(ACL_ERROR_FILE_ATTR_INVALID, "%s", why);
    }
}

static void unknown_options_warn(void)
{
    const char *nearest;
    const char *name;
    size_t pos = 0;

    while ((name = am_options_next_unknown(&pos, &nearest)) != NULL) {
        if (nearest != NULL)
            am_log(AM_LOG_WARN, "%s is set but is not an option; did you mean %s?", name,
                   nearest);
        else
            am_log(AM_LOG_WARN,
                   "%s is set but is not an option; aclmem info --options lists them",
                   name);
    }
}

static aclError backend_start(const struct am_backend_ops *backend)
{
    AM_REQUIRE((backend->caps & AM_CAP_HOST_VIEW) ||
                   am_option_number(AM_OPTION_isolate) != 0,
               ACL_ERROR_INVALID_PARAM,
               "ACLMEM_ISOLATE is 0, but a program cannot touch the device memory of "
               "ACLMEM_BACKEND=%s",
               backend->name);
    return backend->start != NULL ? backend->start() : ACL_SUCCESS;
}

/* auto: GPUs where they can be used, otherwise the host, and a word why. */
static aclError backend_choose(const char *name)
{
    bool is_auto = strcasecmp(name, "auto") == 0;
    const struct am_backend_ops *backend = am_backend_find(is_auto ? "cuda" : name);
    char why[AM_WHY_SIZE] = "";
    aclError rc;

    am_assert(backend != NULL); /* the option's choices are the backends */
    rc = is_auto ? AM_CAPTURED(why, sizeof why, backend_start(backend))
                 : backend_start(backend);
    if (is_auto && rc == ACL_SUCCESS)
        am_log(AM_LOG_INFO, "ACLMEM_BACKEND=auto is cuda here");
    else if (is_auto)
        am_log(AM_LOG_INFO, "ACLMEM_BACKEND=auto is host here: %s", why);
    if (rc == ACL_SUCCESS)
        am_setup.backend = backend;
    else if (is_auto)
        rc = backend_start(am_setup.backend);
    return rc;
}

/* Options, file and environment into am_rt. */
static aclError runtime_configure(const char *config_path, struct am_config *config)
{
    const struct am_product *product;
    char soc[AM_SOC_SIZE] = "";
    char why_file[AM_WHY_SIZE];
    char why[AM_WHY_SIZE];
    int rc_file;
    int rc;

    am_options_reset();
    rc_file = am_config_read(config_path, config, why_file);
    rc = am_options_read_environment(why);
    /* First of all, so that a wrong option is said where the log says refusals. */
    am_log_set_level((enum am_log_level)am_option_number(AM_OPTION_log));
    if (rc_file != 0)
        return config_error(-rc_file, why_file);
    AM_REQUIRE(rc == 0, ACL_ERROR_INVALID_PARAM, "%s", why);
    product = am_product_find(am_option_text(AM_OPTION_product), soc);
    AM_REQUIRE(product != NULL, ACL_ERROR_INVALID_PARAM,
               "ACLMEM_PRODUCT is \"%s\"; it takes a product or the name of its chip: %s",
               am_option_text(AM_OPTION_product), am_product_names());
    AM_REQUIRE(am_option_text(AM_OPTION_runtime_dir)[0] == '\0' ||
                   am_option_text(AM_OPTION_runtime_dir)[0] == '/',
               ACL_ERROR_INVALID_PARAM,
               "ACLMEM_RUNTIME_DIR is \"%s\"; it takes an absolute path",
               am_option_text(AM_OPTION_runtime_dir));
    am_setup.product = product;
    memcpy(am_setup.soc, soc, sizeof soc);
    am_setup.backend = am_backend_find("host");
    am_setup.malloc_pad = am_setup.product->features & AM_PRODUCT_PAD ? AM_HEAP_PAD : 0;
    am_setup.is_strict = am_option_number(AM_OPTION_rules) != 0;
    unknown_options_warn();
    return backend_choose(am_option_text(AM_OPTION_backend));
}

/* False: no work was done since it was asked last. */
static bool launched_collect(void)
{
    uint64_t n_moves = am_counter_sum(&am_sched.n_completed);

    (void)am_stream_collect_all();
    return am_counter_sum(&am_sched.n_completed) != n_moves;
}

/* Once, before anything is up. */
static void runtime_init(void)
{
    am_reclaim = (struct am_reclaim){am_heap_idle, am_heap_trim, launched_collect};
    am_sched_init(&am_sched);
}

/*
 * Workers: two at least, so that a copy and what waits for it overlap; more do not copy
 * faster.
 */
static void runtime_start_sched(void)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t seed = am_option_number(AM_OPTION_chaos);

    am_sched_start(&am_sched,
                   &(struct am_sched_setup){
                       .now = am_clock,
                       .n_workers = n_cpus < 2   ? 2
                                    : n_cpus > 8 ? 8
                                                 : (unsigned)n_cpus,
                       .is_chaotic = am_option_text(AM_OPTION_chaos)[0] != '\0',
                       .seed = (uint64_t)seed,
                   });
    am_calls_start();
    am_event_set_default_wait(0);
}

aclError am_runtime_configure_locked(void)
{
    struct am_config config;

    return runtime_configure(NULL, &config);
}

aclError am_runtime_start_locked(const char *config_path)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct am_config config;
    aclError rc;

    pthread_once(&once, runtime_init);
    AM_TRY(runtime_configure(config_path, &config));
    rc = am_devices_open(&am_devices);
    if (rc == ACL_SUCCESS && config.default_device >= am_devices.n) {
        rc = am_fail(ACL_ERROR_FILE_ATTR_INVALID,
                     "defaultDevice.default_device is %d but there are %d devices",
                     config.default_device, am_devices.n);
        am_devices_close(&am_devices);
    }
    if (rc != ACL_SUCCESS) {
        am_rundir_close();
        return rc;
    }
    runtime_start_sched();
    am_maps_open();
    am_setup.default_device = config.default_device;
    am_exchange_start();
    am_remote_init(am_setup.backend);
    am_settings_reset(&am_setup.params);
    am_error_share_messages(config.share_messages);
    am_rt.is_up = true;
    am_log(AM_LOG_INFO, "%s, %d devices, %s rules", am_setup.product->title,
           (int)am_devices.n, am_setup.is_strict ? "strict" : "default");
    return ACL_SUCCESS;
}

void am_runtime_stop_locked(void)
{
    am_rt.is_up = false;
    am_rt.is_stopping = true;
    am_epoch_synchronize(); /* only calls that wait are still under way */
    am_setup.default_device = -1;
    am_devices_end(&am_devices);
    am_devices_close(&am_devices);
    am_exchange_stop();
    am_remote_stop();
    am_copy_stop();
    am_calls_stop();
    am_sched_stop(&am_sched);
    am_allocator_destroy_all();
    am_managed_free_all();
    am_host_unregister_all();
    am_maps_close();
    am_vspace_release_all();
    am_rundir_close();
    am_epoch_synchronize(); /* nothing that was deferred is left */
    am_rt.is_stopping = false;
}
