/*
 * What a subcommand of aclmem is.
 *
 * A subcommand is one file with one struct command, and a line of commands[] in main.c.
 * Parsing, refusals, help, completions and the manual page come from these tables alone.
 */
#ifndef ACLMEM_COMMAND_H
#define ACLMEM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes of the command itself. */
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
    OPTION_WORD,   /* const char *: one of the words of `takes`: "host|cuda" */
    OPTION_OUTPUT, /* const char *: --name=FILE; --name alone is "-", standard output */
};

struct option_texts {
    const char *text[64];
    int n;
};

struct option {
    const char *name; /* without the dashes; NULL ends the table */
    enum option_kind kind;
    void *into;        /* of the type that `kind` names */
    const char *takes; /* the value's name in --help; NULL for a flag */
    const char *help;  /* imperative; lines of at most 56 characters */
    char letter;       /* of the short form; 0: none */
};

/* Sections of --help. */
enum command_group {
    GROUP_CHECK,
    GROUP_TRACE,
    GROUP_WATCH,
    GROUP_CLUSTER,
    GROUP_ABOUT,
    GROUP_COUNT,
};

extern const char *const group_names[GROUP_COUNT];

struct exit_code {
    const char *code; /* "128+N"; NULL ends the table */
    const char *means;
};

struct command {
    const char *name;
    enum command_group group;
    const char *operands; /* as --help shows them; "" for none */
    const char *help;     /* imperative, one line */
    const struct option *options;
    const char *examples;              /* lines "COMMAND  what it does"; NULL: none */
    const struct exit_code *exits;     /* besides those of every command; NULL: none */
    bool is_runner;                    /* the first operand ends the options */
    int (*run)(int argc, char **argv); /* the operands; returns the exit code */
};

extern const struct command info_command;
extern const struct command doctor_command;
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

/* Exit codes of every command: 0, 1, 2.  A command's own row replaces the one of its code. */
extern const struct exit_code exits_common[];
/* The row of a code; NULL if there is none. */
const struct exit_code *exit_find(const struct exit_code *exits, const char *code);

#define OPTIONS_HELP (-2)

/*
 * Stores the options of `command` and moves the operands to the front of argv.  Returns
 * their number, -1 after printing what is wrong, or OPTIONS_HELP after printing help.
 */
int options_parse(const struct command *command, int argc, char **argv);

/* "-j, --json[=FILE]", for help and the manual page. */
void option_title(const struct option *option, char *text, size_t n);

/* Prints the help of one command: usage, options, examples, exit codes. */
void command_help(const struct command *command);

/* The nearest of some names to a misspelt one. */
struct near {
    const char *text; /* of `n` characters */
    size_t n;
    const char *best; /* NULL: none is near */
    size_t distance;
};

void near_try(struct near *near, const char *name, size_t name_n);

/* "aclmem: WHAT" and a hint at --help on standard error; returns EXIT_USAGE. */
int usage_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
