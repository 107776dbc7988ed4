/* The exporter's records of memory that other machines import. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/registry.h"

#define LEASE 100

static int n_gone;

static void note_gone(void *arg, struct am_registry_export *export)
{
    n_gone++;
}

static void registry_make(struct am_registry *registry)
{
    n_gone = 0;
    am_registry_init(registry, LEASE, note_gone, NULL);
}

static struct am_frame_who who_of(int32_t pid)
{
    struct am_frame_who who = {.pid = pid};

    who.instance[3] = (uint8_t)pid;
    return who;
}

static struct am_importer *enter(struct am_registry *registry, int32_t pid)
{
    struct am_frame_who who = who_of(pid);
    static uint8_t token[AM_TOKEN_SIZE];
    struct am_importer *importer;

    token[0]++; /* each connection's own */
    importer = am_registry_connect(registry, &who, token);
    assert_non_null(importer);
    assert_int_equal(importer->who.pid, pid);
    return importer;
}

static void registry_add(struct am_registry *registry, uint64_t number, bool is_open)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    export->ticket = (struct am_port_ticket){number, {number * 3, number * 5}};
    export->is_open = is_open;
    export->size = 1 << 20;
    export->n_rkey = 10;
    assert_true(am_registry_add(registry, export));
}

static struct am_port_ticket ticket_of(uint64_t number)
{
    return (struct am_port_ticket){number, {number * 3, number * 5}};
}

/* The status, and the number of the grant. */
static int32_t ask(struct am_registry *registry, struct am_importer *importer,
                   struct am_port_ticket ticket, uint64_t *ret_number)
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
    if (grant.grant.status != ACL_SUCCESS) /* nothing is told of it */
        assert_true(grant.grant.address == 0 && grant.grant.n_rkey == 0);
    return grant.grant.status;
}

