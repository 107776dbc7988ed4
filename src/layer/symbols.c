/* See symbols.h. */
#include "layer/symbols.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The functions of libdw that are used. */
#define EACH_FUNCTION(X) \
    X(dwfl_begin) \
    X(dwfl_end) \
    X(dwfl_report_offline) \
    X(dwfl_report_end) \
    X(dwfl_module_getelf) \
    X(dwfl_module_getsrc) \
    X(dwfl_module_addrname) \
    X(dwfl_module_addrdie) \
    X(dwfl_lineinfo) \
    X(dwfl_standard_find_debuginfo) \
    X(dwfl_offline_section_address) \
    X(dwarf_tag) \
    X(dwarf_attr) \
    X(dwarf_attr_integrate) \
    X(dwarf_formstring) \
    X(dwarf_formudata) \
    X(dwarf_diename) \
    X(dwarf_getscopes) \
    X(dwarf_getscopes_die) \
    X(dwarf_getsrcfiles) \
    X(dwarf_filesrc)

static struct {
    bool is_open;
    char *(*demangle)(const char *, char *, size_t *, int *); /* of libstdc++ */
#define FIELD(name_) __typeof__(&name_) name_;
    EACH_FUNCTION(FIELD)
#undef FIELD
} dw;

/* A module's file, opened once; `module` is NULL if it cannot be read. */
struct file {
    struct file *next;
    Dwfl *dwfl;
    Dwfl_Module *module;
    GElf_Addr bias; /* what libdw adds to the file's addresses */
    char path[];
};

static struct file *files;
static char *debug_path; /* libdw's default: separate files with debug information */

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

void am_symbols_open(void)
{
#ifdef AM_SYMBOLS_LINKED
    void *cxx = dw.is_open ? NULL : dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
#define LOAD(name_) dw.name_ = name_;
#else
    void *library = dw.is_open ? NULL : dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    void *cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD); /* a C++ program's */
#define LOAD(name_) \
    dw.name_ = library != NULL ? (__typeof__(&name_))dlsym(library, #name_) : NULL; \
    if (dw.name_ == NULL) \
        return;
#endif
    if (cxx != NULL)
        dw.demangle = (char *(*)(const char *, char *, size_t *, int *))dlsym(
            cxx, "__cxa_demangle");
    if (dw.is_open)
        return;
    EACH_FUNCTION(LOAD)
#undef LOAD
    callbacks.section_address = dw.dwfl_offline_section_address;
    dw.is_open = true;
}

static struct file *file_get(const char *path)
{
    size_t n = strlen(path) + 1;
    struct file *file;

    for (file = files; file != NULL; file = file->next) {
        if (strcmp(file->path, path) == 0)
            return file;
    }
    file = calloc(1, sizeof *file + n);
    if (file == NULL)
        return NULL;
    memcpy(file->path, path, n);
    file->dwfl = dw.dwfl_begin(&callbacks);
    if (file->dwfl != NULL) {
        file->module = dw.dwfl_report_offline(file->dwfl, "", path, -1);
        dw.dwfl_report_end(file->dwfl, NULL, NULL);
    }
    if (file->module != NULL && dw.dwfl_module_getelf(file->module, &file->bias) == NULL)
        file->module = NULL;
    file->next = files;
    files = file;
    return file;
}

static void symbol_add(struct am_symbol symbol, am_symbol_fn each, void *arg)
{
    char *plain = NULL;
    int status;

    if (dw.demangle != NULL && strncmp(symbol.function, "_Z", 2) == 0)
        plain = dw.demangle(symbol.function, NULL, NULL, &status);
    if (plain != NULL)
        symbol.function = plain;
    each(&symbol, arg);
    free(plain);
}

/* The function that a scope of debug information is of; NULL: another scope. */
static const char *scope_name(Dwarf_Die *scope)
{
    Dwarf_Attribute attribute;
    const char *name;

    if (dw.dwarf_tag(scope) != DW_TAG_subprogram &&
        dw.dwarf_tag(scope) != DW_TAG_inlined_subroutine)
        return NULL;
    name = dw.dwarf_formstring(
        dw.dwarf_attr_integrate(scope, DW_AT_linkage_name, &attribute));
    return name != NULL ? name : dw.dwarf_diename(scope);
}

/* Where an inlined function was called. */
static void call_read(Dwarf_Die *scope, Dwarf_Die *unit, struct am_symbol *symbol)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Files *list;
    size_t n;

    symbol->file = NULL;
    symbol->line = 0;
    if (dw.dwarf_formudata(dw.dwarf_attr(scope, DW_AT_call_file, &attribute), &number) ==
            0 &&
        dw.dwarf_getsrcfiles(unit, &list, &n) == 0 && number < n)
        symbol->file = dw.dwarf_filesrc(list, number, NULL, NULL);
    if (dw.dwarf_formudata(dw.dwarf_attr(scope, DW_AT_call_line, &attribute), &number) ==
        0)
        symbol->line = (int)number;
}

/* By debug information; `symbol` has the innermost file and line. */
static size_t scopes_add(const struct file *file, GElf_Addr addr, struct am_symbol symbol,
                         am_symbol_fn each, void *arg)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dw.dwfl_module_addrdie(file->module, addr, &bias);
    Dwarf_Die *scopes = NULL;
    int n = unit != NULL ? dw.dwarf_getscopes(unit, addr - bias, &scopes) : 0;
    size_t added = 0;

    if (n > 0) { /* the innermost scope's own tree leads outwards through inlines */
        Dwarf_Die innermost = scopes[0];

        free(scopes);
        scopes = NULL;
        n = dw.dwarf_getscopes_die(&innermost, &scopes);
    }
    for (int i = 0; i < n; i++) {
        symbol.function = scope_name(&scopes[i]);
        if (symbol.function == NULL)
            continue;
        symbol_add(symbol, each, arg);
        added++;
        if (dw.dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            break;
        call_read(&scopes[i], unit, &symbol);
    }
    free(scopes);
    return added;
}

/* libdw needs more than the stack that most programs give to a signal's handler. */
static bool has_stack(void)
{
    stack_t now;

    return sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_ONSTACK) ||
           now.ss_size >= AM_SYMBOLS_STACK;
}

size_t am_symbolize(const char *path, uint64_t offset, am_symbol_fn each, void *arg)
{
    const struct file *file = dw.is_open && has_stack() ? file_get(path) : NULL;
    struct am_symbol symbol = {NULL, NULL, 0};
    Dwfl_Line *line;
    GElf_Addr addr;
    size_t n;

    if (file == NULL || file->module == NULL)
        return 0;
    addr = offset + file->bias;
    line = dw.dwfl_module_getsrc(file->module, addr);
    if (line != NULL)
        symbol.file = dw.dwfl_lineinfo(line, NULL, &symbol.line, NULL, NULL, NULL);
    n = scopes_add(file, addr, symbol, each, arg);
    if (n > 0)
        return n;
    symbol.function = dw.dwfl_module_addrname(file->module, addr);
    if (symbol.function == NULL)
        return 0;
    symbol_add(symbol, each, arg);
    return 1;
}

void am_symbols_close(void)
{
    struct file *next;

    for (struct file *file = files; file != NULL; file = next) {
        next = file->next;
        dw.dwfl_end(file->dwfl);
        free(file);
    }
    files = NULL;
}
