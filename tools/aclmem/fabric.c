/* aclmem fabric: what users of several machines need beside their programs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

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

static int fabric_run(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "keygen") == 0)
        return keygen(argv[1]);
    return usage_fail("fabric", "it takes keygen and the name of a new file");
}

static const struct option options[] = {
    {0},
};

const struct command fabric_command = {
    .name = "fabric",
    .operands = "keygen FILE",
    .help = "make the key that machines share memory with (docs/FABRIC.md)",
    .options = options,
    .run = fabric_run,
};
