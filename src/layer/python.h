/*
 * Python frames: where in a Python program a call was made.
 *
 * The module acl knows the interpreter and this library does not, so the module gives it a
 * function that lists the frames of the thread that calls.
 */
#ifndef AM_LAYER_PYTHON_H
#define AM_LAYER_PYTHON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* The number (stacks.h) of the Python stack of the call that this thread is in; 0: none. */
uint32_t am_python_take(void);

/* As an array of JSON: [[function,file,line],..]; the caller's. */
json_t *am_python_json(uint32_t stack);
/* As objects with "function", "file" and "line"; the caller's. */
json_t *am_python_frames(uint32_t stack);
/* As lines. */
void am_python_print(FILE *out, uint32_t stack);

#endif
