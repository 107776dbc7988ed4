/*
 * aclmem doctor: what a helper asks for first, with a remedy for each problem.
 *
 * A check adds one row.  Rows are "ok" or "problem"; "note" is a part that is missing and
 * that most programs do not need.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "command.h"
#include "output.h"
#include "text.h"

static struct {
    const char *json;
    bool is_brief;
} choice;

static json_t *rows;

/* Adds a row; `remedy` is NULL where nothing has to be done. */
static void row_add(const char *name, const char *state, const char *remedy,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

static void row_add(const char *name, const char *state, const char *remedy,
                    const char *format, ...)
{
    char value[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:s}", "name", name, "state",
                                          state, "value", text_json(value), "remedy",
                                          remedy != NULL ? remedy : ""));
}

/* ---- versions and libraries ---- */

static void system_check(void)
{
    struct utsname system;
    char name[128] = "unknown distribution";
    char line[256];
    FILE *file = fopen("/etc/os-release", "re");

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "PRETTY_NAME=\"%127[^\"]", name);
    if (file != NULL)
        fclose(file);
    uname(&system);
    row_add("system", "ok", NULL, "%s, Linux %s, %s, %ld processors", name,
            system.release, system.machine, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Whether the file is aclmem's library: it has this name in its symbols. */
static bool is_ours(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool is_found = false;
    void *bytes;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            is_found =
                memmem(bytes, (size_t)status.st_size, "aclmem_version", 14) != NULL;
            munmap(bytes, (size_t)status.st_size);
        }
    }
    close(fd);
    return is_found;
}

/* The first libascendcl.so in a list of folders; false: none. */
static bool library_find(const char *folders, char *path, size_t n)
{
    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");

        snprintf(path, n, "%.*s/libascendcl.so", (int)length, folders);
        if (length > 0 && access(path, R_OK) == 0)
            return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* The library in the cache of the dynamic linker; false: none. */
static bool library_cached(char *path, size_t n)
{
    FILE *list = popen("PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null", "re");
    char line[PATH_MAX + 256];
    bool is_found = false;

    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        const char *arrow = strstr(line, "=> ");

        if (!is_found && strstr(line, "libascendcl.so ") != NULL && arrow != NULL) {
            snprintf(path, n, "%.*s", (int)strcspn(arrow + 3, "\n"), arrow + 3);
            is_found = true;
        }
    }
    if (list != NULL)
        pclose(list);
    return is_found;
}

static void library_check(void)
{
    char path[PATH_MAX + 32];
    const char *why;
    Dl_info own;

    if (dladdr((void *)(uintptr_t)aclmem_version, &own) != 0)
        row_add("command", "ok", NULL, "aclmem %s, with %s", aclmem_version(),
                own.dli_fname);
    if (library_find(getenv("LD_LIBRARY_PATH"), path, sizeof path))
        why = "LD_LIBRARY_PATH";
    else if (library_cached(path, sizeof path))
        why = "the dynamic linker's cache";
    else if (library_find("/lib:/usr/lib:/lib64:/usr/lib64", path, sizeof path))
        why = "a default folder";
    else {
        row_add("library of programs", "note",
                "use aclmem run, or source set_env.sh; a program may also have an rpath",
                "programs without an rpath find no libascendcl.so");
        return;
    }
    if (is_ours(path))
        row_add("library of programs", "ok", NULL, "%s, by %s", path, why);
    else
        row_add("library of programs", "note",
                "use aclmem run, or source aclmem's set_env.sh",
                "%s, by %s: it is not aclmem's", path, why);
}

static void python_check(void)
{
    FILE *python = popen("python3 -c 'import sys, acl; print(sys.version.split()[0], "
                         "acl.__file__)' 2>/dev/null",
                         "re");
    char line[PATH_MAX] = "";

    if (python != NULL && fgets(line, sizeof line, python) == NULL)
        line[0] = '\0';
    if (python != NULL)
        pclose(python);
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0')
        row_add("Python module acl", "ok", NULL, "Python %s", line);
    else
        row_add("Python module acl", "note",
                "aclmem run sets PYTHONPATH; or install the wheel, or source set_env.sh",
                "python3 cannot import acl");
}

/* ---- the library's own view ---- */

static void devices_check(const json_t *info)
{
    const json_t *own = json_array_get(json_object_get(info, "configurations"), 0);
    const json_t *devices = json_object_get(own, "devices");
    char size[32];

    row_add(
        "devices", "ok", NULL, "%zu of product %s (%s), %s backend, %s each",
        json_array_size(devices), text_of(own, "product"), text_of(own, "soc"),
        text_of(own, "backend"),
        size_text(number_of(json_array_get(devices, 0), "capacity"), size, sizeof size));
}

