/*
 * What a subcommand of aclmem is.
 *
 * A subcommand is one file with one struct command, and a line of commands[] in main.c.
 * Its options are rows of a table: parsing, refusals and the text of --help come from the
 * table alone, so a subcommand has no parser of its own.
 */
#ifndef ACLMEM_COMMAND_H
#define ACLMEM_COMMAND_H

#include <stdbool.h>

/* How the command ends where the program it runs has no say. */
enum {
    EXIT_USAGE = 2,            /* wrong arguments */
    EXIT_NOT_EXECUTABLE = 126, /* the program cannot be run */
    EXIT_NOT_FOUND = 127,      /* there is no such program */
};

enum option_kind {
    OPTION_FLAG,   /* bool: --name sets it, --no-name clears it */
    OPTION_TEXT,   /* const char *: the last one counts */
    OPTION_LIST,   /* struct option_texts: every one counts */
    OPTION_NUMBER, /* long, from 0 */
};

struct option_texts {
    const char *text[64];
    int n;
};

struct option {
    const char *name; /* without the dashes; NULL ends the table */
    enum option_kind kind;
    void *into;        /* what `kind` says */
    const char *takes; /* the word for its value in --help; NULL for a flag */
    const char *help;  /* lines of at most 60 characters */
};

struct command {
    const char *name;
    const char
        *operands;    /* as --help shows them, "[--] PROGRAM [ARGUMENTS]"; "" for none */
    const char *help; /* one line */
    const struct option *options;
    bool is_runner; /* the first operand ends the options */
    int (*run)(int argc,
               char **argv); /* the operands; what it returns is the exit code */
};

extern const struct command info_command;
extern const struct command top_command;
extern const struct command run_command;
extern const struct command trace_command;
extern const struct command convert_command;
extern const struct command report_command;
extern const struct command replay_command;
extern const struct command describe_command;
extern const struct command facts_command;
extern const struct command fabric_command;

/* All of them; NULL ends the list. */
const struct command *const *commands_all(void);

/*
 * Stores the options of `command` and moves the operands to the front of argv.  Returns
 * their number, or -1 after saying what is wrong.
 */
int options_parse(const struct command *command, int argc, char **argv);

/* The lines of --help for one command. */
void options_help(const struct command *command);

/* "aclmem: WHAT" and a hint at --help on standard error; returns EXIT_USAGE. */
int usage_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
