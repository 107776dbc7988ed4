/*
 * The program's modules: executables and libraries, with where they lie and which file
 * they are.
 *
 * The list only grows.  A library that is unloaded keeps its entry, so that stacks which
 * go through it still have names; an address is looked up as of an era, a number of
 * entries.
 */
#ifndef AM_LAYER_MODULES_H
#define AM_LAYER_MODULES_H

#include <stdint.h>

struct am_module {
    const char *path; /* as the linker has it; the executable's from /proc */
    uintptr_t base;   /* what was added to the file's addresses */
    uintptr_t start;  /* of its code */
    uintptr_t end;
    char build_id[41]; /* hexadecimal; "" if it has none */
};

/* Notes what was loaded since; returns the era: how many entries there are. */
uint32_t am_modules_update(void);

/*
 * The number of the module that had addr in that era; -1: none.  The era 0 is now.
 */
int am_module_find(uintptr_t addr, uint32_t era);

/* Entries stay where they are. */
const struct am_module *am_module_get(int number);

/* The code of this library itself. */
const struct am_module *am_module_own(void);

#endif
