/*
 * What every contract test stands on.
 *
 * A test starts the library with start(), which sets the ACLMEM_ options and calls
 * aclInit, and its teardown is finish(): it fails the test when objects are alive, when
 * descriptors or mappings of the library are left after aclFinalize, and when the
 * library warned of something that the test had not announced.  A refusal is asserted
 * with assert_refused(): the code, words of the message, and that nothing changed by it.
 *
 * Tests are static functions, listed with one of
 *
 *     claim(f)         in the default rule set, device 0 set
 *     claim_strict(f)  in the strict one
 *     claim_both(f)    in each
 *     claim_alone(f)   f calls start() itself, with the options it needs
 */
#ifndef TEST_SUPPORT_SUPPORT_H
#define TEST_SUPPORT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)
#define CHUNK (2 * MIB)

/*
 * start("strict", "ACLMEM_DEVICES=4"): forgets the options of the test before, sets
 * these, and calls aclInit(NULL), which has to succeed.  A device has 1 GB and there
 * are two unless an option says otherwise.  set_options() does all but the call.
 */
#define start(...) support_start(__VA_ARGS__, (const char *)NULL)
#define set_options(...) support_set_options(__VA_ARGS__, (const char *)NULL)
void support_start(const char *rules, ...);
void support_set_options(const char *rules, ...);

/* Whether ACLMEM_RULES is strict in the test that runs. */
bool rules_are_strict(void);

/* Options that are neither set nor defaulted: the library's own defaults apply. */
void clear_options(void);

/* After this the library may, or must, have logged warnings by the end of the test. */
void expect_warnings(uint64_t n);
void allow_warnings(void);

/*
 * For tests that lock so many bytes: where a user may not (ulimit -l), the strict rules
 * refuse pinned memory, and the test is skipped; the default ones warn.
 */
void need_locked(size_t size);

/*
 * Ends the test's use of the library and checks that nothing is left; 0 or -1, as cmocka
 * wants.
 */
int finish(void **state);
int finish_group(void **state);
int start_default(void **state);
int start_strict(void **state);

#define claim(f_) CLAIM(#f_, f_, start_default)
#define claim_strict(f_) CLAIM("strict: " #f_, f_, start_strict)
#define claim_both(f_) claim(f_), claim_strict(f_)
#define claim_alone(f_) CLAIM(#f_, f_, NULL)
/* clang-format off */
#define CLAIM(name_, f_, setup_) {name_, f_, setup_, finish, NULL}
/* clang-format on */
#define run_claims(claims_) \
    support_run(claims_, sizeof(claims_) / sizeof(claims_[0]), finish_group)

/*
 * Runs them all but those of host_only.def, where the backend is not the host's: they are
 * skipped.
 */
int support_run(const struct CMUnitTest *claims, size_t n, CMFixtureFunction teardown);

/* ---- codes and messages ---- */

/*
 * Each evaluates the call once, keeps the recent message, and prints both when it fails.
 */
#define assert_acl(call_, code_) \
    do { \
        forget_message(); \
        check_code((call_), (code_), (code_), #call_, __FILE__, __LINE__); \
    } while (0)
#define assert_acl_ok(call_) assert_acl(call_, ACL_SUCCESS)
/* Where the documents leave two codes open. */
#define assert_acl_either(call_, code_, other_) \
    do { \
        forget_message(); \
        check_code((call_), (code_), (other_), #call_, __FILE__, __LINE__); \
    } while (0)

/*
 * `words` in the message of the last asserted call, in any case; "a|b" is satisfied by
 * either.
 */
#define assert_message_has(words_) check_message((words_), __FILE__, __LINE__)
/* The address as the library prints values: 0x100000200000. */
#define assert_message_has_address(p_) check_message_address((p_), __FILE__, __LINE__)

/*
 * The call gives `code`, says `words`, and changes nothing that is alive and no free
 * memory.
 */
#define assert_refused(call_, code_, words_) \
    assert_refused_either(call_, code_, code_, words_)
/* The same for an argument that is wrong by itself, the commonest refusal: 100000. */
#define assert_bad_arg(call_, words_) \
    assert_refused(call_, ACL_ERROR_INVALID_PARAM, words_)
#define assert_refused_either(call_, code_, other_, words_) \
    do { \
        struct snapshot before_ = take_snapshot(); \
        assert_acl_either(call_, code_, other_); \
        assert_message_has(words_); \
        assert_unchanged(before_); \
    } while (0)

void forget_message(void);
/* The message of the last asserted call, "" when it left none. */
const char *kept_message(void);
void check_code(aclError got, aclError code, aclError other, const char *call,
                const char *file, int line);
void check_message(const char *words, const char *file, int line);
void check_message_address(const void *p, const char *file, int line);

/* ---- what is alive ---- */

/* Memory figures are of the current device, and 0 where there is none. */
struct snapshot {
    aclmem_stats stats;
    size_t free;
    size_t total;
};
struct snapshot take_snapshot(void);
#define assert_unchanged(before_) check_unchanged(&(before_), __FILE__, __LINE__)
void check_unchanged(const struct snapshot *before, const char *file, int line);

aclmem_stats stats(void);
size_t free_memory(void);
size_t total_memory(void);

/* Open descriptors, and lines of /proc/self/maps that name a memfd of the library. */
size_t open_descriptors(void);
size_t library_mappings(void);

#endif
