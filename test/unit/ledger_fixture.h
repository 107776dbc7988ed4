/*
 * Devices, and a runtime directory for each test: for all tests of the ledger.
 *
 * To the file each ledger that is open is a process, with a slot of its own.  So one test
 * program can be several processes, and closing a ledger is how one of them ends.
 */
#ifndef TEST_UNIT_LEDGER_FIXTURE_H
#define TEST_UNIT_LEDGER_FIXTURE_H

#include "unit.h"

#include "core/ledger/ledger_file.h"

#define CAPACITY (100 * AM_MIB)

extern const struct am_ledger_config config; /* three devices of this capacity */
extern char folder[64];                      /* the test's runtime directory */

int ledger_begin(void **state);
int ledger_end(void **state);

/* As a process does that begins; the second fails the test unless the ledger is shared. */
struct am_ledger *open_one(void);
struct am_ledger *open_shared(void);

bool charge(struct am_ledger *ledger, int32_t device, size_t size);

/* Charges that much, and shares it: the share's number. */
uint64_t share(struct am_ledger *ledger, int32_t device, size_t size);

/* The ledger's file; valid until the next call. */
const char *file_path(void);

#endif
