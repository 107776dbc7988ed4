/* The exporter's books of memory that other machines import. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/desk.h"

static int n_gone;

static void note_gone(void *arg, struct am_desk_export *export)
{
    n_gone++;
}

static struct am_desk desk_make(void)
{
    n_gone = 0;
    return (struct am_desk){.gone = note_gone};
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
static int32_t ask(struct am_desk *desk, struct am_desk_guest *guest, int32_t pid,
                   struct am_port_ticket ticket, uint64_t *ret_number)
{
    struct am_frame import = {.kind = AM_FRAME_IMPORT};
    struct am_frame grant;

    import.import.id = 77;
    import.import.ticket = ticket;
    am_desk_answer(desk, guest, pid, &import, &grant);
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
    struct am_desk desk = desk_make();
    struct am_desk_guest guest = {0};
    struct am_port_ticket wrong = ticket_of(5);

    desk_add(&desk, 5, true);
    assert_int_equal(ask(&desk, &guest, 1, ticket_of(5), NULL), ACL_SUCCESS);
    wrong.secret[1] ^= 1;
    assert_int_equal(ask(&desk, &guest, 1, wrong, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(ask(&desk, &guest, 1, ticket_of(6), NULL),
                     ACL_ERROR_RT_NO_PERMISSION);
    am_desk_leave(&desk, &guest);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

static void the_list_decides_unless_it_is_open(void **state)
{
    struct am_desk desk = desk_make();
    struct am_desk_guest guest = {0};
    struct am_port_ticket ticket = ticket_of(5);
    int32_t pids[] = {10, 11};

    desk_add(&desk, 5, false);
    assert_int_equal(ask(&desk, &guest, 10, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    assert_int_equal(am_desk_trust(&desk, &ticket, pids, 2), 0);
    assert_int_equal(ask(&desk, &guest, 10, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&desk, &guest, 11, ticket, NULL), ACL_SUCCESS);
    assert_int_equal(ask(&desk, &guest, 12, ticket, NULL), ACL_ERROR_RT_NO_PERMISSION);
    ticket = ticket_of(6);
    assert_int_equal(am_desk_trust(&desk, &ticket, pids, 2), -ENOENT);
    am_desk_leave(&desk, &guest);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

static void memory_goes_with_the_last_of_exporter_and_importers(void **state)
{
    struct am_desk desk = desk_make();
    struct am_desk_guest one = {0}, two = {0};
    uint64_t first, second;

    desk_add(&desk, 5, true);
    assert_int_equal(ask(&desk, &one, 1, ticket_of(5), &first), ACL_SUCCESS);
    assert_int_equal(ask(&desk, &one, 1, ticket_of(5), &second), ACL_SUCCESS);
    assert_int_equal(ask(&desk, &two, 2, ticket_of(5), NULL), ACL_SUCCESS);
    assert_int_equal(one.n_grants, 2);
    assert_int_equal(one.n_bytes, 2 << 20);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(ask(&desk, &two, 2, ticket_of(5), NULL), ACL_ERROR_RT_NO_PERMISSION);
    am_desk_release(&desk, &one, first);
    am_desk_release(&desk, &one, first); /* twice is once */
    am_desk_release(&desk, &one, 1000);
    assert_int_equal(n_gone, 0);
    am_desk_leave(&desk, &two);
    assert_int_equal(n_gone, 0);
    am_desk_release(&desk, &one, second);
    assert_int_equal(n_gone, 1);
    assert_int_equal(one.n_grants, 0);
    am_desk_leave(&desk, &one);
}

static void a_number_is_exported_once(void **state)
{
    struct am_desk desk = desk_make();
    struct am_desk_export again = {.ticket.number = 5};

    desk_add(&desk, 5, true);
    assert_false(am_desk_add(&desk, &again));
    am_desk_withdraw(&desk, 5);
    am_desk_withdraw(&desk, 5);
    assert_int_equal(n_gone, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_whole_ticket_opens),
        cmocka_unit_test(the_list_decides_unless_it_is_open),
        cmocka_unit_test(memory_goes_with_the_last_of_exporter_and_importers),
        cmocka_unit_test(a_number_is_exported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
