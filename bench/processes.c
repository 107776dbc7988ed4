/* What it costs that other processes use the device too: the ledger. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live.h"
#include "raw.h"
#include "report.h"
#include "sections.h"

#define OTHERS 31
#define ROUNDS 41

/* Holds 2 MB of the device until the other end of the pipe is closed. */
static void other_run(int until, int ready)
{
    static struct live live;
    char byte = 0;

    library_start(true);
    live_open(&live, 1, ACL_MEM_LOCATION_TYPE_DEVICE);
    MUST_HOLD(write(ready, &byte, 1) == 1);
    _exit((int)read(until, &byte, 1));
}

/* Starts the others and waits until all have memory; closing *ret_until ends them. */
static void others_start(int *ret_until)
{
    int until[2];
    int ready[2];
    char byte;

    MUST_HOLD(pipe(until) == 0 && pipe(ready) == 0);
    for (int i = 0; i < OTHERS; i++) {
        pid_t pid = fork(); /* before the library is up */

        MUST_HOLD(pid >= 0);
        if (pid == 0) {
            close(until[1]);
            other_run(until[0], ready[1]);
        }
    }
    for (int i = 0; i < OTHERS; i++)
        MUST_HOLD(read(ready[0], &byte, 1) == 1);
    close(until[0]);
    close(ready[0]);
    close(ready[1]);
    *ret_until = until[1];
}

static void others_end(int until)
{
    int status;

    close(until);
    for (int i = 0; i < OTHERS; i++)
        MUST_HOLD(wait(&status) > 0 && status == 0);
}

static void info_run(void *unused, size_t n)
{
    size_t left = 0;
    size_t total = 0;

    (void)unused;
    while (n-- > 0)
        MUST(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    MUST_HOLD(left < total);
}

void bench_processes(void *unused)
{
    static struct live live;
    struct subject s[3];
    int until;

    report_section("31 other processes use the device; limit: memfd_create + ftruncate + "
                   "close");
    others_start(&until);
    library_start(true);
    live_open(&live, 1, ACL_MEM_LOCATION_TYPE_DEVICE);
    s[0] = live_phys_pair(&live);
    s[1] = raw_memfd();
    s[2] = (struct subject){.run = info_run};
    measure(s, 3, ROUNDS);
    report_row(&(struct row){"allocate + free 2 MB, untouched", "ns", s[0].ns, s[1].ns,
                             BUDGET_AT_MOST, 0.3});
    report_row(&(struct row){"aclrtGetMemInfo, which looks whether all live; limit: 1 us",
                             "ns", s[2].ns, 1000, BUDGET_AT_MOST, 1});
    live_close(&live);
    library_stop();
    others_end(until);
}
