/* See modules.h. */
#include "layer/modules.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "layer/memory.h"

#define MODULES_MAX 4096

static struct {
    struct am_lock lock;
    struct am_module *list[MODULES_MAX]; /* an entry is written once */
    _Atomic uint32_t n;
    unsigned long long adds; /* the linker's count at the last update */
    unsigned long long subs;
    const struct am_module *own;
} modules = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "modules")};

/* What the callbacks of dl_iterate_phdr share. */
struct module_scan {
    bool is_changed;
    bool is_first; /* the first module is the executable */
};

static bool is_known(const char *path, uintptr_t base)
{
    /* The latest one at a base counts: an older one of the same name was unloaded. */
    for (uint32_t i = modules.n; i > 0; i--) {
        const struct am_module *m = modules.list[i - 1];

        if (m->base == base)
            return strcmp(m->path, path) == 0;
    }
    return false;
}

static void build_id_read(const struct dl_phdr_info *info, const ElfW(Phdr) * header,
                          char *text)
{
    const char *at = (const char *)(info->dlpi_addr + header->p_vaddr);
    const char *end = at + header->p_memsz;

    while (at + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
        const char *name = at + sizeof *note;
        const char *data = name + ((note->n_namesz + 3u) & ~3u);

        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            memcmp(name, "GNU", 4) == 0 && note->n_descsz <= 20 &&
            data + note->n_descsz <= end) {
            for (uint32_t i = 0; i < note->n_descsz; i++)
                snprintf(text + 2 * (size_t)i, 3, "%02x", (unsigned char)data[i]);
            return;
        }
        at = data + ((note->n_descsz + 3u) & ~3u);
    }
}

static void module_fill(struct am_module *m, const struct dl_phdr_info *info)
{
    m->base = info->dlpi_addr;
    m->start = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;

        if (header->p_type == PT_LOAD && (header->p_flags & PF_X)) {
            if (start < m->start)
                m->start = start;
            if (start + header->p_memsz > m->end)
                m->end = start + header->p_memsz;
        } else if (header->p_type == PT_NOTE && m->build_id[0] == '\0') {
            build_id_read(info, header, m->build_id);
        }
    }
}

/* A module that was not there before is appended; one without code is left out. */
static void module_add(const struct dl_phdr_info *info, const char *path)
{
    size_t n = strlen(path) + 1;
    struct am_module *m = modules.n < MODULES_MAX ? am_meta_alloc(sizeof *m + n) : NULL;

    if (m == NULL)
        return;
    m->path = memcpy(m + 1, path, n);
    module_fill(m, info);
    if (m->start >= m->end) {
        free(m);
        return;
    }
    modules.list[modules.n] = m;
    if (m->start <= (uintptr_t)am_modules_update && (uintptr_t)am_modules_update < m->end)
        modules.own = m;
    atomic_fetch_add_explicit(&modules.n, 1, memory_order_release);
}

static int changed_see(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module_scan *scan = arg;

    scan->is_changed = info->dlpi_adds != modules.adds || info->dlpi_subs != modules.subs;
    modules.adds = info->dlpi_adds;
    modules.subs = info->dlpi_subs;
    return 1; /* every module has the same counts */
}

static int module_see(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module_scan *scan = arg;
    const char *path = info->dlpi_name;
    char executable[4096];

    if (scan->is_first) {
        ssize_t n = readlink("/proc/self/exe", executable, sizeof executable - 1);

        executable[n > 0 ? n : 0] = '\0';
        path = executable;
        scan->is_first = false;
    }
    if (!is_known(path, info->dlpi_addr))
        module_add(info, path);
    return 0;
}

uint32_t am_modules_update(void)
{
    struct module_scan scan = {.is_first = true};
    uint32_t n;

    am_lock(&modules.lock);
    dl_iterate_phdr(changed_see, &scan);
    if (scan.is_changed)
        dl_iterate_phdr(module_see, &scan);
    n = modules.n;
    am_unlock(&modules.lock);
    return n;
}

int am_module_find(uintptr_t addr, uint32_t era)
{
    uint32_t n = atomic_load_explicit(&modules.n, memory_order_acquire);

    for (uint32_t i = era != 0 && era < n ? era : n; i > 0; i--) {
        if (modules.list[i - 1]->start <= addr && addr < modules.list[i - 1]->end)
            return (int)i - 1;
    }
    return -1;
}

const struct am_module *am_module_get(int number)
{
    return modules.list[number];
}

const struct am_module *am_module_own(void)
{
    return modules.own;
}
