/* aclmem fabric: what users of several machines need beside their programs. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "acl/acl.h"
#include "command.h"

#define KEY_SIZE 32

/* A new file with a new key; a file that is there stays as it is. */
static int keygen(const char *path)
{
    unsigned char key[KEY_SIZE];
    int fd;

    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) {
        fprintf(stderr, "aclmem fabric: no random numbers: %s\n", strerror(errno));
        return 1;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        fprintf(stderr, "aclmem fabric: %s: %s\n", path, strerror(errno));
        return 1;
    }
    if (write(fd, key, sizeof key) != (ssize_t)sizeof key || fsync(fd) != 0) {
        fprintf(stderr, "aclmem fabric: %s: %s\n", path, strerror(errno));
        close(fd);
        unlink(path);
        return 1;
    }
    close(fd);
    printf("%s has a new key; copy it to every machine, with mode 600, and set "
           "ACLMEM_FABRIC_KEY to its path there\n",
           path);
    return 0;
}

#define TIMEOUT_MAX 3600

static long timeout = 10;

/* The folder of libascendcl.so, which aclmem-fabric is in, too. */
static bool folder_find(char *folder, size_t size)
{
    const char *slash;
    Dl_info info;

    if (dladdr((void *)(uintptr_t)aclInit, &info) == 0 || info.dli_fname == NULL)
        return false;
    slash = strrchr(info.dli_fname, '/');
    if (slash == NULL || (size_t)(slash - info.dli_fname) >= size)
        return false;
    memcpy(folder, info.dli_fname, (size_t)(slash - info.dli_fname));
    folder[slash - info.dli_fname] = '\0';
    return true;
}

/* By aclmem-fabric, which has what it needs. */
static int ping(const char *where)
{
    const char *key = getenv("ACLMEM_FABRIC_KEY");
    char seconds[24];
    char folder[PATH_MAX];
    char path[PATH_MAX + 16];

    if (timeout < 1 || timeout > TIMEOUT_MAX)
        return usage_fail("fabric", "--timeout is %ld, and takes 1 to %d seconds",
                          timeout, TIMEOUT_MAX);
    if (key == NULL)
        return usage_fail("fabric", "ping needs ACLMEM_FABRIC_KEY, the file of the key");
    if (!folder_find(folder, sizeof folder)) {
        fprintf(stderr, "aclmem fabric: libascendcl.so is not found\n");
        return EXIT_NOT_FOUND;
    }
    snprintf(path, sizeof path, "%s/aclmem-fabric", folder);
    snprintf(seconds, sizeof seconds, "%ld", timeout);
    execl(path, path, folder, "ping", where, key, seconds, (char *)NULL);
    fprintf(stderr,
            "aclmem fabric: %s: %s; this aclmem has no fabric between machines: build it "
            "where libucx-dev, libsodium-dev and libseccomp-dev are installed, or "
            "install its Debian "
            "package and libucx0\n",
            path, strerror(errno));
    return EXIT_NOT_FOUND;
}

static int fabric_run(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "ping") == 0)
        return ping(argv[1]);
    if (argc == 2 && strcmp(argv[0], "keygen") == 0)
        return keygen(argv[1]);
    return usage_fail("fabric", "it takes keygen FILE, or ping HOST:PORT");
}

static const struct option options[] = {
    {"timeout", OPTION_NUMBER, &timeout, "SECONDS",
     "End ping after this time (default: 10)", 0},
    {0},
};

static const struct exit_code exits[] = {
    {"127", "this aclmem was built without the fabric"},
    {0},
};

const struct command fabric_command = {
    .name = "fabric",
    .group = GROUP_CLUSTER,
    .operands = "keygen FILE | ping HOST:PORT",
    .help = "Create the key of a cluster, or try a connection to another machine",
    .options = options,
    .examples = "  aclmem fabric keygen ~/.aclmem.key   Create a key\n"
                "  aclmem fabric ping node2:18515       Try a connection\n",
    .exits = exits,
    .run = fabric_run,
};
