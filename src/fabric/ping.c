/* aclmem fabric ping: whether a fabric process can be reached, and why not. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/link.h"
#include "fabric/net.h"
#include "fabric/ucx.h"

#define ROUNDS 100
#define PIECES 4 /* in progress at a time */
#define PIECE_SIZE ((uint64_t)1 << 18)
#define MOVES_MAX 256 /* in one direction */
#define TIME_MAX (AM_SECOND / 2)
#define POLL_MS 10

_Static_assert(PIECES *PIECE_SIZE <= AM_FRAME_SCRATCH_SIZE,
               "the scratch memory has room");

static struct {
    const char *where;
    int fd;
    struct am_link link;
    uint64_t timeout_ns;
    uint64_t n_sent; /* echoes */
    uint64_t n_echoes;
    struct am_frame worker; /* kind is 0: it has not arrived */
    struct am_frame grant;

    struct am_ucx ucx;
    struct am_ucx_endpoint endpoint;
    uint8_t bytes[PIECES][PIECE_SIZE];
    struct am_ucx_move moves[PIECES];
    struct am_message heads[PIECES][PIECE_SIZE / AM_MESSAGE_MAX];
    bool is_busy[PIECES];
    bool has_failed;
    unsigned n_done;
} ping;

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "aclmem fabric ping: %s: %s\n", what, why);
    return 1;
}

/* ---- the control connection ---- */

static void frame_take(void *arg, const struct am_frame *frame)
{
    if (frame->kind == AM_FRAME_ECHO)
        ping.n_echoes++;
    else if (frame->kind == AM_FRAME_WORKER && frame->worker.size <= AM_FRAME_WORKER_MAX)
        ping.worker = *frame;
    else if (frame->kind == AM_FRAME_GRANT)
        ping.grant = *frame;
}

static bool is_port(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    return *end == '\0' && port > 0 && port <= UINT16_MAX;
}

