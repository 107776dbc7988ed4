/* The rights that the fabric process gives up.  See confine.c. */
#ifndef AM_FABRIC_CONFINE_H
#define AM_FABRIC_CONFINE_H

#include <stdbool.h>

/* Files, before UCX is opened.  False: the kernel has no Landlock, and nothing changed. */
bool am_confine_files(void);
/* System calls, after UCX was opened: 0, or -1 with errno. */
int am_confine_calls(void);

#endif