static size_t ledgers_count(const char *path)
{
    DIR *list = opendir(path);
    struct dirent *entry;
    size_t n = 0;

    while (list != NULL && (entry = readdir(list)) != NULL)
        n += strncmp(entry->d_name, "ledger-", 7) == 0;
    if (list != NULL)
        closedir(list);
    return n;
}

static void runtime_directory_check(const json_t *info)
{
    const json_t *configurations = json_object_get(info, "configurations");
    size_t n_processes = 0;
    size_t n_used = 0;
    size_t n_ledgers;
    json_t *configuration;
    size_t i;

    if (text_of(info, "problem")[0] != '\0') {
        row_add("runtime directory", "problem",
                "set ACLMEM_RUNTIME_DIR to a folder of yours that can be written to",
                "%s: %s", text_of(info, "runtime_directory"), text_of(info, "problem"));
        return;
    }
    json_array_foreach (configurations, i, configuration) {
        size_t n = json_array_size(json_object_get(configuration, "processes"));

        n_processes += n;
        n_used += n > 0;
    }
    n_ledgers = ledgers_count(text_of(info, "runtime_directory"));
    row_add("runtime directory", "ok", NULL,
            "%s, %zu process%s, %zu stale entr%s that the next process reuses",
            text_of(info, "runtime_directory"), n_processes, n_processes == 1 ? "" : "es",
            n_ledgers > n_used ? n_ledgers - n_used : 0,
            n_ledgers - n_used == 1 ? "y" : "ies");
}

static void options_check(const json_t *info)
{
    char list[768] = "";
    json_t *option;
    size_t n = 0;
    size_t i;

    json_array_foreach (json_object_get(info, "options"), i, option) {
        if (json_is_true(json_object_get(option, "given")) && n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s=%s", n > 0 ? ", " : "",
                                  text_of(option, "name"), text_of(option, "value"));
    }
    row_add("options", "ok", NULL, "%s", n > 0 ? list : "none is set");
}

static void fabric_check(void)
{
    const char *key = getenv("ACLMEM_FABRIC_KEY");
    const char *where = getenv("ACLMEM_FABRIC");
    char path[PATH_MAX];
    struct stat status;
    Dl_info own;

    if (dladdr((void *)(uintptr_t)aclmem_version, &own) == 0 ||
        strrchr(own.dli_fname, '/') == NULL)
        return;
    snprintf(path, sizeof path, "%.*s/aclmem-fabric",
             (int)(strrchr(own.dli_fname, '/') - own.dli_fname), own.dli_fname);
    if (where == NULL)
        row_add("fabric", "ok", NULL, "ACLMEM_FABRIC is not set; %s %s", path,
                access(path, X_OK) == 0 ? "exists" : "does not exist");
    else if (access(path, X_OK) != 0)
        row_add("fabric", "problem", "install libucx0, and aclmem built with libucx-dev",
                "ACLMEM_FABRIC is %s, and %s does not exist", where, path);
    else if (key == NULL || stat(key, &status) != 0)
        row_add("fabric", "problem",
                "create a key with aclmem fabric keygen FILE, copy it to every machine",
                "ACLMEM_FABRIC is %s, and ACLMEM_FABRIC_KEY %s", where,
                key == NULL ? "is not set" : strerror(errno));
    else if ((status.st_mode & 077) != 0)
        row_add("fabric", "problem", "chmod 600 the key",
                "other users may read the key %s", key);
    else
        row_add("fabric", "ok", NULL, "ACLMEM_FABRIC is %s, key %s", where, key);
}

/* ---- the machine ---- */

static void shared_memory_check(void)
{
    struct statvfs fs;
    char all[32], left[32];

    if (statvfs("/dev/shm", &fs) != 0) {
        row_add("/dev/shm", "problem", "mount a tmpfs there; containers: --shm-size=1g",
                "%s", strerror(errno));
        return;
    }
    size_text((long long)(fs.f_blocks * fs.f_frsize), all, sizeof all);
    size_text((long long)(fs.f_bavail * fs.f_frsize), left, sizeof left);
    if (faccessat(AT_FDCWD, "/dev/shm", W_OK, AT_EACCESS) != 0)
        row_add("/dev/shm", "problem", "mount it writable, with mode 1777", "%s",
                strerror(errno));
    else if (fs.f_bavail * fs.f_frsize < 1 << 20)
        row_add("/dev/shm", "problem", "remove files there, or make it larger",
                "%s of %s are free", left, all);
    else
        row_add("/dev/shm", "ok", NULL, "%s of %s are free", left, all);
}