/* A connected socket, or -1 with the reason. */
static int reach(const char *where, uint64_t timeout_ns, const char **ret_why)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct timeval limit = {.tv_sec = (time_t)(timeout_ns / AM_SECOND)};
    struct addrinfo *found;
    char host[256];
    const char *colon = strrchr(where, ':');
    int fd;
    int rc;

    *ret_why = "it takes HOST:PORT; the port is in the exporter's ACLMEM_FABRIC, or in "
               "the log of ACLMEM_LOG=info";
    if (colon == NULL || (size_t)(colon - where) >= sizeof host || !is_port(colon + 1))
        return -1;
    memcpy(host, where, (size_t)(colon - where));
    host[colon - where] = '\0';
    rc = getaddrinfo(host, colon + 1, &hints, &found);
    if (rc != 0) {
        *ret_why = gai_strerror(rc);
        return -1;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    rc = connect(fd, found->ai_addr, found->ai_addrlen);
    *ret_why = errno == EINPROGRESS
                   ? "nothing answers: the machine is down, or a firewall "
                     "drops what is sent to this port"
               : errno == ECONNREFUSED ? "connection refused: no exporter listens there"
                                       : strerror(errno);
    freeaddrinfo(found);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends, waits up to ms milliseconds for bytes, and receives; false: the link is dead. */
static bool step(int ms)
{
    struct pollfd p = {.fd = ping.fd, .events = POLLIN};
    uint8_t bytes[AM_FRAME_SIZE];
    const uint8_t *out;
    size_t size;
    ssize_t n;

    while ((size = am_link_output(&ping.link, &out)) > 0) {
        n = send(ping.fd, out, size, MSG_NOSIGNAL);
        if (n < 0)
            am_link_close(&ping.link);
        am_link_took(&ping.link, n < 0 ? size : (size_t)n);
    }
    n = poll(&p, 1, ms) == 1 ? recv(ping.fd, bytes, sizeof bytes, 0) : -1;
    if (n == 0)
        am_link_close(&ping.link);
    else if (n > 0)
        am_link_input(&ping.link, bytes, (size_t)n, am_clock());
    am_link_tick(&ping.link, am_clock());
    return ping.link.state != AM_LINK_DEAD;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Round trips of the control connection: the median, in nanoseconds; 0: it broke. */
static uint64_t round_trip(void)
{
    uint64_t times[ROUNDS];

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct am_frame frame = {.kind = AM_FRAME_ECHO, .echo.value = i};
        uint64_t begun = am_clock();

        ping.n_sent++;
        am_link_send(&ping.link, &frame, begun);
        while (ping.n_echoes != ping.n_sent) {
            if (!step(100))
                return 0;
        }
        times[i] = am_clock() - begun;
    }
    qsort(times, ROUNDS, sizeof times[0], compare);
    return times[ROUNDS / 2];
}

/* ---- the rates of UCX ---- */

static void move_done(struct am_ucx_move *move)
{
    ping.is_busy[move - ping.moves] = false;
    ping.has_failed |= move->has_failed;
    ping.n_done++;
}

static void broken(void *arg)
{
    ping.has_failed = true;
}

static void move_begin(unsigned i, bool is_put)
{
    struct am_ucx_range range = {
        .grant = ping.grant.grant.number,
        .offset = i * PIECE_SIZE,
        .bytes = ping.bytes[i],
        .size = PIECE_SIZE,
    };

    ping.is_busy[i] = true;
    ping.moves[i].done = move_done;
    if (is_put)
        am_ucx_put(&ping.ucx, &ping.endpoint, &range, ping.heads[i], &ping.moves[i]);
    else
        am_ucx_get(&ping.ucx, &ping.endpoint, &range, ping.heads[i], &ping.moves[i]);
}

static void progress(void)
{
    struct pollfd p[] = {{.fd = ping.ucx.fd, .events = POLLIN},
                         {.fd = ping.ucx.out_fd, .events = POLLIN}};
    unsigned before = ping.n_done;

    ping.ucx.is_idle = ping.ucx.is_out_idle = false;
    /* A move that has completed makes room for the next one. */
    if (am_ucx_progress(&ping.ucx) && ping.n_done == before)
        poll(p, 2, POLL_MS);
}

/* At most n moves in one direction, for a while: bytes a second; 0: it failed. */
static double rate(bool is_put, unsigned n)
{
    uint64_t begun = am_clock();
    unsigned n_begun = 0;

    ping.n_done = 0;
    do {
        uint64_t passed = am_clock() - begun;

        for (unsigned i = 0; i < PIECES; i++) {
            if (!ping.is_busy[i] && n_begun < n && passed < TIME_MAX) {
                n_begun++;
                move_begin(i, is_put);
            }
        }
        progress();
        if (ping.has_failed || passed > TIME_MAX + ping.timeout_ns || !step(0))
            return 0;
    } while (ping.n_done < n_begun);
    return (double)n_begun * (double)PIECE_SIZE * 1e9 / (double)(am_clock() - begun);
}

static void late(int signal)
{
    static const char text[] =
        "aclmem fabric ping: the data port of UCX does not answer; a "
        "firewall may drop what is sent to it\n";

    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* Imports the scratch memory and connects UCX: 0, or -1 with the reason. */
static int data_open(char *why)
{
    struct am_frame frame = {.kind = AM_FRAME_IMPORT};
    struct sockaddr_in to = {0};
    socklen_t size = sizeof to;
    struct in_addr source;
    struct am_net_place place;
    char number[INET_ADDRSTRLEN] = "";

    getpeername(ping.fd, (struct sockaddr *)&to, &size);
    source = am_net_source(&to.sin_addr);
    inet_ntop(AF_INET, &source, number, sizeof number);
    if (am_net_find(number, &place, why) != 0)
        return -1;
    memcpy(frame.import.source, &source, sizeof source);
    frame.import.ticket.number = AM_FRAME_SCRATCH;
    am_link_send(&ping.link, &frame, am_clock());
    while (ping.grant.kind == 0 || ping.worker.kind == 0) {
        snprintf(why, AM_NET_WHY, "%s", am_link_reason(&ping.link));
        if (!step(100))
            return -1;
    }
    snprintf(why, AM_NET_WHY, "it has no memory to measure with");
    if (ping.grant.grant.status != 0 || ping.grant.grant.size < AM_FRAME_SCRATCH_SIZE)
        return -1;
    /* UCX waits in connect(), for minutes where a firewall drops what it sends. */
    signal(SIGALRM, late);
    alarm((unsigned)(2 * ping.timeout_ns / AM_SECOND) + 2);
    if (am_ucx_open(&ping.ucx, place.device, why) != 0 ||
        am_ucx_open_out(&ping.ucx, why) != 0 ||
        am_ucx_connect(&ping.ucx, &ping.endpoint, ping.worker.worker.address,
                       &ping.link.session, broken, NULL, why) != 0)
        return -1;
    snprintf(why, AM_NET_WHY, "its data port cannot be reached, or it ended");
    return rate(false, 1) == 0 ? -1 : 0; /* the first get connects UCX */
}

static int rates_print(void)
{
    char why[AM_NET_WHY];
    double put, get;

    if (data_open(why) != 0)
        return fail(ping.where, why);
    put = rate(true, MOVES_MAX);
    get = rate(false, MOVES_MAX);
    if (put == 0 || get == 0)
        return fail(ping.where, why);
    printf("put %.0f MB/s, get %.0f MB/s\n", put / 1e6, get / 1e6);
    return 0;
}

/*
 * Connects to HOST:PORT, proves the key of the file, and measures round trips and the rates
 * of UCX.  Prints the result; returns the exit code: 0, or 1 with the reason on standard
 * error.  Exported by libaclmem_fabric.so.
 */
__attribute__((visibility("default"))) int
aclmem_fabric_ping(const char *where, const char *key_path, unsigned timeout_s);

int aclmem_fabric_ping(const char *where, const char *key_path, unsigned timeout_s)
{
    struct am_link_spec spec = {.frame = frame_take, .now = am_clock()};
    struct am_link_keys keys;
    char why[AM_SECRET_WHY];
    const char *reason;
    uint64_t trip;
    int key = open(key_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (sodium_init() < 0 || key < 0)
        return fail(key_path, strerror(errno));
    if (am_secret_read(key, &keys, why) != 0)
        return fail(key_path, why);
    ping.where = where;
    ping.timeout_ns = spec.timeout_ns = timeout_s * AM_SECOND;
    ping.fd = reach(where, ping.timeout_ns, &reason);
    if (ping.fd < 0)
        return fail(where, reason);
    am_net_tune(ping.fd, ping.timeout_ns);
    spec.keys = &keys;
    spec.now = am_clock();
    spec.who.pid = (int32_t)getpid();
    randombytes_buf(spec.who.instance, sizeof spec.who.instance);
    gethostname(spec.who.host, sizeof spec.who.host - 1);
    randombytes_buf(spec.nonce, sizeof spec.nonce);
    am_link_init(&ping.link, &spec);
    while (ping.link.state != AM_LINK_UP) {
        if (!step(100))
            return fail(ping.where, am_link_reason(&ping.link));
    }
    trip = round_trip();
    if (trip == 0)
        return fail(ping.where, am_link_reason(&ping.link));
    printf("%s: machine %s, process %d, has the same key\n", where, ping.link.peer.host,
           ping.link.peer.pid);
    printf("protocol %u, UCX here %s, round trip %.1f us\n", AM_FRAME_VERSION,
           ucp_get_version_string(), (double)trip / 1e3);
    fflush(stdout);
    return rates_print();
}
