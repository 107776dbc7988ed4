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

/* A row of a file's table, in the order in which its functions are called. */
struct step {
    const char *claim;                     /* what survives every fault */
    const char *option;                    /* beside the defaults; or NULL */
    void (*prepare)(struct scene *s);      /* or NULL */
    aclError (*run)(struct scene *s);      /* the call under test, and nothing else */
    void (*check_failed)(struct scene *s); /* after a failure; or NULL */
    void (*check)(struct scene *s);        /* after success; or NULL */
    void (*clean)(struct scene *s);        /* after success; or NULL */
    /* after a failure of a device that may have written some of the bytes; or NULL */
    void (*put_back)(struct scene *s);
    const char *more[2]; /* options beside the first one; or NULL */
    bool is_init;        /* the step is aclInit, so nothing is started before it */
    aclError other_code; /* which the failure may have too; or 0 */
    unsigned arg;        /* for the scene */
};

/* Most rows end before the last fields, which are rarely needed. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* The option that lets the program touch a device's memory; the host backend has it. */
#define TOUCHABLE "ACLMEM_ISOLATE=0"

/* What main() returns.  With an argument the program is one turn of one step. */
#define run_faulted(steps_, argc_, argv_) \
    run_steps(steps_, sizeof(steps_) / sizeof(steps_[0]), argc_, argv_)
int run_steps(const struct step *steps, size_t n, int argc, char **argv);

#endif
