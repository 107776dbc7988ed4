/*
 * See maps.h.
 *
 * From Linux 6.11 on, one ioctl returns the mapping around an address; a range is mostly
 * one mapping, so that is one call whatever the size.  Before, there is the text of
 * /proc/self/maps, tens of microseconds of it.  A short range is then asked page by page:
 * a futex call reads a word, or changes it to what it is, and fails with EFAULT where a
 * program would be killed.
 */
#include "base/maps.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/ioctl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/sys.h"

#define PAGE ((uintptr_t)4096) /* where pages are larger, a few questions too many */
#define PROBES_MAX 64          /* about as long as reading the text */
#define MAPS_FILE "/proc/self/maps"

/* struct procmap_query of <linux/fs.h>, which older headers do not have. */
struct query {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t start;
    uint64_t end;
    uint64_t flags; /* the bits of AM_MAPS_READ and AM_MAPS_WRITE among them */
    uint64_t rest[7];
};

_Static_assert(sizeof(struct query) == 104, "the kernel knows it by its size");

#define QUERY _IOWR('f', 17, struct query)

static atomic_int maps_fd = -1;

void am_maps_open(void)
{
    struct query query = {.size = sizeof query, .query_addr = (uintptr_t)&query};
    int fd = am_sys_open(MAPS_FILE, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (ioctl(fd, QUERY, &query) != 0) {
        close(fd);
        return;
    }
    maps_fd = am_fd_move_up(fd);
}

void am_maps_close(void)
{
    int fd = atomic_exchange(&maps_fd, -1);

    if (fd >= 0)
        close(fd);
}

/* 1: the kernel has no such query, or the program closed the descriptor. */
static int query_check(uintptr_t addr, uintptr_t last, unsigned access)
{
    struct query query = {.size = sizeof query};
    int fd = maps_fd;

    if (fd < 0)
        return 1;
    for (;;) {
        query.query_addr = addr;
        if (ioctl(fd, QUERY, &query) != 0)
            return errno == ENOENT ? -EFAULT : 1;
        if ((query.flags & access) != access)
            return -EACCES;
        if (query.end > last)
            return 0;
        addr = query.end;
    }
}

/* Whether the word at addr, a multiple of four, can be read; or written, as it is. */
static bool word_is_there(uintptr_t addr, unsigned access)
{
    uint32_t ours = 0;
    long rc;

    if (access & AM_MAPS_WRITE)
        rc = syscall(SYS_futex, &ours, FUTEX_WAKE_OP_PRIVATE, 0, NULL, addr,
                     FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0));
    else
        rc = syscall(SYS_futex, addr, FUTEX_CMP_REQUEUE_PRIVATE, 0, NULL, &ours, 0);
    return rc >= 0 || errno != EFAULT;
}

/* A short range; whether a page is missing or protected is left to the text. */
static bool pages_are_there(uintptr_t addr, uintptr_t last, unsigned access)
{
    uintptr_t page = addr & ~(PAGE - 1);

    if (!word_is_there(addr & ~(uintptr_t)3, access))
        return false;
    while (last - page >= PAGE) {
        page += PAGE;
        if (!word_is_there(page, access))
            return false;
    }
    return true;
}

/* /proc/self/maps is in ascending order, a line for each mapping. */
static int text_check(uintptr_t addr, uintptr_t last, unsigned access)
{
    FILE *maps = fopen(MAPS_FILE, "re");
    char line[512];
    int rc = -EFAULT;

    if (maps == NULL)
        return 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long low;
        unsigned long high;
        char rights[5];

        /* The rest of a line that did not fit does not match. */
        if (sscanf(line, "%lx-%lx %4s", &low, &high, rights) != 3 || high <= addr)
            continue;
        if (low > addr)
            break;
        if (((access & AM_MAPS_READ) && rights[0] != 'r') ||
            ((access & AM_MAPS_WRITE) && rights[1] != 'w')) {
            rc = -EACCES;
            break;
        }
        addr = high;
        if (addr > last) {
            rc = 0;
            break;
        }
    }
    fclose(maps);
    return rc;
}

int am_maps_check(uintptr_t addr, size_t size, unsigned access)
{
    uintptr_t last = addr + size - 1;
    int rc = query_check(addr, last, access);

    if (rc <= 0)
        return rc;
    if ((last - addr) / PAGE >= PROBES_MAX)
        return text_check(addr, last, access);
    if (pages_are_there(addr, last, access))
        return 0;
    rc = text_check(addr, last, access);
    return rc != 0 ? rc : -EFAULT; /* mapped, but behind the end of its file */
}
