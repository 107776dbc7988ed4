/*
 * Either process killed at each step: the other goes on, keeps its bytes, and nothing is
 * left.
 *
 * The steps are a list.  For each of them, and for each of the two processes, the list is
 * played to that step; the victim is killed while the step is under way, and the survivor
 * plays what is its own of the rest.
 */
#include "actor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define SIZE (2 * CHUNK)
#define SEED 7

enum { EXPORTER, IMPORTER, ACTORS };

/* What steps leave for later ones. */
enum { NOTHING, HANDLE, ADDRESS, MAPPED, SLOTS };

struct step {
    const char *name;
    int who;
    int what;
    int x;     /* the slot that is its first argument */
    int z;     /* the slot that is its third one; the second is SIZE or OPEN */
    int saves; /* the slot for its result */
};

static const struct step export_first[] = {
    {"exporter starts", EXPORTER, DO_INIT, NOTHING, NOTHING, NOTHING},
    {"importer starts", IMPORTER, DO_INIT, NOTHING, NOTHING, NOTHING},
    {"exporter allocates", EXPORTER, DO_ALLOC, NOTHING, NOTHING, HANDLE},
    {"exporter reserves", EXPORTER, DO_RESERVE, NOTHING, NOTHING, ADDRESS},
    {"exporter maps", EXPORTER, DO_MAP, ADDRESS, HANDLE, NOTHING},
    {"exporter writes", EXPORTER, DO_PUT, ADDRESS, NOTHING, NOTHING},
    {"exporter exports", EXPORTER, DO_EXPORT, HANDLE, NOTHING, NOTHING},
    {"importer imports", IMPORTER, DO_IMPORT, NOTHING, NOTHING, HANDLE},
    {"importer reserves", IMPORTER, DO_RESERVE, NOTHING, NOTHING, ADDRESS},
    {"importer maps", IMPORTER, DO_MAP, ADDRESS, HANDLE, NOTHING},
    {"importer reads", IMPORTER, DO_CHECK, ADDRESS, NOTHING, NOTHING},
    {"importer writes", IMPORTER, DO_PUT, ADDRESS, NOTHING, NOTHING},
    {"exporter reads", EXPORTER, DO_CHECK, ADDRESS, NOTHING, NOTHING},
    {"importer reads again", IMPORTER, DO_CHECK, ADDRESS, NOTHING, NOTHING},
    {"importer unmaps", IMPORTER, DO_UNMAP, ADDRESS, NOTHING, NOTHING},
    {"importer frees", IMPORTER, DO_FREE, HANDLE, NOTHING, NOTHING},
    {"exporter unmaps", EXPORTER, DO_UNMAP, ADDRESS, NOTHING, NOTHING},
    {"exporter frees", EXPORTER, DO_FREE, HANDLE, NOTHING, NOTHING},
    {"importer stops", IMPORTER, DO_FINALIZE, NOTHING, NOTHING, NOTHING},
    {"exporter stops", EXPORTER, DO_FINALIZE, NOTHING, NOTHING, NOTHING},
};

/* The exporter lets go first; the importer still has the bytes. */
static const struct step free_first[] = {
    {"exporter starts", EXPORTER, DO_INIT, NOTHING, NOTHING, NOTHING},
    {"exporter allocates", EXPORTER, DO_ALLOC, NOTHING, NOTHING, HANDLE},
    {"exporter exports", EXPORTER, DO_EXPORT, HANDLE, NOTHING, NOTHING},
    {"exporter reserves", EXPORTER, DO_RESERVE, NOTHING, NOTHING, ADDRESS},
    {"exporter maps", EXPORTER, DO_MAP, ADDRESS, HANDLE, NOTHING},
    {"exporter writes", EXPORTER, DO_PUT, ADDRESS, NOTHING, NOTHING},
    {"importer starts", IMPORTER, DO_INIT, NOTHING, NOTHING, NOTHING},
    {"importer imports", IMPORTER, DO_IMPORT, NOTHING, NOTHING, HANDLE},
    {"exporter unmaps", EXPORTER, DO_UNMAP, ADDRESS, NOTHING, NOTHING},
    {"exporter frees", EXPORTER, DO_FREE, HANDLE, NOTHING, NOTHING},
    {"importer reserves", IMPORTER, DO_RESERVE, NOTHING, NOTHING, ADDRESS},
    {"importer maps", IMPORTER, DO_MAP, ADDRESS, HANDLE, NOTHING},
    {"importer reads", IMPORTER, DO_CHECK, ADDRESS, NOTHING, NOTHING},
    {"exporter stops", EXPORTER, DO_FINALIZE, NOTHING, NOTHING, NOTHING},
    {"importer reads again", IMPORTER, DO_CHECK, ADDRESS, NOTHING, NOTHING},
    {"importer frees", IMPORTER, DO_FREE, HANDLE, NOTHING, NOTHING},
    {"importer unmaps", IMPORTER, DO_UNMAP, ADDRESS, NOTHING, NOTHING},
    {"importer stops", IMPORTER, DO_FINALIZE, NOTHING, NOTHING, NOTHING},
};

struct scene {
    struct actor actor[ACTORS];
    uint64_t descriptors[ACTORS]; /* between two lives of the library */
    uint64_t slot[ACTORS][SLOTS];
    uint64_t number; /* 0: there is none */
    bool has_bytes;  /* the pattern was written to its end */
    int victim;      /* -1: both live */
};

static struct scene scene;

static bool is_alive(int who)
{
    return scene.victim != who;
}

