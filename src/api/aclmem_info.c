/*
 * aclmem_info: the ledgers in the runtime directory as JSON, from outside.
 *
 * Each ledger is a configuration, since processes with other options have other devices.
 * Ledgers with live processes are shown, and the configuration of this process even
 * without a ledger.  If jansson cannot make one value, the whole result is NULL.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "aclmem/aclmem.h"
#include "api/api.h"
#include "api/check.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/text.h"
#include "core/device/setup.h"
#include "core/ledger/ledger.h"
#include "core/ledger/rundir.h"
#include "core/devices.h"
#include "backend/remote/remote.h"
#include "core/runtime.h"

#define EXPORT __attribute__((visibility("default")))

static json_t *device_json(const struct am_ledger_view *view, int32_t device)
{
    json_int_t capacity = (json_int_t)view->config.capacity[device];
    json_int_t used = (json_int_t)view->used[device];
    int n_processes = 0;

    for (size_t i = 0; i < view->n_processes; i++)
        n_processes += (view->processes[i].uses >> device & 1) != 0;
    return json_pack("{s:i, s:I, s:I, s:I, s:i}", "id", device, "capacity", capacity,
                     "used", used, "free", capacity - used, "processes", n_processes);
}

/* The streams of a process that wait. */
static json_t *waiting_json(const struct am_ledger_process *process)
{
    json_t *list = json_array();

    for (size_t i = 0; i < process->n_waiting; i++) {
        const struct am_ledger_stream *stream = &process->waiting[i];

        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:s, s:I}", "stream",
                                              (int)stream->id, "device",
                                              (int)stream->device, "function",
                                              stream->function, "until", stream->until,
                                              "queued", (json_int_t)stream->n_queued));
    }
    return list;
}

/* The memory of a process on each device that it uses. */
static json_t *process_json(const struct am_ledger_process *process, int32_t n_devices)
{
    json_t *devices = json_array();

    for (int32_t i = 0; i < n_devices; i++) {
        if ((process->uses >> i & 1) == 0 && process->allocated[i] == 0 &&
            process->exported[i] == 0 && process->imported[i] == 0)
            continue;
        json_array_append_new(devices,
                              json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "id", i,
                                        "allocated", (json_int_t)process->allocated[i],
                                        "exported", (json_int_t)process->exported[i],
                                        "imported", (json_int_t)process->imported[i],
                                        "peak", (json_int_t)process->peak[i], "taken",
                                        (json_int_t)process->total[i]));
    }
    return json_pack(
        "{s:i, s:s, s:o, s:I, s:I, s:I, s:I, s:o}", "pid", (int)process->pid, "command",
        process->command, "devices", devices, "allocations", (json_int_t)process->n_total,
        "streams", (json_int_t)process->n_streams, "models",
        (json_int_t)process->n_models, "model_streams",
        (json_int_t)process->n_model_streams, "waiting", waiting_json(process));
}

static json_t *view_json(const struct am_ledger_view *view, bool is_own)
{
    char soc[AM_SOC_SIZE] = "";
    const struct am_product *product = am_product_find(view->config.product, soc);
    json_t *devices = json_array();
    json_t *processes = json_array();

    for (int32_t i = 0; i < view->config.n_devices; i++)
        json_array_append_new(devices, device_json(view, i));
    for (size_t i = 0; i < view->n_processes; i++)
        json_array_append_new(processes,
                              process_json(&view->processes[i], view->config.n_devices));
    return json_pack("{s:b, s:s, s:s, s:s, s:i, s:o, s:o}", "own", is_own, "backend",
                     view->config.backend, "product", view->config.product, "soc",
                     is_own ? am_setup.soc : soc, "processes_allowed",
                     product != NULL ? (int)product->n_processes : 0, "devices", devices,
                     "processes", processes);
}

/* The reason why other processes cannot be seen. */
struct problem {
    int directory;             /* -errno if it cannot be read */
    int ledger;                /* -errno if a ledger with processes cannot be read */
    char name[AM_LEDGER_FILE]; /* of that ledger */
};

