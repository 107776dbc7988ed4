#include "actor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANNEL 3 /* the actor's end of the socket */
#define PATIENCE_MS 60000

extern char **environ;

struct request {
    int32_t what;
    uint64_t x, y, z;
    char text[ACTOR_TEXT];
};

/* ---- the actor's side ---- */

static aclError get_message(aclError rc, struct answer *answer)
{
    const char *text = rc != ACL_SUCCESS ? aclGetRecentErrMsg() : NULL;

    if (text != NULL)
        snprintf(answer->message, sizeof answer->message, "%s", text);
    return rc;
}

static aclError alloc_at(aclrtMemLocationType type, size_t size,
                         aclrtDrvMemHandle *handle)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = type},
    };

    return aclrtMallocPhysical(handle, size, &prop, 0);
}

static aclError put_bytes(void *to, size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc(size);
    aclError rc;

    if (bytes == NULL)
        return ACL_ERROR_BAD_ALLOC;
    fill(bytes, size, seed);
    rc = aclrtMemcpy(to, size, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE);
    free(bytes);
    return rc;
}

static aclError check_bytes(void *from, size_t size, uint64_t seed, uint64_t *ret_bad)
{
    uint8_t *bytes = malloc(size);
    aclError rc;

    if (bytes == NULL)
        return ACL_ERROR_BAD_ALLOC;
    rc = aclrtMemcpy(bytes, size, from, size, ACL_MEMCPY_DEVICE_TO_HOST);
    *ret_bad = rc == ACL_SUCCESS && !is_filled(bytes, size, seed);
    free(bytes);
    return rc;
}

static aclError stream_copy(void *to, size_t size, uint64_t times)
{
    static aclrtStream stream;
    void *host;
    aclError rc = stream == NULL ? aclrtCreateStream(&stream) : ACL_SUCCESS;

    if (rc == ACL_SUCCESS)
        rc = aclrtMallocHost(&host, size);
    for (uint64_t i = 0; i < times && rc == ACL_SUCCESS; i++)
        rc = aclrtMemcpyAsync(to, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    return rc;
}

static aclError set_limit(uint64_t soft, uint64_t hard)
{
    struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};

    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : errno;
}

/* The child has let go of what is the parent's when this returns. */
static aclError fork_child(void)
{
    struct pollfd end = {.fd = CHANNEL}; /* it hangs up: nothing else is asked for */
    int ready[2];
    char byte = 0;
    pid_t pid;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return errno;
    pid = fork();
    if (pid == 0) {
        if (write(ready[1], &byte, 1) != 1)
            exit(1);
        /* Not recv(), even to peek: one of two that wait there is woken for an order. */
        while (poll(&end, 1, -1) < 0)
            ;
        exit(0);
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) != 1)
        pid = -1;
    close(ready[0]);
    return pid > 0 ? ACL_SUCCESS : -1;
}

static aclError init(int32_t device)
{
    aclError rc = aclInit(NULL);

    return rc == ACL_SUCCESS && device >= 0 ? aclrtSetDevice(device) : rc;
}

/* What holds a stream, and lets it go: an event that is recorded elsewhere. */
static aclError stream_hold(aclrtStream stream, bool is_held)
{
    static aclrtEvent gate;
    aclError rc = ACL_SUCCESS;

    if (!is_held)
        return aclrtRecordEvent(gate, NULL);
    if (gate == NULL)
        rc = aclrtCreateEvent(&gate);
    return rc == ACL_SUCCESS ? aclrtStreamWaitEvent(stream, gate) : rc;
}

static aclError event_make(aclrtEvent *event, char *ret_text)
{
    aclrtIpcEventHandle handle;
    aclError rc = aclrtCreateEventExWithFlag(event, ACL_EVENT_IPC);

    if (rc == ACL_SUCCESS)
        rc = aclrtIpcGetEventHandle(*event, &handle);
    if (rc == ACL_SUCCESS)
        memcpy(ret_text, handle.reserved, sizeof handle.reserved);
    return rc;
}

static aclError event_open(const char *text, aclrtEvent *event)
{
    aclrtIpcEventHandle handle;

    memcpy(handle.reserved, text, sizeof handle.reserved);
    return aclrtIpcOpenEventHandle(handle, event);
}

