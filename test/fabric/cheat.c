/*
 * An importer that has the key and does not keep to what it was granted.
 *
 *     fabric_cheat ADDRESS PORT KEY_FILE WHAT
 *
 * It connects to an exporter as fabric processes do, imports the memory that is there for
 * measuring, and sends parcels:
 *
 *     none    right ones alone
 *     pass    one with another pass, before
 *     grant   one for memory that it does not have
 *     offset  one for a place behind its memory
 *     end     one whose last byte is behind it
 *
 * It prints "arrived" when there is word of the right parcels, and "closed" when the
 * exporter has closed the connection.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/link.h"
#include "fabric/secret.h"
#include "fabric/ucx.h"

#define SIZE ((size_t)300 << 10) /* three parcels */
#define LIMIT (60 * AM_SECOND)

static struct am_link link_;
static struct am_frame worker, grant;
static struct am_ucx ucx;
static struct am_ucx_way way;
static int fd;
static bool has_ucx, has_arrived;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    printf("failed: %s\n", what);
    exit(1);
}

static void frame_take(void *arg, const struct am_frame *frame)
{
    if (frame->kind == AM_FRAME_WORKER)
        worker = *frame;
    else if (frame->kind == AM_FRAME_GRANT)
        grant = *frame;
}

static void step(void)
{
    struct pollfd p[] = {{.fd = fd, .events = POLLIN},
                         {.fd = has_ucx ? ucx.fd : -1, .events = POLLIN},
                         {.fd = has_ucx ? ucx.out_fd : -1, .events = POLLIN}};
    uint8_t bytes[AM_FRAME_SIZE];
    const uint8_t *out;
    size_t size;
    ssize_t n;

    while ((size = am_link_output(&link_, &out)) > 0) {
        n = send(fd, out, size, MSG_NOSIGNAL);
        require(n > 0, "send");
        am_link_took(&link_, (size_t)n);
    }
    ucx.is_idle = ucx.is_out_idle = false;
    poll(p, 3, has_ucx && !am_ucx_progress(&ucx) ? 0 : 100);
    if ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            am_link_close(&link_);
        else
            am_link_input(&link_, bytes, (size_t)n, am_clock());
    }
    am_link_tick(&link_, am_clock());
}

static void until(const bool *is_true, const uint32_t *is_set, const char *what)
{
    uint64_t begun = am_clock();

    while (link_.state != AM_LINK_DEAD && (is_true == NULL || !*is_true) &&
           (is_set == NULL || *is_set == 0)) {
        require(am_clock() - begun < LIMIT, what);
        step();
    }
}

static void connect_to(const char *address, const char *port, const char *key_path)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port))};
    struct am_frame import = {.kind = AM_FRAME_IMPORT};
    static struct am_link_keys keys;
    struct am_link_spec spec = {.keys = &keys, .frame = frame_take};
    char why[AM_SECRET_WHY];

    require(sodium_init() >= 0, "libsodium");
    require(am_secret_read(open(key_path, O_RDONLY), &keys, why) == 0, "the key");
    fd = socket(AF_INET, SOCK_STREAM, 0);
    require(inet_pton(AF_INET, address, &to.sin_addr) == 1 &&
                connect(fd, (struct sockaddr *)&to, sizeof to) == 0,
            "connecting");
    spec.timeout_ns = LIMIT;
    spec.now = am_clock();
    randombytes_buf(spec.nonce, sizeof spec.nonce);
    randombytes_buf(spec.who.instance, sizeof spec.who.instance);
    am_link_init(&link_, &spec);
    until(NULL, &worker.kind, "the exporter's worker");
    import.import.ticket.number = AM_FRAME_SCRATCH;
    am_link_send(&link_, &import, am_clock());
    until(NULL, &grant.kind, "the grant");
    require(grant.kind != 0 && grant.grant.status == 0, "the grant");
}

static void broken(void *arg)
{
}

static void move_done(struct am_ucx_move *move)
{
    has_arrived = !move->has_failed;
}

static void wrong_done(struct am_ucx_move *move)
{
}

struct sent {
    struct am_ucx_move move;
    struct am_put_head heads[SIZE / AM_PUT_MAX + 1];
};

static void puts_send(struct am_ucx_put *put, struct sent *sent,
                      void (*done)(struct am_ucx_move *move))
{
    static uint8_t bytes[SIZE];

    put->bytes = bytes;
    put->heads = sent->heads;
    sent->move.done = done;
    am_ucx_put(&ucx, &way, put, &sent->move);
}

static void cheat(const char *what)
{
    static struct sent sent;
    struct am_ucx_put put = {.grant = grant.grant.number, .size = 100};

    if (strcmp(what, "none") == 0)
        return;
    if (strcmp(what, "pass") == 0)
        way.token[0] ^= 1;
    else if (strcmp(what, "grant") == 0)
        put.grant += 7;
    else
        put.offset = grant.grant.size - (strcmp(what, "end") == 0 ? 99 : 0);
    puts_send(&put, &sent, wrong_done);
    if (strcmp(what, "pass") != 0)
        return;
    way.token[0] ^= 1;
    way.n_messages--; /* the exporter does not count it */
}

int main(int argc, char **argv)
{
    static struct sent sent;
    struct am_ucx_put put = {.size = SIZE, .asks = true};
    char why[AM_UCX_WHY];

    require(argc == 5, "arguments");
    connect_to(argv[1], argv[2], argv[3]);
    require(am_ucx_open(&ucx, "eth0", why) == 0 && am_ucx_open_out(&ucx, why) == 0, why);
    has_ucx = true;
    require(am_ucx_connect(&ucx, &way, worker.worker.address, link_.token, broken, NULL,
                           why) == 0,
            why);
    put.grant = grant.grant.number;
    cheat(argv[4]);
    puts_send(&put, &sent, move_done);
    until(&has_arrived, NULL, "word of the parcels");
    printf("%s\n", has_arrived ? "arrived" : "closed");
    fflush(stdout);
    _exit(0); /* as fabric processes do, with UCX open */
}
