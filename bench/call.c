/* What an exported entry costs: the cheapest function, through it and without it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "direct.h"
#include "live.h"
#include "report.h"
#include "sections.h"

static void call_run(void *arg, size_t n)
{
    uint32_t count = 0;

    (void)arg;
    while (n-- > 0)
        MUST(aclrtGetDeviceCount(&count));
}

void bench_call(void *unused)
{
    void *module = dlopen(BENCH_DIRECT, RTLD_NOW | RTLD_LOCAL);
    struct subject s[2] = {
        {.run = call_run},
        {.run = module != NULL ? (bench_direct_fn)dlsym(module, "bench_direct") : NULL},
    };

    report_section("an API call; limit: its implementation called directly");
    if (s[1].run == NULL) {
        fprintf(stderr, "not measured: %s\n", dlerror());
        return;
    }
    library_start(true);
    measure(s, 2, 41);
    library_stop();
    report_row(
        &(struct row){"aclrtGetDeviceCount", "ns", s[0].ns, s[1].ns, BUDGET_MORE, 2});
}
