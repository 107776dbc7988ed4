/* See registry.h. */
#include "fabric/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/tree.h"
#include "base/util.h"

AM_TREE(am_registry_exports, am_registry_export, node, ticket.number)
AM_TREE(am_registry_grants, am_registry_grant, node, number)
AM_TREE_BYTES(am_registry_tokens, am_importer, node, session.token)

void am_registry_init(struct am_registry *registry, uint64_t lease_ns,
                      void (*freed)(struct am_registry_export *export))
{
    *registry = (struct am_registry){.lease_ns = lease_ns, .freed = freed};
    TAILQ_INIT(&registry->leases);
}

/* ---- exports ---- */

static struct am_registry_export *export_find(struct am_registry *registry,
                                              const struct am_share_handle *ticket)
{
    struct am_registry_export key = {.ticket.number = ticket->number};
    struct am_registry_export *export =
        RB_FIND(am_registry_exports, &registry->exports, &key);

    return export != NULL && am_secret_is_equal(&export->ticket, ticket) ? export : NULL;
}

static void export_free_unused(struct am_registry_export *export)
{
    struct am_registry *registry = export->registry;

    if (!export->is_withdrawn || export->n_refs > 0)
        return;
    RB_REMOVE(am_registry_exports, &registry->exports, export);
    registry->freed(export);
    free(export->pids);
    free(export);
}

void am_registry_unref(struct am_registry_export *export)
{
    export->n_refs--;
    export_free_unused(export);
}

bool am_registry_add(struct am_registry *registry, struct am_registry_export *export)
{
    export->registry = registry;
    return RB_INSERT(am_registry_exports, &registry->exports, export) == NULL;
}

int am_registry_trust(struct am_registry *registry, const struct am_share_handle *ticket,
                      const int32_t *pids, size_t n)
{
    struct am_registry_export *export = export_find(registry, ticket);
    int32_t *list;

    if (export == NULL)
        return -ENOENT;
    list = realloc(export->pids, (export->n_pids + n) * sizeof *list);
    if (list == NULL)
        return -ENOMEM;
    memcpy(list + export->n_pids, pids, n * sizeof *list);
    export->pids = list;
    export->n_pids += n;
    return 0;
}

void am_registry_withdraw(struct am_registry *registry, uint64_t number)
{
    struct am_registry_export key = {.ticket.number = number};
    struct am_registry_export *export =
        RB_FIND(am_registry_exports, &registry->exports, &key);

    if (export == NULL)
        return;
    export->is_withdrawn = true;
    export_free_unused(export);
}

static bool export_admits(const struct am_registry_export *export, int32_t pid)
{
    if (export->is_withdrawn)
        return false;
    if (export->is_open)
        return true;
    for (size_t i = 0; i < export->n_pids; i++) {
        if (export->pids[i] == pid)
            return true;
    }
    return false;
}

/* ---- grants ---- */

static void grant_end(struct am_importer *importer, struct am_registry_grant *grant)
{
    struct am_registry_export *export = grant->export;

    RB_REMOVE(am_registry_grants, &importer->grants, grant);
    importer->n_grants--;
    importer->n_bytes -= export->size;
    free(grant);
    am_registry_unref(export);
}

static void grants_end(struct am_importer *importer)
{
    struct am_registry_grant *grant;

    while ((grant = RB_MIN(am_registry_grants, &importer->grants)) != NULL)
        grant_end(importer, grant);
}

void am_registry_import(struct am_registry *registry, struct am_importer *importer,
                        const struct am_frame *import, struct am_frame *ret_grant)
{
    struct am_registry_export *export;
    struct am_registry_grant *grant;

    if (importer->is_reconnecting)
        grants_end(importer);
    importer->is_reconnecting = false;
    export = export_find(registry, &import->import.ticket);
    memset(ret_grant, 0, sizeof *ret_grant);
    ret_grant->kind = AM_FRAME_GRANT;
    ret_grant->grant.id = import->import.id;
    ret_grant->grant.status = ACL_ERROR_RT_NO_PERMISSION;
    if (export == NULL || !export_admits(export, importer->who.pid))
        return;
    grant = malloc(sizeof *grant);
    if (grant == NULL) {
        ret_grant->grant.status = ACL_ERROR_BAD_ALLOC;
        return;
    }
    export->n_refs++;
    importer->n_grants++;
    importer->n_bytes += export->size;
    *grant = (struct am_registry_grant){.export = export, .number = ++importer->n_ever};
    RB_INSERT(am_registry_grants, &importer->grants, grant);
    ret_grant->grant.status = ACL_SUCCESS;
    ret_grant->grant.number = grant->number;
    ret_grant->grant.size = export->size;
    ret_grant->grant.n_bytes = export->n_bytes;
    memcpy(ret_grant->grant.bytes, export->bytes, export->n_bytes);
}

void am_registry_release(struct am_importer *importer, uint64_t number)
{
    struct am_registry_grant key = {.number = number};
    struct am_registry_grant *grant =
        RB_FIND(am_registry_grants, &importer->grants, &key);

    if (grant != NULL)
        grant_end(importer, grant);
}

/* ---- messages ---- */