static void only_the_whole_ticket_opens(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;
    struct am_port_ticket wrong = ticket_of(5);

    registry_make(&registry);
    importer = enter(&registry, 1);
    registry_add(&registry, 5, true);
    assert_int_equal(ask(&registry, importer, ticket_of(5), NULL), ACL_SUCCESS);
    wrong.secret[1] ^= 1;
    assert_int_equal(ask(&registry, importer, wrong, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(ask(&registry, importer, ticket_of(6), NULL),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_registry_remove(&registry, importer);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(n_gone, 1);
}

static void the_list_decides_unless_it_is_open(void **state)
{
    struct am_registry registry;
    struct am_importer *ten, *eleven, *twelve;
    struct am_port_ticket ticket = ticket_of(5);
    int32_t pids[] = {10, 11};

    registry_make(&registry);
    ten = enter(&registry, 10);
    eleven = enter(&registry, 11);
    twelve = enter(&registry, 12);
    registry_add(&registry, 5, false);
    assert_int_equal(ask(&registry, ten, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_registry_trust(&registry, &ticket, pids, 2), 0);
    assert_int_equal(ask(&registry, ten, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&registry, eleven, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&registry, twelve, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    ticket = ticket_of(6);
    assert_int_equal(am_registry_trust(&registry, &ticket, pids, 2), -ENOENT);
    am_registry_remove(&registry, ten);
    am_registry_remove(&registry, eleven);
    am_registry_remove(&registry, twelve);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(n_gone, 1);
}

static void memory_goes_with_the_last_of_exporter_and_importers(void **state)
{
    struct am_registry registry;
    struct am_importer *one, *two;
    uint64_t first, second;

    registry_make(&registry);
    one = enter(&registry, 1);
    two = enter(&registry, 2);
    registry_add(&registry, 5, true);
    assert_int_equal(ask(&registry, one, ticket_of(5), &first), ACL_SUCCESS);
    assert_int_equal(ask(&registry, one, ticket_of(5), &second), ACL_SUCCESS);
    assert_int_equal(ask(&registry, two, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(one->n_grants, 2);
    assert_int_equal(one->n_bytes, 2 << 20);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(ask(&registry, two, ticket_of(5), NULL), ACL_ERROR_RT_NO_PERMISSION);
    am_registry_release(&registry, one, first);
    am_registry_release(&registry, one, first); /* twice is once */
    am_registry_release(&registry, one, 1000);
    assert_int_equal(n_gone, 0);
    am_registry_remove(&registry, two);
    assert_int_equal(n_gone, 0);
    am_registry_release(&registry, one, second);
    assert_int_equal(n_gone, 1);
    assert_int_equal(one->n_grants, 0);
    am_registry_remove(&registry, one);
}

static bool is_known(struct am_importer *importer, uint32_t n_grants)
{
    struct am_frame back = {.kind = AM_FRAME_RECONNECT};
    struct am_frame answer;

    back.back.n_grants = n_grants;
    am_registry_reconnect(importer, &back, &answer);
    assert_int_equal(answer.kind, AM_FRAME_RECONNECT);
    return answer.back.is_known != 0;
}

static void a_guest_that_is_away_keeps_its_memory_for_the_lease(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;
    uint64_t number;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    importer = enter(&registry, 1);
    assert_int_equal(ask(&registry, importer, ticket_of(5), &number), ACL_SUCCESS);
    am_registry_disconnect(&registry, importer, 10);
    am_registry_withdraw(&registry, 5);
    assert_int_equal(registry.n_disconnected, 1);
    assert_int_equal(am_registry_expire(&registry, 10 + LEASE - 1), 0);
    assert_int_equal(n_gone, 0);
    importer = enter(&registry, 1);
    assert_int_equal(registry.n_disconnected, 0);
    assert_true(is_known(importer, 1));
    am_registry_disconnect(&registry, importer, 200);
    assert_int_equal(am_registry_expire(&registry, 200 + LEASE), 1);
    assert_int_equal(n_gone, 1);
    /* It comes too late: it is a new importer, and told so. */
    importer = enter(&registry, 1);
    assert_false(is_known(importer, 1));
    am_registry_remove(&registry, importer);
}

static void a_guest_that_comes_back_without_memory_has_given_it_back(void **state)
{
    struct am_registry registry;
    struct am_importer *importer;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    registry_add(&registry, 6, true);
    importer = enter(&registry, 1);
    assert_int_equal(ask(&registry, importer, ticket_of(5), NULL), ACL_SUCCESS);
    am_registry_withdraw(&registry, 5);
    am_registry_disconnect(&registry, importer, 0);
    importer =
        enter(&registry, 1); /* its process was started again, and knows of no memory */
    assert_int_equal(ask(&registry, importer, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(n_gone, 1);
    am_registry_disconnect(&registry, importer, 0);
    importer = enter(&registry, 1);
    assert_true(is_known(importer, 1));
    assert_int_equal(ask(&registry, importer, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(importer->n_grants, 2);
    am_registry_remove(&registry, importer);
    am_registry_withdraw(&registry, 6);
    assert_int_equal(n_gone, 2);
}

static void a_process_is_away_once(void **state)
{
    struct am_registry registry;
    struct am_importer *one, *again;

    registry_make(&registry);
    registry_add(&registry, 5, true);
    registry_add(&registry, 6, true);
    one = enter(&registry, 1);
    again = enter(&registry, 1); /* it has another connection */
    assert_ptr_not_equal(one, again);
    assert_int_equal(ask(&registry, one, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(ask(&registry, again, ticket_of(6), NULL), ACL_SUCCESS);
    am_registry_withdraw(&registry, 5);
    am_registry_withdraw(&registry, 6);
    am_registry_disconnect(&registry, one, 0);
    am_registry_disconnect(&registry, again, 0);
    assert_int_equal(registry.n_disconnected, 1);
    assert_int_equal(n_gone, 1);
    assert_int_equal(am_registry_expire(&registry, LEASE), 1);
    assert_int_equal(n_gone, 2);
    am_registry_disconnect(&registry, enter(&registry, 2),
                           0); /* it has nothing to come back for */
    assert_int_equal(registry.n_disconnected, 0);
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
    assert_int_equal(n_gone, 1);
}

/* ---- parcels ---- */

#define ROOM 64

/* Memory of ROOM bytes that a importer has. */
struct parcels {
    struct am_registry registry;
    struct am_importer *importer;
    uint8_t memory[ROOM];
    uint64_t grant;
    uint64_t word; /* the last one */
};

static void puts_make(struct parcels *p)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    memset(p, 0, sizeof *p);
    registry_make(&p->registry);
    export->ticket = ticket_of(5);
    export->is_open = true;
    export->size = ROOM;
    export->address = (uintptr_t)p->memory;
    assert_true(am_registry_add(&p->registry, export));
    p->importer = enter(&p->registry, 1);
    assert_int_equal(ask(&p->registry, p->importer, ticket_of(5), &p->grant),
                     ACL_SUCCESS);
}

static void puts_end(struct parcels *p)
{
    am_registry_remove(&p->registry, p->importer);
    am_registry_withdraw(&p->registry, 5);
    assert_int_equal(n_gone, 1);
}

static struct am_put_head head_of(const struct parcels *p, uint64_t number, bool asks)
{
    struct am_put_head parcel = {.grant = p->grant, .number = number, .asks = asks};

    memcpy(parcel.token, p->importer->token, sizeof parcel.token);
    return parcel;
}

static enum am_registry_result put(struct parcels *p, const struct am_put_head *parcel,
                                   const char *bytes)
{
    struct am_importer *importer;
    struct am_ack word = {0};
    enum am_registry_result result = am_registry_put(
        &p->registry, parcel, sizeof *parcel, bytes, strlen(bytes), &importer, &word);

    assert_ptr_equal(importer, result == AM_REGISTRY_UNKNOWN ? NULL : p->importer);
    if (result != AM_REGISTRY_ACK_DUE)
        return result;
    assert_memory_equal(word.token, p->importer->token, sizeof word.token);
    p->word = word.number;
    return result;
}

static void a_parcel_is_written_to_its_place_alone(void **state)
{
    static const uint8_t nothing[ROOM];
    struct parcels p;
    struct am_put_head parcel, wrong;

    puts_make(&p);
    parcel = head_of(&p, 1, false);
    wrong = parcel;
    wrong.grant++;
    assert_int_equal(put(&p, &wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    wrong.grant = 0;
    assert_int_equal(put(&p, &wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    wrong = parcel;
    wrong.offset = ROOM - 2; /* a byte too far */
    assert_int_equal(put(&p, &wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    wrong.offset = ROOM + 1;
    assert_int_equal(put(&p, &wrong, ""), AM_REGISTRY_FORBIDDEN);
    wrong.offset = UINT64_MAX;
    assert_int_equal(put(&p, &wrong, "abc"), AM_REGISTRY_FORBIDDEN);
    assert_memory_equal(p.memory, nothing, ROOM);
    parcel.offset = ROOM - 3;
    assert_int_equal(put(&p, &parcel, "abc"), AM_REGISTRY_WRITTEN);
    assert_memory_equal(p.memory + ROOM - 3, "abc", 3);
    parcel.offset = ROOM; /* no bytes */
    assert_int_equal(put(&p, &parcel, ""), AM_REGISTRY_WRITTEN);
    am_registry_release(&p.registry, p.importer, p.grant);
    assert_int_equal(put(&p, &parcel, ""), AM_REGISTRY_FORBIDDEN);
    puts_end(&p);
}

static void a_parcel_without_the_pass_is_nothing(void **state)
{
    struct am_importer *importer;
    struct am_ack word;
    struct am_put_head parcel, strange;
    struct parcels p;

    puts_make(&p);
    parcel = strange = head_of(&p, 1, true);
    strange.token[AM_TOKEN_SIZE - 1] ^= 1;
    assert_int_equal(put(&p, &strange, "abc"), AM_REGISTRY_UNKNOWN);
    for (size_t size = 0; size < sizeof parcel; size++)
        assert_int_equal(
            am_registry_put(&p.registry, &parcel, size, "", 0, &importer, &word),
            AM_REGISTRY_UNKNOWN);
    am_registry_disconnect(&p.registry, p.importer,
                           0); /* bytes that were under way come too late */
    assert_int_equal(
        am_registry_put(&p.registry, &parcel, sizeof parcel, "abc", 3, &importer, &word),
        AM_REGISTRY_UNKNOWN);
    assert_null(importer);
    assert_ptr_equal(enter(&p.registry, 1), p.importer);
    assert_int_equal(put(&p, &parcel, "abc"),
                     AM_REGISTRY_UNKNOWN); /* of the time before */
    parcel = head_of(&p, 1, true);
    assert_int_equal(put(&p, &parcel, "abc"),
                     AM_REGISTRY_FORBIDDEN); /* what it has is not told */
    assert_int_equal(p.memory[0], 0);
    p.importer->is_reconnecting = false;
    assert_int_equal(put(&p, &parcel, "abc"), AM_REGISTRY_ACK_DUE);
    assert_int_equal(p.word, 1); /* counted from the connection's begin on */
    puts_end(&p);
}

/* Numbers in the order of their arrival, with a + behind one that asks; when there is word. */
static void word_follows(const char *order, const char *words)
{
    struct parcels p;
    char told[16] = "";

    puts_make(&p);
    for (const char *at = order; *at != '\0'; at++) {
        struct am_put_head parcel = head_of(&p, (uint64_t)(*at - '0'), at[1] == '+');

        at += at[1] == '+';
        p.word = 0;
        if (put(&p, &parcel, "") == AM_REGISTRY_ACK_DUE)
            assert_in_range(p.word, 1, 9);
        told[strlen(told)] = p.word == 0 ? '.' : (char)('0' + p.word);
    }
    assert_string_equal(told, words);
    puts_end(&p);
}

static void word_is_sent_when_all_before_have_arrived(void **state)
{
    word_follows("12+34+", ".2.4");
    word_follows("1+2+3+", "123");
    word_follows("2+1", ".2");
    word_follows("24+13", "...4");
    word_follows("2+4+13", "...4"); /* the later one counts for both */
    word_follows("9+12", "...");    /* it never comes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_whole_ticket_opens),
        cmocka_unit_test(the_list_decides_unless_it_is_open),
        cmocka_unit_test(memory_goes_with_the_last_of_exporter_and_importers),
        cmocka_unit_test(a_guest_that_is_away_keeps_its_memory_for_the_lease),
        cmocka_unit_test(a_guest_that_comes_back_without_memory_has_given_it_back),
        cmocka_unit_test(a_process_is_away_once),
        cmocka_unit_test(a_number_is_exported_once),
        cmocka_unit_test(a_parcel_is_written_to_its_place_alone),
        cmocka_unit_test(a_parcel_without_the_pass_is_nothing),
        cmocka_unit_test(word_is_sent_when_all_before_have_arrived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
