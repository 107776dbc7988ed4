/*
 * Another process of the test: this program again, with a role and a socket to it.
 *
 *     struct peer other = peer_start("holder");
 *     peer_ask(&other, 64 * MIB);        send a number, wait for the answer
 *     peer_kill(&other, SIGKILL);        and wait until it is gone
 *
 * main() calls the role when it was given one; there
 *
 *     while (peer_next(&number))         false when the test is over
 *         peer_answer(work(number));
 *
 * Nothing waits for time to pass: each side waits for the other's message, or its end.
 */
#ifndef TEST_SUPPORT_PEER_H
#define TEST_SUPPORT_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
    pid_t pid;
    int fd; /* the socket to it */
};

struct peer peer_start(const char *role);
void peer_tell(struct peer *peer, uint64_t number);
/* Its next answer; false when it ended instead. */
bool peer_hear(struct peer *peer, uint64_t *ret_answer);
/* Both; the test fails when it ended. */
uint64_t peer_ask(struct peer *peer, uint64_t number);
/* Waits until it stopped itself (SIGSTOP). */
void peer_await_stop(struct peer *peer);
/* Sends the signal and waits for the end. */
void peer_kill(struct peer *peer, int signal);
/* Lets it see the end of the test, and waits for its own: the wait status. */
int peer_end(struct peer *peer);

/* ---- in the other process ---- */

#define PEER_FD 3 /* its end of the socket */

bool peer_next(uint64_t *ret_number);
void peer_answer(uint64_t answer);

#endif
