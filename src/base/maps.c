/* See maps.h.  /proc/self/maps is in ascending order, a line for each mapping. */
#include "base/maps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int am_maps_check(uintptr_t addr, size_t size)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t end = addr + size;
    char line[512];
    int rc = -EFAULT;

    if (maps == NULL)
        return 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long low;
        unsigned long high;
        char rights[5];

        /* The rest of a line that did not fit does not look like this. */
        if (sscanf(line, "%lx-%lx %4s", &low, &high, rights) != 3 || high <= addr)
            continue;
        if (low > addr)
            break;
        if (strncmp(rights, "rw", 2) != 0) {
            rc = -EACCES;
            break;
        }
        addr = high;
        if (addr >= end) {
            rc = 0;
            break;
        }
    }
    fclose(maps);
    return rc;
}
