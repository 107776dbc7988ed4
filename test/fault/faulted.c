#include "faulted.h"

#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/*
 * No path of the library makes nearly as many calls; a loop that gets here is not going
 * to end.
 */
enum { TOO_MANY = 2000 };

/* How a turn's process ends when all was well; anything else is a failure. */
enum { DID_FIRE = 10, DID_NOT_FIRE = 11 };

/* Faults that fired, over all steps: a loop that never fires proves nothing. */
static unsigned n_fired;

enum { ONCE, LASTING, REFUSAL };

static const char *const modes[] = {"faults", "lasting faults", "refusals"};

/* The turn that this process is; n is 0 in the process that runs the loops. */
static struct turn {
    unsigned step;
    unsigned n;
    unsigned mode;
} mine;

static const struct step *all_steps;

/* ---- one turn ---- */

static void must_be_documented(aclError rc, aclError other)
{
    const char *message = aclGetRecentErrMsg();
    char end[16];
    bool is_resource = rc == ACL_ERROR_BAD_ALLOC ||
                       rc == ACL_ERROR_RT_MEMORY_ALLOCATION ||
                       rc == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    bool is_refusal = mine.mode == REFUSAL && rc == ACL_ERROR_RT_PARAM_INVALID;

    if (!is_resource && !is_refusal && rc != other)
        fail_msg("code %d: %s", rc, message);
    if (message == NULL)
        fail_msg("code %d and no message", rc);
    snprintf(end, sizeof end, "[%d ", rc);
    if (strchr(message, '\n') != NULL || strstr(message, end) == NULL)
        fail_msg("code %d with other messages than its own: %s", rc, message);
    /* Programs free their caches and try again where they find these words. */
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION &&
        (strncmp(message, "EL0004", 6) != 0 ||
         strstr(message, "Failed to allocate") == NULL))
        fail_msg("code %d without the words of a memory shortage: %s", rc, message);
}

static void begin(const struct step *step, struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->arg = step->arg;
    if (step->is_init) {
        if (step->prepare != NULL)
            step->prepare(s);
        set_options("default", "ACLMEM_MEMORY=64M", "ACLMEM_LOG=error");
        allow_warnings();
        return;
    }
    start("default", "ACLMEM_MEMORY=64M", "ACLMEM_LOG=error", step->option, step->more[0],
          step->more[1]);
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    if (step->prepare != NULL)
        step->prepare(s);
}

static void run_again(const struct step *step, struct scene *s, struct snapshot *before)
{
    if (!step->is_init)
        assert_unchanged(*before);
    if (am_fault_was_work() && step->put_back != NULL)
        step->put_back(s);
    else if (step->check_failed != NULL)
        step->check_failed(s);
    assert_acl_ok(step->run(s));
}

/* Whether the fault fired. */
static bool take_turn(const struct step *step)
{
    struct snapshot before = {.free = 0};
    const char *message;
    struct scene s;
    bool fired;
    aclError rc;

    begin(step, &s);
    if (!step->is_init)
        before = take_snapshot();
    forget_message();
    if (mine.mode == REFUSAL)
        am_fault_arm_refusal(mine.n);
    else
        am_fault_arm(mine.n, mine.mode == LASTING);
    rc = step->run(&s);
    am_fault_disarm();
    fired = am_fault_fired();

    if (rc != ACL_SUCCESS) {
        must_be_documented(rc, step->other_code);
        assert_true(fired);
        run_again(step, &s, &before);
    } else if ((message = aclGetRecentErrMsg()) != NULL) {
        fail_msg("success, and a message: %s", message);
    }
    if (step->check != NULL)
        step->check(&s);
    if (step->clean != NULL)
        step->clean(&s);
    if (finish(NULL) != 0)
        fail_msg("something was left behind");
    return fired;
}

/* ---- all turns ---- */

static void loop(unsigned step, unsigned mode)
{
    char role[64];
    int status = DID_FIRE;
    unsigned n = 0;

    while (status == DID_FIRE && n < TOO_MANY) {
        snprintf(role, sizeof(role), "%u %u %u", step, ++n, mode);
        status = run_self_silently(role);
    }
    if (status != DID_NOT_FIRE)
        fail_msg("step %u, number %u of %s: see above; again with the argument \"%s\"",
                 step, n, modes[mode], role);
    n_fired += n - 1;
    print_message("step %u: %u %s survived\n", step, n - 1, modes[mode]);
}

static void step_survives(void **state)
{
    const struct step *step = *state;
    const char *backend = getenv("ACLMEM_BACKEND");
    bool has_driver = backend != NULL && strcasecmp(backend, "host") != 0;

    if (has_driver && step->option != NULL && strcmp(step->option, TOUCHABLE) == 0) {
        print_message("skipped, %s is for the host backend\n", step->option);
        return;
    }
    if (mine.n !=
        0) /* not _exit(): a leak checker, where there is one, has a last look */
        exit(take_turn(step) ? DID_FIRE : DID_NOT_FIRE);
    loop((unsigned)(step - all_steps), ONCE);
    loop((unsigned)(step - all_steps), LASTING);
    if (has_driver)
        loop((unsigned)(step - all_steps), REFUSAL);
}

static int must_have_fired(void **state)
{
    if (mine.n != 0 || n_fired > 0)
        return 0;
    print_error("no fault fired in any step; is this the library with am_fault_arm()?\n");
    return -1;
}

int run_steps(const struct step *steps, size_t n, int argc, char **argv)
{
    struct CMUnitTest *claims = calloc(n, sizeof(*claims));
    char(*names)[100] = calloc(n, sizeof(*names));
    size_t first = 0;
    int rc;

    all_steps = steps;
    if (argc == 2) {
        if (sscanf(argv[1], "%u %u %u", &mine.step, &mine.n, &mine.mode) != 3 ||
            mine.step >= n)
            return 2;
        first = mine.step;
        n = first + 1;
    }
    for (size_t i = first; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "%s survives every fault", steps[i].claim);
        claims[i] = (struct CMUnitTest){names[i], step_survives, NULL, NULL,
                                        (void *)(uintptr_t)&steps[i]};
    }
    rc = support_run(claims + first, n - first, must_have_fired);
    free(names);
    free(claims);
    return rc;
}
