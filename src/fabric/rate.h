/* How many bytes a second UCX moves to and from a fabric process; for aclmem fabric ping. */
#ifndef AM_FABRIC_RATE_H
#define AM_FABRIC_RATE_H

#include "fabric/frame.h"
#include "fabric/ucx.h"

struct am_rate {
    double put; /* bytes a second, as the next one */
    double get;
};

struct am_rate_spec {
    const char *device;            /* the interface that reaches the process */
    const struct am_frame *worker; /* the frames that the process sent */
    const struct am_frame *grant;
    const struct am_session *session; /* of the connection */
    uint64_t timeout_ns;
    bool (*keep)(
        void *arg); /* called while bytes move; false: the connection has ended */
    void *arg;
};

/* 0, or -1 with the reason in AM_UCX_WHY bytes. */
int am_rate_measure(const struct am_rate_spec *spec, struct am_rate *ret_rate, char *why);

#endif
