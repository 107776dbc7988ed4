/*
 * Configuration files chosen by a fuzzer.
 *
 * The file that aclInit reads is the one thing a program hands over that somebody else
 * may have written.  Whatever is in it, aclInit answers with one of six codes and a
 * message, keeps no descriptor, and after a refusal the library is as if it had not been
 * called.  What it accepts it can also finalize.
 *
 * The input lies in a memfd and is named by its path under /proc, so no file system is
 * involved.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

extern char **environ;

static void require(int cond, const char *what, aclError rc)
{
    const char *message;

    if (cond)
        return;
    message = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", what, rc, message != NULL ? message : "");
    abort();
}

/*
 * The environment wins over the file, so none of ours may be in it but the one that keeps
 * it quiet.
 */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    for (char **var = environ; *var != NULL;) {
        char name[64] = "";

        if (strncmp(*var, "ACLMEM_", 7) == 0 && sscanf(*var, "%63[^=]", name) == 1)
            unsetenv(name);
        else
            var++;
    }
    setenv("ACLMEM_LOG", "error", 1);
    return 0;
}

static unsigned count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    if (dir == NULL)
        abort();
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static int open_input(const uint8_t *bytes, size_t n_bytes, char *path, size_t path_size)
{
    int fd = memfd_create("config", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes)
        abort();
    snprintf(path, path_size, "/proc/self/fd/%d", fd);
    return fd;
}

static int is_allowed(aclError rc)
{
    return rc == ACL_SUCCESS || rc == ACL_ERROR_INVALID_PARAM ||
           rc == ACL_ERROR_INVALID_FILE || rc == ACL_ERROR_INVALID_FILE_SIZE ||
           rc == ACL_ERROR_PARSE_FILE || rc == ACL_ERROR_FILE_ATTR_INVALID;
}

static void finalize(void)
{
    aclmem_stats stats;
    aclError rc = aclFinalize();

    require(rc == ACL_SUCCESS, "aclFinalize", rc);
    rc = aclmem_get_stats(&stats);
    require(rc == ACL_SUCCESS && stats.reservations + stats.handles + stats.mappings +
                                         stats.contexts + stats.views ==
                                     0,
            "something is alive after aclFinalize", rc);
}

/*
 * A device can be used: the values that were accepted are values the library can live
 * with.
 */
static void use_library(void)
{
    uint32_t n_devices = 0;
    aclError rc = aclrtGetDeviceCount(&n_devices);

    require(rc == ACL_SUCCESS && n_devices > 0, "aclrtGetDeviceCount", rc);
    rc = aclrtSetDevice((int32_t)n_devices - 1);
    require(rc == ACL_SUCCESS, "aclrtSetDevice", rc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    unsigned n_before = count_descriptors();
    char path[64];
    int fd = open_input(bytes, n_bytes, path, sizeof(path));
    aclError rc = aclInit(path);

    close(fd);
    require(is_allowed(rc), "aclInit", rc);
    if (rc == ACL_SUCCESS) {
        use_library();
        finalize();
    } else {
        require(aclGetRecentErrMsg() != NULL, "aclInit left no message", rc);
        rc = aclInit(NULL);
        require(rc == ACL_SUCCESS, "aclInit(NULL) after a refused file", rc);
        finalize();
    }
    require(count_descriptors() == n_before, "descriptors were left open", rc);
    return 0;
}
