/* See ucx.h. */
#include "fabric/ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum message_kind {
    MESSAGE_PUT = 1, /* to the worker of exports */
    MESSAGE_ACK,     /* to that of imports */
};

static ucs_status_t put_receive(void *arg, const void *head, size_t head_size,
                                void *bytes, size_t size,
                                const ucp_am_recv_param_t *param);
static ucs_status_t ack_receive(void *arg, const void *head, size_t head_size,
                                void *bytes, size_t size,
                                const ucp_am_recv_param_t *param);

static int fail(char *why, const char *what, ucs_status_t status)
{
    snprintf(why, AM_UCX_WHY, "UCX: %s: %s", what, ucs_status_string(status));
    return -1;
}

/*
 * Segments of 64 KB and 132 KB double what TCP carries, against UCX's 8 KB; a parcel and
 * its head, or two segments of a get, are received in one go.  A connect()
 * that waits would keep this process from its beats and time limits.  A variable of the
 * environment that is there already wins.  ucp_config_modify() would not do: UCX reads the
 * settings of its transports from the environment alone.
 */
static void settings_choose(const char *device)
{
    const struct {
        const char *name;
        const char *value;
    } settings[] = {
        {"UCX_TLS", "tcp"},
        {"UCX_NET_DEVICES", device},
        {"UCX_TCP_TX_SEG_SIZE", "64k"},
        {"UCX_TCP_RX_SEG_SIZE", "132k"},
        {"UCX_TCP_CONN_NB", "y"},
        {"UCX_MEMTYPE_CACHE", "n"},
    };

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        setenv(settings[i].name, settings[i].value, 0);
}

static ucs_status_t context_make(const char *device, ucp_context_h *ret_context)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
    };
    ucp_config_t *config;
    ucs_status_t status;

    settings_choose(device);
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    status = ucp_init(&params, config, ret_context);
    ucp_config_release(config);
    return status;
}

/* A worker that takes messages of one kind, and its descriptor. */
static ucs_status_t worker_make(struct am_ucx *ucx, enum message_kind kind,
                                ucp_am_recv_callback_t take, ucp_worker_h *ret_worker,
                                int *ret_fd)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = kind,
        .cb = take,
        .arg = ucx,
    };
    ucs_status_t status = ucp_worker_create(ucx->context, &params, ret_worker);

    if (status != UCS_OK)
        return status;
    status = ucp_worker_get_efd(*ret_worker, ret_fd);
    if (status == UCS_OK)
        status = ucp_worker_set_am_recv_handler(*ret_worker, &handler);
    if (status != UCS_OK)
        ucp_worker_destroy(*ret_worker);
    return status;
}

int am_ucx_open(struct am_ucx *ucx, const char *device, char *why)
{
    ucp_address_t *address;
    ucs_status_t status = context_make(device, &ucx->context);

    if (status != UCS_OK)
        return fail(why, device, status);
    status = worker_make(ucx, MESSAGE_PUT, put_receive, &ucx->worker, &ucx->fd);
    if (status != UCS_OK) {
        ucp_cleanup(ucx->context);
        return fail(why, "making a worker", status);
    }
    status = ucp_worker_get_address(ucx->worker, &address, &ucx->address_size);
    if (status != UCS_OK) {
        ucp_worker_destroy(ucx->worker);
        ucp_cleanup(ucx->context);
        return fail(why, "asking the worker", status);
    }
    ucx->address = address;
    return 0;
}

int am_ucx_open_out(struct am_ucx *ucx, char *why)
{
    ucs_status_t status =
        worker_make(ucx, MESSAGE_ACK, ack_receive, &ucx->out, &ucx->out_fd);

    return status == UCS_OK ? 0 : fail(why, "making a worker for imports", status);
}

/* Whether the worker is idle when it has done what is to be done now. */
static bool worker_rest(ucp_worker_h worker)
{
    while (ucp_worker_progress(worker) != 0)
        ;
    return ucp_worker_arm(worker) == UCS_OK;
}