static void huge_pages_check(const json_t *info)
{
    const json_t *pages = json_object_get(info, "huge_pages");
    bool is_used = json_is_true(json_object_get(pages, "used"));

    row_add("huge pages", is_used ? "ok" : "note",
            is_used ? NULL
                    : "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "%s: %s", is_used ? "used" : "not used", text_of(pages, "why"));
}

/* A limit of the process: a problem below `least`. */
static void limit_check(const char *name, int resource, unsigned long long least,
                        bool is_size, const char *remedy)
{
    struct rlimit limit;
    char text[32] = "unlimited";

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY && is_size)
        size_text((long long)limit.rlim_cur, text, sizeof text);
    else if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < least)
        row_add(name, "problem", remedy, "%s", text);
    else
        row_add(name, "ok", NULL, "%s", text);
}

static void gpu_check(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*version_get)(int *) =
        driver != NULL ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
    int version = 0;

    if (version_get == NULL)
        row_add("GPU driver", "ok", NULL, "none: the host backend emulates devices");
    else if (version_get(&version) != 0)
        row_add("GPU driver", "problem", "check nvidia-smi", "it reports an error");
    else
        row_add("GPU driver", "ok", NULL, "CUDA %d.%d", version / 1000,
                version % 1000 / 10);
}

static void unwinder_check(void)
{
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);

    row_add("stacks", library != NULL ? "ok" : "note",
            library != NULL ? NULL : "install libunwind8: stacks are ten times faster",
            library != NULL ? "by libunwind.so.8"
                            : "by libgcc: libunwind.so.8 is missing");
}

/* ---- the command ---- */

static void rows_print(void)
{
    json_t *row;
    size_t i;

    json_array_foreach (rows, i, row) {
        const char *state = text_of(row, "state");

        if (choice.is_brief && strcmp(state, "ok") == 0)
            continue;
        printf("%-8s %-20s %s\n", state, text_of(row, "name"), text_of(row, "value"));
        if (text_of(row, "remedy")[0] != '\0')
            printf("%-8s %-20s remedy: %s\n", "", "", text_of(row, "remedy"));
    }
}

static void info_check(void)
{
    json_t *info;
    char *text;

    if (aclmem_info(&text) != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();

        row_add("options", "problem",
                "correct the variable; aclmem info --options lists all", "%s",
                message != NULL ? message : "the library gives no information");
        return;
    }
    info = json_loads(text, 0, NULL);
    free(text);
    devices_check(info);
    options_check(info);
    runtime_directory_check(info);
    huge_pages_check(info);
    json_decref(info);
}

static int doctor_run(int argc, char **argv)
{
    json_t *report;
    json_t *row;
    size_t n = 0;
    size_t i;
    int rc = 0;

    rows = json_array();
    system_check();
    library_check();
    info_check();
    shared_memory_check();
    limit_check("locked memory", RLIMIT_MEMLOCK, geteuid() == 0 ? 0 : 64 << 20,
                true, /* no limit binds root */
                "ulimit -l unlimited, or LimitMEMLOCK=infinity; pinned memory is not "
                "locked beyond it");
    limit_check("open files", RLIMIT_NOFILE, 1024, false, "ulimit -n 65536");
    limit_check("file size", RLIMIT_FSIZE, 64 << 20, true, "ulimit -f unlimited");
    limit_check("address space", RLIMIT_AS, 1ull << 42, true, "ulimit -v unlimited");
    python_check();
    fabric_check();
    gpu_check();
    unwinder_check();
    json_array_foreach (rows, i, row)
        n += strcmp(text_of(row, "state"), "problem") == 0;
    if (choice.json != NULL) {
        report = json_pack("{s:s, s:I, s:O}", "version", aclmem_version(), "problems",
                           (json_int_t)n, "checks", rows);
        rc = json_write("doctor", choice.json, report, JSON_INDENT(2));
        json_decref(report);
    } else {
        rows_print();
        printf("%zu problem%s\n", n, n == 1 ? "" : "s");
    }
    json_decref(rows);
    return rc != 0 || n > 0 ? 1 : 0;
}

static const struct option options[] = {
    {"json", OPTION_OUTPUT, &choice.json, "FILE", "Print JSON, or write it to FILE", 'j'},
    {"quiet", OPTION_FLAG, &choice.is_brief, NULL, "Print problems and notes only", 'q'},
    {0},
};

static const struct exit_code exits[] = {
    {"1", "failure, or there is a problem"},
    {0},
};

const struct command doctor_command = {
    .name = "doctor",
    .group = GROUP_ABOUT,
    .operands = "",
    .help = "Check this machine and installation, with a remedy for each problem",
    .options = options,
    .examples =
        "  aclmem doctor                   Check everything\n"
        "  aclmem doctor --json=doctor.json   Attach the result to a bug report\n",
    .exits = exits,
    .run = doctor_run,
};
