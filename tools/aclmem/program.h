/* Running the user's program under the layers. */
#ifndef ACLMEM_PROGRAM_H
#define ACLMEM_PROGRAM_H

#include <stdbool.h>

#include "findings.h"

/* The variables that a run gives its program; NULL or "": not set by us. */
struct program_setup {
    const char *layers;         /* "check" */
    const char *check;          /* ACLMEM_CHECK */
    const char *rules;          /* ACLMEM_RULES */
    const char *stall_timeout;  /* ACLMEM_STALL_TIMEOUT */
    const char *functions_wait; /* ACLMEM_FUNCTIONS_WAIT */
    const char *chaos;          /* ACLMEM_CHAOS */
    const char *fail;           /* ACLMEM_FAIL */
    const char *trace;          /* ACLMEM_TRACE */
    const char *stacks;         /* ACLMEM_STACKS */
    const char *over;   /* another libascendcl.so, which the layers are put over */
    double limit;       /* seconds after which it is ended; 0: none */
    const char *output; /* a file for its standard output; NULL: ours */
    bool follows;       /* processes that it starts are checked too */
};

struct program_end {
    int code;   /* its exit code, or 128 + the signal */
    int signal; /* that ended it; 0: none */
    int stop;   /* the signal with which the user ended the run, as by Ctrl-C; 0: none */
    bool is_hung; /* it ran past the limit */
    double seconds;
};

/*
 * Checks whether argv[0] can be run at all: 0, or the exit code after saying why not
 * (EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE).
 */
int program_check(char **argv);

/*
 * Lets `import torch_npu` of the program find the stand-in of aclmem.npu; false after
 * printing where it was searched.
 */
bool program_use_torch_npu(void);

/* Whether the library of --over exists; false after printing where it was searched. */
bool program_can_run_over(void);

/*
 * Runs it to its end; what it finds is read into `findings` as it comes.  0, or the exit
 * code after saying what is wrong.
 */
int program_run(char **argv, const struct program_setup *setup, struct findings *findings,
                struct program_end *ret_end);

/* A new folder for findings below $TMPDIR; NULL after saying why not. */
char *folder_make(void);
void folder_remove(char *folder);

#endif
