/* The exporter's books of memory that other machines import. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/desk.h"

#define LEASE 100

static int n_gone;

static void note_gone(void *arg, struct am_desk_export *export)
{
    n_gone++;
}

static void desk_make(struct am_desk *desk)
{
    n_gone = 0;
    am_desk_init(desk, LEASE, note_gone, NULL);
}

static struct am_frame_who who_of(int32_t pid)
{
    struct am_frame_who who = {.pid = pid};

    who.instance[3] = (uint8_t)pid;
    return who;
}

static struct am_desk_guest *enter(struct am_desk *desk, int32_t pid)
{
    struct am_frame_who who = who_of(pid);
    static uint8_t pass[AM_PARCEL_PASS];
    struct am_desk_guest *guest;

    pass[0]++; /* each connection's own */
    guest = am_desk_enter(desk, &who, pass);
    assert_non_null(guest);
    assert_int_equal(guest->who.pid, pid);
    return guest;
}

static void desk_add(struct am_desk *desk, uint64_t number, bool is_open)
{
    struct am_desk_export *export = calloc(1, sizeof *export);

    export->ticket = (struct am_port_ticket){number, {number * 3, number * 5}};
    export->is_open = is_open;
    export->size = 1 << 20;
    export->n_rkey = 10;
    assert_true(am_desk_add(desk, export));
}

static struct am_port_ticket ticket_of(uint64_t number)
{
    return (struct am_port_ticket){number, {number * 3, number * 5}};
}

/* The status, and the number of the grant. */
static int32_t ask(struct am_desk *desk, struct am_desk_guest *guest,
                   struct am_port_ticket ticket, uint64_t *ret_number)
{
    struct am_frame import = {.kind = AM_FRAME_IMPORT};
    struct am_frame grant;

    import.import.id = 77;
    import.import.ticket = ticket;
    am_desk_answer(desk, guest, &import, &grant);
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
    struct am_desk desk;
    struct am_desk_guest *guest;
    struct am_port_ticket wrong = ticket_of(5);