/* The export that the message accesses; NULL: the importer may not access that range. */
static struct am_registry_export *message_export(struct am_importer *importer,
                                                 const struct am_message *message)
{
    struct am_registry_grant key = {.number = message->grant};
    struct am_registry_grant *grant =
        RB_FIND(am_registry_grants, &importer->grants, &key);

    if (grant == NULL || importer->is_reconnecting ||
        !am_is_within(grant->export->size, message->offset, message->size))
        return NULL;
    return grant->export;
}

static struct am_importer *importer_find(struct am_registry *registry,
                                         const struct am_message *message, size_t size)
{
    struct am_importer key, *importer;

    memcpy(key.session.token, message->token, sizeof message->token);
    importer = RB_FIND(am_registry_tokens, &registry->connected, &key);
    if (importer == NULL || !am_message_open(&importer->session, message, size))
        return NULL;
    return importer;
}

enum am_registry_result
am_registry_receive(struct am_registry *registry, const void *head, size_t head_size,
                    const void *bytes, size_t size, struct am_importer **ret_importer,
                    struct am_message *ret_get, struct am_registry_export **ret_export)
{
    struct am_importer *importer = NULL;
    struct am_registry_export *export;
    struct am_message message;

    if (head_size == sizeof message) {
        memcpy(&message, head, sizeof message);
        importer = importer_find(registry, &message, size);
    }
    *ret_importer = importer;
    if (importer == NULL)
        return AM_REGISTRY_INVALID;
    export = message_export(importer, &message);
    if (export == NULL ||
        (message.kind != AM_MESSAGE_PUT && message.kind != AM_MESSAGE_GET))
        return AM_REGISTRY_FORBIDDEN;
    if (message.kind == AM_MESSAGE_GET) {
        export->n_refs++;
        *ret_export = export;
        *ret_get = message;
        return AM_REGISTRY_DATA_DUE;
    }
    if (size > 0)
        memcpy(export->address + message.offset, bytes, size);
    if (message.reference != 0 && message.number > importer->ack_at)
        importer->ack_at = message.number;
    return AM_REGISTRY_DONE;
}

bool am_registry_ack(struct am_importer *importer, struct am_message *ret_ack)
{
    if (importer->ack_at == 0 || importer->session.n_received < importer->ack_at)
        return false;
    importer->ack_at = 0;
    *ret_ack = (struct am_message){
        .kind = AM_MESSAGE_ACK,
        .reference = importer->session.n_received,
    };
    am_message_seal(&importer->session, ret_ack);
    return true;
}

/* ---- importers ---- */

static struct am_importer *disconnected_find(struct am_registry *registry,
                                             const struct am_frame_who *who)
{
    struct am_importer *importer;

    TAILQ_FOREACH (importer, &registry->leases, next) {
        if (memcmp(importer->who.instance, who->instance, sizeof who->instance) == 0)
            break;
    }
    return importer;
}

struct am_importer *am_registry_connect(struct am_registry *registry,
                                        const struct am_frame_who *who,
                                        const struct am_session *session)
{
    struct am_importer *importer = disconnected_find(registry, who);

    if (importer != NULL) {
        TAILQ_REMOVE(&registry->leases, importer, next);
        importer->is_reconnecting = true;
    } else {
        importer = calloc(1, sizeof *importer);
        if (importer == NULL)
            return NULL;
        importer->who = *who;
    }
    importer->session = *session;
    importer->ack_at = 0;
    RB_INSERT(am_registry_tokens, &registry->connected, importer);
    return importer;
}

static void importer_end(struct am_importer *importer)
{
    grants_end(importer);
    free(importer);
}

void am_registry_remove(struct am_registry *registry, struct am_importer *importer)
{
    RB_REMOVE(am_registry_tokens, &registry->connected, importer);
    importer_end(importer);
}

void am_registry_disconnect(struct am_registry *registry, struct am_importer *importer,
                            uint64_t now)
{
    struct am_importer *other = disconnected_find(registry, &importer->who);

    if (importer->n_grants == 0) {
        am_registry_remove(registry, importer);
        return;
    }
    RB_REMOVE(am_registry_tokens, &registry->connected, importer);
    /* No honest process has two connections: the older one is not known to it any more. */
    if (other != NULL) {
        TAILQ_REMOVE(&registry->leases, other, next);
        importer_end(other);
    }
    importer->until = now + registry->lease_ns;
    TAILQ_INSERT_TAIL(&registry->leases, importer, next);
}

void am_registry_expire(struct am_registry *registry, uint64_t now)
{
    struct am_importer *importer;

    while ((importer = TAILQ_FIRST(&registry->leases)) != NULL &&
           importer->until <= now) {
        TAILQ_REMOVE(&registry->leases, importer, next);
        importer_end(importer);
    }
}

void am_registry_reconnect(struct am_importer *importer, const struct am_frame *request,
                           struct am_frame *ret_reply)
{
    importer->is_reconnecting = false;
    memset(ret_reply, 0, sizeof *ret_reply);
    ret_reply->kind = AM_FRAME_RECONNECT;
    ret_reply->reconnect.n_grants = importer->n_grants;
    ret_reply->reconnect.is_known = importer->n_grants == request->reconnect.n_grants;
}
