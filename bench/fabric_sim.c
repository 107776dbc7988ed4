/*
 * A cluster in one process: the fabric's own state machines over a simulated network.
 *
 *     aclmem_fabric_sim [--processes N] [--peers K] [--stores N] [--limit N] [--seconds S]
 *                       [--rate R] [--seed S] [--check]
 *
 * Links, desks, connections and slots are the code that fabric processes run; sockets, UCX and
 * the clock are events in a heap.  Everything comes from the seed: the same seed gives the
 * same table, which ends with a hash of all events.  The cluster works for S seconds; each
 * process copies R times a second, mostly to a few of the K exporters that it imports from,
 * and changes these now and then.  Then processes end: half of them let go, a quarter is
 * killed, a quarter is gone without a word.  At the end every exporter that is left must
 * have all of its memory back.
 *
 * --check is a small run for the tests: it runs twice, and fails where the two differ.
 */
#include "fabric_sim.h"

#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct sim_options sim_options = {
    .n = 1000, .n_peers = 8, .limit = 2048, .seconds = 120, .rate = 0.2, .seed = 1};

struct figures {
    uint64_t hash, n_copies, n_waits, n_made, n_most, n_failed;
    size_t most[2];
    double mean[2], shakes, shakes_most, frames, frames_most, p50, p99, longest;
};

/* In milliseconds: the upper end of the step that holds this part of the waits. */
static double wait_part(uint64_t n, double part)
{
    uint64_t sum = 0;
    int i = 0;

    for (; i < 63; i++) {
        sum += sim.waits[i];
        if ((double)sum >= part * (double)n)
            break;
    }
    return (double)(UINT64_C(1) << i) / 1e3;
}

static struct figures figures_make(void)
{
    struct figures f = {.n_copies = sim.n_copies,
                        .n_made = sim.n_made,
                        .n_most = sim.n_most_conns,
                        .longest = (double)sim.longest / 1e6};
    double span = (double)sim_options.seconds;

    for (size_t i = 0; i < sim_options.n; i++) {
        const struct node *node = &sim.nodes[i];

        for (int role = 0; role < 2; role++) {
            f.mean[role] += (double)node->n_most[role] / (double)sim_options.n;
            if (node->n_most[role] > f.most[role])
                f.most[role] = node->n_most[role];
        }
        f.shakes += (double)node->n_shakes / span / (double)sim_options.n;
        f.frames += (double)node->n_frames / span / (double)sim_options.n;
        if ((double)node->n_shakes / span > f.shakes_most)
            f.shakes_most = (double)node->n_shakes / span;
        if ((double)node->n_frames / span > f.frames_most)
            f.frames_most = (double)node->n_frames / span;
    }
    for (int i = 0; i < 64; i++)
        f.n_waits += sim.waits[i];
    f.p50 = wait_part(f.n_waits, 0.5);
    f.p99 = wait_part(f.n_waits, 0.99);
    return f;
}

static struct figures run(void)
{
    struct figures f;

    sim.dice = sim_options.seed;
    sim.hash = UINT64_C(0xcbf29ce484222325);
    sim.now = sim.n_numbers = sim.n_copies = sim.n_lost = sim.n_conns = sim.n_most_conns =
        sim.n_made = sim.n_failed = 0;
    memset(sim.waits, 0, sizeof sim.waits);
    sim.longest = 0;
    sim.is_ending = false;
    sim.ends = sim_options.seconds * AM_SECOND + LEASE + IDLE + 3 * TIMEOUT;
    sim.nodes = sim_allocate(sim_options.n, sizeof *sim.nodes);
    for (size_t i = 0; i < sim_options.n; i++)
        sim_node_begin(&sim.nodes[i], (uint32_t)i);
    sim_run_until(sim_options.seconds * AM_SECOND);
    f = figures_make();
    sim_require(sim.n_lost == 0 && sim.n_failed == 0, "a copy failed");
    sim.is_ending = true;
    for (size_t i = 0; i < sim_options.n; i++) {
        if (i % 4 < 2)
            sim_node_let_go(&sim.nodes[i]);
        else
            sim_node_kill(&sim.nodes[i], i % 4 == 2);
    }
    sim_run_until(sim.ends + TIMEOUT);
    sim_end_check();
    f.n_failed = sim.n_failed;
    f.hash = sim.hash;
    sim_nodes_free();
    return f;
}

