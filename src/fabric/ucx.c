/* See ucx.h. */
#include "fabric/ucx.h"
#include "base/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum am_id {
    ID_REQUEST = 1, /* to the worker of exports */
    ID_REPLY,       /* to the worker of imports */
};

static int fail(char *why, const char *what, ucs_status_t status)
{
    snprintf(why, AM_UCX_WHY, "UCX: %s: %s", what, ucs_status_string(status));
    return -1;
}

/* ---- endpoints ---- */

AM_TREE_BYTES(am_ucx_endpoints, am_ucx_endpoint, node, session.token)

struct failure {
    void (*broken)(void *arg);
    void *arg;
};

static void endpoint_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct failure *failure = arg;

    failure->broken(failure->arg);
}

int am_ucx_connect(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                   const void *address, const struct am_session *session,
                   void (*broken)(void *arg), void *arg, char *why)
{
    struct failure *failure = malloc(sizeof *failure); /* UCX may use it until it ends */
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = endpoint_failed, .arg = failure},
    };
    ucs_status_t status;

    if (failure == NULL)
        return fail(why, "connecting", UCS_ERR_NO_MEMORY);
    *failure = (struct failure){broken, arg};
    ucx->is_out_idle = false;
    status = ucp_ep_create(ucx->out, &params, &endpoint->ep);
    if (status != UCS_OK) {
        free(failure);
        return fail(why, "connecting", status);
    }
    endpoint->session = *session;
    TAILQ_INIT(&endpoint->waiting);
    RB_INSERT(am_ucx_endpoints, &ucx->endpoints, endpoint);
    return 0;
}

/* ---- moves ---- */

static void part_over(struct am_ucx_move *move)
{
    if (--move->n_left == 0)
        move->done(move);
}

/* The reply has arrived, or will not arrive. */
static void wait_over(struct am_ucx_move *move, bool has_arrived)
{
    TAILQ_REMOVE(&move->waiting->waiting, move, next);
    move->waiting = NULL;
    move->has_failed |= !has_arrived;
    part_over(move);
}

static void part_sent(struct am_ucx_move *move, ucs_status_t status)
{
    if (status != UCS_OK && move->waiting != NULL)
        wait_over(move, false);
    move->has_failed |= status != UCS_OK;
    part_over(move);
}

static void part_callback(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    part_sent(arg, status);
}

static void move_begin(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                       struct am_ucx_move *move, size_t n_messages)
{
    ucx->is_out_idle = false;
    move->n_left = (unsigned)n_messages + 1;
    move->has_failed = false;
    move->number = endpoint->session.n_sent + n_messages;
    move->waiting = endpoint;
    TAILQ_INSERT_TAIL(&endpoint->waiting, move, next);
}

/*
 * Messages are sent eagerly: a rendezvous would cost a round trip, and as many copies.  UCX
 * writes all but short ones to the socket without a copy.
 */
static void part_send(struct am_ucx_endpoint *endpoint, struct am_ucx_move *move,
                      struct am_message *head, const void *bytes, size_t size)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = part_callback,
        .user_data = move,
        .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY,
    };
    ucs_status_ptr_t request;

    am_message_seal(&endpoint->session, head);
    request = ucp_am_send_nbx(endpoint->ep, ID_REQUEST, head, sizeof *head, bytes, size,
                              &param);
    if (!UCS_PTR_IS_PTR(request))
        part_sent(move, UCS_PTR_RAW_STATUS(request));
}

void am_ucx_put(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                const struct am_ucx_range *range, struct am_message *heads,
                struct am_ucx_move *move)
{
    size_t n = am_message_count(range->size);

    move->to = NULL;
    move_begin(ucx, endpoint, move, n);
    for (size_t i = 0; i < n; i++) {
        size_t at = am_message_at(range->size, i);
        size_t size = am_message_at(range->size, i + 1) - at;

        heads[i] = (struct am_message){
            .kind = AM_MESSAGE_PUT,
            .grant = range->grant,
            .offset = range->offset + at,
            .size = (uint32_t)size,
            .reference = i + 1 == n,
        };
        part_send(endpoint, move, &heads[i], range->bytes + at, size);
    }
}

void am_ucx_get(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                const struct am_ucx_range *range, struct am_message *head,
                struct am_ucx_move *move)
{
    move->to = range->bytes;
    move->size = move->left = range->size;
    move_begin(ucx, endpoint, move, 1);
    *head = (struct am_message){
        .kind = AM_MESSAGE_GET,
        .grant = range->grant,
        .offset = range->offset,
        .size = (uint32_t)range->size,
    };
    part_send(endpoint, move, head, NULL, 0);
}