    desk_make(&desk);
    guest = enter(&desk, 1);
    desk_add(&desk, 5, true);
    assert_int_equal(ask(&desk, guest, ticket_of(5), NULL), ACL_SUCCESS);
    wrong.secret[1] ^= 1;
    assert_int_equal(ask(&desk, guest, wrong, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(ask(&desk, guest, ticket_of(6), NULL), ACL_ERROR_RT_NO_PERMISSION);
    am_desk_leave(&desk, guest);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

static void the_list_decides_unless_it_is_open(void **state)
{
    struct am_desk desk;
    struct am_desk_guest *ten, *eleven, *twelve;
    struct am_port_ticket ticket = ticket_of(5);
    int32_t pids[] = {10, 11};

    desk_make(&desk);
    ten = enter(&desk, 10);
    eleven = enter(&desk, 11);
    twelve = enter(&desk, 12);
    desk_add(&desk, 5, false);
    assert_int_equal(ask(&desk, ten, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_desk_trust(&desk, &ticket, pids, 2), 0);
    assert_int_equal(ask(&desk, ten, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&desk, eleven, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&desk, twelve, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    ticket = ticket_of(6);
    assert_int_equal(am_desk_trust(&desk, &ticket, pids, 2), -ENOENT);
    am_desk_leave(&desk, ten);
    am_desk_leave(&desk, eleven);
    am_desk_leave(&desk, twelve);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

static void memory_goes_with_the_last_of_exporter_and_importers(void **state)
{
    struct am_desk desk;
    struct am_desk_guest *one, *two;
    uint64_t first, second;

    desk_make(&desk);
    one = enter(&desk, 1);
    two = enter(&desk, 2);
    desk_add(&desk, 5, true);
    assert_int_equal(ask(&desk, one, ticket_of(5), &first), ACL_SUCCESS);
    assert_int_equal(ask(&desk, one, ticket_of(5), &second), ACL_SUCCESS);
    assert_int_equal(ask(&desk, two, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(one->n_grants, 2);
    assert_int_equal(one->n_bytes, 2 << 20);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(ask(&desk, two, ticket_of(5), NULL), ACL_ERROR_RT_NO_PERMISSION);
    am_desk_release(&desk, one, first);
    am_desk_release(&desk, one, first); /* twice is once */
    am_desk_release(&desk, one, 1000);
    assert_int_equal(n_gone, 0);
    am_desk_leave(&desk, two);
    assert_int_equal(n_gone, 0);
    am_desk_release(&desk, one, second);
    assert_int_equal(n_gone, 1);
    assert_int_equal(one->n_grants, 0);
    am_desk_leave(&desk, one);
}

static bool is_known(struct am_desk_guest *guest, uint32_t n_grants)
{
    struct am_frame back = {.kind = AM_FRAME_BACK};
    struct am_frame answer;

    back.back.n_grants = n_grants;
    am_desk_return(guest, &back, &answer);
    assert_int_equal(answer.kind, AM_FRAME_BACK);
    return answer.back.is_known != 0;
}

static void a_guest_that_is_away_keeps_its_memory_for_the_lease(void **state)
{
    struct am_desk desk;
    struct am_desk_guest *guest;
    uint64_t number;

    desk_make(&desk);
    desk_add(&desk, 5, true);
    guest = enter(&desk, 1);
    assert_int_equal(ask(&desk, guest, ticket_of(5), &number), ACL_SUCCESS);
    am_desk_park(&desk, guest, 10);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(desk.n_away, 1);
    assert_int_equal(am_desk_expire(&desk, 10 + LEASE - 1), 0);
    assert_int_equal(n_gone, 0);
    guest = enter(&desk, 1);
    assert_int_equal(desk.n_away, 0);
    assert_true(is_known(guest, 1));
    am_desk_park(&desk, guest, 200);
    assert_int_equal(am_desk_expire(&desk, 200 + LEASE), 1);
    assert_int_equal(n_gone, 1);
    /* It comes too late: it is a new guest, and told so. */
    guest = enter(&desk, 1);
    assert_false(is_known(guest, 1));
    am_desk_leave(&desk, guest);
}

static void a_guest_that_comes_back_without_memory_has_given_it_back(void **state)
{
    struct am_desk desk;
    struct am_desk_guest *guest;

    desk_make(&desk);
    desk_add(&desk, 5, true);
    desk_add(&desk, 6, true);
    guest = enter(&desk, 1);
    assert_int_equal(ask(&desk, guest, ticket_of(5), NULL), ACL_SUCCESS);
    am_desk_withdraw(&desk, 5);
    am_desk_park(&desk, guest, 0);
    guest = enter(&desk, 1); /* its process was started again, and knows of no memory */
    assert_int_equal(ask(&desk, guest, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(n_gone, 1);
    am_desk_park(&desk, guest, 0);
    guest = enter(&desk, 1);
    assert_true(is_known(guest, 1));
    assert_int_equal(ask(&desk, guest, ticket_of(6), NULL), ACL_SUCCESS);
    assert_int_equal(guest->n_grants, 2);
    am_desk_leave(&desk, guest);
    am_desk_withdraw(&desk, 6);
    assert_int_equal(n_gone, 2);
}

static void a_process_is_away_once(void **state)
{
    struct am_desk desk;
    struct am_desk_guest *one, *again;

    desk_make(&desk);
    desk_add(&desk, 5, true);
    desk_add(&desk, 6, true);
    one = enter(&desk, 1);
    again = enter(&desk, 1); /* it has another connection */
    assert_ptr_not_equal(one, again);
    assert_int_equal(ask(&desk, one, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(ask(&desk, again, ticket_of(6), NULL), ACL_SUCCESS);
    am_desk_withdraw(&desk, 5);
    am_desk_withdraw(&desk, 6);
    am_desk_park(&desk, one, 0);
    am_desk_park(&desk, again, 0);
    assert_int_equal(desk.n_away, 1);
    assert_int_equal(n_gone, 1);
    assert_int_equal(am_desk_expire(&desk, LEASE), 1);
    assert_int_equal(n_gone, 2);
    am_desk_park(&desk, enter(&desk, 2), 0); /* it has nothing to come back for */
    assert_int_equal(desk.n_away, 0);
}

static void a_number_is_exported_once(void **state)
{
    struct am_desk desk;
    struct am_desk_export again = {.ticket.number = 5};

    desk_make(&desk);
    desk_add(&desk, 5, true);
    assert_false(am_desk_add(&desk, &again));
    am_desk_withdraw(&desk, 5);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

/* ---- parcels ---- */

#define ROOM 64

/* Memory of ROOM bytes that a guest has. */
struct parcels {
    struct am_desk desk;
    struct am_desk_guest *guest;
    uint8_t memory[ROOM];
    uint64_t grant;
    uint64_t word; /* the last one */
};

static void parcels_make(struct parcels *p)
{
    struct am_desk_export *export = calloc(1, sizeof *export);

    memset(p, 0, sizeof *p);
    desk_make(&p->desk);
    export->ticket = ticket_of(5);
    export->is_open = true;
    export->size = ROOM;
    export->address = (uintptr_t)p->memory;
    assert_true(am_desk_add(&p->desk, export));
    p->guest = enter(&p->desk, 1);
    assert_int_equal(ask(&p->desk, p->guest, ticket_of(5), &p->grant), ACL_SUCCESS);
}

static void parcels_end(struct parcels *p)
{
    am_desk_leave(&p->desk, p->guest);
    am_desk_withdraw(&p->desk, 5);
    assert_int_equal(n_gone, 1);
}

static struct am_parcel parcel_of(const struct parcels *p, uint64_t number, bool asks)
{
    struct am_parcel parcel = {.grant = p->grant, .number = number, .asks = asks};

    memcpy(parcel.pass, p->guest->pass, sizeof parcel.pass);
    return parcel;
}

static enum am_desk_parcel put(struct parcels *p, const struct am_parcel *parcel,
                               const char *bytes)
{
    struct am_desk_guest *guest;
    struct am_parcel_word word = {0};
    enum am_desk_parcel result = am_desk_put(&p->desk, parcel, sizeof *parcel, bytes,
                                             strlen(bytes), &guest, &word);

    assert_ptr_equal(guest, result == AM_DESK_STRANGE ? NULL : p->guest);
    if (result != AM_DESK_ASKED)
        return result;
    assert_memory_equal(word.pass, p->guest->pass, sizeof word.pass);
    p->word = word.number;
    return result;
}

static void a_parcel_is_written_to_its_place_alone(void **state)
{
    static const uint8_t nothing[ROOM];
    struct parcels p;
    struct am_parcel parcel, wrong;

    parcels_make(&p);
    parcel = parcel_of(&p, 1, false);
    wrong = parcel;
    wrong.grant++;
    assert_int_equal(put(&p, &wrong, "abc"), AM_DESK_WRONG);
    wrong.grant = 0;
    assert_int_equal(put(&p, &wrong, "abc"), AM_DESK_WRONG);
    wrong = parcel;
    wrong.offset = ROOM - 2; /* a byte too far */
    assert_int_equal(put(&p, &wrong, "abc"), AM_DESK_WRONG);
    wrong.offset = ROOM + 1;
    assert_int_equal(put(&p, &wrong, ""), AM_DESK_WRONG);
    wrong.offset = UINT64_MAX;
    assert_int_equal(put(&p, &wrong, "abc"), AM_DESK_WRONG);
    assert_memory_equal(p.memory, nothing, ROOM);
    parcel.offset = ROOM - 3;
    assert_int_equal(put(&p, &parcel, "abc"), AM_DESK_TAKEN);
    assert_memory_equal(p.memory + ROOM - 3, "abc", 3);
    parcel.offset = ROOM; /* no bytes */
    assert_int_equal(put(&p, &parcel, ""), AM_DESK_TAKEN);
    am_desk_release(&p.desk, p.guest, p.grant);
    assert_int_equal(put(&p, &parcel, ""), AM_DESK_WRONG);
    parcels_end(&p);
}

static void a_parcel_without_the_pass_is_nothing(void **state)
{
    struct am_desk_guest *guest;
    struct am_parcel_word word;
    struct am_parcel parcel, strange;
    struct parcels p;

    parcels_make(&p);
    parcel = strange = parcel_of(&p, 1, true);
    strange.pass[AM_PARCEL_PASS - 1] ^= 1;
    assert_int_equal(put(&p, &strange, "abc"), AM_DESK_STRANGE);
    for (size_t size = 0; size < sizeof parcel; size++)
        assert_int_equal(am_desk_put(&p.desk, &parcel, size, "", 0, &guest, &word),
                         AM_DESK_STRANGE);
    am_desk_park(&p.desk, p.guest, 0); /* bytes that were under way come too late */
    assert_int_equal(
        am_desk_put(&p.desk, &parcel, sizeof parcel, "abc", 3, &guest, &word),
        AM_DESK_STRANGE);
    assert_null(guest);
    assert_ptr_equal(enter(&p.desk, 1), p.guest);
    assert_int_equal(put(&p, &parcel, "abc"), AM_DESK_STRANGE); /* of the time before */
    parcel = parcel_of(&p, 1, true);
    assert_int_equal(put(&p, &parcel, "abc"),
                     AM_DESK_WRONG); /* what it has is not told */
    assert_int_equal(p.memory[0], 0);
    p.guest->is_returning = false;
    assert_int_equal(put(&p, &parcel, "abc"), AM_DESK_ASKED);
    assert_int_equal(p.word, 1); /* counted from the connection's begin on */
    parcels_end(&p);
}

/* Numbers in the order of their arrival, with a + behind one that asks; when there is word. */
static void word_follows(const char *order, const char *words)
{
    struct parcels p;
    char told[16] = "";

    parcels_make(&p);
    for (const char *at = order; *at != '\0'; at++) {
        struct am_parcel parcel = parcel_of(&p, (uint64_t)(*at - '0'), at[1] == '+');

        at += at[1] == '+';
        p.word = 0;
        if (put(&p, &parcel, "") == AM_DESK_ASKED)
            assert_in_range(p.word, 1, 9);
        told[strlen(told)] = p.word == 0 ? '.' : (char)('0' + p.word);
    }
    assert_string_equal(told, words);
    parcels_end(&p);
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
