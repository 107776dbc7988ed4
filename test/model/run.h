/*
 * One run: the library and the model side by side, driven by a source of choices.
 *
 * Every choice (which call, which argument, right or wrong) is one number from the
 * source.  The random test draws them from a generator with a printed seed, the fuzzer
 * takes them from its input, and so both reach the same calls.  A run is repeated exactly
 * by repeating its choices: no operation looks at the clock, at addresses, or at anything
 * else that differs from one process to the next.
 *
 * A run belongs to one thread.  `is_alone` says that no other thread calls the library:
 * then addresses and handles that this run does not own may be tried as wrong arguments
 * too, and all figures must match exactly.  With company only what company cannot change
 * is compared.
 */
#ifndef TEST_MODEL_RUN_H
#define TEST_MODEL_RUN_H

#include "model.h"

enum {
    RUN_LOG = 20,   /* calls shown in a report */
    RUN_LINE = 320, /* characters of one of them */
    RUN_STALE = 64, /* dead handles remembered, to be used again as wrong arguments */
    RUN_GONE = 16,  /* released reservations, the same */
    RUN_VIEWS = 4,  /* views open at once */
};

/* A view that stays open, of memory that it keeps alive. */
struct run_view {
    struct model_phys *phys; /* NULL: unused */
    size_t offset;           /* in phys */
    void *host;
    size_t size;
};

#define RUN_HOST_SIZE (9 * MODEL_MIB)

struct source {
    uint64_t state; /* of the generator; unused when there are bytes */
    const uint8_t *bytes;
    size_t n_bytes;
    size_t at;
};

struct run_options {
    bool is_strict;
    bool is_alone;
    /* ACLMEM_ISOLATE=0: the program may touch device memory itself */
    bool is_addressable;
    int n_devices;
    size_t memory; /* of each device */
};

struct run {
    struct model m;
    struct source *src;
    struct run_options opt;
    uint64_t step;
    const char *label; /* names the run in a report: "seed 7" */
    /* Ends the process; the last thing a report does. */
    void (*give_up)(void);

    unsigned n_inits; /* references aclInit holds */
    aclError last_error;
    uint8_t *host; /* RUN_HOST_SIZE bytes of ordinary memory, a side of copies */
    void *stale[RUN_STALE];
    unsigned n_stale;
    struct run_view view[RUN_VIEWS];
    uintptr_t gone[RUN_GONE];
    unsigned n_gone;
    uintptr_t leaving[RUN_GONE]; /* of those, blocks that a stream frees in its turn */
    unsigned n_leaving;

    char log[RUN_LOG][RUN_LINE];
    unsigned n_logged;
};

/*
 * Opens on an initialised library in which nothing is alive; closes with everything torn
 * down.
 */
void run_open(struct run *r, const struct run_options *opt, struct source *src,
              const char *label, void (*give_up)(void));
void run_close(struct run *r);
/* One call, compared. */
void run_step(struct run *r);
/* Everything that can be asked about everything that is alive, compared. */
void run_check_all(struct run *r);
/* Takes down what is alive, in one of several orders, and checks that nothing is left. */
void run_tear_down(struct run *r);

/* Choices. */
struct source source_of_seed(uint64_t seed);
struct source source_of_bytes(const uint8_t *bytes, size_t n_bytes);
bool source_is_dry(const struct source *src);
uint32_t pick(struct run *r, uint32_t n);
bool chance(struct run *r, uint32_t percent);
#define pick_of(r_, array_) \
    ((array_)[pick((r_), (uint32_t)(sizeof(array_) / sizeof((array_)[0])))])

/*
 * Reports.  expect() is the way to compare outputs: what, with the values, when it does
 * not hold.
 */
