/*
 * An importer that has the key and does not keep to the protocol.
 *
 *     fabric_attacker ADDRESS PORT KEY_FILE ATTACK
 *
 * It connects to an exporter as fabric processes do, imports the scratch memory, attacks,
 * and sends a valid put:
 *
 *     none         no attack
 *     token        a put of another session
 *     forge        a put with the right token and without the key of the session
 *     repeat       a put that was sent before
 *     grant        a put to memory that was not granted
 *     offset, end  a put that begins, or ends, after the end of the memory
 *     get          a get that ends after the end of the memory
 *     rma ADDRESS  UCX's own put, to an address of the exporting process
 *
 * It prints "arrived" if the valid put is acknowledged and the scratch memory has its
 * bytes, and "closed" if the exporter has closed the connection.
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

/* The attacker's UCX has remote memory access. */
#include <ucp/api/ucp.h>
#define UCP_FEATURE_AM (UCS_BIT(6) | UCP_FEATURE_RMA)
#include "../../src/fabric/ucx.c"

#define SIZE ((size_t)300 << 10) /* three messages */
#define LIMIT (60 * AM_SECOND)

static struct am_link link_;
static struct am_frame worker, grant;
static struct am_ucx ucx;
static struct am_ucx_endpoint endpoint;
static int fd;
static bool has_ucx, is_done;

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
    is_done = true;
}

struct sent {
    struct am_ucx_move move;
    struct am_message heads[SIZE / AM_MESSAGE_MAX + 1];
};

/* Moves bytes to or from the scratch memory; the caller waits for is_done. */
static void move_send(struct sent *sent, uint64_t offset, uint8_t *bytes, size_t size,
                      bool is_put)
{
    struct am_ucx_range range = {grant.grant.number, offset, bytes, size};

    sent->move.done = move_done;
    is_done = false;
    if (is_put)
        am_ucx_put(&ucx, &endpoint, &range, sent->heads, &sent->move);
    else
        am_ucx_get(&ucx, &endpoint, &range, sent->heads, &sent->move);
}

static void move_run(struct sent *sent, uint8_t *bytes, size_t size, bool is_put)
{
    move_send(sent, 0, bytes, size, is_put);
    until(&is_done, NULL, "the reply of the exporter");
}

static void raw_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
}

static const ucp_request_param_t raw = {
    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
    .cb.send = raw_sent,
    .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
};

static void rma_put(uint64_t address)
{
    static uint8_t bytes[4096];
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = bytes,
        .length = sizeof bytes,
    };
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                 .cb.send = raw_sent};
    ucp_mem_h memory;
    ucp_rkey_h rkey = NULL;
    void *packed;
    size_t size;

    memset(bytes, 0xee, sizeof bytes);
    /* Over TCP the key of any memory is the key of all memory. */
    require(ucp_mem_map(ucx.context, &params, &memory) == UCS_OK &&
                ucp_rkey_pack(ucx.context, memory, &packed, &size) == UCS_OK &&
                ucp_ep_rkey_unpack(endpoint.ep, packed, &rkey) == UCS_OK,
            "a remote key");
    ucp_put_nbx(endpoint.ep, bytes, sizeof bytes, address, rkey, &param);
}

static void attack(const char *what, const char *address)
{
    static uint8_t old[100];
    static struct sent wrong, valid;
    uint8_t *changed = strcmp(what, "token") == 0   ? endpoint.session.token
                       : strcmp(what, "forge") == 0 ? endpoint.session.out_key
                                                    : NULL;

    if (changed != NULL) {
        changed[0] ^= 1;
        move_send(&wrong, 0, old, sizeof old, true);
        changed[0] ^= 1;
        endpoint.session.n_sent--; /* the exporter does not count it */
    } else if (strcmp(what, "repeat") == 0) {
        move_run(&wrong, old, sizeof old, true);
    } else if (strcmp(what, "grant") == 0) {
        grant.grant.number += 7;
        move_send(&wrong, 0, old, sizeof old, true);
        grant.grant.number -= 7;
    } else if (strcmp(what, "offset") == 0) {
        move_send(&wrong, grant.grant.size, old, sizeof old, true);
    } else if (strcmp(what, "end") == 0 || strcmp(what, "get") == 0) {
        move_send(&wrong, grant.grant.size - sizeof old + 1, old, sizeof old,
                  strcmp(what, "end") == 0);
    } else if (strcmp(what, "rma") == 0) {
        move_run(&valid, old, sizeof old, true); /* UCX has connected */
        rma_put(strtoull(address, NULL, 0));
    }
    if (strcmp(what, "repeat") != 0)
        return;
    memset(old, 1, sizeof old);
    move_run(&valid, old, sizeof old, true);
    memset(old, 0, sizeof old);
    ucp_am_send_nbx(endpoint.ep, ID_REQUEST, wrong.heads, sizeof wrong.heads[0], old,
                    sizeof old, &raw);
    move_run(&valid, old, sizeof old, false);
    require(link_.state == AM_LINK_DEAD || old[0] == 1, "a put was written twice");
}

int main(int argc, char **argv)
{
    static uint8_t bytes[SIZE], back[SIZE];
    static struct sent sent;
    char why[AM_UCX_WHY];

    require(argc == 5 || argc == 6, "arguments");
    connect_to(argv[1], argv[2], argv[3]);
    require(am_ucx_open(&ucx, "eth0", why) == 0 && am_ucx_open_out(&ucx, why) == 0, why);
    has_ucx = true;
    require(am_ucx_connect(&ucx, &endpoint, worker.worker.address, &link_.session, broken,
                           NULL, why) == 0,
            why);
    attack(argv[4], argv[5]);
    randombytes_buf(bytes, sizeof bytes);
    move_run(&sent, bytes, SIZE, true);
    if (link_.state != AM_LINK_DEAD)
        move_run(&sent, back, SIZE, false);
    require(link_.state == AM_LINK_DEAD || memcmp(bytes, back, SIZE) == 0, "the bytes");
    printf("%s\n", link_.state == AM_LINK_DEAD ? "closed" : "arrived");
    fflush(stdout);
    _exit(0); /* as fabric processes do, with UCX open */
}