/* Adds a ledger of the directory; whether it is this process's own. */
static bool ledger_add(json_t *all, int dir, const char *name, const char *own_name,
                       struct problem *problem)
{
    bool is_own = strcmp(name, own_name) == 0;
    struct am_ledger_view view;
    int rc = am_ledger_read(dir, name, &view);

    if (rc != 0 && am_ledger_has_users(dir, name)) {
        problem->ledger = rc;
        am_text_copy(problem->name, sizeof problem->name, name, strlen(name));
    }
    if (rc != 0)
        return false;
    if (is_own)
        json_array_insert_new(all, 0, view_json(&view, true));
    else if (view.n_processes > 0)
        json_array_append_new(all, view_json(&view, false));
    am_ledger_view_free(&view);
    return is_own;
}

/* All ledgers of the directory; whether this process's own was among them. */
static bool ledgers_add(json_t *all, int dir, const char *own_name,
                        struct problem *problem)
{
    int fd = am_sys_openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    bool has_own = false;
    struct dirent *entry;

    if (list == NULL && fd >= 0)
        close(fd);
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, AM_LEDGER_PREFIX, strlen(AM_LEDGER_PREFIX)) == 0)
            has_own |= ledger_add(all, dir, entry->d_name, own_name, problem);
    }
    if (list != NULL)
        closedir(list);
    return has_own;
}

static json_t *configurations_json(const struct am_ledger_config *config,
                                   struct problem *ret_problem)
{
    struct am_ledger_view empty = {.config = *config};
    struct problem problem = {0};
    char own_name[AM_LEDGER_FILE];
    json_t *all = json_array();
    int dir = -1;
    int rc = am_rundir_look(&dir);

    am_ledger_file_name(config, own_name);
    if (rc != 0 || !ledgers_add(all, dir, own_name, &problem))
        json_array_insert_new(all, 0, view_json(&empty, true));
    if (rc == 0)
        close(dir);
    problem.directory = rc == -ENOENT ? 0 : rc;
    *ret_problem = problem;
    return all;
}

static void fabric_row_add(void *arg, int32_t pid, const struct am_port_row *row)
{
    json_array_append_new(
        arg,
        json_pack("{s:i, s:s, s:s, s:s, s:i, s:I, s:I}", "process", (int)pid, "direction",
                  row->is_importer ? "exports to" : "imports from", "machine", row->host,
                  "address", row->address, "peer", (int)row->pid, "pieces",
                  (json_int_t)row->n, "bytes", (json_int_t)row->n_bytes));
}

/* Memory that processes of this directory share with other machines. */
static json_t *fabric_json(void)
{
    json_t *all = json_array();
    int dir;

    if (am_rundir_look(&dir) != 0)
        return all;
    am_remote_records_each(dir, fabric_row_add, all);
    close(dir);
    return all;
}

static json_t *problem_json(const struct problem *problem)
{
    if (problem->directory == -EPERM)
        return json_sprintf("the runtime directory is a link, no directory, another "
                            "user's, or others may write to it; %s",
                            am_rundir_advice());
    if (problem->directory != 0)
        return json_sprintf("the runtime directory cannot be created or opened: %s; %s",
                            strerror(-problem->directory),
                            am_rundir_errno_advice(-problem->directory));
    if (problem->ledger == -EPROTO)
        return json_sprintf("the file %s is damaged, or another version's, and processes "
                            "use it; it is made anew when they have ended",
                            problem->name);
    if (problem->ledger != 0)
        return json_sprintf("the file %s cannot be read: %s", problem->name,
                            strerror(-problem->ledger));
    return json_null();
}

