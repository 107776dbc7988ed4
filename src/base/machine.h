/* What the machine has: memory that this process may use, NUMA nodes. */
#ifndef AM_BASE_MACHINE_H
#define AM_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of memory of the machine, or of the control group this process is confined to. */
size_t am_machine_memory(void);

/* The same with another root for /proc and /sys; `installed` is the machine's own memory. */
size_t am_machine_memory_under(const char *root, size_t installed);

/* Bytes that can still be had, now: of the machine, and of the control group. */
size_t am_machine_available(void);
size_t am_machine_available_under(const char *root);

bool am_machine_has_node(int node);

#endif
