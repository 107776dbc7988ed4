/* See gate.h. */
#include "fabric/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FDS_MAX 1024 /* the process has few descriptors when UCX has just begun */
#define SOURCE_AT 12 /* in the header of IPv4 */
#define PASS UINT32_MAX
#define DROP 0

/* Loads the source, cuts it to its network, compares it with each one. */
struct program {
    struct sock_filter code[3 + 2 * AM_GATE_NETWORKS];
    unsigned short n;
};

static void emit(struct program *program, struct sock_filter instruction)
{
    program->code[program->n++] = instruction;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* False: there are too many networks for one filter. */
static bool program_make(struct program *program, const struct am_gate *gate,
                         uint32_t mask)
{
    size_t n_networks = 0;

    program->n = 0;
    emit(program,
         (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_NET_OFF + SOURCE_AT));
    emit(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    for (size_t i = 0; i < gate->n_addresses; i++) {
        uint32_t network = gate->addresses[i] & mask;

        if (i > 0 && (gate->addresses[i - 1] & mask) == network)
            continue;
        if (n_networks++ == AM_GATE_NETWORKS)
            return false;
        emit(program,
             (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, network, 0, 1));
        emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, PASS));
    }
    emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, DROP));
    return true;
}

static bool program_attach(struct program *program, const int *fds, size_t n)
{
    struct sock_fprog filter = {program->n, program->code};

    for (size_t i = 0; i < n; i++) {
        if (setsockopt(fds[i], SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
            return false;
    }
    return true;
}

/*
 * The narrowest filter that the kernel takes; the last mask lets every address through, so
 * a peer that has proved the key is never kept out.
 */
static bool gate_update(struct am_gate *gate)
{
    static const uint32_t masks[] = {0xffffffff, 0xffffff00, 0xffff0000, 0xff000000, 0};
    struct program program;

    if (gate->n_addresses > 1)
        qsort(gate->addresses, gate->n_addresses, sizeof gate->addresses[0], compare);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        if (program_make(&program, gate, masks[i]) &&
            program_attach(&program, gate->fds, gate->n_fds))
            return true;
    }
    return false;
}

static int option_of(int fd, int option)
{
    socklen_t size = sizeof(int);
    int value = 0;

    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : 0;
}

/* "10.0.0.1:7256 10.0.0.1:7257", as far as there is room. */
static void places_list(const int *fds, size_t n_fds, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < n_fds && n < size; i++) {
        struct sockaddr_in address = {0};
        socklen_t length = sizeof address;
        char number[INET_ADDRSTRLEN] = "";

        getsockname(fds[i], (struct sockaddr *)&address, &length);
        inet_ntop(AF_INET, &address.sin_addr, number, sizeof number);
        n += (size_t)snprintf(text + n, size - n, "%s%s:%u", i > 0 ? " " : "", number,
                              ntohs(address.sin_port));
    }
}

static size_t sockets_find(int *fds)
{
    size_t n = 0;

    for (int fd = 0; fd < FDS_MAX && n < AM_GATE_SOCKETS; fd++) {
        if (option_of(fd, SO_ACCEPTCONN) != 0 && option_of(fd, SO_DOMAIN) == AF_INET)
            fds[n++] = fd;
    }
    return n;
}

void am_gate_find(struct am_gate *gate)
{
    gate->n_fds = sockets_find(gate->fds);
}

static bool has_socket(const struct am_gate *gate, int fd)
{
    for (size_t i = 0; i < gate->n_fds; i++) {
        if (gate->fds[i] == fd)
            return true;
    }
    return false;
}

void am_gate_shut(struct am_gate *gate, struct am_gate *back, char *text)
{
    int fds[AM_GATE_SOCKETS];
    size_t n_fds = sockets_find(fds);
    char places[AM_GATE_TEXT / 2];
    struct program program;

    /* No address is admitted yet: this is the filter that drops all. */
    errno = 0;
    gate->is_shut =
        program_make(&program, gate, UINT32_MAX) && program_attach(&program, fds, n_fds);
    back->is_shut = gate->is_shut;
    for (size_t i = 0; i < n_fds; i++) {
        if (!has_socket(gate, fds[i]))
            back->fds[back->n_fds++] = fds[i];
    }
    if (gate->is_shut) {
        places_list(gate->fds, gate->n_fds, places, sizeof places);
        snprintf(text, AM_GATE_TEXT, "UCX listens at %s, for peers that proved the key",
                 places);
    } else {
        const char *why = strerror(errno);

        places_list(fds, n_fds, places, sizeof places);
        snprintf(text, AM_GATE_TEXT,
                 "UCX listens at %s, open to every address: the kernel takes no filter "
                 "(%s); close these ports to strangers",
                 places, why);
    }
}

bool am_gate_admit(struct am_gate *gate, struct in_addr address)
{
    if (gate->n_addresses == gate->n_room) {
        size_t n = 2 * gate->n_room + 16;
        uint32_t *addresses = realloc(gate->addresses, n * sizeof *addresses);

        if (addresses == NULL)
            return false;
        gate->addresses = addresses;
        gate->n_room = n;
    }
    gate->addresses[gate->n_addresses++] = ntohl(address.s_addr);
    if (gate->is_shut)
        gate_update(gate);
    return true;
}

/* Its place in the list, or the list's end. */
static size_t address_find(const struct am_gate *gate, struct in_addr address)
{
    size_t i = 0;

    while (i < gate->n_addresses && gate->addresses[i] != ntohl(address.s_addr))
        i++;
    return i;
}

void am_gate_admit_once(struct am_gate *gate, struct in_addr address)
{
    if (address_find(gate, address) == gate->n_addresses)
        am_gate_admit(gate, address);
}

void am_gate_leave(struct am_gate *gate, struct in_addr address)
{
    size_t i = address_find(gate, address);

    if (i == gate->n_addresses)
        return;
    gate->addresses[i] = gate->addresses[--gate->n_addresses];
    if (gate->is_shut)
        gate_update(gate);
}
