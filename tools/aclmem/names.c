/* See names.h. */
#include "names.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Separate files with debug information are found by these rules. */
static char *debug_path;
static const Dwfl_Callbacks callbacks = {
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debug_path,
};

/* A module's file, opened once; without debug information `module` is NULL. */
struct file {
    struct file *next;
    Dwfl *dwfl;
    Dwfl_Module *module;
    GElf_Addr bias; /* what libdw adds to the file's addresses */
    char path[];
};

static struct file *files;
static json_t *known; /* "path+offset" -> frames */

static struct file *file_open(const char *path)
{
    size_t n = strlen(path) + 1;
    struct file *file = calloc(1, sizeof *file + n);

    if (file == NULL)
        return NULL;
    memcpy(file->path, path, n);
    file->dwfl = dwfl_begin(&callbacks);
    if (file->dwfl != NULL) {
        file->module = dwfl_report_offline(file->dwfl, "", path, -1);
        dwfl_report_end(file->dwfl, NULL, NULL);
    }
    if (file->module != NULL && dwfl_module_getelf(file->module, &file->bias) == NULL)
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

/* A C++ name as people write it; the text is the caller's. */
static char *demangle(const char *name)
{
    static char *(*convert)(const char *, char *, size_t *, int *);
    static int is_looked;
    char *text = NULL;
    int status;

    if (!is_looked) {
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);

        is_looked = 1;
        if (library != NULL)
            convert = (char *(*)(const char *, char *, size_t *, int *))dlsym(
                library, "__cxa_demangle");
    }
    if (convert != NULL && strncmp(name, "_Z", 2) == 0)
        text = convert(name, NULL, NULL, &status);
    return text != NULL ? text : strdup(name);
}

static void frame_add(json_t *frames, const char *function, const char *file, int line,
                      const char *module)
{
    char *name = demangle(function);

    json_array_append_new(frames, json_pack("{s:o, s:o, s:i, s:o}", "function",
                                            text_json(name != NULL ? name : function),
                                            "file", text_json(file != NULL ? file : ""),
                                            "line", line, "module", text_json(module)));
    free(name);
}

/* The function that a scope of debug information is of; NULL: it is none. */
static const char *scope_name(Dwarf_Die *scope)
{
    Dwarf_Attribute attribute;
    const char *name;

    switch (dwarf_tag(scope)) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
        break;
    default:
        return NULL;
    }
    name = dwarf_formstring(dwarf_attr_integrate(scope, DW_AT_linkage_name, &attribute));
    if (name == NULL)
        name = dwarf_diename(scope);
    return name;
}

/* Where an inlined function was called. */
static void call_read(Dwarf_Die *scope, Dwarf_Die *unit, const char **ret_file,
                      int *ret_line)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Files *list;
    size_t n;

    *ret_file = NULL;
    *ret_line = 0;
    if (dwarf_formudata(dwarf_attr(scope, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(unit, &list, &n) == 0 && number < n)
        *ret_file = dwarf_filesrc(list, number, NULL, NULL);
    if (dwarf_formudata(dwarf_attr(scope, DW_AT_call_line, &attribute), &number) == 0)
        *ret_line = (int)number;
}

/* By debug information, inlined functions first; how many frames. */
static size_t scopes_add(json_t *frames, struct file *file, GElf_Addr addr,
                         const char *source, int line)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(file->module, addr, &bias);
    Dwarf_Die *scopes = NULL;
    int n = unit != NULL ? dwarf_getscopes(unit, addr - bias, &scopes) : 0;
    size_t added = 0;

    if (n > 0) { /* innermost scope first; its own tree leads outwards through inlines */
        Dwarf_Die innermost = scopes[0];

        free(scopes);
        scopes = NULL;
        n = dwarf_getscopes_die(&innermost, &scopes);
    }
    for (int i = 0; i < n; i++) {
        const char *name = scope_name(&scopes[i]);

        if (name == NULL)
            continue;
        frame_add(frames, name, source, line, file->path);
        added++;
        if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            break;
        call_read(&scopes[i], unit, &source, &line);
    }
    free(scopes);
    return added;
}

static json_t *frames_find(const char *path, uint64_t offset)
{
    struct file *file = file_find(path);
    json_t *frames = json_array();
    const char *base = strrchr(path, '/');
    const char *source = NULL;
    const char *name = NULL;
    char text[512];
    int line = 0;

    if (file != NULL && file->module != NULL) {
        GElf_Addr addr = offset + file->bias;
        Dwfl_Line *at = dwfl_module_getsrc(file->module, addr);

        if (at != NULL)
            source = dwfl_lineinfo(at, NULL, &line, NULL, NULL, NULL);
        if (scopes_add(frames, file, addr, source, line) > 0)
            return frames;
        name = dwfl_module_addrname(file->module, addr);
    }
    if (name == NULL) {
        snprintf(text, sizeof text, "%s+0x%llx", base != NULL ? base + 1 : path,
                 (unsigned long long)offset);
        name = text;
    }
    frame_add(frames, name, source, line, path);
    return frames;
}

void names_add(json_t *stack, const char *path, uint64_t offset)
{
    char key[4200];
    json_t *frames;

    snprintf(key, sizeof key, "%s+%llx", path, (unsigned long long)offset);
    if (known == NULL)
        known = json_object();
    frames = json_incref(json_object_get(known, key));
    if (frames == NULL) {
        frames = frames_find(path, offset);
        json_object_set_nocheck(known, key, frames); /* a path may hold any byte */
    }
    json_array_extend(stack, frames);
    json_decref(frames);
}

void names_close(void)
{
    struct file *next;

    for (struct file *file = files; file != NULL; file = next) {
        next = file->next;
        dwfl_end(file->dwfl);
        free(file);
    }
    files = NULL;
    json_decref(known);
    known = NULL;
}
