/* Processes are distinguished by their descriptors. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

/* A child that waits to be killed. */
static pid_t child_start(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        for (;;)
            pause();
    }
    return pid;
}

static void child_end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_process_lives_until_it_ends(void **state)
{
    struct am_process process;
    pid_t pid = child_start();

    assert_int_equal(am_process_find(pid, &process), 0);
    assert_int_equal(process.pid, pid);
    assert_true(am_process_is_alive(&process));
    child_end(pid);
    assert_false(am_process_is_alive(&process));
    am_process_close(&process);
    assert_int_equal(am_process_find(pid, &process), -ESRCH);
}

/* It has its id until its parent looks what became of it. */
static void a_process_that_has_ended_is_not_found(void **state)
{
    struct am_process before, process;
    pid_t pid = child_start();
    siginfo_t info;

    assert_int_equal(am_process_find(pid, &before), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(am_process_find(pid, &process), -ESRCH);
    assert_false(am_process_is_alive(&before));
    am_process_close(&before);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void ids_that_no_process_can_have_are_not_found(void **state)
{
    struct am_process process;

    assert_int_equal(am_process_find(0, &process), -ESRCH);
    assert_int_equal(am_process_find(-1, &process), -ESRCH);
    assert_int_equal(am_process_find(0x7fffffff, &process), -ESRCH);
}

/* Nobody else's namespace is shown here, so both ways of counting agree. */
static void the_own_id_leads_to_the_own_process(void **state)
{
    struct am_process process;

    assert_int_equal(am_process_find(am_process_own_id(), &process), 0);
    assert_int_equal(process.pid, getpid());
    assert_true(am_process_is_alive(&process));
    am_process_close(&process);
}

static void the_peer_of_a_socket_is_who_made_it(void **state)
{
    struct am_process process;
    uid_t uid;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(am_process_of_peer(pair[0], &process, &uid), 0);
    assert_int_equal(process.pid, getpid());
    assert_int_equal(uid, geteuid());
    assert_true(am_process_is_alive(&process));
    am_process_close(&process);
    assert_int_equal(am_process_of_peer(-1, &process, &uid), -EBADF);
    close(pair[0]);
    close(pair[1]);
}

/* One that connected and is gone is nobody, whoever has its id now. */
static void a_peer_that_is_gone_is_not_alive(void **state)
{
    struct am_process process;
    struct am_process before;
    int pair[2];
    uid_t uid;
    pid_t pid = fork();

    if (pid == 0)
        pause();
    assert_int_equal(am_process_find(pid, &before), 0);
    child_end(pid);
    /* The kernel keeps who made a socket, not who holds it. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(am_process_of_peer(pair[0], &process, &uid), 0);
    assert_int_not_equal(process.pid, before.pid);
    assert_false(am_process_is_alive(&before));
    am_process_close(&before);
    am_process_close(&process);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_lives_until_it_ends),
        cmocka_unit_test(a_process_that_has_ended_is_not_found),
        cmocka_unit_test(ids_that_no_process_can_have_are_not_found),
        cmocka_unit_test(the_own_id_leads_to_the_own_process),
        cmocka_unit_test(the_peer_of_a_socket_is_who_made_it),
        cmocka_unit_test(a_peer_that_is_gone_is_not_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
