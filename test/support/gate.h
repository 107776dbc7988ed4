/*
 * A stream that waits until the test says so: what is queued behind a closed gate has not
 * begun.
 *
 *     struct gate gate = gate_close(stream);
 *     ... queue work, look at what has not happened ...
 *     gate_open(&gate);
 */
#ifndef TEST_SUPPORT_GATE_H
#define TEST_SUPPORT_GATE_H

#include <semaphore.h>
#include <stdlib.h>

#include "support/streams.h"

struct gate {
    sem_t *opened;
    aclrtStream stream;
};

static inline void gate_wait(void *opened)
{
    while (sem_wait(opened) != 0)
        ;
}

static inline struct gate gate_close(aclrtStream stream)
{
    struct gate gate = {.opened = malloc(sizeof(sem_t)), .stream = stream};

    assert_non_null(gate.opened);
    sem_init(gate.opened, 0, 0);
    assert_acl_ok(aclrtLaunchHostFunc(stream, gate_wait, gate.opened));
    return gate;
}

/* And the work behind it is done when this returns. */
static inline void gate_open(struct gate *gate)
{
    sem_post(gate->opened);
    assert_acl_ok(aclrtSynchronizeStream(gate->stream));
    sem_destroy(gate->opened);
    free(gate->opened);
}

/* The same for work that fails with `code`. */
static inline void gate_open_to(struct gate *gate, aclError code)
{
    sem_post(gate->opened);
    assert_acl(aclrtSynchronizeStream(gate->stream), code);
    sem_destroy(gate->opened);
    free(gate->opened);
}

#endif
