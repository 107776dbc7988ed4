/* Files that commands write and read, and progress of long work. */
#ifndef ACLMEM_OUTPUT_H
#define ACLMEM_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Opens the output of a command; NULL or "-" is standard output.  The file appears under its
 * name when it is complete: an error, Ctrl-C or kill leaves neither the file nor a part of
 * it.  An existing file is replaced only with may_replace.  One output is open at a time.
 * NULL after printing the reason.
 */
FILE *output_open(const char *command, const char *path, bool may_replace);
/* Ends the output of a command whose exit code is rc; returns the exit code. */
int output_close(FILE *file, int rc);
/* Writes JSON and a newline, for --json[=FILE]; returns the exit code. */
int json_write(const char *command, const char *path, const json_t *json, size_t flags);

/*
 * The path of an operand: "-" is standard input, which is copied into memory.  NULL after
 * printing the reason.
 */
const char *input_path(const char *command, const char *path);
/* The path as messages and pages name it: "standard input" for that of input_path("-"). */
const char *input_name(const char *path);

/* A bar on the terminal, if standard error is one: at most five times a second. */
void progress_show(const char *what, uint64_t done, uint64_t all);
/*
 * A line instead of a bar, every two seconds, for runs of a program that uses the terminal
 * itself.
 */
void progress_line(const char *what, uint64_t done, uint64_t all);
/* Removes the bar. */
void progress_end(void);

#endif
