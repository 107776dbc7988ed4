/* See ledger_fixture.h. */
#include "ledger_fixture.h"

#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/log.h"
#include "base/options.h"
#include "base/util.h"
#include "core/ledger/rundir.h"

const struct am_ledger_config config = {
    .backend = "host",
    .product = "A2",
    .n_devices = 3,
    .capacity = {CAPACITY, CAPACITY, CAPACITY},
};

char folder[64];

int ledger_begin(void **state)
{
    char why[AM_WHY_SIZE];

    am_options_reset();
    strcpy(folder, folder_make());
    assert_int_equal(am_options_set("runtime_dir", folder, why), 0);
    am_log_set_level(AM_LOG_ERROR);
    return 0;
}

int ledger_end(void **state)
{
    am_rundir_close();
    folder_remove(folder);
    return 0;
}

struct am_ledger *open_one(void)
{
    struct am_ledger *ledger = NULL;

    assert_int_equal(am_ledger_open(&config, &ledger), ACL_SUCCESS);
    return ledger;
}

struct am_ledger *open_shared(void)
{
    struct am_ledger *ledger = open_one();

    if (am_ledger_is_private(ledger))
        fail_msg("%s", ledger->why);
    return ledger;
}

bool charge(struct am_ledger *ledger, int32_t device, size_t size)
{
    return am_ledger_charge(ledger, device, size);
}

uint64_t share(struct am_ledger *ledger, int32_t device, size_t size)
{
    uint64_t number = 0;

    assert_true(charge(ledger, device, size));
    assert_int_equal(am_ledger_share_add(ledger, device, am_shard(), size, &number),
                     ACL_SUCCESS);
    return number;
}

const char *file_path(void)
{
    static char path[200];
    char name[AM_LEDGER_FILE];

    am_ledger_file_name(&config, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
