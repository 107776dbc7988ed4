/* What the parts of `aclmem run` share. */
#ifndef ACLMEM_RUN_H
#define ACLMEM_RUN_H

#include "command.h"
#include "program.h"

struct run_choice {
    const char *check;
    const char *chaos;
    const char *fail;
    char each[128];        /* the pattern of PATTERN:each; "": another --fail, or none */
    char fail_code[24];    /* "=207001", or nothing */
    char fail_caller[128]; /* of :each@CALLER; "": any */
    bool is_all;
    const char *json;
    const char *junit;
    struct option_texts suppress;
    long exit_code;
    long stall_timeout;
    const char *trace;
    const char *stacks;
    const char *over;
    const char *report;
    bool is_replacing;
    bool is_strict;
    bool is_verbose;
    bool is_lint;
    bool is_generating;
    bool is_silent;
    bool is_following;
    bool do_functions_wait;
    bool is_listing;
    bool has_torch_npu;
};

extern struct run_choice run_choice;

/* What the options ask for; the texts have room for two of the values. */
void run_setup(struct program_setup *setup, char *check, size_t n, char *stall_timeout,
               size_t stall_timeout_n);
void run_findings(struct findings *findings, const char *folder);
/* The exit code for a program that returned `code`. */
int run_exit_code(size_t n_findings, int code);

/* fail.c: checks --fail, and parses PATTERN:each; false after saying what is wrong. */
bool fail_parse(void);

/* each.c: again and again, with one call after the other failing. */
int each_run(char **argv, const char *pattern);

/* chaos.c: once for each seed. */
int chaos_run(char **argv);

#endif
