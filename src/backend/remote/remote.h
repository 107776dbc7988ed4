/*
 * The remote backend: memory of other machines.
 *
 * With ACLMEM_FABRIC, the first export or import of a fabric handle starts the fabric
 * process, aclmem-fabric (fabric/port.h).  The fabric process serves exported memory to
 * other machines and reaches memory that they export.  Imported memory is a mem of this
 * backend: nothing is at its addresses, and copy() and fill() move its bytes.
 *
 * copy() and fill() accept lists in which any span is remote, and wait for the network.
 * The fabric process ends every request in time.  If the fabric process ends, all requests
 * fail with 507022, and another one is started with the same exports; imports of the one
 * before are lost.  If it does not answer, or ends again and again, all requests fail with
 * 507022 until the library is stopped.
 */
#ifndef AM_BACKEND_REMOTE_H
#define AM_BACKEND_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "backend/backend.h"
#include "fabric/port.h"

/* At the start of the library.  local: the backend of this machine's memory. */
void am_remote_init(const struct am_backend_ops *local);
/* Ends the fabric process; a call that outlives the stop does not start it again. */
void am_remote_stop(void);
/* In the child of a fork. */
void am_remote_forget(void);

/* Whether ACLMEM_FABRIC is set. */
bool am_remote_is_wanted(void);

/*
 * Starts the fabric process, unless it is up: where it serves memory, for fabric handles.
 * `directory` is the runtime directory; ret_place may be NULL.
 */
aclError am_remote_start(int directory, struct am_port_place *ret_place);

/* ---- exports ---- */

/* fd shows `size` bytes and stays the caller's; at most AM_PORT_DESC bytes describe it. */
aclError am_remote_export(int directory, const struct am_share_handle *ticket,
                          bool is_open, int fd, size_t size, const void *bytes,
                          size_t n_bytes);
aclError am_remote_trust(const struct am_share_handle *ticket, const int32_t *ids,
                         size_t n);
/* Ends an export; does nothing if the number is not exported. */
void am_remote_withdraw(uint64_t number);

/* ---- imports ---- */

aclError am_remote_import(int directory, const struct am_port_place *place,
                          const struct am_share_handle *ticket, struct am_mem *ret_mem,
                          struct am_port_imported *ret_reply);

/* ---- records of remote imports and exports, for aclmem info ---- */

/* Calls f for each row of each process that uses the directory. */
void am_remote_records_each(int directory,
                            void (*f)(void *arg, int32_t pid,
                                      const struct am_port_row *row),
                            void *arg);

#endif
