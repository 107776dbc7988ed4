/*
 * Clients load the libraries and look their functions up: test_loaded FOLDER
 *
 * Every name is found in its library, with nothing of the toolkit loaded before.  Names of
 * the runtime and of the profiler are found under the names of their own libraries too.
 */
#define NAME_AT(name_) NULL
#include "toolkit/names.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *library;
    const char *name;
} links[] = {
    {"libruntime.so", "rtIpcOpenMemory"},
    {"libmsprofiler.so", "aclprofCreateConfig"},
    {"libacl_tdt_queue.so", "acltdtCreateDataset"},
    {"libascendcl.so.1", "aclrtMalloc"},
};

static bool has(const char *folder, const char *library, const char *name)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof(path), "%s/%s", folder, library);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || dlsym(handle, name) == NULL) {
        fprintf(stderr, "%s: %s\n", library, dlerror());
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const int n_links = sizeof(links) / sizeof(links[0]);
    int n_wrong = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: test_loaded FOLDER\n");
        return 2;
    }
    for (int i = N_NAMES; i-- > 0;) /* libascendcl.so comes last */
        n_wrong += !has(argv[1], names[i].library, names[i].name);
    for (int i = 0; i < n_links; i++)
        n_wrong += !has(argv[1], links[i].library, links[i].name);
    printf("%d names looked up, %d wrong\n", N_NAMES + n_links, n_wrong);
    return n_wrong > 0;
}
