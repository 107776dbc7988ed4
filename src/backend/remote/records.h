/*
 * The records of a fabric process: a small file in the runtime directory from which aclmem
 * info reads what a process imports from, and exports to, other machines.
 *
 * The program makes and removes the file, the fabric process writes it, as rows of struct
 * am_port_row.  The file of a process that was killed has no lock, and the next reader
 * removes it.
 */
#ifndef AM_BACKEND_REMOTE_RECORDS_H
#define AM_BACKEND_REMOTE_RECORDS_H

/* A new file: a descriptor, or -1; memory is shared without the file, too. */
int am_remote_records_make(int directory);
void am_remote_records_remove(int directory);

#endif