static aclError perform_on_stream(const struct request *r, struct answer *answer)
{
    void *x = (void *)r->x;
    void *y = (void *)r->y;
    void **out = (void **)&answer->value[0];

    switch (r->what) {
    case DO_STREAM:
        return aclrtCreateStream(out);
    case DO_STREAM_SYNC:
        return aclrtSynchronizeStreamWithTimeout(x, (int32_t)r->y);
    case DO_STREAM_ABORT:
        return aclrtStreamAbort(x);
    case DO_STREAM_HOLD:
        return stream_hold(x, true);
    case DO_LET_GO:
        return stream_hold(NULL, false);
    case DO_EVENT:
        return event_make(out, answer->text);
    case DO_EVENT_OPEN:
        return event_open(r->text, out);
    case DO_EVENT_RECORD:
        return aclrtRecordEvent(x, y);
    case DO_EVENT_WAIT:
        return aclrtStreamWaitEvent(y, x);
    case DO_EVENT_SYNC:
        return aclrtSynchronizeEventWithTimeout(x, (int32_t)r->y);
    case DO_EVENT_DESTROY:
        return aclrtDestroyEvent(x);
    case DO_NOTIFY_OPEN:
        return aclrtNotifyImportByKey(out, r->text, r->x);
    case DO_NOTIFY_RECORD:
        return aclrtRecordNotify(x, y);
    case DO_NOTIFY_WAIT:
        return aclrtWaitAndResetNotify(x, y, (uint32_t)r->z);
    case DO_NOTIFY_DESTROY:
        return aclrtDestroyNotify(x);
    default:
        return -1;
    }
}

static aclError perform(const struct request *r, struct answer *answer)
{
    void *x = (void *)r->x;
    void **out = (void **)&answer->value[0];
    size_t total;
    int32_t pid = 0;
    aclError rc;

    switch (r->what) {
    case DO_INIT:
        return init((int32_t)r->x);
    case DO_FINALIZE:
        return aclFinalize();
    case DO_ALLOC:
        return alloc_at(ACL_MEM_LOCATION_TYPE_DEVICE, r->x, out);
    case DO_ALLOC_HOST:
        return alloc_at(ACL_MEM_LOCATION_TYPE_HOST, r->x, out);
    case DO_EXPORT:
        return aclrtMemExportToShareableHandle(x, ACL_MEM_HANDLE_TYPE_NONE, r->y,
                                               &answer->value[0]);
    case DO_TRUST:
        pid = (int32_t)r->y;
        return aclrtMemSetPidToShareableHandle(r->x, &pid, 1);
    case DO_IMPORT:
        return aclrtMemImportFromShareableHandle(r->x, (int32_t)r->y, out);
    case DO_RESERVE:
        return aclrtReserveMemAddress(out, r->x, 0, NULL, 1);
    case DO_MAP:
        return aclrtMapMem(x, r->y, 0, (void *)r->z, 0);
    case DO_PUT:
        return put_bytes(x, r->y, r->z);
    case DO_CHECK:
        return check_bytes(x, r->y, r->z, &answer->value[0]);
    case DO_UNMAP:
        return aclrtUnmapMem(x);
    case DO_FREE:
        return aclrtFreePhysical(x);
    case DO_RELEASE:
        return aclrtReleaseMemAddress(x);
    case DO_RETAIN:
        return aclrtMemRetainAllocationHandle(x, out);
    case DO_FREE_MEMORY:
        return aclrtGetMemInfo(ACL_HBM_MEM, (size_t *)&answer->value[0], &total);
    case DO_TGID:
        rc = aclrtDeviceGetBareTgid(&pid);
        answer->value[0] = (uint64_t)pid;
        return rc;
    case DO_DESCRIPTORS:
        answer->value[0] = open_descriptors();
        answer->value[1] = library_mappings();
        return ACL_SUCCESS;
    case DO_SET_LIMIT:
        return set_limit(r->x, r->y);
    case DO_FORK:
        return fork_child();
    case DO_PEER:
        return aclrtDeviceEnablePeerAccess((int32_t)r->x, 0);
    case DO_KEY:
        return aclrtIpcMemGetExportKey(x, r->y, answer->text, ACL_IPC_HANDLE_SIZE, r->z);
    case DO_KEY_TRUST:
        pid = (int32_t)r->x;
        return aclrtIpcMemSetImportPid(r->text, &pid, 1);
    case DO_KEY_IMPORT:
        return aclrtIpcMemImportByKey(out, r->text, r->x);
    case DO_KEY_CLOSE:
        return aclrtIpcMemClose(r->text);
    case DO_FABRIC:
        return aclrtMemExportToShareableHandleV2(
            x, r->y, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, answer->text);
    case DO_FABRIC_IMPORT:
        memcpy(answer->text, r->text, sizeof r->text);
        return aclrtMemImportFromShareableHandleV2(
            answer->text, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, out);
    case DO_MALLOC:
        return aclrtMalloc(out, r->x, ACL_MEM_MALLOC_HUGE_FIRST);
    case DO_MFREE:
        return aclrtFree(x);
    case DO_STREAM_COPY:
        return stream_copy(x, r->y, r->z);
    case DO_EXIT:
        exit(0);
    default:
        return perform_on_stream(r, answer);
    }
}

/* ---- starting ---- */

