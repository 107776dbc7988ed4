#include "peer.h"
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct peer peer_start(const char *role)
{
    posix_spawn_file_actions_t actions;
    char path[4096];
    char *argv[] = {path, (char *)(uintptr_t)role, NULL};
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    struct peer peer;
    int ends[2];

    assert_true(len > 0);
    path[len] = '\0';
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], PEER_FD);
    assert_int_equal(posix_spawn(&peer.pid, path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    peer.fd = ends[0];
    return peer;
}

static bool number_send(int fd, uint64_t number)
{
    ssize_t n;

    do
        n = send(fd, &number, sizeof(number), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(number);
}

static bool number_receive(int fd, uint64_t *ret_number)
{
    ssize_t n;

    do
        n = recv(fd, ret_number, sizeof(*ret_number), 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*ret_number);
}

void peer_tell(struct peer *peer, uint64_t number)
{
    assert_true(number_send(peer->fd, number));
}

bool peer_hear(struct peer *peer, uint64_t *ret_answer)
{
    return number_receive(peer->fd, ret_answer);
}

uint64_t peer_ask(struct peer *peer, uint64_t number)
{
    uint64_t answer = 0;

    peer_tell(peer, number);
    if (!peer_hear(peer, &answer))
        fail_msg("process %d ended instead of answering", (int)peer->pid);
    return answer;
}

void peer_await_stop(struct peer *peer)
{
    int status = 0;

    assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    assert_true(WIFSTOPPED(status));
}

static int peer_wait(struct peer *peer)
{
    int status = -1;

    close(peer->fd);
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    return status;
}

void peer_kill(struct peer *peer, int signal)
{
    assert_int_equal(kill(peer->pid, signal), 0);
    peer_wait(peer);
}

int peer_end(struct peer *peer)
{
    return peer_wait(peer);
}

bool peer_next(uint64_t *ret_number)
{
    return number_receive(PEER_FD, ret_number);
}

void peer_answer(uint64_t answer)
{
    if (!number_send(PEER_FD, answer))
        _exit(3); /* the test is over */
}
