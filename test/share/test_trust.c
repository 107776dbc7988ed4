/* Which processes may import: the kernel identifies the importer, the exporter lists it. */
#include "actor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define REFUSED ACL_ERROR_RT_NO_PERMISSION

static struct actor other, third;

static int end_others(void **state)
{
    if (other.pid != 0)
        actor_kill(&other);
    if (third.pid != 0)
        actor_kill(&third);
    return finish(state);
}

#define pair(f_) \
    { \
#f_, f_, start_default, end_others, NULL \
    }
#define pair_alone(f_) \
    { \
#f_, f_, NULL, end_others, NULL \
    }

static aclrtDrvMemHandle handle;

static uint64_t export(uint64_t flags)
{
    uint64_t number = 0;

    handle = alloc(CHUNK);
    assert_acl_ok(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, flags,
                                                  &number));
    return number;
}

static void trust(uint64_t number, int32_t pid)
{
    assert_acl_ok(aclrtMemSetPidToShareableHandle(number, &pid, 1));
}

static void begin(struct actor *a, unsigned who)
{
    actor_start(a, who);
    done(a, DO_INIT, 0, 0, 0);
}

/*
 * The same for an actor apart from this process, where a driver may not start; then that
 * is said.
 */
static bool begins_apart(struct actor *a, unsigned who)
{
    struct answer answer;

    actor_start(a, who);
    answer = order(a, DO_INIT, 0, 0, 0);
    if (strstr(answer.message, "starting the NVIDIA driver") != NULL) {
        print_message("skipped: the NVIDIA driver does not start there: %s\n",
                      answer.message);
        actor_kill(a);
        return false;
    }
    expect(answer, ACL_SUCCESS, "");
    return true;
}

/* Imports and lets go again. */
static void expect_import(struct actor *a, uint64_t number)
{
    done(a, DO_FREE, done(a, DO_IMPORT, number, 0, 0), 0, 0);
}

static void expect_refusal(struct actor *a, uint64_t number, const char *words)
{
    expect(order(a, DO_IMPORT, number, 0, 0), REFUSED, words);
}

