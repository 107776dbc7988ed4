/*
 * The memory of the machine, and its name.
 *
 * In a container the machine's memory is not ours: the control group's limit counts, and
 * a group's parents limit it too, so the path in /proc/self/cgroup is followed up to the
 * root.  Both versions of control groups are read.
 */
#include "base/machine.h"

#include <numa.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "base/util.h"

const char *am_machine_root = "";

/* Plain calls: whatever fails here means "no limit". */
bool am_machine_read(const char *path, char *text, size_t size)
{
    char full[1024];
    ssize_t n;
    int fd;

    snprintf(full, sizeof full, "%s%s", am_machine_root, path);
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, size - 1);
    close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

/* The number in path/file, or that behind `key` in it; `otherwise` when there is none. */
static size_t number_read(const char *path, const char *file, const char *key,
                          size_t otherwise)
{
    unsigned long long value;
    char full[512];
    char text[8192];
    const char *at = text;

    snprintf(full, sizeof full, "%s/%s", path, file);
    if (!am_machine_read(full, text, sizeof text))
        return otherwise;
    if (key != NULL) {
        at = strstr(text, key);
        if (at == NULL)
            return otherwise;
        at += strlen(key);
    }
    return sscanf(at, "%llu", &value) == 1 ? (size_t)value : otherwise;
}

/* The names that the two versions of control groups use. */
struct group_files {
    const char *limit;
    const char *usage;
    const char *cache[2]; /* the lines of memory.stat that count pages of files */
};

static const struct group_files group_v1 = {
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    {"\ntotal_inactive_file ", "\ntotal_active_file "}};
static const struct group_files group_v2 = {
    "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file "}};

/*
 * `least`, or what the group has left or may have at all if that is less.  Pages of files
 * are left: the kernel drops them before it kills.  They take long to count, so they are
 * only counted where it depends on them.
 */
static size_t group_room(const char *path, const struct group_files *files,
                         bool without_usage, size_t least)
{
    size_t limit = number_read(path, files->limit, NULL, SIZE_MAX);
    size_t used = 0;

    if (without_usage && limit != SIZE_MAX)
        used = number_read(path, files->usage, NULL, 0);
    for (int i = 0; i < 2 && used > 0 && (used > limit || limit - used < least); i++) {
        size_t cache = number_read(path, "memory.stat", files->cache[i], 0);

        used = cache < used ? used - cache : 0;
    }
    limit = used < limit ? limit - used : 0;
    return limit < least ? limit : least;
}

