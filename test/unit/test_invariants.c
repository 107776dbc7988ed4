/*
 * The invariants of core/vmm/vspace.h, looked at after every step of random calls, and the
 * look itself: it has to notice each of them broken.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "support/support.h"

#define ADDRESS_END ((uintptr_t)1 << AM_ADDRESS_BITS)

/* What does not hold, for the message of a test; NULL when all does. */
static const char *broken;

static bool must(bool condition, const char *what)
{
    if (!condition && broken == NULL)
        broken = what;
    return condition;
}

static bool reservation_holds(const struct am_reservation *r, size_t start, size_t size)
{
    return start >= r->start && start - r->start < r->size &&
           size <= r->size - (start - r->start);
}

/* Reservations are aligned, in order, apart, and counted. */
static void check_reservations(void)
{
    struct am_reservation *r;
    uintptr_t end = 0;
    uint64_t n = 0;

    while ((r = am_address_first(&am_vspace.reservations, end, ADDRESS_END - end)) !=
           NULL) {
        must(r->size > 0 && am_is_aligned(r->start | r->size, AM_CHUNK), "alignment");
        must(r->start >= end, "reservations do not overlap");
        end = r->start + r->size;
        must(am_address_find(&am_vspace.reservations, r->start) == r &&
                 am_address_find(&am_vspace.reservations, end - 1) == r,
             "an address knows its reservation");
        if (!must(end >> AM_ADDRESS_BITS == 0, "48 bits"))
            return;
        n++;
    }
    must(n == am_vspace.n_reservations, "n_reservations");
}

/*
 * A mapping that starts here: whole in the table, in its reservation, in the list of its
 * memory.
 */
static void check_mapping(struct am_mapping *m)
{
    struct am_mapping *other;
    uint32_t n = 0;
    bool is_listed = false;

    must(m->refs > 0, "a mapping has a reference");
    if (!must(m->reservation != NULL &&
                  reservation_holds(m->reservation, m->start, m->size),
              "a mapping lies in one reservation"))
        return;
    must(m->size > 0 && am_is_aligned(m->start | m->size, AM_CHUNK), "alignment");
    for (uintptr_t at = m->start; at < m->start + m->size; at += AM_CHUNK)
        must(am_mapping_find(at) == m, "every chunk has its entry");
    must(m->size <= m->phys->mem.size, "no more is mapped than there is");
    LIST_FOREACH (other, &m->phys->mappings, of_phys) {
        is_listed = is_listed || other == m;
        n++;
    }
    must(is_listed && n == m->phys->n_mappings, "memory knows its mappings");
    must(m->phys->named.refs >= n + (m->phys->handle_refs > 0), "references of memory");
}

/*
 * Every entry belongs to a mapping that covers it, and mappings are counted by their
 * reservation.
 */
static void check_chunks(void)
{
    struct am_reservation *r;
    uint64_t n_mappings = 0;

    LIST_FOREACH (r, &am_vspace.all, all) {
        size_t n = 0;

        for (uintptr_t at = r->start; at < r->start + r->size; at += AM_CHUNK) {
            struct am_mapping *m = am_mapping_find(at);

            if (m == NULL)
                continue;
            must(at - m->start < m->size, "no other chunk has an entry");
            if (at != m->start)
                continue;
            check_mapping(m);
            n += must(m->reservation == r, "a mapping knows its reservation");
        }
        must(n == r->n_mappings, "a reservation counts its mappings");
        n_mappings += n;
    }
    must(n_mappings == am_phys_sum().n_mappings, "n_mappings");
}

/* For reservations of moderate size: it looks at each of their chunks. */
static bool am_vspace_is_valid(void)
{
    broken = NULL;
    am_lock(&am_vspace.lock);
    check_reservations();
    check_chunks();
    am_unlock(&am_vspace.lock);
    return broken == NULL;
}

/* ---- random calls ---- */

