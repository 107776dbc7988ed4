/* The export registry: memory that other machines import. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/registry.h"

#define LEASE 100

static int n_freed;

static void note_freed(struct am_registry_export *export)
{
    n_freed++;
}

static void registry_make(struct am_registry *registry)
{
    n_freed = 0;
    am_registry_init(registry, LEASE, note_freed);
}

static struct am_frame_who who_of(int32_t pid)
{
    struct am_frame_who who = {.pid = pid};

    who.instance[3] = (uint8_t)pid;
    return who;
}

static struct am_importer *connect_importer(struct am_registry *registry, int32_t pid)
{
    struct am_frame_who who = who_of(pid);
    static struct am_session session;
    struct am_importer *importer;

    session.token[0]++; /* each connection has another one */
    importer = am_registry_connect(registry, &who, &session);
    assert_non_null(importer);
    assert_int_equal(importer->who.pid, pid);
    return importer;
}

static void registry_add(struct am_registry *registry, uint64_t number, bool is_open)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    export->ticket = (struct am_share_handle){number, {number * 3, number * 5}};
    export->is_open = is_open;
    export->size = 1 << 20;
    assert_true(am_registry_add(registry, export));
}

static struct am_share_handle ticket_of(uint64_t number)
{
    return (struct am_share_handle){number, {number * 3, number * 5}};
}

/* The status, and the number of the grant. */
static int32_t import(struct am_registry *registry, struct am_importer *importer,
                      struct am_share_handle ticket, uint64_t *ret_number)
{
    struct am_frame import = {.kind = AM_FRAME_IMPORT};
    struct am_frame grant;

    import.import.id = 77;
    import.import.ticket = ticket;
    am_registry_import(registry, importer, &import, &grant);
    assert_int_equal(grant.kind, AM_FRAME_GRANT);
    assert_int_equal(grant.grant.id, 77);
    if (ret_number != NULL)
        *ret_number = grant.grant.number;
    if (grant.grant.status != ACL_SUCCESS) /* the reply says nothing about the memory */
        assert_true(grant.grant.number == 0 && grant.grant.size == 0);
    return grant.grant.status;
}

