/*
 * Running something in a process of its own.
 *
 * The library keeps what it once needed (tables, free lists), so what was measured
 * before would show in what is measured next.  A child that finds the library unused
 * starts from nothing.
 */
#ifndef BENCH_APART_H
#define BENCH_APART_H

#include <stddef.h>

/* Runs it in a child and waits; stops the program when the child fails. */
void apart(void (*run)(void *arg), void *arg);

/* Zeroed memory that children share with their parent. */
void *apart_memory(size_t size);

#endif