static void the_list_is_for_each_export_and_grows(void **state)
{
    uint64_t one = export(0);
    aclrtDrvMemHandle first = handle;
    uint64_t two = export(0);

    begin(&other, ACTOR_PLAIN);
    begin(&third, ACTOR_PLAIN);
    trust(one, other.pid);
    expect_import(&other, one);
    expect_refusal(&other, two, "does not let process");
    expect_refusal(&third, one, "does not let process");
    trust(one, third.pid); /* adds */
    expect_import(&other, one);
    expect_import(&third, one);
    trust(one, third.pid); /* twice is once */
    assert_acl_ok(aclrtFreePhysical(first));
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void only_the_exporter_makes_the_list(void **state)
{
    uint64_t number = export(0);

    begin(&other, ACTOR_PLAIN);
    expect(order(&other, DO_TRUST, number, (uint64_t)other.pid, 0),
           ACL_ERROR_RT_PARAM_INVALID, "does not export");
    expect_refusal(&other, number, "does not let process");
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void an_id_that_nobody_has_is_refused_and_nothing_is_listed(void **state)
{
    uint64_t number = export(0);
    int32_t ids[3];

    begin(&other, ACTOR_PLAIN);
    begin(&third, ACTOR_PLAIN);
    ids[0] = other.pid;
    ids[1] = third.pid;
    ids[2] = other.pid;
    actor_kill(&third);
    assert_refused(aclrtMemSetPidToShareableHandle(number, ids, 3),
                   ACL_ERROR_RT_PARAM_INVALID, "pid[1]");
    ids[1] = -1;
    assert_refused(aclrtMemSetPidToShareableHandle(number, ids, 3),
                   ACL_ERROR_RT_PARAM_INVALID, "pid[1] is -1");
    ids[1] = 0;
    assert_refused(aclrtMemSetPidToShareableHandle(number, ids, 3),
                   ACL_ERROR_RT_PARAM_INVALID, "not a running process");
    expect_refusal(&other, number, "does not let process"); /* none of them */
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* A child with exactly this id, where the system lets us choose: false when not. */
static bool child_with_id(pid_t id, int *ret_errno)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD,
        .set_tid = (uintptr_t)&id,
        .set_tid_size = 1,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);

    if (pid == 0) {
        char *argv[] = {"/proc/self/exe", "actor", "0", NULL};

        execv(argv[0], argv);
        _exit(1);
    }
    *ret_errno = errno;
    return pid > 0;
}

/* The id of a process that was listed and is gone, in a process of today. */
static void a_process_that_got_a_listed_id_later_is_refused(void **state)
{
    uint64_t number = export(0);
    int channel[2];
    int error = 0;
    int kept;
    pid_t id;
    bool is_there = false;

    begin(&other, ACTOR_PLAIN);
    id = other.pid;
    trust(number, id);
    expect_import(&other, number);
    actor_kill(&other);

    /* The actor's socket is descriptor 3, by an exec without posix_spawn. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
    kept = fcntl(3, F_DUPFD_CLOEXEC, 100);
    dup2(channel[1], 3);
    for (int i = 0; i < 100 && !is_there;
         i++) /* somebody else may have it for a moment */
        is_there = child_with_id(id, &error);
    if (kept >= 0)
        dup3(kept, 3, O_CLOEXEC);
    else
        close(3);
    close(kept);
    close(channel[1]);
    if (!is_there) {
        print_message("skipped: no process with a chosen id: %s\n", strerror(error));
        close(channel[0]);
        assert_acl_ok(aclrtFreePhysical(handle));
        skip();
    }
    other = (struct actor){.pid = id, .fd = channel[0]};
    assert_int_equal(order_end(&other).value[0], id);
    done(&other, DO_INIT, 0, 0, 0);
    expect_refusal(&other, number, "does not let process");
    trust(number, id); /* now it is this one */
    expect_import(&other, number);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void without_a_list_any_process_of_the_user_imports(void **state)
{
    uint64_t number = export(OPEN);

    begin(&other, ACTOR_PLAIN);
    begin(&third, ACTOR_PLAIN);
    expect_import(&other, number);
    expect_import(&third, number);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Every bit of it counts. */
static void an_altered_number_is_refused(void **state)
{
    uint64_t number = export(OPEN);

    begin(&other, ACTOR_PLAIN);
    for (int bit = 0; bit < 64; bit++)
        expect(order(&other, DO_IMPORT, number ^ UINT64_C(1) << bit, 0, 0), REFUSED, "");
    expect(order(&other, DO_IMPORT, 0, 0, 0), REFUSED, "");
    expect(order(&other, DO_IMPORT, ~UINT64_C(0), 0, 0), REFUSED, "");
    expect_import(&other, number);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void numbers_are_no_sequence(void **state)
{
    enum { N = 64 };
    aclrtDrvMemHandle handles[N];
    uint64_t seen[N];
    uint64_t ones = 0, zeros = 0;

    for (int i = 0; i < N; i++) {
        seen[i] = export(OPEN);
        handles[i] = handle;
        ones |= seen[i];
        zeros |= ~seen[i];
        for (int k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
    }
    /* Each of the 40 low bits is seen both ways: 64 draws miss one once in 2^57 runs. */
    assert_int_equal(ones & zeros & 0xffffffffff, 0xffffffffff);
    for (int i = 0; i < N; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
}

static void a_number_of_memory_that_was_freed_is_refused(void **state)
{
    uint64_t number = export(OPEN);
    uint64_t again;

    begin(&other, ACTOR_PLAIN);
    expect_import(&other, number);
    assert_acl_ok(aclrtFreePhysical(handle));
    expect_refusal(&other, number, "freed");
    again = export(OPEN);
    expect_refusal(&other, number, "freed"); /* replayed */
    expect_import(&other, again);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* ---- other users ---- */

/* Whether /dev/shm is this program's own: users find each other there. */
static bool has_own_places;

static void take_own_places(void)
{
    has_own_places = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                     mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                     mount("none", "/dev/shm", "tmpfs", 0, "mode=1777") == 0;
}

static bool has_users(void)
{
    if (has_own_places)
        return true;
    print_message("skipped: only root, with mounts of its own, can be two users\n");
    return false;
}

/* In the usual places, since a directory that is named is one user's. */
static void start_in_usual_places(const char *option)
{
    set_options("default", option);
    unsetenv("ACLMEM_RUNTIME_DIR");
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
}

/* Sharing between users is no longer supported; the option that allowed it is reported. */
static void another_user_is_refused(void **state)
{
    uint64_t number;

    if (!has_users())
        skip();
    start_in_usual_places("ACLMEM_SHARE_ACROSS_USERS=1");
    expect_warnings(1);
    number = export(OPEN);
    begin(&other, ACTOR_NOBODY);
    trust(number, other.pid);
    expect(order(&other, DO_IMPORT, number, 0, 0), REFUSED, "belongs to another user");
    expect(order(&other, DO_IMPORT, number ^ 1, 0, 0), REFUSED, "number is wrong");
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* The superuser can connect to every socket: the exporter closes the connection. */
static void even_root_is_another_user(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    uint64_t there;
    char byte;
    int fd;

    if (!has_users())
        skip();
    start_in_usual_places("ACLMEM_SHARE_ACROSS_USERS=0");
    begin(&other, ACTOR_NOBODY);
    there = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    assert_refused(aclrtMemImportFromShareableHandle(there, 0, &handle), REFUSED,
                   "another user");
    snprintf(addr.sun_path, sizeof addr.sun_path, "/dev/shm/aclmem-65534/share-%06x",
             (unsigned)(there >> 40));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* closed before any request */
    close(fd);
}

/* ---- the directory ---- */

/* Room for the ledger, and for no socket. */
static void a_full_directory_is_told(void **state)
{
    uint64_t number;

    if (!has_users())
        skip();
    assert_int_equal(mkdir("/dev/shm/tiny", 0700), 0);
    assert_int_equal(mount("none", "/dev/shm/tiny", "tmpfs", 0, "mode=0700,nr_inodes=4"),
                     0);
    start("default", "ACLMEM_RUNTIME_DIR=/dev/shm/tiny");
    assert_acl_ok(aclrtSetDevice(0));
    handle = alloc(CHUNK);
    close(open("/dev/shm/tiny/one", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    close(open("/dev/shm/tiny/two", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_refused(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number),
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "/dev/shm/tiny");
    assert_int_equal(unlink("/dev/shm/tiny/one"), 0);
    assert_int_equal(unlink("/dev/shm/tiny/two"), 0);
    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclFinalize());
    assert_int_equal(umount2("/dev/shm/tiny", MNT_DETACH), 0);
}

/* ---- namespaces ---- */

static bool has_namespaces(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
    waitpid(pid, &status, 0);
    if (status == 0)
        return true;
    print_message("skipped: no PID namespace can be made here\n");
    return false;
}

static void a_process_in_a_namespace_is_listed_by_its_outer_id(void **state)
{
    uint64_t number = export(0);
    int32_t id;

    if (!has_namespaces() || !begins_apart(&other, ACTOR_NAMESPACE)) {
        assert_acl_ok(aclrtFreePhysical(handle));
        skip();
    }
    assert_int_equal(other.inside, 1); /* what getpid() gives there */
    id = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    assert_int_not_equal(id, 1);
    expect_refusal(&other, number, "does not let process");
    trust(number, 1); /* that is another process here */
    expect_refusal(&other, number, "does not let process");
    trust(number, id);
    expect_import(&other, number);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* /proc shows the outer namespace, and so do the ids that the importer hands out. */
static void an_exporter_in_a_namespace_finds_those_in_it_by_their_outer_id(void **state)
{
    uint64_t number;
    int32_t id;

    if (!has_namespaces() || !begins_apart(&other, ACTOR_NAMESPACE))
        skip();
    number = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), 0, 0);
    assert_acl_ok(aclrtDeviceGetBareTgid(&id));
    expect(order(&other, DO_TRUST, number, (uint64_t)id, 0), ACL_ERROR_RT_PARAM_INVALID,
           "not a running process"); /* this one, which is not in it */
    id = (int32_t)done(&other, DO_TGID, 0, 0, 0);
    done(&other, DO_TRUST, number, (uint64_t)id, 0);
    expect(order(&other, DO_TRUST, number, 1, 0), ACL_ERROR_RT_PARAM_INVALID,
           "not a running process"); /* an id of its own namespace */
}

static void plant(const char *name, time_t age, char path[256])
{
    struct timespec times[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};
    int fd;

    snprintf(path, 256, "%s/%s", getenv("ACLMEM_RUNTIME_DIR"), name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* Two containers with one runtime directory have processes with the same ids. */
static void a_socket_that_another_container_makes_is_left_alone(void **state)
{
    char making[256], left[256];
    uint64_t there;

    if (!has_namespaces() || !begins_apart(&other, ACTOR_NAMESPACE))
        skip();
    assert_int_equal(other.inside, 1);
    plant(".share-1", 0, making);
    plant(".share-2", 3600, left);
    there = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    assert_true(there != 0);
    assert_int_equal(access(making, F_OK), 0);
    assert_int_equal(access(left, F_OK), -1);
    unlink(making);
}

static void without_proc_the_message_says_so(void **state)
{
    uint64_t number, there;

    if (!has_users())
        skip();
    if (!begins_apart(&other, ACTOR_NO_PROC))
        skip();
    number = export(OPEN);
    there = done(&other, DO_ALLOC, CHUNK, 0, 0);
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_IPC_ERROR, "/proc");
    expect(order(&other, DO_EXPORT, there, OPEN, 0), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
           "/proc");
    assert_acl_ok(aclrtFreePhysical(handle));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(the_list_is_for_each_export_and_grows),
        pair(only_the_exporter_makes_the_list),
        pair(an_id_that_nobody_has_is_refused_and_nothing_is_listed),
        pair(a_process_that_got_a_listed_id_later_is_refused),
        pair(without_a_list_any_process_of_the_user_imports),
        pair(an_altered_number_is_refused),
        pair(numbers_are_no_sequence),
        pair(a_number_of_memory_that_was_freed_is_refused),
        pair_alone(another_user_is_refused),
        pair_alone(even_root_is_another_user),
        pair_alone(a_full_directory_is_told),
        pair(a_process_in_a_namespace_is_listed_by_its_outer_id),
        pair(an_exporter_in_a_namespace_finds_those_in_it_by_their_outer_id),
        pair(a_socket_that_another_container_makes_is_left_alone),
        pair(without_proc_the_message_says_so),
    };

    actor_main(argc, argv);
    take_own_places();
    return run_claims(tests);
}
