/*
 * Tables of calls that are made while a stream is captured.
 *
 * Each row is run in a capture of each of the three modes, by the thread that began the capture
 * and by another thread.  The code, the message and the state of the capture afterwards are
 * compared.
 */
#ifndef TEST_SUPPORT_CAPTURE_ROWS_H
#define TEST_SUPPORT_CAPTURE_ROWS_H

#include "capture.h"

#define ROW_SIZE 4096

/* What the calls of the rows use. */
extern struct scene {
    aclrtContext context;
    aclrtStream stream; /* it is captured */
    aclrtStream other;  /* it is not */
    aclrtStream side;   /* it joins where a row says so */
    aclrtEvent inside;  /* recorded in the capture */
    aclrtEvent outside; /* recorded on the other stream, before the capture */
    aclrtEvent ex, ipc;
    aclrtEvent external; /* for waits with EXTERNAL */
    aclrtNotify notify;
    char *a, *b;      /* device memory */
    void *desc;       /* of a copy from a to b, in device memory */
    void **addresses; /* of b and a, in device memory */
    char *pinned;
    char *pageable;
    uint64_t *value;
} on;

void open_scene(void);
void close_scene(void);

/* Calls of several rows. */
aclError copy_device(aclrtStream stream);
aclError copy_from(void *host, aclrtStream stream);
aclError copy_to(void *host, aclrtStream stream);
aclError copy_2d_from(void *host, aclrtStream stream);
aclError copy_batch_from(void *host, aclrtStream stream);
aclError copy_by_desc(aclrtStream stream);
aclError copy_by_addresses(aclrtStream stream);
void do_nothing(void *arg);
/* The side stream joins the capture. */
aclError join_side(void);

/* The refused threads: none, all, or by the mode of the capture. */
enum rule { ALLOWED, ILLEGAL, UNSAFE };

struct row {
    const char *name;
    aclError (*call)(void);
    enum rule rule;
    aclError code;
    const char *words; /* of the message, beside the capture */
};

void run_rows(const struct row *rows, size_t n);

/* A call of one thread, which may have chosen a mode first. */
struct attempt {
    aclError (*call)(void);
    int mode; /* of the thread; -1: as it is */
    bool by_another;
    aclError code;
    char message[1024];
};

/* In a capture of this mode; the state of the capture after the call. */
aclmdlRICaptureStatus try_in_capture(aclmdlRICaptureMode mode, struct attempt *t);
void check_attempt(const char *name, const struct attempt *t, aclError code,
                   const char *words, aclmdlRICaptureStatus status);
/* The capture ends as its state says; afterwards the stream is an ordinary one. */
void end_attempt(bool is_valid);

#endif