void run_log(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void difference(struct run *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define expect(r_, cond_, ...) \
    do { \
        if (!(cond_)) \
            difference((r_), __VA_ARGS__); \
    } while (0)

/*
 * Compares a code with the verdict, and what goes with a refusal: a message, and which
 * message.  True when the call succeeded.
 */
bool settle(struct run *r, aclError rc, const struct verdict *v);
/* The same for a call that has to succeed. */
void settle_ok(struct run *r, aclError rc);

/*
 * Called when a handle or a reservation died, so that its value can be tried again later.
 */
void remember_stale(struct run *r, void *handle);
void remember_gone(struct run *r, uintptr_t start);
void remember_leaving(struct run *r, uintptr_t start);
bool is_leaving(const struct run *r, uintptr_t start);
/* Whether this value died a short while ago. */
bool is_stale(const struct run *r, const void *handle);

/* Arguments: right ones, and wrong ones of the kinds that programs pass. */
int32_t arg_device(struct run *r);
struct model_phys *arg_phys(struct run *r);
struct model_range *arg_range(struct run *r);
struct model_map *arg_map(struct run *r);
void *arg_handle(struct run *r);
uintptr_t arg_address(struct run *r);
/* The start of a mapping; `odds` in a hundred times something else. */
uintptr_t arg_map_start(struct run *r, uint32_t odds);
aclrtPhysicalMemProp arg_prop(struct run *r);
/* A size of 1 to 8 granules, now and then off by a little or by a lot. */
size_t arg_size(struct run *r, size_t granule);
aclrtMemLocation arg_location(struct run *r);

/* Bytes of a mapping, near one of its sites; seldom those of a hole. */
uintptr_t arg_span(struct run *r, size_t count);
/*
 * With company, what lies behind the end of a range may be another thread's, and mapped.
 */
bool is_ours(struct run *r, uintptr_t addr, size_t count);

/* One of the run's blocks of these kinds, or NULL. */
struct model_block *arg_block(struct run *r, int kinds);
/* The start of one; seldom something else. */
uintptr_t arg_block_start(struct run *r, int kinds);
/* A stream, NULL among them; seldom something else. */
void *arg_stream(struct run *r);
struct model_stream *arg_model_stream(struct run *r);

/* Operations; each is one call, or a call that takes back what it gave. */
typedef void (*op_fn)(struct run *r);
void op_reserve(struct run *r);
void op_reserve_no_uc(struct run *r);
void op_release(struct run *r);
void op_retire(struct run *r);
void op_malloc(struct run *r);
void op_free(struct run *r);
void op_map(struct run *r);
void op_unmap(struct run *r);
void op_retain(struct run *r);
void op_properties(struct run *r);
void op_granularity(struct run *r);
void op_set_access(struct run *r);
void op_get_access(struct run *r);
void op_address_range(struct run *r);
void op_attributes(struct run *r);
void op_check_type(struct run *r);
void op_copy(struct run *r);
void op_fill(struct run *r);
void op_view(struct run *r);
void op_end_view(struct run *r);
void op_touch(struct run *r);
void op_set_device(struct run *r);
void op_reset_device(struct run *r);
void op_get_device(struct run *r);
void op_create_context(struct run *r);
void op_destroy_context(struct run *r);
void op_set_context(struct run *r);
void op_get_context(struct run *r);
void op_primary_state(struct run *r);
void op_mem_info(struct run *r);
void op_init_again(struct run *r);
void op_last_error(struct run *r);
void op_block_malloc(struct run *r);
void op_block_free(struct run *r);
void op_host_malloc(struct run *r);
void op_host_free(struct run *r);
void op_managed_malloc(struct run *r);
void op_host_touch(struct run *r);
void op_mem_flush(struct run *r);
void op_register(struct run *r);
void op_unregister(struct run *r);
void op_device_pointer(struct run *r);
void op_advise(struct run *r);
void op_prefetch(struct run *r);
void op_managed_attr(struct run *r);
void op_peer(struct run *r);
void op_ask_peer(struct run *r);
void op_create_stream(struct run *r);
void op_destroy_stream(struct run *r);
void op_sync_stream(struct run *r);
void op_sync_device(struct run *r);
void op_ask_stream(struct run *r);
void op_failure_mode(struct run *r);
void op_default_stream(struct run *r);
void op_create_event(struct run *r);
void op_destroy_event(struct run *r);
void op_record_event(struct run *r);
void op_wait_event(struct run *r);
void op_query_event(struct run *r);
void op_event_time(struct run *r);
void op_create_pool(struct run *r);
void op_destroy_pool(struct run *r);
void op_malloc_async(struct run *r);
void op_free_async(struct run *r);
void op_trim_pool(struct run *r);
void op_set_pool_attr(struct run *r);
void op_get_pool_attr(struct run *r);
void op_copy_async(struct run *r);
void op_fill_async(struct run *r);

/* Views that are open, and the end of one. */
unsigned count_views(const struct run *r);
void close_view(struct run *r, struct run_view *view);

/* Comparisons that several places make. */
/* Of a block that has just been handed out: aligned, and in nobody's memory. */
void check_new_block(struct run *r, const void *got, size_t size, size_t alignment);
void check_pools(struct run *r);
/* After a synchronisation of the device, or of a stream of it. */
void check_released(struct run *r, int device);
void check_figures(struct run *r);
void check_attributes(struct run *r, uintptr_t addr);
void check_address_range(struct run *r, uintptr_t addr);
void check_access(struct run *r, struct model_map *map, const aclrtMemLocation *location);
/* Reads a site and compares; nothing when no right or no context allows it. */
void check_site(struct run *r, uintptr_t addr);

#endif