static void only_the_whole_ticket_is_accepted(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;
    struct am_share_handle wrong = ticket_of(5);

    registry_make(&registry);
    importer = connect_importer(&registry, 1);
    registry_add(&registry, 5, true);
    assert_int_equal(import(&registry, importer, ticket_of(5), NULL), ACL_SUCCESS);
    wrong.secret[1] ^= 1;
    assert_int_equal(import(&registry, importer, wrong, NULL),
                     ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(import(&registry, importer, ticket_of(6), NULL),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_registry_remove(&registry, importer);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(n_freed, 1);
}

static void the_list_decides_unless_the_export_is_open(void **state)
{
    struct am_registry registry;
    struct am_importer *ten, *eleven, *twelve;
    struct am_share_handle ticket = ticket_of(5);
    int32_t pids[] = {10, 11};

    registry_make(&registry);
    ten = connect_importer(&registry, 10);
    eleven = connect_importer(&registry, 11);
    twelve = connect_importer(&registry, 12);
    registry_add(&registry, 5, false);
    assert_int_equal(import(&registry, ten, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_registry_trust(&registry, &ticket, pids, 2), 0);
    assert_int_equal(import(&registry, ten, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(import(&registry, eleven, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(import(&registry, twelve, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    ticket = ticket_of(6);
    assert_int_equal(am_registry_trust(&registry, &ticket, pids, 2), -ENOENT);
    am_registry_remove(&registry, ten);
    am_registry_remove(&registry, eleven);
    am_registry_remove(&registry, twelve);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(n_freed, 1);
}

static void memory_is_freed_by_the_last_of_exporter_and_importers(void **state)
{
    struct am_registry registry;
    struct am_importer *one, *two;
    uint64_t first, second;

    registry_make(&registry);
    one = connect_importer(&registry, 1);
    two = connect_importer(&registry, 2);
    registry_add(&registry, 5, true);
    assert_int_equal(import(&registry, one, ticket_of(5), &first), ACL_SUCCESS);
    assert_int_equal(import(&registry, one, ticket_of(5), &second), ACL_SUCCESS);
    assert_int_equal(import(&registry, two, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(one->n_grants, 2);
    assert_int_equal(one->n_bytes, 2 << 20);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(import(&registry, two, ticket_of(5), NULL),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_registry_release(one, first);
    am_registry_release(one, first); /* twice is once */
    am_registry_release(one, 1000);
    assert_int_equal(n_freed, 0);
    am_registry_remove(&registry, two);
    assert_int_equal(n_freed, 0);
    am_registry_release(one, second);
    assert_int_equal(n_freed, 1);
    assert_int_equal(one->n_grants, 0);
    am_registry_remove(&registry, one);
}

static bool is_known(struct am_importer *importer, uint32_t n_grants)
{
    struct am_frame back = {.kind = AM_FRAME_RECONNECT};
    struct am_frame answer;

    back.reconnect.n_grants = n_grants;
    am_registry_reconnect(importer, &back, &answer);
    assert_int_equal(answer.kind, AM_FRAME_RECONNECT);
    return answer.reconnect.is_known != 0;
}

static void a_disconnected_importer_keeps_its_grants_for_the_lease(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;
    uint64_t number;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    importer = connect_importer(&registry, 1);
    assert_int_equal(import(&registry, importer, ticket_of(5), &number), ACL_SUCCESS);
    am_registry_disconnect(&registry, importer, 10);
    am_registry_withdraw(&registry, 5);
    am_registry_expire(&registry, 10 + LEASE - 1);
    assert_false(TAILQ_EMPTY(&registry.leases));
    assert_int_equal(n_freed, 0);
    importer = connect_importer(&registry, 1);
    assert_true(TAILQ_EMPTY(&registry.leases));
    assert_true(is_known(importer, 1));
    am_registry_disconnect(&registry, importer, 200);
    am_registry_expire(&registry, 200 + LEASE);
    assert_true(TAILQ_EMPTY(&registry.leases));
    assert_int_equal(n_freed, 1);
    /* Too late: it is a new importer, and the reply says so. */
    importer = connect_importer(&registry, 1);
    assert_false(is_known(importer, 1));
    am_registry_remove(&registry, importer);
}

static void an_importer_that_reconnects_without_grants_has_released_them(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    registry_add(&registry, 6, true);
    importer = connect_importer(&registry, 1);
    assert_int_equal(import(&registry, importer, ticket_of(5), NULL), ACL_SUCCESS);
    am_registry_withdraw(&registry, 5);
    am_registry_disconnect(&registry, importer, 0);
    importer = connect_importer(
        &registry, 1); /* its process was started again, and knows of no memory */
    assert_int_equal(import(&registry, importer, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(n_freed, 1);
    am_registry_disconnect(&registry, importer, 0);
    importer = connect_importer(&registry, 1);
    assert_true(is_known(importer, 1));
    assert_int_equal(import(&registry, importer, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(importer->n_grants, 2);
    am_registry_remove(&registry, importer);
    am_registry_withdraw(&registry, 6);
    assert_int_equal(n_freed, 2);
}

static void a_process_is_disconnected_once(void **state)
{
    struct am_registry registry;
    struct am_importer *one, *again;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    registry_add(&registry, 6, true);
    one = connect_importer(&registry, 1);
    again = connect_importer(&registry, 1); /* it has another connection */
    assert_ptr_not_equal(one, again);
    assert_int_equal(import(&registry, one, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(import(&registry, again, ticket_of(6), NULL), ACL_SUCCESS);
    am_registry_withdraw(&registry, 5);
    am_registry_withdraw(&registry, 6);
    am_registry_disconnect(&registry, one, 0);
    am_registry_disconnect(&registry, again, 0);
    assert_int_equal(n_freed, 1);
    am_registry_expire(&registry, LEASE);
    assert_int_equal(n_freed, 2);
    am_registry_disconnect(&registry, connect_importer(&registry, 2),
                           0); /* it has nothing to come back for */
    assert_true(TAILQ_EMPTY(&registry.leases));
}

static void a_number_is_exported_once(void **state)
{
    struct am_registry registry;
    struct am_registry_export again = {.ticket.number = 5};

    registry_make(&registry);
    registry_add(&registry, 5, true);
    assert_false(am_registry_add(&registry, &again));
    am_registry_withdraw(&registry, 5);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(n_freed, 1);
}

/* ---- messages ---- */

#define ROOM 64

/* Memory of ROOM bytes that an importer has, and the importer's side of the session. */
struct fixture {
    struct am_registry registry;
    struct am_importer *importer;
    struct am_session session;
    uint8_t memory[ROOM];
    uint64_t grant;
};

static void fixture_make(struct fixture *f)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    memset(f, 0, sizeof *f);
    registry_make(&f->registry);
    export->ticket = ticket_of(5);
    export->is_open = true;
    export->size = ROOM;
    export->address = f->memory;
    assert_true(am_registry_add(&f->registry, export));
    f->importer = connect_importer(&f->registry, 1);
    f->session = f->importer->session;
    assert_int_equal(import(&f->registry, f->importer, ticket_of(5), &f->grant),
                     ACL_SUCCESS);
}

static void fixture_end(struct fixture *f)
{
    am_registry_remove(&f->registry, f->importer);
    am_registry_withdraw(&f->registry, 5);
    assert_int_equal(n_freed, 1);
}

static struct am_message put_of(const struct fixture *f, uint64_t offset,
                                const char *bytes)
{
    return (struct am_message){
        .kind = AM_MESSAGE_PUT,
        .grant = f->grant,
        .offset = offset,
        .size = (uint32_t)strlen(bytes),
    };
}

/* Delivers a message that is sealed. */
static enum am_registry_result
deliver(struct fixture *f, const struct am_message *message, const char *bytes)
{
    struct am_importer *importer;
    struct am_registry_export *export;
    struct am_message get;
    enum am_registry_result result =
        am_registry_receive(&f->registry, message, sizeof *message, bytes, strlen(bytes),
                            &importer, &get, &export);

    assert_ptr_equal(importer, result == AM_REGISTRY_INVALID ? NULL : f->importer);
    if (result == AM_REGISTRY_DATA_DUE) {
        assert_memory_equal(&get, message, sizeof get);
        am_registry_unref(export);
    }
    return result;
}

static enum am_registry_result put(struct fixture *f, struct am_message message,
                                   const char *bytes)
{
    am_message_seal(&f->session, &message);
    return deliver(f, &message, bytes);
}

static void a_put_is_written_to_granted_memory_only(void **state)
{
    static const uint8_t nothing[ROOM];
    struct am_message wrong;
    struct fixture f;

    fixture_make(&f);
    wrong = put_of(&f, 0, "abc");
    wrong.grant++;
    assert_int_equal(put(&f, wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    wrong.grant = 0;
    assert_int_equal(put(&f, wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    assert_int_equal(put(&f, put_of(&f, ROOM - 2, "abc"), "abc"), AM_REGISTRY_FORBIDDEN);
    assert_int_equal(put(&f, put_of(&f, ROOM + 1, ""), ""), AM_REGISTRY_FORBIDDEN);
    assert_int_equal(put(&f, put_of(&f, UINT64_MAX, "abc"), "abc"),
                     AM_REGISTRY_FORBIDDEN);
    assert_memory_equal(f.memory, nothing, ROOM);
    assert_int_equal(put(&f, put_of(&f, ROOM - 3, "abc"), "abc"), AM_REGISTRY_DONE);
    assert_memory_equal(f.memory + ROOM - 3, "abc", 3);
    assert_int_equal(put(&f, put_of(&f, ROOM, ""), ""), AM_REGISTRY_DONE);
    am_registry_release(f.importer, f.grant);
    assert_int_equal(put(&f, put_of(&f, 0, ""), ""), AM_REGISTRY_FORBIDDEN);
    fixture_end(&f);
}

static void a_get_reads_granted_memory_only(void **state)
{
    struct am_message get, data = {.kind = AM_MESSAGE_DATA};
    struct fixture f;

    fixture_make(&f);
    get = (struct am_message){.kind = AM_MESSAGE_GET, .grant = f.grant, .size = ROOM};
    assert_int_equal(put(&f, get, ""), AM_REGISTRY_DATA_DUE);
    get.offset = 1;
    assert_int_equal(put(&f, get, ""), AM_REGISTRY_FORBIDDEN);
    get.size = UINT32_MAX;
    assert_int_equal(put(&f, get, ""), AM_REGISTRY_FORBIDDEN);
    data.grant = f.grant;
    assert_int_equal(put(&f, data, ""), AM_REGISTRY_FORBIDDEN); /* not a request */
    fixture_end(&f);
}

/* An export that is withdrawn is freed when the reply to a get was sent. */
static void memory_stays_until_a_reply_is_sent(void **state)
{
    struct am_registry_export *export;
    struct am_importer *importer;
    struct am_message get;
    struct fixture f;

    fixture_make(&f);
    get = (struct am_message){.kind = AM_MESSAGE_GET, .grant = f.grant, .size = ROOM};
    am_message_seal(&f.session, &get);
    assert_int_equal(am_registry_receive(&f.registry, &get, sizeof get, "", 0, &importer,
                                         &get, &export),
                     AM_REGISTRY_DATA_DUE);
    am_registry_remove(&f.registry, f.importer);
    am_registry_withdraw(&f.registry, 5);
    assert_int_equal(n_freed, 0);
    am_registry_unref(export);
    assert_int_equal(n_freed, 1);
}

static void a_message_of_another_session_is_ignored(void **state)
{
    struct am_registry_export *export;
    struct am_importer *importer;
    struct am_message message, wrong, get;
    struct fixture f;

    fixture_make(&f);
    message = put_of(&f, 0, "abc");
    am_message_seal(&f.session, &message);
    wrong = message;
    wrong.token[AM_TOKEN_SIZE - 1] ^= 1;
    assert_int_equal(deliver(&f, &wrong, "abc"), AM_REGISTRY_INVALID);
    wrong = message; /* the right token, without the key */
    wrong.offset = 8;
    assert_int_equal(deliver(&f, &wrong, "abc"), AM_REGISTRY_INVALID);
    for (size_t size = 0; size < sizeof message; size++)
        assert_int_equal(am_registry_receive(&f.registry, &message, size, "", 0,
                                             &importer, &get, &export),
                         AM_REGISTRY_INVALID);
    am_registry_disconnect(&f.registry, f.importer, 0); /* the message arrives late */
    assert_int_equal(am_registry_receive(&f.registry, &message, sizeof message, "abc", 3,
                                         &importer, &get, &export),
                     AM_REGISTRY_INVALID);
    assert_ptr_equal(connect_importer(&f.registry, 1), f.importer);
    f.session = f.importer->session;
    assert_int_equal(deliver(&f, &message, "abc"), AM_REGISTRY_INVALID);
    /* The importer has not reported its grants yet. */
    assert_int_equal(put(&f, put_of(&f, 0, "abc"), "abc"), AM_REGISTRY_FORBIDDEN);
    assert_int_equal(f.memory[0], 0);
    f.importer->is_reconnecting = false;
    assert_int_equal(put(&f, put_of(&f, 0, "abc"), "abc"), AM_REGISTRY_DONE);
    assert_int_equal(f.memory[0], 'a');
    fixture_end(&f);
}

static void a_repeated_put_is_not_written_again(void **state)
{
    struct am_message first;
    struct fixture f;

    fixture_make(&f);
    first = put_of(&f, 0, "old");
    am_message_seal(&f.session, &first);
    assert_int_equal(deliver(&f, &first, "old"), AM_REGISTRY_DONE);
    assert_int_equal(put(&f, put_of(&f, 0, "new"), "new"), AM_REGISTRY_DONE);
    assert_int_equal(deliver(&f, &first, "old"), AM_REGISTRY_INVALID);
    assert_memory_equal(f.memory, "new", 3);
    fixture_end(&f);
}

/* Numbers in the order of their arrival, + after one that wants an ACK; the ACKs. */
static void acks_follow(const char *order, const char *acks)
{
    struct am_message message[10], ack;
    struct am_session exporter;
    struct fixture f;
    char sent[16] = "";

    fixture_make(&f);
    for (size_t i = 1; i < 10; i++) {
        const char *at = strchr(order, (int)('0' + i));

        message[i] = put_of(&f, 0, "");
        message[i].reference = at != NULL && at[1] == '+';
        am_message_seal(&f.session, &message[i]);
    }
    exporter = f.session;
    for (const char *at = order; *at != '\0'; at++) {
        if (*at == '+')
            continue;
        assert_int_equal(deliver(&f, &message[*at - '0'], ""), AM_REGISTRY_DONE);
        if (am_registry_ack(f.importer, &ack)) {
            assert_int_equal(ack.kind, AM_MESSAGE_ACK);
            assert_true(am_message_open(&exporter, &ack, 0));
            sent[strlen(sent)] = (char)('0' + ack.reference);
        } else {
            sent[strlen(sent)] = '.';
        }
    }
    assert_string_equal(sent, acks);
    fixture_end(&f);
}

static void an_ack_is_sent_when_all_before_have_arrived(void **state)
{
    acks_follow("12+34+", ".2.4");
    acks_follow("1+2+3+", "123");
    acks_follow("2+1", ".2");
    acks_follow("24+13", "...4");
    acks_follow("2+4+13", "...4"); /* one ACK for both */
    acks_follow("9+12", "...");    /* the others do not arrive */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_whole_ticket_is_accepted),
        cmocka_unit_test(the_list_decides_unless_the_export_is_open),
        cmocka_unit_test(memory_is_freed_by_the_last_of_exporter_and_importers),
        cmocka_unit_test(a_disconnected_importer_keeps_its_grants_for_the_lease),
        cmocka_unit_test(an_importer_that_reconnects_without_grants_has_released_them),
        cmocka_unit_test(a_process_is_disconnected_once),
        cmocka_unit_test(a_number_is_exported_once),
        cmocka_unit_test(a_put_is_written_to_granted_memory_only),
        cmocka_unit_test(a_get_reads_granted_memory_only),
        cmocka_unit_test(memory_stays_until_a_reply_is_sent),
        cmocka_unit_test(a_message_of_another_session_is_ignored),
        cmocka_unit_test(a_repeated_put_is_not_written_again),
        cmocka_unit_test(an_ack_is_sent_when_all_before_have_arrived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
