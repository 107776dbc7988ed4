/*
 * Functions, files and lines of addresses, from the debug information of modules (libdw).
 *
 * The library loads libdw privately, and only where it prints findings itself.  The command
 * aclmem has the same source, linked with libdw (AM_SYMBOLS_LINKED).  Debug information
 * comes from this machine only: no server is asked for it.
 */
#ifndef AM_LAYER_SYMBOLS_H
#define AM_LAYER_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#define AM_SYMBOLS_STACK \
    ((size_t)4 << 20) /* bytes; in a handler with less nothing is found */

struct am_symbol {
    const char *function;
    const char *file; /* NULL: not known */
    int line;         /* 0: not known */
};

/* The symbol is valid during the call. */
typedef void (*am_symbol_fn)(const struct am_symbol *symbol, void *arg);

/* Loads libdw; with no lock held.  May be called again. */
void am_symbols_open(void);
/*
 * Calls `each` for the frames at `offset` of the module with this file, inlined functions
 * first; returns their number.  The caller serialises calls.
 */
size_t am_symbolize(const char *path, uint64_t offset, am_symbol_fn each, void *arg);
void am_symbols_close(void);

#endif