#define N_RANGES 6
#define N_HANDLES 24
#define RANGE_CHUNKS 16

static struct {
    char *range[N_RANGES];
    aclrtDrvMemHandle handle[N_HANDLES];
    uint64_t seed;
} t;

static size_t below(size_t n)
{
    return random_below(&t.seed, n);
}

/* A new range, now and then one that is wanted where there is one; or a range goes. */
static void step_reserve(void)
{
    size_t i = below(N_RANGES);
    char *old = t.range[i];
    void *hint = old != NULL && below(4) == 0 ? old + CHUNK : NULL;
    void *p;

    if (old != NULL && hint == NULL) {
        if (aclrtReleaseMemAddress(old) == ACL_SUCCESS)
            t.range[i] = NULL;
    } else if (aclrtReserveMemAddress(&p, (1 + below(RANGE_CHUNKS)) * CHUNK, 0, hint,
                                      1) == ACL_SUCCESS) {
        t.range[i] = p;
    }
}

static void step_allocate(void)
{
    size_t i = below(N_HANDLES);
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {(uint32_t)below(2), ACL_MEM_LOCATION_TYPE_DEVICE}};

    if (t.handle[i] != NULL) {
        if (aclrtFreePhysical(t.handle[i]) == ACL_SUCCESS)
            t.handle[i] = NULL;
    } else {
        aclrtMallocPhysical(&t.handle[i], (1 + below(4)) * CHUNK, &prop, 0);
    }
}

/* Somewhere in a range, or near it. */
static char *anywhere(void)
{
    size_t i = below(N_RANGES);

    return t.range[i] != NULL ? t.range[i] + below(RANGE_CHUNKS + 2) * CHUNK
                              : (char *)CHUNK;
}

static void step_map(void)
{
    aclrtDrvMemHandle handle = t.handle[below(N_HANDLES)];
    char *at = anywhere();

    for (size_t n = 1; handle != NULL && n <= 4; n++) {
        if (aclrtMapMem(at, n * CHUNK, 0, handle, 0) == ACL_SUCCESS)
            break;
    }
}

static void step_access(void)
{
    aclrtMemAccessDesc desc = {
        .flags =
            below(2) ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE,
        .location = {(uint32_t)below(3), ACL_MEM_LOCATION_TYPE_DEVICE}};

    aclrtMemSetAccess(anywhere(), (1 + below(4)) * CHUNK, &desc, 1);
}

static void step_retain(void)
{
    size_t i = below(N_HANDLES);
    aclrtDrvMemHandle handle;

    if (t.handle[i] == NULL &&
        aclrtMemRetainAllocationHandle(anywhere(), &handle) == ACL_SUCCESS)
        t.handle[i] = handle;
}

static void step_reset(void)
{
    int32_t device = (int32_t)below(2);

    if (below(40) != 0)
        return;
    aclrtResetDevice(device);
    aclrtSetDevice(device);
}

static void run_steps(unsigned n)
{
    static const struct {
        const char *name;
        void (*run)(void);
        unsigned weight;
    } steps[] = {
        {"reserve", step_reserve, 2}, {"allocate", step_allocate, 4},
        {"map", step_map, 8},         {"access", step_access, 1},
        {"retain", step_retain, 1},   {"reset", step_reset, 1},
        {"unmap", NULL, 5},
    };

    for (unsigned i = 0; i < n; i++) {
        size_t at = below(22);
        size_t k = 0;

        for (; at >= steps[k].weight; k++)
            at -= steps[k].weight;
        if (steps[k].run != NULL)
            steps[k].run();
        else
            aclrtUnmapMem(anywhere());
        if (!am_vspace_is_valid())
            fail_msg("step %u, %s: \"%s\" does not hold", i, steps[k].name, broken);
    }
}