bool am_ucx_progress(struct am_ucx *ucx)
{
    if (!ucx->is_idle)
        ucx->is_idle = worker_rest(ucx->worker);
    if (!ucx->is_out_idle)
        ucx->is_out_idle = worker_rest(ucx->out);
    return ucx->is_idle && ucx->is_out_idle;
}

int am_ucx_register(struct am_ucx *ucx, void *addr, size_t size,
                    struct am_ucx_memory *ret_memory, char *why)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = addr,
        .length = size,
    };
    ucs_status_t status = ucp_mem_map(ucx->context, &params, &ret_memory->handle);

    if (status != UCS_OK)
        return fail(why, "registering memory", status);
    status = ucp_rkey_pack(ucx->context, ret_memory->handle, &ret_memory->rkey,
                           &ret_memory->rkey_size);
    if (status != UCS_OK) {
        ucp_mem_unmap(ucx->context, ret_memory->handle);
        return fail(why, "packing the key of memory", status);
    }
    return 0;
}

void am_ucx_unregister(struct am_ucx *ucx, struct am_ucx_memory *memory)
{
    ucp_rkey_buffer_release(memory->rkey);
    ucp_mem_unmap(ucx->context, memory->handle);
}

/* ---- ways ---- */

static int way_compare(const struct am_ucx_way *a, const struct am_ucx_way *b)
{
    return memcmp(a->token, b->token, sizeof a->token);
}

RB_GENERATE_INTERNAL(am_ucx_ways, am_ucx_way, node, way_compare,
                     __attribute__((unused)) static)

struct end {
    void (*broken)(void *arg);
    void *arg;
};

static void end_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct end *end = arg;

    end->broken(end->arg);
}

int am_ucx_connect(struct am_ucx *ucx, struct am_ucx_way *way, const void *address,
                   const uint8_t *token, void (*broken)(void *arg), void *arg, char *why)
{
    struct end *end = malloc(sizeof *end); /* UCX may keep it until the worker is gone */
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = end_failed, .arg = end},
    };
    ucs_status_t status;

    if (end == NULL)
        return fail(why, "connecting", UCS_ERR_NO_MEMORY);
    *end = (struct end){broken, arg};
    ucx->is_out_idle = false;
    status = ucp_ep_create(ucx->out, &params, &way->ep);
    if (status != UCS_OK) {
        free(end);
        return fail(why, "connecting", status);
    }
    memcpy(way->token, token, sizeof way->token);
    way->n_messages = 0;
    TAILQ_INIT(&way->asking);
    RB_INSERT(am_ucx_ways, &ucx->ways, way);
    return 0;
}

/* ---- moves ---- */

static void part_over(struct am_ucx_move *move)
{
    if (--move->n_left == 0)
        move->done(move);
}

/* Word of the move has come, or never will. */
static void ack_end(struct am_ucx_move *move, bool has_come)
{
    TAILQ_REMOVE(&move->asking->asking, move, next);
    move->asking = NULL;
    move->has_failed |= !has_come;
    part_over(move);
}

static void part_done(struct am_ucx_move *move, ucs_status_t status)
{
    if (status != UCS_OK && move->asking != NULL)
        ack_end(move, false);
    move->has_failed |= status != UCS_OK;
    part_over(move);
}

static void part_callback(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    part_done(arg, status);
}

/* The result of a call of UCX for a part. */
static void part_take(struct am_ucx_move *move, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request))
        part_done(move, UCS_PTR_STATUS(request));
    else if (request == NULL)
        part_done(move, UCS_OK);
}

static ucp_request_param_t move_param(struct am_ucx_move *move)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = part_callback,
        .user_data = move,
    };
}

/*
 * Parcels are sent eagerly: a rendezvous would cost a round trip, and copies as often.  UCX
 * writes all but short ones to the socket from where they are.
 */
