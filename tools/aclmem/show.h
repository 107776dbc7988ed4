/* Events of a trace as people read them. */
#ifndef ACLMEM_SHOW_H
#define ACLMEM_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "trace/reader.h"

/* `name(argument=value, ...) = result`, without an end of line. */
void show_call(FILE *out, const struct trace *trace, const struct trace_event *event);

/* "argument=value, argument=[result]". */
void show_arguments(FILE *out, const struct trace_event *event);

/* A field of the struct that an argument is or points to; false where it has none. */
bool field_number(const struct trace_event *event, const char *argument,
                  const char *field, uint64_t *ret_number);

/*
 * The frames of a stack, innermost first, each {"function", "file", "line", "module"}:
 * Python frames before those of C where there are any.
 */
json_t *show_frames(const struct trace_process *process, uint32_t stack);

/* Says on standard error what is not in the trace; after its events were read. */
void trace_losses_report(const struct trace *trace);

/* Opens a trace, or says why not. */
struct trace *trace_open_or_report(const char *command, const char *path);

#endif