static void figures_print(const struct figures *f)
{
    printf(
        "%9zu %6zu %6zu %6zu | %9llu %7.1f %5zu %7.1f %5zu | %6.2f %7.1f %7.1f %8.1f | "
        "%9llu %5.1f%% %7.1f %7.1f %8.1f | %016llx\n",
        sim_options.n, sim_options.n_stores, sim_options.n_peers, sim_options.limit,
        (unsigned long long)f->n_most, f->mean[0], f->most[0], f->mean[1], f->most[1],
        f->shakes, f->shakes_most, f->frames, f->frames_most,
        (unsigned long long)f->n_copies,
        100.0 * (double)f->n_waits / (double)(f->n_copies > 0 ? f->n_copies : 1), f->p50,
        f->p99, f->longest, (unsigned long long)f->hash);
}

static void head_print(void)
{
    printf(
        "%9s %6s %6s %6s | %9s %7s %5s %7s %5s | %6s %7s %7s %8s | %9s %6s %7s %7s %8s | "
        "%s\n",
        "processes", "stores", "each", "limit", "at once", "imp", "most", "exp", "most",
        "shakes", "most", "frames", "most", "copies", "wait", "p50 ms", "p99 ms",
        "most ms", "hash");
}

/* The time that a frame and a handshake cost one side, on this machine. */
static void costs_print(void)
{
    struct am_link link = {.state = AM_LINK_UP};
    struct am_frame frame = {.kind = AM_FRAME_HEARTBEAT};
    uint64_t begun = am_clock();
    const uint8_t *bytes;

    for (int i = 0; i < 2000; i++) {
        am_link_send(&link, &frame, 0);
        am_link_took(&link, am_link_output(&link, &bytes));
    }
    printf("%llu bytes for a link, %llu for an importer, %llu for a grant; %.1f us for a "
           "frame\n",
           (unsigned long long)sizeof(struct am_link),
           (unsigned long long)sizeof(struct am_importer),
           (unsigned long long)sizeof(struct am_registry_grant),
           (double)(am_clock() - begun) / 2000 / 1e3);
}

static int check(void)
{
    struct figures first, second;

    sim_options = (struct sim_options){.n = 150,
                                       .n_peers = 6,
                                       .n_stores = 150,
                                       .limit = 2,
                                       .seconds = 10,
                                       .rate = 1,
                                       .seed = 7};
    first = run();
    figures_print(&first);
    second = run();
    sim_require(first.hash == second.hash, "the same seed gave something else");
    sim_options.seed = 8;
    second = run();
    figures_print(&second);
    sim_require(first.hash != second.hash, "another seed gave the same");
    /* Few exporters, and far more importers than they may have connections. */
    sim_options.n_stores = 7;
    sim_options.limit = 8;
    second = run();
    figures_print(&second);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"processes", required_argument, NULL, 'n'},
        {"peers", required_argument, NULL, 'k'},
        {"stores", required_argument, NULL, 'e'},
        {"limit", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 'x'},
        {"check", no_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    struct figures f;
    struct rusage usage;
    bool is_check = false;
    int option;

    if (sodium_init() < 0)
        return 1;
    am_link_keys_make(&sim.keys, "a cluster in one process", 24);
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'n':
            sim_options.n = strtoull(optarg, NULL, 10);
            break;
        case 'k':
            sim_options.n_peers = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            sim_options.n_stores = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            sim_options.limit = strtoull(optarg, NULL, 10);
            break;
        case 's':
            sim_options.seconds = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            sim_options.rate = strtod(optarg, NULL);
            break;
        case 'x':
            sim_options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            is_check = true;
            break;
        default:
            return 2;
        }
    }
    head_print();
    if (is_check)
        return check();
    if (sim_options.n_stores == 0 || sim_options.n_stores > sim_options.n)
        sim_options.n_stores = sim_options.n;
    if (sim_options.n_peers + 1 > sim_options.n_stores || sim_options.rate <= 0 ||
        sim_options.limit == 0) {
        fprintf(stderr, "aclmem_fabric_sim: too few exporters, or nothing to do\n");
        return 2;
    }
    f = run();
    figures_print(&f);
    costs_print();
    getrusage(RUSAGE_SELF, &usage);
    printf("simulated in %ld s of processor time, %ld MB\n", usage.ru_utime.tv_sec,
           usage.ru_maxrss / 1024);
    return 0;
}
