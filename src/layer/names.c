/* See names.h. */
#include "layer/names.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

/* The functions of libdw that are used. */
#define EACH_SYMBOL(X) \
    X(dwfl_begin) \
    X(dwfl_report_offline) \
    X(dwfl_report_end) \
    X(dwfl_module_getelf) \
    X(dwfl_module_getsrc) \
    X(dwfl_module_addrname) \
    X(dwfl_lineinfo) \
    X(dwfl_standard_find_debuginfo) \
    X(dwfl_offline_section_address)

static struct {
    bool is_open;
    char *(*demangle)(const char *, char *, size_t *, int *); /* of a C++ program */
#define FIELD(name_) __typeof__(&name_) name_;
    EACH_SYMBOL(FIELD)
#undef FIELD
} dw;

/* A module's file, opened once; `module` is NULL where it cannot be read. */
struct file {
    struct file *next;
    Dwfl_Module *module;
    GElf_Addr bias; /* what libdw adds to the file's addresses */
    char path[];
};

static struct file *files;
static char *debug_path; /* libdw's own: separate files with debug information */

/* No server is asked: a program that is checked makes no connections for it. */
static int debuginfo_find(Dwfl_Module *module, void **data, const char *name,
                          Dwarf_Addr base, const char *file, const char *link,
                          GElf_Word crc, char **ret_name)
{
    const char *servers = getenv("DEBUGINFOD_URLS");

    if (servers != NULL && servers[0] != '\0')
        return -1;
    return dw.dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc,
                                           ret_name);
}

static Dwfl_Callbacks callbacks = {.find_debuginfo = debuginfo_find,
                                   .debuginfo_path = &debug_path};

void am_names_open(void)
{
    void *library = dw.is_open ? NULL : dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    void *cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);

    if (cxx != NULL)
        dw.demangle = (char *(*)(const char *, char *, size_t *, int *))dlsym(
            cxx, "__cxa_demangle");
    if (library == NULL)
        return;
#define LOAD(name_) \
    dw.name_ = (__typeof__(&name_))dlsym(library, #name_); \
    if (dw.name_ == NULL) \
        return;
    EACH_SYMBOL(LOAD)
#undef LOAD
    callbacks.section_address = dw.dwfl_offline_section_address;
    dw.is_open = true;
}

static struct file *file_open(const char *path)
{
    size_t n = strlen(path) + 1;
    struct file *file = am_sys_calloc(1, sizeof *file + n);
    Dwfl *dwfl;

    if (file == NULL)
        return NULL;
    memcpy(file->path, path, n);
    dwfl = dw.dwfl_begin(&callbacks);
    if (dwfl != NULL) {
        file->module = dw.dwfl_report_offline(dwfl, "", path, -1);
        dw.dwfl_report_end(dwfl, NULL, NULL);
    }
    if (file->module != NULL && dw.dwfl_module_getelf(file->module, &file->bias) == NULL)
        file->module = NULL;
    file->next = files;
    files = file;
    return file;
}

static struct file *file_find(const char *path)
{
    for (struct file *file = files; file != NULL; file = file->next) {
        if (strcmp(file->path, path) == 0)
            return file;
    }
    return file_open(path);
}

/* A C++ name as people write it; the text lasts until the next call. */
static const char *plain_name(const char *name)
{
    static char text[1024];
    char *plain = NULL;
    int status;

    if (dw.demangle != NULL && name != NULL && strncmp(name, "_Z", 2) == 0)
        plain = dw.demangle(name, NULL, NULL, &status);
    if (plain == NULL)
        return name;
    snprintf(text, sizeof text, "%s", plain);
    free(plain);
    return text;
}

/* libdw needs more than the stack that most programs give to a signal's handler. */
static bool has_room(void)
{
    stack_t now;

    return sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_ONSTACK) ||
           now.ss_size >= AM_NAMES_STACK;
}

struct am_name am_name_find(const char *path, uint64_t offset)
{
    struct am_name name = {NULL, NULL, 0};
    struct file *file = dw.is_open && has_room() ? file_find(path) : NULL;
    Dwfl_Line *line;

    if (file == NULL || file->module == NULL)
        return name;
    name.function =
        plain_name(dw.dwfl_module_addrname(file->module, offset + file->bias));
    line = dw.dwfl_module_getsrc(file->module, offset + file->bias);
    if (line != NULL)
        name.file = dw.dwfl_lineinfo(line, NULL, &name.line, NULL, NULL, NULL);
    return name;
}
