/*
 * The Nth-fault loop over one function: with a fault that happens once, with one that
 * lasts, and where there is a driver with calls of it that refuse what was asked.
 *
 * Each turn is a process of its own, so that what the library does once in a process
 * fails in its turn too.  It starts the library, prepares what the step needs, arms the
 * nth fault, runs the step once, and disarms.  When the step failed, the code is one
 * that the contract has for a resource that ran out, the message is there, and
 * everything counts as before; then it is run again without a fault and succeeds. The
 * turn ends with aclFinalize, after which descriptors and mappings are counted.  The
 * loop ends with the turn in which no fault was left to fire.
 *
 * A step may succeed although a fault fired: some calls have a second way.
 */
#ifndef TEST_FAULT_FAULTED_H
#define TEST_FAULT_FAULTED_H

#include "support/fault.h"
#include "support/vmm.h"

/*
 * What steps work on; prepare fills in what run needs, clean gives back all that is
 * there.
 */
struct scene {
    char *va;
    size_t size;
    aclrtDrvMemHandle handle;
    aclrtDrvMemHandle more;
    aclrtDrvMemHandle gap;
    aclrtContext context;
    void *view;
    uint8_t *bytes;
    char path[64];
    unsigned arg; /* the step's */
};

struct step {
    const char *option;  /* beside the defaults; or NULL */
    const char *more[2]; /* and beside that one; or NULL */
    bool is_init;        /* the step is aclInit, so nothing is started before it */
    aclError other_code; /* which the failure may have too; or 0 */
    unsigned arg;        /* for the scene */
    void (*prepare)(struct scene *s);      /* or NULL */
    aclError (*run)(struct scene *s);      /* the call under test, and nothing else */
    void (*check_failed)(struct scene *s); /* after a failure; or NULL */
    /* instead, when a device failed that may have written some of the bytes; or NULL */
    void (*put_back)(struct scene *s);
    void (*check)(struct scene *s); /* after success; or NULL */
    void (*clean)(struct scene *s); /* after success; or NULL */
};

void survive_faults(const struct step *step);

/* What main() returns.  With an argument the program is one turn of one step. */
#define run_faulted(claims_, argc_, argv_) \
    (read_turn(argc_, argv_), \
     support_run(claims_, sizeof(claims_) / sizeof(claims_[0]), must_have_fired))
void read_turn(int argc, char **argv);
int must_have_fired(void **state);

#endif
