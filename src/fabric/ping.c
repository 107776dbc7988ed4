/* See ping.h. */
#include "fabric/ping.h"

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
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/link.h"
#include "fabric/net.h"
#include "fabric/rate.h"
#include "fabric/secret.h"

#define ROUNDS 100

struct ping {
    int fd;
    struct am_link link;
    uint64_t timeout_ns;
    uint64_t n_asked; /* echoes, as the next one */
    uint64_t n_echoes;
    struct am_frame worker; /* kind is 0: it has not come */
    struct am_frame grant;
};

static void frame_take(void *arg, const struct am_frame *frame)
{
    struct ping *ping = arg;

    if (frame->kind == AM_FRAME_ECHO)
        ping->n_echoes++;
    else if (frame->kind == AM_FRAME_WORKER && frame->worker.size <= AM_FRAME_WORKER_MAX)
        ping->worker = *frame;
    else if (frame->kind == AM_FRAME_GRANT)
        ping->grant = *frame;
}

static int fail(const char *where, const char *why)
{
    fprintf(stderr, "aclmem fabric ping: %s: %s\n", where, why);
    return 1;
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

/* Sends, waits so long for an answer, and takes it. */
static void step(struct ping *ping, int ms)
{
    struct pollfd p = {.fd = ping->fd, .events = POLLIN};
    uint8_t bytes[AM_FRAME_SIZE];
    const uint8_t *out;
    size_t size;
    ssize_t n;

    while ((size = am_link_output(&ping->link, &out)) > 0) {
        n = send(ping->fd, out, size, MSG_NOSIGNAL);
        if (n < 0)
            am_link_close(&ping->link);
        am_link_took(&ping->link, n < 0 ? size : (size_t)n);
    }
    n = poll(&p, 1, ms) == 1 ? recv(ping->fd, bytes, sizeof bytes, 0) : -1;
    if (n == 0)
        am_link_close(&ping->link);
    else if (n > 0)
        am_link_input(&ping->link, bytes, (size_t)n, am_clock());
    am_link_tick(&ping->link, am_clock());
}

/* Until is_done, or the link is dead. */
static bool talk(struct ping *ping, bool (*is_done)(const struct ping *))
{
    while (!is_done(ping) && ping->link.state != AM_LINK_DEAD)
        step(ping, 100);
    return ping->link.state != AM_LINK_DEAD;
}

static bool is_up(const struct ping *ping)
{
    return ping->link.state == AM_LINK_UP;
}

static bool has_echoes(const struct ping *ping)
{
    return ping->n_echoes == ping->n_asked;
}

static bool has_grant(const struct ping *ping)
{
    return ping->grant.kind != 0 && ping->worker.kind != 0;
}

static bool keep(void *arg)
{
    struct ping *ping = arg;

    step(ping, 0);
    return ping->link.state != AM_LINK_DEAD;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Round trips of the control connection: the median, in nanoseconds; 0: it broke. */
static uint64_t round_trip(struct ping *ping)
{
    uint64_t times[ROUNDS];

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct am_frame frame = {.kind = AM_FRAME_ECHO, .echo.value = i};
        uint64_t begun = am_clock();

        ping->n_asked++;
        am_link_send(&ping->link, &frame, begun);
        if (!talk(ping, has_echoes))
            return 0;
        times[i] = am_clock() - begun;
    }
    qsort(times, ROUNDS, sizeof times[0], compare);
    return times[ROUNDS / 2];
}

static int link_report(const struct ping *ping, const char *where)
{
    char text[192];

    if (ping->link.end != AM_LINK_VERSION)
        return fail(where, am_link_reason(&ping->link));
    snprintf(text, sizeof text,
             "it speaks version %u of the fabric's protocol, this is %u",
             ping->link.peer_version, AM_FRAME_VERSION);
    return fail(where, text);
}

static void late(int signal)
{
    static const char text[] =
        "aclmem fabric ping: the data port of UCX does not answer; a "
        "firewall may drop what is sent to it\n";

    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* Bytes a second, over UCX, to and from memory that the process has for this. */
static int rate(struct ping *ping, const char *where, struct am_rate *ret_rate)
{
    struct am_frame frame = {.kind = AM_FRAME_IMPORT};
    struct sockaddr_in to = {0};
    socklen_t size = sizeof to;
    struct in_addr source;
    struct am_net_place place;
    char number[INET_ADDRSTRLEN] = "";
    char why[AM_NET_WHY];
    struct am_rate_spec spec = {
        .device = place.device,
        .worker = &ping->worker,
        .grant = &ping->grant,
        .session = &ping->link.session,
        .timeout_ns = ping->timeout_ns,
        .keep = keep,
        .arg = ping,
    };

    getpeername(ping->fd, (struct sockaddr *)&to, &size);
    source = am_net_source(&to.sin_addr);
    inet_ntop(AF_INET, &source, number, sizeof number);
    if (am_net_find(number, &place, why) != 0)
        return fail(where, why);
    memcpy(frame.import.source, &source, sizeof source);
    frame.import.ticket.number = AM_FRAME_SCRATCH;
    am_link_send(&ping->link, &frame, am_clock());
    if (!talk(ping, has_grant))
        return fail(where, am_link_reason(&ping->link));
    if (ping->grant.grant.status != 0)
        return fail(where, "it has no memory to measure with");
    /* UCX waits in connect(), for minutes where a firewall drops what it sends. */
    signal(SIGALRM, late);
    alarm((unsigned)(2 * ping->timeout_ns / AM_SECOND) + 2);
    return am_rate_measure(&spec, ret_rate, why) == 0 ? 0 : fail(where, why);
}

int am_ping(const char *where, const char *key_path, unsigned timeout_s)
{
    struct ping ping = {.timeout_ns = timeout_s * AM_SECOND};
    struct am_link_spec spec = {.frame = frame_take, .arg = &ping};
    struct am_link_keys keys;
    char why[AM_SECRET_WHY];
    const char *reason;
    struct am_rate rates;
    uint64_t trip;
    int key = open(key_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (sodium_init() < 0 || key < 0)
        return fail(key_path, strerror(errno));
    if (am_secret_read(key, &keys, why) != 0)
        return fail(key_path, why);
    ping.fd = reach(where, ping.timeout_ns, &reason);
    if (ping.fd < 0)
        return fail(where, reason);
    am_net_tune(ping.fd, ping.timeout_ns);
    spec.keys = &keys;
    spec.timeout_ns = ping.timeout_ns;
    spec.now = am_clock();
    spec.who.pid = (int32_t)getpid();
    randombytes_buf(spec.who.instance, sizeof spec.who.instance);
    gethostname(spec.who.host, sizeof spec.who.host - 1);
    randombytes_buf(spec.nonce, sizeof spec.nonce);
    am_link_init(&ping.link, &spec);
    if (!talk(&ping, is_up))
        return link_report(&ping, where);
    trip = round_trip(&ping);
    if (trip == 0)
        return link_report(&ping, where);
    printf("%s: machine %s, process %d, has the same key\n", where, ping.link.peer.host,
           ping.link.peer.pid);
    printf("protocol %u, UCX here %s, round trip %.1f us\n", AM_FRAME_VERSION,
           ucp_get_version_string(), (double)trip / 1e3);
    fflush(stdout);
    if (rate(&ping, where, &rates) != 0)
        return 1;
    printf("put %.0f MB/s, get %.0f MB/s\n", rates.put / 1e6, rates.get / 1e6);
    return 0;
}
