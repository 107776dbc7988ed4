/* See net.h. */
#include "fabric/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "10.0.0.1:4711" into its parts: false when it is no such text. */
static bool text_split(const char *text, char *address, size_t size, uint16_t *ret_port)
{
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char *end;
    long port;

    *ret_port = 0;
    if (n == 0 || n >= size)
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    if (colon == NULL)
        return true;
    port = strtol(colon + 1, &end, 10);
    if (*end != '\0' || end == colon + 1 || port <= 0 || port > 65535 - 2 * AM_NET_PORTS)
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

/* The names and addresses that the machine has, for the message. */
static void addresses_list(const struct ifaddrs *all, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (const struct ifaddrs *i = all; i != NULL && n < size; i = i->ifa_next) {
        char number[INET_ADDRSTRLEN];

        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
            continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, number,
                  sizeof number);
        n += (size_t)snprintf(text + n, size - n, "%s%s %s", n > 0 ? ", " : "",
                              i->ifa_name, number);
    }
}

int am_net_find(const char *text, struct am_net_place *ret_place, char *why)
{
    struct ifaddrs *all;
    struct in_addr wanted;
    char address[64];
    char known[256];
    uint16_t port;
    bool is_number;
    bool is_found = false;
    bool is_running = false;

    if (!text_split(text, address, sizeof address, &port)) {
        snprintf(why, AM_NET_WHY,
                 "ACLMEM_FABRIC is \"%s\"; it takes an IPv4 ADDRESS, ADDRESS:PORT with a "
                 "port below %d, or the name of an interface",
                 text, 65536 - 2 * AM_NET_PORTS);
        return -1;
    }
    if (getifaddrs(&all) != 0) {
        snprintf(why, AM_NET_WHY, "the interfaces cannot be listed: %s", strerror(errno));
        return -1;
    }
    is_number = inet_pton(AF_INET, address, &wanted) == 1;
    for (const struct ifaddrs *i = all; i != NULL && !is_found; i = i->ifa_next) {
        const struct sockaddr_in *own = (const struct sockaddr_in *)(void *)i->ifa_addr;

        if (own == NULL || own->sin_family != AF_INET)
            continue;
        is_found = is_number ? own->sin_addr.s_addr == wanted.s_addr
                             : strcmp(i->ifa_name, address) == 0;
        if (!is_found)
            continue;
        is_running = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
        ret_place->address = *own;
        ret_place->address.sin_port = htons(port);
        snprintf(ret_place->device, sizeof ret_place->device, "%s", i->ifa_name);
    }
    addresses_list(all, known, sizeof known);
    freeifaddrs(all);
    if (is_found && is_running)
        return 0;
    if (is_found) {
        snprintf(why, AM_NET_WHY, "ACLMEM_FABRIC is \"%s\", and the link of %s is down",
                 text, ret_place->device);
        return -1;
    }
    snprintf(
        why, AM_NET_WHY,
        "ACLMEM_FABRIC is \"%s\", which is neither an interface with an IPv4 address "
        "nor an address of this machine; it has %s",
        text, known);
    return -1;
}

int am_net_listen(struct am_net_place *place, bool is_exact, char *why)
{
    socklen_t size = sizeof place->address;
    uint16_t first = ntohs(place->address.sin_port);
    int n_tries = first != 0 && !is_exact ? AM_NET_PORTS : 1;
    int yes = 1;
    int error = EADDRINUSE;

    /* A socket for each try: listen() may refuse a port that bind() gave to two processes. */
    for (int i = 0; error == EADDRINUSE && i < n_tries; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        place->address.sin_port = htons((uint16_t)(first + i));
        /* Connections of a process that has ended would block its port for a minute. */
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            bind(fd, (struct sockaddr *)&place->address, sizeof place->address) == 0 &&
            syscall(SYS_listen, fd, 1024) == 0 && /* listen() would attach a filter */
            getsockname(fd, (struct sockaddr *)&place->address, &size) == 0)
            return fd;
        error = errno;
        if (fd >= 0)
            close(fd);
    }
    if (n_tries > 1)
        snprintf(why, AM_NET_WHY, "no port of %s from %u to %u could be opened: %s",
                 place->device, first, first + n_tries - 1, strerror(error));
    else
        snprintf(why, AM_NET_WHY, "no port of %s could be opened: %s", place->device,
                 strerror(error));
    return -1;
}

bool am_net_has_free(const struct am_net_place *place, uint16_t first, int n_wanted)
{
    struct sockaddr_in address = place->address;

    /* As UCX binds: without SO_REUSEADDR. */
    for (int i = 0; i < AM_NET_PORTS && n_wanted > 0; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
            break;
        address.sin_port = htons((uint16_t)(first + i));
        n_wanted -= bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
    }
    return n_wanted <= 0;
}

int am_net_connect(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    struct sockaddr_in any_port = *from;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return -errno;
    any_port.sin_port = 0;
    if (bind(fd, (struct sockaddr *)&any_port, sizeof any_port) == 0 &&
        (connect(fd, (const struct sockaddr *)to, sizeof *to) == 0 ||
         errno == EINPROGRESS))
        return fd;
    rc = -errno;
    close(fd);
    return rc;
}

/* The kernel uses the lowest free descriptor, so a larger gap is the end. */
#define HOLE 256

void am_net_shut(const struct sockaddr_in *to)
{
    unsigned n_free = 0;

    for (int fd = 3; n_free < HOLE; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0) {
            n_free = errno == EBADF ? n_free + 1 : 0;
            continue;
        }
        n_free = 0;
        if (peer.sin_family == AF_INET && peer.sin_port == to->sin_port &&
            peer.sin_addr.s_addr == to->sin_addr.s_addr)
            shutdown(fd, SHUT_RDWR);
    }
}

struct in_addr am_net_source(const struct in_addr *to)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = *to};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return *to;
    /* Connecting a datagram socket sends nothing: the kernel chooses the route. */
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        address.sin_addr = *to;
    close(fd);
    return address.sin_addr;
}

void am_net_tune(int fd, uint64_t timeout_ns)
{
    int yes = 1;
    unsigned ms = (unsigned)(timeout_ns / 1000000);

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}
