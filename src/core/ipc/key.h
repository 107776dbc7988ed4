/*
 * Memory of aclrtMalloc in several processes, by keys.
 *
 * A key is a handle of exchange.h as text.  The exporter's block has its memory to itself
 * from then on, and the memory is not handed out again after the block is freed.  An
 * importer gets addresses of ours, bound to the memory until the key is closed there, or
 * the device is reset.
 */
#ifndef AM_CORE_KEY_H
#define AM_CORE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "core/exchange/exchange.h"

#define AM_KEY_SIZE 65 /* with the zero at its end */

/* The text of a handle of this kind, and back (107000 when it is no such text). */
void am_key_print(enum am_share_kind kind, const struct am_share_handle *share,
                  char key[AM_KEY_SIZE]);
aclError am_key_parse(enum am_share_kind kind, const char *key,
                      struct am_share_handle *ret_share);

/* is_open: for any process of this user; otherwise for listed processes. */
aclError am_key_export(void *addr, size_t size, bool is_open, char ret_key[AM_KEY_SIZE]);
aclError am_key_trust(const char *key, const int32_t *ids, size_t n);
/* Whether this process exports it: 107000 otherwise. */
aclError am_key_check(const char *key);

/* For the thread's device; has_peer: it may reach the memory's own device from now on. */
aclError am_key_import(const char *key, bool has_peer, void **ret_addr);

/* The import of the key if there is one, otherwise its export. */
aclError am_key_close(const char *key);

/* Ends the imports for the device (-1: for all). */
void am_key_close_imports(int32_t device);

#endif
