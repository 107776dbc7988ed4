/*
 * The thread's recent messages.
 *
 * A thread's buffer is made at its first failure and freed with the thread.  When not
 * even that can be had, the code is still right and the message is a fixed one.  In
 * shared mode one buffer, under a lock, collects the messages of all threads; messages
 * that a thread took out lie in its own buffer.
 */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "aclnn/acl_meta.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/refusal.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/util.h"

#define MESSAGES_SIZE 4096 /* the oldest fall off the end */
#define MESSAGE_SIZE 1024

struct messages {
    char text[MESSAGES_SIZE];  /* not yet taken, newest first, one a line */
    char taken[MESSAGES_SIZE]; /* the text that the program got last */
};

_Thread_local const char *am_error_function;

static _Thread_local int error_last;
static _Thread_local struct am_capture error_capture;
static _Thread_local bool error_lost; /* a message did not fit anywhere */
static _Thread_local bool error_is_aloud;

static pthread_once_t error_once = PTHREAD_ONCE_INIT;
static pthread_key_t error_key;
static bool error_has_key; /* the process may be out of keys */
static atomic_bool error_is_shared;
struct am_lock am_error_lock = AM_LOCK_INIT(AM_RANK_LEAF, "messages");
static struct messages shared; /* am_error_lock */

static const struct row {
    int code;
    const char *name;
    const char *prefix;
} error_table[] = {
#define AM_ERROR(name_, prefix_) {name_, #name_, prefix_},
#include "base/errors.def"
#undef AM_ERROR
};

static const struct row *error_find(int code)
{
    static const struct row unknown = {.prefix = "EE9999"};

    for (size_t i = 0; i < AM_ARRAY_SIZE(error_table); i++) {
        if (error_table[i].code == code)
            return &error_table[i];
    }
    return &unknown;
}

const char *am_error_name(int code)
{
    return error_find(code)->name;
}

static void error_make_key(void)
{
    error_has_key = pthread_key_create(&error_key, free) == 0;
}

/* The thread's own buffer; NULL when there is no memory for it. */
static struct messages *error_mine(void)
{
    struct messages *mine;

    pthread_once(&error_once, error_make_key);
    if (!error_has_key)
        return NULL;
    mine = pthread_getspecific(error_key);
    if (mine == NULL) {
        mine = am_sys_calloc(1, sizeof *mine);
        if (mine != NULL && pthread_setspecific(error_key, mine) != 0) {
            free(mine);
            mine = NULL;
        }
    }
    return mine;
}

static void messages_add(struct messages *to, const char *message)
{
    size_t n = strlen(message);
    size_t old = strlen(to->text);

    if (n + 1 + old > MESSAGES_SIZE - 1) {
        old = MESSAGES_SIZE - 1 - n - 1;
        while (old > 0 && to->text[old - 1] != '\n') /* whole messages only */
            old--;
    }
    memmove(to->text + n + 1, to->text, old);
    memcpy(to->text, message, n);
    to->text[n] = '\n';
    to->text[n + 1 + old] = '\0';
}

static void error_store(const char *message)
{
    struct messages *mine;

    if (error_is_shared) {
        am_lock(&am_error_lock);
        messages_add(&shared, message);
        am_unlock(&am_error_lock);
        return;
    }
    mine = error_mine();
    if (mine != NULL)
        messages_add(mine, message);
    else
        error_lost = true;
}

void am_error_report(int code, const char *fmt, ...)
{
    char what[MESSAGE_SIZE - 128];
    char message[MESSAGE_SIZE];
    int saved_errno = errno; /* %m in fmt, and what the caller does next */
    const struct row *row = error_find(code);
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    am_text_clean(what);
    snprintf(message, sizeof message, "%s: %s%s%s [%d %s]", row->prefix,
             am_error_function ? am_error_function : "", am_error_function ? ": " : "",
             what, code, row->name ? row->name : "unknown");
    if (error_capture.text != NULL) {
        snprintf(error_capture.text, error_capture.size, "%s", message);
    } else {
        error_last = code;
        error_store(message);
    }
    if (am_log_shows(AM_LOG_DEBUG))
        am_log(AM_LOG_DEBUG, "%s", message);
    else if (am_log_shows(AM_LOG_REFUSAL) && error_capture.text == NULL)
        am_refusal_note(code, row->name, am_error_function, message);
    else if (error_is_aloud && error_capture.text == NULL)
        am_log_note(AM_LOG_WARN, "%s", message);
    errno = saved_errno;
}

void am_error_aloud(bool is_on)
{
    error_is_aloud = is_on;
}

struct am_capture am_error_capture(char *text, size_t size)
{
    struct am_capture before = error_capture;

    error_capture = (struct am_capture){text, size};
    return before;
}

struct am_capture am_error_hush(void)
{
    static char unheard; /* of size 0: nothing is written */

    return am_error_capture(&unheard, 0);
}

void am_error_capture_end(struct am_capture before)
{
    error_capture = before;
}

const char *am_error_text(char *text)
{
    size_t n = am_error_function != NULL ? strlen(am_error_function) : 0;
    char *code = strrchr(text, '[');
    char *body = strstr(text, ": ");

    if (code != NULL && code > text && text[strlen(text) - 1] == ']')
        code[-1] = '\0'; /* a message that was cut has none */
    if (body == NULL)
        return text;
    body += 2;
    return n > 0 && strncmp(body, am_error_function, n) == 0 && body[n] == ':'
               ? body + n + 2
               : body;
}

int am_error_last(bool clear)
{
    int code = error_last;

    if (clear)
        error_last = 0;
    return code;
}

/* Moves the text out of `from`; to and from may be one. */
static const char *messages_take(struct messages *to, struct messages *from)
{
    size_t n = strlen(from->text);

    if (n == 0)
        return NULL;
    memcpy(to->taken, from->text, n);
    to->taken[n - 1] = '\0'; /* the last newline */
    from->text[0] = '\0';
    return to->taken;
}

const char *am_error_take_messages(void)
{
    struct messages *mine;

    if (error_lost) {
        error_lost = false;
        return "EH0010: no host memory to keep the message of the last failure";
    }
    mine = error_mine();
    if (mine == NULL)
        return NULL;
    if (!error_is_shared)
        return messages_take(mine, mine);
    return AM_LOCKED(&am_error_lock, messages_take(mine, &shared));
}

void am_error_share_messages(bool is_shared)
{
    error_is_shared = is_shared;
}
