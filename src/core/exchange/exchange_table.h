/*
 * The exports of this process, and the processes that may import them.  See exchange.h.
 *
 * An export lists processes, not their ids: one entry for each process, shared by all
 * exports that list it.
 */
#ifndef AM_CORE_EXCHANGE_TABLE_H
#define AM_CORE_EXCHANGE_TABLE_H

#include "base/process.h"
#include "core/exchange/exchange.h"

/* `name` is what the numbers begin with: 24 bits. */
aclError am_export_table_add(uint32_t name, const struct am_export *what,
                             struct am_share_handle *ret_share);

/*
 * Checks the permission of the peer and answers the request on the socket: 0, or -errno if
 * the connection is to be closed.
 */
int am_export_table_answer(const struct am_wire_request *request,
                           const struct am_process *peer, int socket);

/*
 * An import from this process: a copy of the descriptor.  0; -ENOENT: another process may export
 * it; -EACCES: this process does not; or another -errno.
 */
int am_export_table_take(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_import_reply *ret_reply);

/* All of them go. */
void am_export_table_clear(void);

/* exchange_client.c: while the library is up, a connection to an exporter is kept. */
void am_import_client_set(bool is_up);

#endif
