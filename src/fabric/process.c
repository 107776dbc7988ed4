/*
 * aclmem-fabric: the fabric process of a program.
 *
 *     aclmem-fabric FOLDER      started by libascendcl.so, with its socket as descriptor 3
 *     aclmem-fabric FOLDER ping HOST:PORT KEY SECONDS      started by aclmem fabric ping
 *
 * It forks, so that it is not a child of the program, whose wait() would find it.  It closes
 * all descriptors except the socket, and loads FOLDER/libaclmem_fabric.so, which needs UCX.
 * If that fails, it replies to the program with the reason.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "fabric/listen.h"
#include "fabric/port.h"

#define SOCKET 3

/* Replies to the request with the key, which is the first one that has a reply. */
static int refuse(const char *why)
{
    struct am_port_message reply = {
        .kind = AM_PORT_REPLY,
        .status = ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    };
    struct am_port_message message;
    ssize_t size;

    do
        size =
            recv(SOCKET, &message, sizeof message, 0); /* the kernel drops descriptors */
    while ((size < 0 && errno == EINTR) ||
           (size == (ssize_t)sizeof message && message.kind != AM_PORT_KEY));
    if (size != (ssize_t)sizeof message)
        return 1;
    reply.id = message.id;
    snprintf(reply.text, sizeof reply.text,
             "libaclmem_fabric.so cannot be loaded; install libucx0, libsodium23 and "
             "libseccomp2: %s",
             why);
    send(SOCKET, &reply, sizeof reply, MSG_NOSIGNAL);
    return 1;
}

/*
 * UCX reads these when it is loaded: no signal handlers, no hooks of memory calls, no
 * thread, and no lines on standard error about peers that end.
 */
static void ucx_configure(void)
{
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_MEM_EVENTS", "n", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("UCX_LOG_FILE", "stderr", 0);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    setenv("UCX_VFS_ENABLE", "n",
           1); /* its thread would start before this one is confined */
}

/* A function of libaclmem_fabric.so; NULL: dlerror() says why not. */
static void *function_load(const char *folder, const char *name)
{
    char path[4096];
    void *module;

    ucx_configure();
    snprintf(path, sizeof path, "%s/libaclmem_fabric.so", folder);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module != NULL ? dlsym(module, name) : NULL;
}

static int ping(char **argv)
{
    int (*run)(const char *where, const char *key_path, unsigned timeout_s) =
        function_load(argv[1], "aclmem_fabric_ping");
    int status;

    if (run == NULL) {
        fprintf(stderr,
                "aclmem fabric ping: install libucx0, libsodium23 and libseccomp2: %s\n",
                dlerror());
        return 1;
    }
    status = run(argv[3], argv[4], (unsigned)strtoul(argv[5], NULL, 10));
    fflush(stdout);
    _exit(status); /* without UCX's handlers: all ends with the process */
}

int main(int argc, char **argv)
{
    void (*serve)(int socket, const struct am_listen *listening);
    pid_t child;

    if (argc == 6 && strcmp(argv[2], "ping") == 0)
        return ping(argv);
    if (argc != 2) {
        fprintf(stderr, "aclmem-fabric is started by libascendcl.so\n");
        return 2;
    }
    child = fork();
    if (child != 0)
        return child < 0 ? 1 : 0;
    setsid();
    syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
    prctl(PR_SET_NAME, "aclmem-fabric");
    serve = function_load(argv[1], "aclmem_fabric_serve");
    if (serve == NULL)
        return refuse(dlerror());
    serve(SOCKET, &am_listen);
    return 0;
}