static json_t *huge_pages_json(void)
{
    char why[AM_MACHINE_WHY];
    bool is_huge;

    if (am_setup.backend->caps & AM_CAP_DEVICES)
        return json_pack("{s:b, s:s}", "used", 1, "why", "the devices are real");
    is_huge = am_machine_has_huge_pages(am_machine_knows_collapse(), why);
    if (am_option_number(AM_OPTION_huge_pages) == AM_HUGE_PAGES_NEVER) {
        is_huge = false;
        snprintf(why, sizeof why, "ACLMEM_HUGE_PAGES is never");
    } else if (!is_huge &&
               am_option_number(AM_OPTION_huge_pages) == AM_HUGE_PAGES_ALWAYS &&
               am_machine_knows_collapse()) {
        is_huge = true;
        snprintf(why, sizeof why,
                 "transparent ones by MADV_COLLAPSE, since ACLMEM_HUGE_PAGES is always");
    }
    return json_pack("{s:b, s:s}", "used", is_huge, "why", why);
}

/* As ACLMEM_MEMORY takes it. */
static void size_write(uint64_t size, char *text, size_t room)
{
    static const char units[] = "KMGT";
    size_t n_units = 0;

    for (; size > 0 && size % 1024 == 0 && n_units < strlen(units); n_units++)
        size /= 1024;
    snprintf(text, room, "%llu%.1s", (unsigned long long)size,
             n_units > 0 ? &units[n_units - 1] : "");
}

/* The value that the library uses when the option is not given. */
static void value_in_force(enum am_option option, const struct am_ledger_config *config,
                           const char *directory, char *text, size_t room)
{
    const char *given = am_option_text(option);

    if (option == AM_OPTION_backend)
        am_text_copy(text, room, config->backend, sizeof config->backend);
    else if (option == AM_OPTION_memory && given[0] == '\0')
        size_write(config->capacity[0], text, room);
    else if (option == AM_OPTION_devices && !am_option_is_set(option))
        snprintf(text, room, "%d", (int)config->n_devices);
    else if (option == AM_OPTION_runtime_dir && given[0] == '\0')
        am_text_copy(text, room, directory, strlen(directory));
    else
        am_text_copy(text, room, given, strlen(given));
}

static json_t *options_json(const struct am_ledger_config *config, const char *directory)
{
    json_t *options = json_array();

    for (int i = 0; i < AM_OPTION_COUNT; i++) {
        struct am_option_row row = am_option_row((enum am_option)i);
        char value[256];

        value_in_force((enum am_option)i, config, directory, value, sizeof value);
        json_array_append_new(
            options, json_pack("{s:s, s:s, s:b, s:s, s:s}", "name", row.name, "value",
                               value, "given", am_option_is_set((enum am_option)i),
                               "default", row.preset, "help", row.help));
    }
    return options;
}

static aclError info_make_locked(json_t **ret_info) AM_REQUIRES(am_rt.lock)
{
    struct am_ledger_config config;
    struct problem problem;
    char path[PATH_MAX];
    json_t *configurations;

    AM_TRY(am_rt.is_up ? ACL_SUCCESS : am_runtime_configure_locked());
    AM_TRY(am_devices_config(&config));
    configurations = configurations_json(&config, &problem); /* finds the path too */
    am_text_copy(path, sizeof path, am_rundir_path(), PATH_MAX);
    *ret_info =
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "version", AM_VERSION,
                  "runtime_directory", path, "problem", problem_json(&problem),
                  "configurations", configurations, "huge_pages", huge_pages_json(),
                  "fabric", fabric_json(), "options", options_json(&config, path));
    return ACL_SUCCESS;
}

EXPORT aclError aclmem_info(char **json)
{
    AM_READ_SECTION;
    json_t *info = NULL;
    char *text = NULL;
    aclError rc;

    am_error_function = __func__;
    AM_REQUIRE_NONNULL(json);
    if (!am_runtime_lock())
        return am_fail(ACL_ERROR_RT_PARAM_INVALID, "%s", am_why_stopping);
    rc = info_make_locked(&info);
    am_unlock(&am_rt.lock);
    if (rc != ACL_SUCCESS)
        return rc;
    if (info != NULL)
        text = json_dumps(info, JSON_INDENT(2));
    json_decref(info);
    AM_REQUIRE(text != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a description");
    *json = text;
    return ACL_SUCCESS;
}