void am_ucx_put(struct am_ucx *ucx, struct am_ucx_way *way, const struct am_ucx_put *put,
                struct am_ucx_move *move)
{
    ucp_request_param_t param = move_param(move);
    size_t n = am_put_count(put->size);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
    ucx->is_out_idle = false;
    move->n_left = (unsigned)n + put->asks;
    move->has_failed = false;
    move->last = way->n_messages + n;
    move->asking = put->asks ? way : NULL;
    if (put->asks)
        TAILQ_INSERT_TAIL(&way->asking, move, next);
    for (size_t i = 0; i < n; i++) {
        struct am_put_head *head = &put->heads[i];
        size_t at = am_put_at(put->size, i);
        size_t size = am_put_at(put->size, i + 1) - at;

        *head = (struct am_put_head){
            .grant = put->grant,
            .offset = put->offset + at,
            .number = ++way->n_messages,
            .asks = put->asks && i + 1 == n,
        };
        memcpy(head->token, way->token, sizeof head->token);
        part_take(move, ucp_am_send_nbx(way->ep, MESSAGE_PUT, head, sizeof *head,
                                        (const uint8_t *)put->bytes + at, size, &param));
    }
}

void am_ucx_get(struct am_ucx *ucx, struct am_ucx_way *way, ucp_rkey_h rkey,
                uint64_t remote, void *local, size_t size, struct am_ucx_move *move)
{
    ucp_request_param_t param = move_param(move);

    ucx->is_out_idle = false;
    move->n_left = 1;
    move->has_failed = false;
    move->asking = NULL;
    part_take(move, ucp_get_nbx(way->ep, local, size, remote, rkey, &param));
}

void am_ucx_disconnect(struct am_ucx *ucx, struct am_ucx_way *way)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    ucs_status_ptr_t request = ucp_ep_close_nbx(way->ep, &param);
    struct am_ucx_move *move;

    ucx->is_out_idle = false;
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS)
            ucp_worker_progress(ucx->out);
        ucp_request_free(request);
    }
    while ((move = TAILQ_FIRST(&way->asking)) != NULL)
        ack_end(move, false);
    RB_REMOVE(am_ucx_ways, &ucx->ways, way);
}

/* ---- messages ---- */

/* A message whose bytes would have to be fetched is none of ours; UCX drops it. */
static ucs_status_t put_receive(void *arg, const void *head, size_t head_size,
                                void *bytes, size_t size,
                                const ucp_am_recv_param_t *param)
{
    const uint64_t must = UCP_AM_RECV_ATTR_FIELD_REPLY_EP;
    struct am_ucx *ucx = arg;

    if (ucx->parcel != NULL && (param->recv_attr & must) != 0 &&
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0)
        ucx->parcel(ucx->arg, head, head_size, bytes, size, param->reply_ep);
    return UCS_OK;
}

static ucs_status_t ack_receive(void *arg, const void *head, size_t head_size,
                                void *bytes, size_t size,
                                const ucp_am_recv_param_t *param)
{
    struct am_ucx *ucx = arg;
    struct am_ack word;
    struct am_ucx_way key, *way;
    struct am_ucx_move *move;

    if (head_size != sizeof word)
        return UCS_OK;
    memcpy(&word, head, sizeof word);
    memcpy(key.token, word.token, sizeof key.token);
    way = RB_FIND(am_ucx_ways, &ucx->ways, &key);
    while (way != NULL && (move = TAILQ_FIRST(&way->asking)) != NULL &&
           move->last <= word.number)
        ack_end(move, true);
    return UCS_OK;
}

static void ack_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    free(arg);
}

/* An importer that gets no word gives up after its timeout. */
void am_ucx_ack(ucp_ep_h back, const struct am_ack *word)
{
    struct am_ack *head = malloc(sizeof *head); /* until it is sent */
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = ack_sent,
        .user_data = head,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };

    if (head == NULL)
        return;
    *head = *word;
    if (!UCS_PTR_IS_PTR(
            ucp_am_send_nbx(back, MESSAGE_ACK, head, sizeof *head, NULL, 0, &param)))
        free(head);
}
