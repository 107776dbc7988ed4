/*
 * Ledgers chosen by a fuzzer.
 *
 * The file lies in a directory of the user's, and any of the user's programs may have
 * written to it and to the segment.  Whatever they contain, a process enters or has a private ledger, sums stay
 * within what the device has, its own memory is counted, and reading from outside returns
 * nothing that cannot be.
 *
 * An input is a list of changes to a good ledger: where (2 bytes), how many bytes (1), the
 * bytes.  The places are those of the file, of the head, of the first slots, of the
 * first shares and of the first slot's accounts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/util.h"
#include "core/ledger/ledger_file.h"
#include "core/ledger/rundir.h"

#define CAPACITY (64 * AM_MIB)
#define SLOTS_SEEN (8 * sizeof(struct ledger_slot))
#define SHARES_SEEN (64 * sizeof(struct ledger_share))
#define SHARDS_SEEN (LEDGER_SHARDS * sizeof(struct ledger_shard))

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const struct am_ledger_config config = {
    .backend = "host",
    .product = "A2",
    .n_devices = 3,
    .capacity = {CAPACITY, CAPACITY, CAPACITY},
};

static char folder[] = "/tmp/aclmem-fuzz-XXXXXX";
static char path[128];
static int dir;
static struct am_ledger *keeper; /* without one the segment would be removed */

static void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void clear(void)
{
    unlink(path);
    rmdir(folder);
}

static struct am_ledger *enter(void)
{
    struct am_ledger *ledger = NULL;

    require(am_ledger_open(&config, &ledger) == ACL_SUCCESS, "am_ledger_open");
    return ledger;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char name[AM_LEDGER_FILE];
    char why[AM_WHY_SIZE];

    am_options_reset();
    am_log_set_level(AM_LOG_ERROR);
    require(mkdtemp(folder) != NULL, "mkdtemp");
    require(am_options_set("runtime_dir", folder, why) == 0, why);
    am_ledger_file_name(&config, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    dir = open(folder, O_PATH);
    atexit(clear);
    return 0;
}

static void ledger_make(void)
{
    uint64_t number;

    unlink(path);
    keeper = enter();
    require(!am_ledger_is_private(keeper) && am_ledger_charge(keeper, 0, AM_MIB) &&
                am_ledger_share_add(keeper, 0, am_shard(), AM_MIB, &number) ==
                    ACL_SUCCESS,
            "a share");
}

/* How much of a part is left from `at` on, and where; *at is less for the next part. */
static uint8_t *part_find(unsigned *at, void *part, size_t size, size_t *ret_left)
{
    uint8_t *found = NULL;

    if (*at < size) {
        found = (uint8_t *)part + *at;
        *ret_left = size - *at;
    }
    *at -= (unsigned)size;
    return found;
}

/* A change goes anywhere in what is looked at. */
static void change(unsigned at, const uint8_t *bytes, size_t n)
{
    uint8_t label[sizeof(struct ledger_label)];
    uint8_t *to;
    size_t left;
    int fd;

    at %= sizeof label + sizeof(struct ledger_head) + SLOTS_SEEN + SHARES_SEEN +
          SHARDS_SEEN;
    to = part_find(&at, label, sizeof label, &left);
    if (to != NULL) {
        fd = open(path, O_WRONLY);
        n = n < left ? n : left;
        require(pwrite(fd, bytes, n, to - label) == (ssize_t)n, "a change");
        close(fd);
        return;
    }
    to = part_find(&at, keeper->head, sizeof *keeper->head, &left);
    if (to == NULL)
        to = part_find(&at, keeper->slots, SLOTS_SEEN, &left);
    if (to == NULL)
        to = part_find(&at, keeper->shares, SHARES_SEEN, &left);
    if (to == NULL)
        to = part_find(&at, keeper->shards, SHARDS_SEEN, &left);
    memcpy(to, bytes, n < left ? n : left);
}

static void changes_make(const uint8_t *bytes, size_t n_bytes)
{
    while (n_bytes > 3) {
        unsigned at = bytes[0] | (unsigned)bytes[1] << 8;
        size_t n = bytes[2] % 32;

        bytes += 3;
        n_bytes -= 3;
        n = n < n_bytes ? n : n_bytes;
        change(at, bytes, n);
        bytes += n;
        n_bytes -= n;
    }
}

static void read_it(void)
{
    struct am_ledger_view view;
    char name[AM_LEDGER_FILE];

    am_ledger_file_name(&config, name);
    if (am_ledger_read(dir, name, &view) != 0)
        return;
    require(view.config.n_devices >= 1 && view.config.n_devices <= AM_LEDGER_DEVICES,
            "devices");
    for (int32_t i = 0; i < view.config.n_devices; i++)
        require(view.used[i] <= view.config.capacity[i], "more is used than there is");
    for (size_t i = 0; i < view.n_processes; i++)
        require(memchr(view.processes[i].command, 0, AM_LEDGER_NAME) != NULL, "a name");
    am_ledger_view_free(&view);
}

/* One who is in it works with it. */
static void use(struct am_ledger *ledger, uint64_t number)
{
    char who[AM_LEDGER_WHO];
    uint64_t own = number;

    for (int32_t device = 0; device < config.n_devices; device++) {
        require(am_ledger_in_use(ledger, device) <= CAPACITY, "more than there is");
        if (am_ledger_charge(ledger, device, AM_MIB)) {
            require(am_ledger_in_use(ledger, device) >= AM_MIB, "without the ledger");
            if (am_ledger_share_add(ledger, device, am_shard(), AM_MIB, &own) ==
                ACL_SUCCESS)
                am_ledger_share_leave(ledger, own);
            else
                am_ledger_uncharge(ledger, device, am_shard(), AM_MIB);
        }
        am_ledger_who(ledger, device, who);
        require(memchr(who, 0, sizeof who) != NULL, "who");
        if (am_ledger_use(ledger, device, 64) == ACL_SUCCESS)
            am_ledger_unuse(ledger, device);
    }
    if (am_ledger_share_join(ledger, number, 0, AM_MIB) == ACL_SUCCESS)
        am_ledger_share_leave(ledger, number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char who[AM_LEDGER_WHO];
    struct am_ledger *a;
    struct am_ledger *b;
    uint64_t number = 0;

    memcpy(&number, bytes, n_bytes < sizeof number ? n_bytes : sizeof number);
    ledger_make();
    changes_make(bytes, n_bytes);
    read_it();
    a = enter();
    b = enter();
    use(a, number);
    use(b, number);
    read_it();
    am_ledger_put(a);
    use(b, number);

    changes_make(bytes, n_bytes); /* while it is in use, the process's own slot too */
    read_it();
    (void)am_ledger_charge(b, 0, AM_MIB);
    am_ledger_who(b, 0, who);
    require(am_ledger_in_use(b, 0) <= CAPACITY, "more than there is");
    (void)am_ledger_share_join(b, number, 0, AM_MIB);
    am_ledger_put(b);
    am_ledger_put(keeper);
    (void)am_error_take_messages();
    return 0;
}
