/*
 * How a failure is reported.
 *
 * The function that decides the error calls am_fail(code, "what, with the values; what
 * to do"); its callers return the code untouched.  am_fail() leaves the code for
 * aclrtGetLastError and a message for aclGetRecentErrMsg:
 *
 *     EE1001: aclrtUnmapMem: nothing is mapped at 0x100000200000 [107000
 *     ACL_ERROR_RT_PARAM_INVALID]
 *
 * AM_REQUIRE, AM_TRY, and the macros that consist of them, are the only macros that return.
 * They may stand only before the first thing that the function has to release.
 */
#ifndef AM_BASE_ERROR_H
#define AM_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/lock.h"
#include "base/log.h"

/*
 * Its value is the code, which the compiler can see is not success: `return
 * am_fail(...)`.
 */
#define am_fail(code_, ...) (am_error_report((code_), __VA_ARGS__), (code_))

void am_error_report(int code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

#define AM_REQUIRE(condition_, code_, ...) \
    do { \
        if (__builtin_expect(!(condition_), 0)) \
            return am_fail(code_, __VA_ARGS__); \
    } while (0)

/* Returns the code of a call that failed. */
#define AM_TRY(call_) \
    do { \
        int rc_ = (call_); \
        if (__builtin_expect(rc_ != 0, 0)) \
            return rc_; \
    } while (0)

/* The API function this thread is in, for the message; set by the entry. */
extern _Thread_local const char *am_error_function
    __attribute__((tls_model("initial-exec")));

/* The thread's last code; `clear` resets it to 0. */
int am_error_last(bool clear);

/*
 * All messages since the last call, newest first, or NULL; valid until this thread's next
 * call.
 */
const char *am_error_take_messages(void);

/*
 * While it is on, a failure of this thread is printed at every level of the log but error:
 * for a start, after whose failure each call is refused.
 */
void am_error_aloud(bool is_on);

/*
 * Collect the messages of all threads in one place ("err_msg_mode": "1"), or of each in
 * its own.
 */
void am_error_share_messages(bool is_shared);

/*
 * Held around fork: no other thread is in the middle of a message, so a child can say why it
 * is refused.
 */
extern struct am_lock am_error_lock;

/*
 * From am_error_capture() to am_error_capture_end() this thread's messages go to `text`, the
 * last one winning, and the thread's last code stays as it was: for work that is done on
 * behalf of another call.  A capture may lie within another one: the end takes what the
 * beginning returned, and the outer capture goes on.
 */
struct am_capture {
    char *text; /* NULL: messages are the program's */
    size_t size;
};
struct am_capture am_error_capture(char *text, size_t size);
/* The same for messages that the program is not to see. */
struct am_capture am_error_hush(void);
void am_error_capture_end(struct am_capture before);

/* The value of an expression that is evaluated in such a capture. */
#define AM_CAPTURED_IN(capture_, value_) \
    ({ \
        struct am_capture before_ = (capture_); \
        __auto_type captured_ = (value_); \
        am_error_capture_end(before_); \
        captured_; \
    })
#define AM_CAPTURED(text_, size_, value_) \
    AM_CAPTURED_IN(am_error_capture(text_, size_), value_)
#define AM_HUSHED(value_) AM_CAPTURED_IN(am_error_hush(), value_)

/*
 * The text of a captured message of this call, without its prefix and its code: for a longer
 * message.  Modifies the message, and returns a part of it.
 */
const char *am_error_text(char *text);

/* "ACL_ERROR_RT_PARAM_INVALID", or NULL for a code we do not return. */
const char *am_error_name(int code);

#endif