/* The smallest of the group at base + path and its parents, up to base. */
static size_t group_walk(const char *base, char *path, const struct group_files *files,
                         bool without_usage, size_t least)
{
    char full[512];

    for (;;) {
        char *slash = strrchr(path, '/');

        snprintf(full, sizeof full, "%s%s", base, path);
        least = group_room(full, files, without_usage, least);
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* `most`, or the bytes of it that this process's control groups allow: at all, or (without_usage) besides
 * the bytes in use. */
static size_t groups_allow(bool without_usage, size_t most)
{
    char text[4096];
    char *line;
    char *rest = text;

    if (!am_machine_read("/proc/self/cgroup", text, sizeof text))
        return most;
    /* Lines are "0::/path" (version 2) or "4:memory:/path" (version 1). */
    while ((line = strsep(&rest, "\n")) != NULL) {
        bool is_v2 = strncmp(line, "0::", 3) == 0;
        char *path = strstr(line, is_v2 ? "::" : ":memory:");

        if (path == NULL)
            continue;
        path += strlen(is_v2 ? "::" : ":memory:"); /* it may have colons itself */
        if (strlen(path) > 256)
            continue;
        if (strcmp(path, "/") == 0)
            *path = '\0';
        most = group_walk(is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", path,
                          is_v2 ? &group_v2 : &group_v1, without_usage, most);
    }
    return most;
}

size_t am_machine_memory(size_t installed)
{
    return groups_allow(false, installed);
}

size_t am_machine_available(void)
{
    return groups_allow(
        true, number_read("/proc", "meminfo", "MemAvailable:", SIZE_MAX >> 10) << 10);
}

/* The word in brackets in "always within_size [advise] never"; empty where none is. */
static void chosen_word(const char *path, char *word, size_t size)
{
    char text[256];
    const char *open;

    word[0] = '\0';
    if (!am_machine_read(path, text, sizeof text))
        return;
    open = strchr(text, '[');
    if (open != NULL)
        snprintf(word, size, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
}

#define TRANSPARENT "/sys/kernel/mm/transparent_hugepage"

static const char setting_of_all[] = TRANSPARENT "/enabled";
static const char setting_of_files[] = TRANSPARENT "/shmem_enabled";

bool am_machine_knows_collapse(void)
{
    return madvise(NULL, 0, MADV_COLLAPSE) == 0; /* of no bytes: an answer, no work */
}

bool am_machine_can_collapse(bool knows_collapse)
{
    char all[32];
    char files[32];

    chosen_word(setting_of_all, all, sizeof all);
    chosen_word(setting_of_files, files, sizeof files);
    return knows_collapse && all[0] != '\0' && strcmp(all, "never") != 0 &&
           strcmp(files, "deny") != 0 &&
           number_read(TRANSPARENT, "hpage_pmd_size", NULL, 0) == AM_CHUNK;
}

bool am_machine_has_huge_pages(bool knows_collapse, char *ret_why)
{
    bool can_collapse = am_machine_can_collapse(knows_collapse);
    char all[32];
    char files[32];

    chosen_word(setting_of_all, all, sizeof all);
    chosen_word(setting_of_files, files, sizeof files);
    if (files[0] != '\0' && strcmp(files, "never") != 0 && strcmp(files, "deny") != 0) {
        snprintf(ret_why, AM_MACHINE_WHY, "transparent ones, since %s is %s",
                 setting_of_files, files);
        return true;
    }
    if (can_collapse)
        snprintf(ret_why, AM_MACHINE_WHY,
                 "transparent ones by MADV_COLLAPSE, since %s is %s", setting_of_all,
                 all);
    else
        snprintf(ret_why, AM_MACHINE_WHY, "%s is %s and %s is %s%s", setting_of_all,
                 all[0] != '\0' ? all : "not there", setting_of_files,
                 files[0] != '\0' ? files : "not there",
                 knows_collapse ? ""
                                : "; the kernel has no MADV_COLLAPSE (Linux 6.1), and "
                                  "shmem_enabled as advise would do");
    return can_collapse;
}

size_t am_machine_sysctl(const char *folder, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/sys/%s", folder);
    return number_read(path, name, NULL, 0);
}

bool am_machine_has_node(int node)
{
    if (numa_available() < 0)
        return node == 0;
    return node >= 0 && node <= numa_max_node() &&
           numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node);
}

int am_machine_current_node(void)
{
    unsigned node;

    return getcpu(NULL, &node) == 0 ? (int)node : 0;
}

/* ---- identifiers ---- */

void am_uuid_make(const uint8_t *space, const char *name, uint8_t *ret_uuid)
{
    static const uint64_t start[2] = {AM_HASH_START, UINT64_C(0x6c62272e07bb0142)};
    size_t n = strlen(name) + 1;

    for (int i = 0; i < 2; i++) {
        uint64_t hash = am_hash_add(start[i], space, AM_UUID_SIZE);

        hash = am_hash_add(am_hash_add(hash, name, n), &start[i], sizeof start[i]);
        memcpy(ret_uuid + 8 * i, &hash, sizeof hash);
    }
    ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x80; /* the version */
    ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80; /* the variant */
}

void am_machine_boot_id(uint8_t *ret_id)
{
    const uint8_t zero[AM_UUID_SIZE] = {0};
    char text[64];

    if (!am_machine_read("/proc/sys/kernel/random/boot_id", text, sizeof text))
        text[0] = '\0';
    am_uuid_make(zero, text, ret_id);
}