void am_ucx_disconnect(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint->ep, &param);
    struct am_ucx_move *move;

    ucx->is_out_idle = false;
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS)
            ucp_worker_progress(ucx->out);
        ucp_request_free(request);
    }
    while ((move = TAILQ_FIRST(&endpoint->waiting)) != NULL)
        wait_over(move, false);
    RB_REMOVE(am_ucx_endpoints, &ucx->endpoints, endpoint);
}

/* ---- messages ---- */

/* UCX drops a message whose bytes would have to be fetched: aclmem sends none. */
static ucs_status_t request_receive(void *arg, const void *head, size_t head_size,
                                    void *bytes, size_t size,
                                    const ucp_am_recv_param_t *param)
{
    struct am_ucx *ucx = arg;

    if (ucx->receive != NULL &&
        (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0)
        ucx->receive(head, head_size, bytes, size, param->reply_ep);
    return UCS_OK;
}

/* Bytes of a get. */
static void data_take(struct am_ucx_move *move, const struct am_message *message,
                      const void *bytes)
{
    if (message->size > move->left || message->offset > move->size - message->size)
        return;
    if (message->size > 0)
        memcpy(move->to + message->offset, bytes, message->size);
    move->left -= message->size;
    if (move->left == 0)
        wait_over(move, true);
}

static ucs_status_t reply_receive(void *arg, const void *head, size_t head_size,
                                  void *bytes, size_t size,
                                  const ucp_am_recv_param_t *param)
{
    struct am_ucx *ucx = arg;
    struct am_ucx_endpoint key, *endpoint;
    struct am_ucx_move *move, *next;
    struct am_message message;

    if (head_size != sizeof message ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    memcpy(&message, head, sizeof message);
    memcpy(key.session.token, message.token, sizeof message.token);
    endpoint = RB_FIND(am_ucx_endpoints, &ucx->endpoints, &key);
    if (endpoint == NULL || !am_message_open(&endpoint->session, &message, size))
        return UCS_OK;
    for (move = TAILQ_FIRST(&endpoint->waiting); move != NULL; move = next) {
        next = TAILQ_NEXT(move, next);
        if (message.kind == AM_MESSAGE_ACK && move->to == NULL &&
            move->number <= message.reference)
            wait_over(move, true);
        else if (message.kind == AM_MESSAGE_DATA && move->to != NULL &&
                 move->number == message.reference)
            data_take(move, &message, bytes);
    }
    return UCS_OK;
}

struct reply {
    struct am_message head;
    void (*sent)(void *arg);
    void *arg;
};

static void reply_over(struct reply *reply)
{
    if (reply->sent != NULL)
        reply->sent(reply->arg);
    free(reply);
}

static void reply_callback(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    reply_over(arg);
}

/* An importer that does not get its reply fails after its timeout. */
void am_ucx_reply(ucp_ep_h importer, const struct am_message *message, const void *bytes,
                  void (*sent)(void *arg), void *arg)
{
    struct reply *reply = malloc(sizeof *reply);
    size_t size = message->kind == AM_MESSAGE_DATA ? message->size : 0;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = reply_callback,
        .user_data = reply,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };

    if (reply == NULL) {
        if (sent != NULL)
            sent(arg);
        return;
    }
    *reply = (struct reply){*message, sent, arg};
    if (!UCS_PTR_IS_PTR(ucp_am_send_nbx(importer, ID_REPLY, &reply->head,
                                        sizeof reply->head, bytes, size, &param)))
        reply_over(reply);
}

/* ---- the workers ---- */

/*
 * Segments of 64 KB and 132 KB double the rate of TCP, compared with UCX's 8 KB; a message
 * and its head are received at once.  A blocking connect() would delay heartbeats and
 * timeouts.  A variable that is set in the environment takes precedence.
 * ucp_config_modify() does not work here: UCX reads the settings of its transports from the
 * environment only.
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
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
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

/* A worker that receives messages of one id, and its descriptor. */
static ucs_status_t worker_make(struct am_ucx *ucx, enum am_id id,
                                ucp_am_recv_callback_t receive, ucp_worker_h *ret_worker,
                                int *ret_fd)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .cb = receive,
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
    status = worker_make(ucx, ID_REQUEST, request_receive, &ucx->worker, &ucx->fd);
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
        worker_make(ucx, ID_REPLY, reply_receive, &ucx->out, &ucx->out_fd);

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