/* A step whose arguments an earlier one should have left, and could not. */
static bool is_possible(const struct step *step)
{
    const uint64_t *slot = scene.slot[step->who];

    if (step->what == DO_IMPORT)
        return scene.number != 0;
    if (step->what == DO_PUT || step->what == DO_CHECK || step->what == DO_UNMAP)
        return slot[MAPPED] != 0;
    return (step->x == NOTHING || slot[step->x] != 0) &&
           (step->z == NOTHING || slot[step->z] != 0);
}

static void step_begin(const struct step *step)
{
    const uint64_t *slot = scene.slot[step->who];
    uint64_t x = step->x != NOTHING ? slot[step->x] : 0;
    uint64_t y = SIZE;
    uint64_t z = step->z != NOTHING ? slot[step->z] : SEED;

    if (step->what == DO_ALLOC || step->what == DO_RESERVE)
        x = SIZE;
    if (step->what == DO_EXPORT)
        y = OPEN;
    if (step->what == DO_IMPORT) {
        x = scene.number;
        y = 0;
    }
    order_begin(&scene.actor[step->who], step->what, x, y, z);
}

/* What may happen to a survivor: an import finds nobody any more, the rest succeeds. */
static void step_end(const struct step *step)
{
    struct answer answer = order_end(&scene.actor[step->who]);

    if (step->what == DO_IMPORT && !is_alive(EXPORTER) &&
        (answer.rc == ACL_ERROR_RT_NO_PERMISSION || answer.rc == ACL_ERROR_RT_IPC_ERROR))
        return;
    if (answer.rc != ACL_SUCCESS)
        fail_msg("%s: %d %s", step->name, answer.rc, answer.message);
    if (step->what == DO_CHECK && scene.has_bytes && answer.value[0] != 0)
        fail_msg("%s: other bytes", step->name);
    if (step->what == DO_PUT)
        scene.has_bytes = true;
    if (step->what == DO_MAP)
        scene.slot[step->who][MAPPED] = 1;
    if (step->saves != NOTHING)
        scene.slot[step->who][step->saves] = answer.value[0];
    if (step->what == DO_EXPORT)
        scene.number = answer.value[0];
    if ((step->what == DO_FREE && step->who == EXPORTER) ||
        (step->what == DO_FINALIZE && step->who == EXPORTER))
        scene.number = 0;
}

/* One life before the scene: what a driver then keeps open for good is not ours. */
static void actor_open(struct actor *a)
{
    actor_start(a, ACTOR_PLAIN);
    done(a, DO_INIT, 0, 0, 0);
    done(a, DO_FREE, done(a, DO_ALLOC, CHUNK, 0, 0), 0, 0);
    done(a, DO_FINALIZE, 0, 0, 0);
}

/* Plays the list; the victim is killed during the step `at`. */
static void play(const struct step *steps, size_t n, size_t at, int victim)
{
    memset(&scene, 0, sizeof scene);
    scene.victim = -1;
    for (int who = 0; who < ACTORS; who++) {
        actor_open(&scene.actor[who]);
        scene.descriptors[who] = done(&scene.actor[who], DO_DESCRIPTORS, 0, 0, 0);
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_alive(steps[i].who) || !is_possible(&steps[i]))
            continue;
        step_begin(&steps[i]);
        if (i == at) {
            scene.victim = victim;
            actor_kill(&scene.actor[victim]);
        }
        if (is_alive(steps[i].who))
            step_end(&steps[i]);
    }
}

/* The survivor has stopped the library, and it is as before the start. */
static void check_survivor(int who)
{
    struct answer left = order(&scene.actor[who], DO_DESCRIPTORS, 0, 0, 0);

    assert_int_equal(left.value[0], scene.descriptors[who]);
    assert_int_equal(left.value[1], 0);
    actor_end(&scene.actor[who]);
}

/* What a killed exporter left is gone when the next one begins. */
static void check_files(void)
{
    struct actor next;

    actor_start(&next, ACTOR_PLAIN);
    done(&next, DO_INIT, 0, 0, 0);
    done(&next, DO_EXPORT, done(&next, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    assert_int_equal(run_files("share-"), 1);
    done(&next, DO_FINALIZE, 0, 0, 0);
    assert_int_equal(run_files("share-"), 0);
    assert_int_equal(run_files(".share-"), 0);
    actor_end(&next);
}

static void play_all(const struct step *steps, size_t n)
{
    for (int victim = 0; victim < ACTORS; victim++) {
        for (size_t at = 0; at < n; at++) {
            play(steps, n, at, victim);
            check_survivor(victim == EXPORTER ? IMPORTER : EXPORTER);
            check_files();
        }
    }
}

#define COUNT(list_) (sizeof(list_) / sizeof((list_)[0]))

static void no_process_is_killed_in_the_end(void **state)
{
    play(export_first, COUNT(export_first), SIZE_MAX, -1);
    check_survivor(EXPORTER);
    check_survivor(IMPORTER);
    play(free_first, COUNT(free_first), SIZE_MAX, -1);
    check_survivor(EXPORTER);
    check_survivor(IMPORTER);
    assert_int_equal(run_files("share-"), 0);
}

static void either_is_killed_at_each_step(void **state)
{
    play_all(export_first, COUNT(export_first));
}

static void either_is_killed_at_each_step_when_the_exporter_frees_first(void **state)
{
    play_all(free_first, COUNT(free_first));
}

static int set_up(void **state)
{
    set_options("default", "ACLMEM_DEVICES=2"); /* for the actors */
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_process_is_killed_in_the_end, set_up),
        cmocka_unit_test_setup(either_is_killed_at_each_step, set_up),
        cmocka_unit_test_setup(
            either_is_killed_at_each_step_when_the_exporter_frees_first, set_up),
    };

    actor_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