/* In a namespace of its own only a child is: the actor is that child. */
static void enter_namespace(void)
{
    int status = 0;
    pid_t pid;

    if (unshare(CLONE_NEWPID) != 0)
        exit(77);
    pid = fork();
    if (pid == 0)
        return;
    close(CHANNEL);
    waitpid(pid, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/*
 * This program.  Asked for at the start: in a chroot, a process that has taken mounts of
 * its own is told a path outside.
 */
static char own_path[4096];

void actor_main(int argc, char **argv)
{
    struct request request;
    struct answer answer;
    unsigned who;

    if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) < 0) {
        perror("/proc/self/exe");
        exit(2);
    }
    if (argc == 1 && getenv("ACLMEM_RUNTIME_DIR") == NULL) {
        fprintf(stderr, "set ACLMEM_RUNTIME_DIR to a folder of this test's own\n");
        exit(2);
    }
    if (argc != 3 || strcmp(argv[1], "actor") != 0)
        return;
    who = (unsigned)atoi(argv[2]);
    if (who & ACTOR_NAMESPACE)
        enter_namespace();
    if ((who & ACTOR_NO_PROC) &&
        (unshare(CLONE_NEWNS) != 0 ||
         mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
         mount("none", "/proc", "tmpfs", 0, NULL) != 0))
        exit(77);
    /* The user may have no access to the folder of the fake driver. */
    (void)dlopen("libcuda.so.1", RTLD_NOW);
    if ((who & ACTOR_NOBODY) && (setgid(65534) != 0 || setuid(65534) != 0))
        exit(77);
    answer = (struct answer){.value = {(uint64_t)getpid()}};
    send(CHANNEL, &answer, sizeof answer, MSG_NOSIGNAL);
    while (recv(CHANNEL, &request, sizeof request, 0) == (ssize_t)sizeof request) {
        memset(&answer, 0, sizeof answer);
        answer.rc = get_message(perform(&request, &answer), &answer);
        send(CHANNEL, &answer, sizeof answer, MSG_NOSIGNAL);
    }
    exit(0);
}

void actor_start(struct actor *a, unsigned who)
{
    posix_spawn_file_actions_t actions;
    char text[16];
    char *argv[] = {own_path, "actor", text, NULL};
    int pair[2];

    snprintf(text, sizeof text, "%u", who);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    posix_spawn_file_actions_init(&actions);
    /* dup2 to itself would leave it close-on-exec. */
    if (pair[1] == CHANNEL) {
        pair[1] = fcntl(CHANNEL, F_DUPFD_CLOEXEC, 10);
        close(CHANNEL);
    }
    posix_spawn_file_actions_adddup2(&actions, pair[1], CHANNEL);
    assert_int_equal(posix_spawn(&a->pid, own_path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    a->fd = pair[0];
    a->inside = (pid_t)order_end(a).value[0];
}

/* ---- the test's side ---- */

void order_begin(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z)
{
    struct request request = {.what = what, .x = x, .y = y, .z = z};

    assert_int_equal(send(a->fd, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
}

struct answer order_end(struct actor *a)
{
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    struct answer answer;

    if (poll(&p, 1, PATIENCE_MS) != 1)
        fail_msg("process %d hangs", (int)a->pid);
    if (recv(a->fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer)
        fail_msg("process %d ended before it had answered", (int)a->pid);
    return answer;
}

struct answer order(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z)
{
    order_begin(a, what, x, y, z);
    return order_end(a);
}

struct answer order_key(struct actor *a, int what, const char *key, uint64_t x)
{
    struct request request = {.what = what, .x = x};

    snprintf(request.text, sizeof request.text, "%s", key);
    assert_int_equal(send(a->fd, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
    return order_end(a);
}

struct answer order_bytes(struct actor *a, int what, const void *bytes, uint64_t x)
{
    struct request request = {.what = what, .x = x};

    memcpy(request.text, bytes, sizeof request.text);
    assert_int_equal(send(a->fd, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
    return order_end(a);
}

struct answer expect_answer(struct answer answer, aclError code, const char *words,
                            const char *file, int line)
{
    if (answer.rc != code || strstr(answer.message, words) == NULL) {
        print_error("%s:%d: %d instead of %d \"%s\": %s\n", file, line, answer.rc, code,
                    words, answer.message);
        fail();
    }
    return answer;
}

uint64_t order_done(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z,
                    const char *file, int line)
{
    return expect_answer(order(a, what, x, y, z), ACL_SUCCESS, "", file, line).value[0];
}

static int actor_wait(struct actor *a)
{
    int status = -1;

    close(a->fd);
    assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
    a->pid = 0;
    return status;
}

void actor_end(struct actor *a)
{
    int status = actor_wait(a);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("an actor ended with status 0x%x", status);
}

void actor_signal(struct actor *a, int signal)
{
    int status;

    assert_int_equal(kill(a->pid, signal), 0);
    /* It may run on for a while; only the kernel's word says that it does not. */
    if (signal == SIGSTOP)
        assert_int_equal(waitpid(a->pid, &status, WUNTRACED), a->pid);
}

void actor_kill(struct actor *a)
{
    actor_signal(a, SIGKILL);
    actor_wait(a);
}

size_t run_files(const char *prefix)
{
    DIR *list = opendir(getenv("ACLMEM_RUNTIME_DIR"));
    struct dirent *entry;
    size_t n = 0;

    while (list != NULL && (entry = readdir(list)) != NULL)
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (list != NULL)
        closedir(list);
    return n;
}
