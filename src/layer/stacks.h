/*
 * Where in the program a call was made: stacks as numbers.
 *
 * A stack is taken as a list of return addresses and entered into a table that never
 * forgets, so a record of a call carries 32 bits.  Equal stacks have equal numbers.
 * Names are found later and elsewhere: an address is turned into a module and an offset
 * (modules.h), and the command aclmem reads the module's debug information.
 *
 * The unwinder is libunwind's unw_backtrace, which remembers how each function is left:
 * 0.1 us for 16 frames, where glibc's backtrace takes 1.7.  The library is opened when the
 * first stack is wanted and stays private.  glibc's is used if there is no libunwind, and on
 * processors with pointer authentication, which unw_backtrace does not know.
 */
#ifndef AM_LAYER_STACKS_H
#define AM_LAYER_STACKS_H

#include <stddef.h>
#include <stdint.h>

#define AM_STACK_FRAMES 48 /* unless more are asked for */
#define AM_STACK_FRAMES_MAX 512

/*
 * Opens the unwinder; before the first am_stack_take(), and with no lock held.  May be
 * called again.
 */
void am_stacks_open(void);

/* How many frames are taken from now on, from the innermost on. */
void am_stacks_set_depth(unsigned n);

/*
 * The number of the stack of the program that calls into this library: frames of the
 * library are left out.  0 when the table is full or a stack is being taken in this
 * thread already.
 */
uint32_t am_stack_take(void);

/* The same in a signal handler: from the instruction on that the signal came at. */
uint32_t am_stack_take_from(uintptr_t instruction);

/*
 * The return addresses of a stack, innermost first; NULL and 0 frames for number 0.
 * *ret_era is what am_module_find() wants to know, to find libraries that were unloaded
 * since.
 */
const uintptr_t *am_stack_frames(uint32_t stack, size_t *ret_n, uint32_t *ret_era);

/* A text in place of frames: its number, or 0 when the table is full; the text of a number. */
uint32_t am_stack_enter_text(const char *text);
const char *am_stack_text(uint32_t stack);

/* How many there are. */
uint32_t am_stacks_count(void);

#endif