static int begin(const char *rules, const char *isolate)
{
    memset(&t, 0, sizeof t);
    t.seed = 11;
    start(rules, "ACLMEM_MEMORY=64M", isolate);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

static int begin_default(void **state)
{
    return begin("default", "ACLMEM_ISOLATE=1");
}

static int begin_strict(void **state)
{
    return begin("strict", "ACLMEM_ISOLATE=1");
}

static int begin_addressable(void **state)
{
    return begin("default", "ACLMEM_ISOLATE=0");
}

/* The library takes care of what is left. */
static int end(void **state)
{
    allow_warnings();
    assert_acl_ok(aclFinalize());
    assert_true(am_vspace_is_valid());
    return finish(state);
}

static void the_invariants_hold_after_every_call(void **state)
{
    run_steps(600);
    assert_true(am_phys_sum().n_mappings > 0);
}

/* ---- the look itself ---- */

#define assert_noticed(words_) \
    do { \
        assert_false(am_vspace_is_valid()); \
        assert_contains(broken, (words_)); \
    } while (0)

static void entry_set(struct am_mapping *m, uintptr_t at, struct am_mapping *entry)
{
    const struct am_reservation *r = m->reservation;

    r->mappings[(at - r->start) / AM_CHUNK].mapping = entry;
}

static void each_broken_invariant_is_noticed(void **state)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    struct am_mapping *m;
    struct am_mapping kept;

    assert_acl_ok(aclrtMallocPhysical(&t.handle[0], 2 * CHUNK, &prop, 0));
    assert_acl_ok(aclrtReserveMemAddress((void **)&t.range[0], 8 * CHUNK, 0, NULL, 1));
    assert_acl_ok(aclrtMapMem(t.range[0] + CHUNK, 2 * CHUNK, 0, t.handle[0], 0));
    assert_true(am_vspace_is_valid());
    m = am_mapping_find((uintptr_t)t.range[0] + CHUNK);
    assert_non_null(m);
    kept = *m;

    am_vspace.n_reservations++;
    assert_noticed("n_reservations");
    am_vspace.n_reservations--;
    am_address_set(&am_vspace.reservations, m->reservation->start, AM_CHUNK, NULL);
    assert_noticed("an address knows its reservation");
    am_address_set(&am_vspace.reservations, m->reservation->start, AM_CHUNK,
                   m->reservation);
    m->reservation->n_mappings++;
    assert_noticed("a reservation counts its mappings");
    m->reservation->n_mappings--;
    m->phys->n_mappings++;
    assert_noticed("memory knows its mappings");
    m->phys->n_mappings--;
    entry_set(m, m->start, NULL);
    assert_noticed("a reservation counts its mappings");
    entry_set(m, m->start, m);
    entry_set(m, m->start + AM_CHUNK, NULL);
    assert_noticed("every chunk has its entry");
    entry_set(m, m->start + AM_CHUNK, m);
    entry_set(m, m->start - AM_CHUNK, m);
    assert_noticed("no other chunk has an entry");
    entry_set(m, m->start - AM_CHUNK, NULL);
    m->reservation = NULL;
    assert_noticed("a mapping lies in one reservation");
    m->reservation = kept.reservation;
    m->size += 8 * AM_CHUNK;
    assert_noticed("a mapping lies in one reservation");
    m->size = kept.size;
    LIST_REMOVE(m, of_phys);
    assert_noticed("memory knows its mappings");
    LIST_INSERT_HEAD(&m->phys->mappings, m, of_phys);
    m->refs = 0;
    assert_noticed("a mapping has a reference");
    m->refs = kept.refs;
    assert_true(am_vspace_is_valid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_broken_invariant_is_noticed, begin_default,
                                        end),
        cmocka_unit_test_setup_teardown(the_invariants_hold_after_every_call,
                                        begin_default, end),
        {"strict: the_invariants_hold_after_every_call",
         the_invariants_hold_after_every_call, begin_strict, end, NULL},
        {"addressable: the_invariants_hold_after_every_call",
         the_invariants_hold_after_every_call, begin_addressable, end, NULL},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
