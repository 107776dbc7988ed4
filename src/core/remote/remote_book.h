/*
 * The book of a fabric process: a small file in the runtime directory from which aclmem
 * info reads what a process imports from, and exports to, other machines.
 *
 * The program makes the file and removes it, the fabric process writes it, as rows of
 * struct am_port_row.  The file of a process that was killed has no lock, and the next
 * reader removes it.
 */
#ifndef AM_CORE_REMOTE_BOOK_H
#define AM_CORE_REMOTE_BOOK_H

#include <stdint.h>

#include "fabric/port.h"

/* A new one: a descriptor, or -1; without it memory is shared all the same. */
int am_remote_book_make(void);
void am_remote_book_remove(void);

/*
 * Calls f for each row of every live process with a book in the directory.  Texts end in
 * their fields, and have no control characters.
 */
void am_remote_book_visit(int directory,
                          void (*f)(void *arg, int32_t pid,
                                    const struct am_port_row *row),
                          void *arg);

#endif
