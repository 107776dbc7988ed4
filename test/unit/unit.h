/*
 * What every unit test includes: cmocka, the fault hooks, and this program started again.
 */
#ifndef TEST_UNIT_UNIT_H
#define TEST_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/fault.h"

#define assert_contains(text_, words_) \
    check_contains((text_), (words_), __FILE__, __LINE__)
void check_contains(const char *text, const char *words, const char *file, int line);

/*
 * Runs this program again with one argument and waits: its wait status.  What it wrote to
 * standard output and standard error is *ret_text, valid until the next call.
 */
int child_run(const char *role, const char **ret_text);

/* A new empty folder; folder_remove() deletes it with all that is in it. */
const char *folder_make(void);
void folder_remove(const char *folder);

/*
 * Writes folder/path, with the folders on the way to it; the full path, valid until the
 * next call.
 */
const char *file_make(const char *folder, const char *path, const void *bytes,
                      size_t size);
const char *file_make_text(const char *folder, const char *path, const char *text);

/*
 * While it holds, time is the test's own, and no wait of the library sleeps until a time:
 * each ends at once, as one whose time has come.  Of programs that are linked with
 * --wrap=pthread_cond_timedwait.
 */
extern atomic_bool is_time_ours;

/* The same numbers for the same seed, on every machine. */
uint64_t random_next(uint64_t *seed);
size_t random_below(uint64_t *seed, size_t n);

#endif
