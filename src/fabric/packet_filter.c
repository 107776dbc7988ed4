/* See packet_filter.h. */
#include "fabric/packet_filter.h"

#include <linux/filter.h>
#include <stdlib.h>
#include <sys/socket.h>

#define SOURCE_AT 12 /* in the header of IPv4 */
#define PASS UINT32_MAX
#define DROP 0

/* Loads the source, masks it, and compares it with each network. */
struct program {
    struct sock_filter code[3 + 2 * AM_FILTER_NETWORKS];
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
static bool program_make(struct program *program, const struct am_packet_filter *filter,
                         uint32_t mask)
{
    size_t n_networks = 0;

    program->n = 0;
    emit(program,
         (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_NET_OFF + SOURCE_AT));
    emit(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    for (size_t i = 0; i < filter->n_addresses; i++) {
        uint32_t network = filter->addresses[i] & mask;

        if (i > 0 && (filter->addresses[i - 1] & mask) == network)
            continue;
        if (n_networks++ == AM_FILTER_NETWORKS)
            return false;
        emit(program,
             (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, network, 0, 1));
        emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, PASS));
    }
    emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, DROP));
    return true;
}

static bool program_attach(struct program *program, const int *fds, int n)
{
    struct sock_fprog filter = {program->n, program->code};

    for (int i = 0; i < n; i++) {
        if (setsockopt(fds[i], SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
            return false;
    }
    return true;
}

/*
 * The narrowest filter that the kernel accepts; the last mask admits every address, so a
 * peer that has proved the key is never dropped.
 */
static void filter_update(struct am_packet_filter *filter)
{
    static const uint32_t masks[] = {0xffffffff, 0xffffff00, 0xffff0000, 0xff000000, 0};
    struct program program;

    if (filter->n_addresses > 1)
        qsort(filter->addresses, filter->n_addresses, sizeof filter->addresses[0],
              compare);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        if (program_make(&program, filter, masks[i]) &&
            program_attach(&program, filter->fds, filter->n_fds))
            return;
    }
}

bool am_filter_admit(struct am_packet_filter *filter, struct in_addr address)
{
    if (filter->n_addresses == filter->n_room) {
        size_t n = 2 * filter->n_room + 16;
        uint32_t *addresses = realloc(filter->addresses, n * sizeof *addresses);

        if (addresses == NULL)
            return false;
        filter->addresses = addresses;
        filter->n_room = n;
    }
    filter->addresses[filter->n_addresses++] = ntohl(address.s_addr);
    filter_update(filter);
    return true;
}

static size_t address_find(const struct am_packet_filter *filter, struct in_addr address)
{
    size_t i = 0;

    while (i < filter->n_addresses && filter->addresses[i] != ntohl(address.s_addr))
        i++;
    return i;
}

bool am_filter_admits(const struct am_packet_filter *filter, struct in_addr address)
{
    return address_find(filter, address) < filter->n_addresses;
}

void am_filter_remove(struct am_packet_filter *filter, struct in_addr address)
{
    size_t i = address_find(filter, address);

    if (i == filter->n_addresses)
        return;
    filter->addresses[i] = filter->addresses[--filter->n_addresses];
    filter_update(filter);
}
