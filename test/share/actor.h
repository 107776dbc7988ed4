/*
 * Other processes for tests: this program again, doing what the test orders.
 *
 * An actor is started with exec and knows nothing of its parent but a socket, over which
 * it gets orders and answers each with the code, results and the recent message of the
 * call.  The test waits for the answer, so there is an order between the processes and
 * nothing to sleep for.  An actor ends when its socket does; what hangs is a failure after
 * a minute.
 */
#ifndef TEST_SHARE_ACTOR_H
#define TEST_SHARE_ACTOR_H

#include <sys/types.h>

#include "support/support.h"
#include "support/vmm.h"

struct actor {
    pid_t pid;    /* of the process that was started */
    pid_t inside; /* what the actor itself calls its id */
    int fd;
};

/* Who an actor is, besides a process: bits. */
enum {
    ACTOR_PLAIN = 0,
    ACTOR_NOBODY = 1u << 0,    /* as user 65534 */
    ACTOR_NAMESPACE = 1u << 1, /* in a PID namespace of its own */
    ACTOR_NO_PROC = 1u << 2,   /* where nothing is at /proc */
};

#define ACTOR_TEXT 128 /* a key, or a fabric handle, which has as many bytes */

struct answer {
    int32_t rc;
    uint64_t value[4];
    char text[ACTOR_TEXT];
    char message[600];
};

/* The environment is the test's own at this moment. */
void actor_start(struct actor *a, unsigned who);
/* The socket closes, and the actor ends by itself; its exit status has to be 0. */
void actor_end(struct actor *a);
/* SIGKILL. */
void actor_kill(struct actor *a);
void actor_signal(struct actor *a, int signal);

/* An order, and its answer; the two halves, for a test that does something in between. */
struct answer order(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z);
void order_begin(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z);
struct answer order_end(struct actor *a);

/* The same for orders that take a key, or another text of ACTOR_TEXT bytes. */
struct answer order_key(struct actor *a, int what, const char *key, uint64_t x);
struct answer order_bytes(struct actor *a, int what, const void *bytes, uint64_t x);

/* The code of an order has to be this one, and `words` are in its message. */
#define expect(answer_, code_, words_) \
    expect_answer((answer_), (code_), (words_), __FILE__, __LINE__)
struct answer expect_answer(struct answer answer, aclError code, const char *words,
                            const char *file, int line);
/* The order succeeds; its first result. */
#define done(a_, what_, x_, y_, z_) \
    order_done((a_), (what_), (x_), (y_), (z_), __FILE__, __LINE__)
uint64_t order_done(struct actor *a, int what, uint64_t x, uint64_t y, uint64_t z,
                    const char *file, int line);

/* Orders. */
enum {
    DO_INIT = 1, /* aclInit, and device x */
    DO_FINALIZE,
    DO_ALLOC,         /* bytes -> handle */
    DO_ALLOC_HOST,    /* bytes -> handle */
    DO_EXPORT,        /* handle, flags -> number */
    DO_TRUST,         /* number, pid */
    DO_IMPORT,        /* number, device -> handle */
    DO_RESERVE,       /* bytes -> address */
    DO_MAP,           /* address, bytes, handle */
    DO_PUT,           /* address, bytes, seed of the pattern */
    DO_CHECK,         /* address, bytes, seed: 0, or 1 when other bytes are there */
    DO_UNMAP,         /* address */
    DO_FREE,          /* handle */
    DO_RELEASE,       /* address */
    DO_RETAIN,        /* address -> handle */
    DO_FREE_MEMORY,   /* -> free bytes of the device */
    DO_TGID,          /* -> aclrtDeviceGetBareTgid */
    DO_DESCRIPTORS,   /* -> open ones, lines of the library in the map */
    DO_SET_LIMIT,     /* soft and hard limit of descriptors */
    DO_FORK,          /* a child that lives until the actor ends */
    DO_PEER,          /* enable peer access of the device to device x */
    DO_KEY,           /* address, bytes, flags: aclrtIpcMemGetExportKey -> text */
    DO_KEY_TRUST,     /* text, pid */
    DO_KEY_IMPORT,    /* text, flags -> address */
    DO_KEY_CLOSE,     /* text */
    DO_FABRIC,        /* handle, flags -> bytes of a fabric handle */
    DO_FABRIC_IMPORT, /* the same bytes -> handle */
    DO_MALLOC,        /* bytes -> address */
    DO_MFREE,         /* address */
    DO_STREAM_COPY,   /* address, bytes, times: copies on a stream, not waited for */
    DO_EXIT,          /* exit(0) without aclFinalize */
    DO_STREAM,        /* -> stream */
    DO_STREAM_SYNC,   /* stream, ms */
    DO_STREAM_ABORT,  /* stream */
    DO_STREAM_HOLD,   /* stream stands still until DO_LET_GO */
    DO_LET_GO,
    DO_EVENT,          /* ACL_EVENT_IPC -> event, text */
    DO_EVENT_OPEN,     /* text -> event */
    DO_EVENT_RECORD,   /* event, stream */
    DO_EVENT_WAIT,     /* event, stream */
    DO_EVENT_SYNC,     /* event, ms */
    DO_EVENT_DESTROY,  /* event */
    DO_NOTIFY_OPEN,    /* text, flags -> notify */
    DO_NOTIFY_RECORD,  /* notify, stream */
    DO_NOTIFY_WAIT,    /* notify, stream, s */
    DO_NOTIFY_DESTROY, /* notify */
};

/* What the program's main() does first: never returns in an actor. */
void actor_main(int argc, char **argv);

/* Files in the runtime directory that begin with `prefix`, hidden ones too. */
size_t run_files(const char *prefix);

#endif
