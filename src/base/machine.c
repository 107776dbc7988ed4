/*
 * The memory of the machine.
 *
 * In a container the machine's memory is not ours: the control group's limit counts, and a group's parents
 * limit it too, so the path in /proc/self/cgroup is followed up to the root.  Both versions of control
 * groups are read.
 */
#include "base/machine.h"

#include <numa.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

/* Reads a small file; false when there is none.  Plain calls: whatever fails here means "no limit". */
static bool file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, size - 1);
    close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

/* The smallest limit on the way from base/path up to base. */
static size_t group_limit(const char *base, char *path, const char *file, size_t limit)
{
    char full[768];
    char text[64];

    for (;;) {
        unsigned long long value;
        char *slash;

        snprintf(full, sizeof full, "%s%s/%s", base, path, file);
        if (file_read(full, text, sizeof text) && sscanf(text, "%llu", &value) == 1 &&
            value < limit)
            limit = (size_t)value;
        slash = strrchr(path, '/');
        if (slash == NULL)
            return limit;
        *slash = '\0';
    }
}

size_t am_machine_memory_under(const char *root, size_t installed)
{
    char text[4096];
    char base[256];
    char *line;
    char *rest = text;
    size_t limit = installed;

    snprintf(base, sizeof base, "%s/proc/self/cgroup", root);
    if (!file_read(base, text, sizeof text))
        return limit;

    /* Lines are "0::/path" (version 2) or "4:memory:/path" (version 1). */
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *path = strrchr(line, ':');
        bool is_v2 = strncmp(line, "0::", 3) == 0;

        if (path == NULL || (!is_v2 && strstr(line, ":memory:") == NULL))
            continue;
        path++;
        if (strlen(path) > 256)
            continue;
        if (strcmp(path, "/") == 0)
            *path = '\0';
        snprintf(base, sizeof base, "%s/sys/fs/cgroup%s", root, is_v2 ? "" : "/memory");
        limit = group_limit(base, path, is_v2 ? "memory.max" : "memory.limit_in_bytes",
                            limit);
    }
    return limit;
}

size_t am_machine_memory(void)
{
    size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);

    return am_machine_memory_under("", pages * (size_t)sysconf(_SC_PAGESIZE));
}

bool am_machine_has_node(int node)
{
    if (numa_available() < 0)
        return node == 0;
    return node >= 0 && node <= numa_max_node() &&
           numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node);
}
