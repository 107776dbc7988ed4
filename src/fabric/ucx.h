/*
 * UCX, which moves bytes between the memory of two fabric processes.
 *
 * Exported memory is served by one worker, and remote memory is reached by another one.
 * UCX 1.13 shares a TCP connection between the two directions of a pair of workers, and
 * keeps it when one direction is closed; so a connection has one direction only, and is
 * ended by its importer (am_net_shut()).
 *
 * One thread uses it.  A put counts as done when its bytes may be overwritten; a flush of
 * the endpoint is done when the bytes of all puts before it are in the remote memory.  A get
 * is done when its bytes are here.
 */
#ifndef AM_FABRIC_UCX_H
#define AM_FABRIC_UCX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

struct am_ucx {
    ucp_context_h context;
    ucp_worker_h worker; /* of exports */
    int fd;              /* becomes readable when the worker has to be progressed */
    bool is_idle;        /* its worker has nothing to do until then */
    ucp_worker_h out;    /* of imports, as the next ones */
    int out_fd;
    bool is_out_idle;
    void *address;
    size_t address_size;
};

#define AM_UCX_WHY 256

/*
 * First for exports, then for imports; `device` is the network interface.  0, or -1 with
 * the reason in AM_UCX_WHY bytes.
 */
int am_ucx_open(struct am_ucx *ucx, const char *device, char *why);
int am_ucx_open_out(struct am_ucx *ucx, char *why);

/*
 * Does what is to be done now; true when both workers are idle until an fd is readable.
 * An idle worker is left alone, which saves a system call or two: the caller clears is_idle
 * or is_out_idle when that fd is readable.
 */
bool am_ucx_progress(struct am_ucx *ucx);

/* Memory that peers may reach. */
struct am_ucx_memory {
    ucp_mem_h handle;
    void *rkey; /* what a peer needs, packed */
    size_t rkey_size;
};
int am_ucx_register(struct am_ucx *ucx, void *addr, size_t size,
                    struct am_ucx_memory *ret_memory, char *why);
void am_ucx_unregister(struct am_ucx *ucx, struct am_ucx_memory *memory);

/* A way to a peer's worker.  broken() is called when it is of no use any more. */
int am_ucx_connect(struct am_ucx *ucx, const void *address, void (*broken)(void *arg),
                   void *arg, ucp_ep_h *ret_ep, char *why);
/* Moves under way end, with a failure; the endpoint is gone. */
void am_ucx_disconnect(struct am_ucx *ucx, ucp_ep_h ep);

/* A put, a flush, both, or a get under way. */
struct am_ucx_move {
    unsigned n_left; /* callbacks to come */
    bool has_failed;
    void (*done)(struct am_ucx_move *move);
};

/* done() is called later, or from within, exactly once. */
void am_ucx_flush(struct am_ucx *ucx, ucp_ep_h ep, struct am_ucx_move *move);
void am_ucx_put(struct am_ucx *ucx, ucp_ep_h ep, ucp_rkey_h rkey, uint64_t remote,
                const void *local, size_t size, struct am_ucx_move *move);
void am_ucx_put_flush(struct am_ucx *ucx, ucp_ep_h ep, ucp_rkey_h rkey, uint64_t remote,
                      const void *local, size_t size, struct am_ucx_move *move);
void am_ucx_get(struct am_ucx *ucx, ucp_ep_h ep, ucp_rkey_h rkey, uint64_t remote,
                void *local, size_t size, struct am_ucx_move *move);

#endif
