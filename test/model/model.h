/*
 * The contract, written a second time: virtual memory here, the runtime in model_rt.h.
 *
 * The library keeps its books in radix tables, generations and reference counts, because
 * it must be fast.  This model keeps the same books in small arrays that are searched
 * from front to back, because it must be right at a glance.  Both are driven with the
 * same calls; where they disagree, one of them has misread the contract.  Nothing here is
 * taken from the library: no source, no internal header, and no call into it either.
 *
 * Each operation has two functions.  model_may_x() says which codes the contract allows
 * for a call with these arguments in this state, and changes nothing.  model_x() is
 * called only after the library has accepted the call, and does to the tables what an
 * accepted call does.
 *
 * A call that breaks several rules may be refused for any one of them: the contract does
 * not order the checks.  So a verdict is a set.  It has two parts: the codes of rules
 * that are broken for certain (the call must fail, with one of them), and codes the
 * contract leaves room for (the call may fail with one of them, or succeed).
 *
 * Contents are modelled at three sites of 64 bytes in each 2 MB chunk of a mapping: its
 * first, its middle and its last bytes; of a block at its two ends.  A byte is a value or
 * MODEL_UNKNOWN.  Fresh memory is unknown, since it may hold zeros or what this process
 * left there; the first read teaches the model, and every later read must agree with it.
 */
#ifndef TEST_MODEL_MODEL_H
#define TEST_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "model_rt.h"

#define MODEL_MIB ((size_t)1 << 20)
#define MODEL_GIB ((size_t)1 << 30)
#define MODEL_CHUNK (2 * MODEL_MIB)
#define MODEL_ENDLESS ((size_t)1 << 46) /* more than any machine or address space has */

enum {
    MODEL_DEVICES = 8,
    MODEL_PHYS = 48,
    MODEL_RANGES = 12,
    MODEL_MAPS = 64,
    MODEL_CONTEXTS = 8,
    MODEL_SITES = 3,
    MODEL_SITE_SIZE = 64,
    MODEL_CHUNK_BYTES = MODEL_SITES * MODEL_SITE_SIZE,
    MODEL_UNKNOWN = -1,
};

struct verdict {
    aclError hard[8]; /* rules that are broken; any of these codes, and never success */
    unsigned n_hard;
    aclError soft[8]; /* refusals the contract permits but does not ask for */
    unsigned n_soft;
    bool is_common; /* a broken rule is one that both rule sets have */
};

struct model_phys {
    bool is_used; /* the memory is alive: refs + n_maps + n_views > 0 */
    void *handle;
    size_t asked; /* what MallocPhysical was given */
    size_t size;  /* asked, rounded up to granule */
    size_t granule;
    aclrtPhysicalMemProp prop;
    unsigned refs; /* 0: the handle is dead, a mapping keeps the memory */
    unsigned n_maps;
    unsigned n_views; /* open ones; what only they hold cannot be reached otherwise */
    int16_t *bytes;   /* MODEL_CHUNK_BYTES for each chunk: 0..255 or MODEL_UNKNOWN */
};

struct model_range {
    bool is_used;
    uintptr_t start;
    size_t size;
    uint64_t flags;
};

struct model_map {
    bool is_used;
    uintptr_t start;
    size_t asked; /* the size MapMem was given */
    size_t size;  /* the same in whole granules */
    struct model_phys *phys;
    int host;               /* aclrtMemAccessFlags, or MODEL_UNKNOWN */
    int dev[MODEL_DEVICES]; /* the same, for each device */
};

struct model_context {
    bool is_used;
    void *value;
    int device;
    void *default_stream; /* NULL until the library has told its value */
};

struct model_device {
    size_t total;
    size_t used;
    unsigned n_sets;   /* SetDevice minus ResetDevice */
    void *default_ctx; /* while n_sets > 0; NULL until the library has told its value */
    void *default_stream; /* the same */
    /* What blocks cost, learned, while is_learned. */
    size_t charge;
    bool is_learned;
    bool peers[MODEL_DEVICES]; /* which it may reach */
};

struct model {
    bool is_strict;
    bool is_shared; /* other threads use the same devices: capacity is not ours alone */
    int n_devices;
    struct model_device dev[MODEL_DEVICES];
    struct model_phys phys[MODEL_PHYS];
    struct model_range range[MODEL_RANGES];
    struct model_map map[MODEL_MAPS];
    struct model_context ctx[MODEL_CONTEXTS];
    struct model_block block[MODEL_BLOCKS];
    struct model_pool pool[MODEL_POOLS];
    struct model_stream stream[MODEL_STREAMS];
    struct model_event event[MODEL_EVENTS];
    /* Each stream once, default ones too. */
    struct model_awaited awaited[MODEL_STREAMS + MODEL_CONTEXTS + MODEL_DEVICES];
    unsigned n_awaited;
    struct model_registered registered[MODEL_REGISTERED];
    bool has_current;
    int current; /* the current device, if has_current */
    /* the current context, NULL for the device's default one */
    struct model_context *own_ctx;
};

/* Verdicts. */
void deny(struct verdict *v, bool is_broken, aclError code);
void deny_strict(const struct model *m, struct verdict *v, bool is_broken, aclError code);
void doubt(struct verdict *v, bool is_open, aclError code);
bool verdict_allows(const struct verdict *v, aclError rc);
bool verdict_is_refusal(const struct verdict *v);

/* Everything empty, no device set. */
void model_init(struct model *m, int n_devices, bool is_strict);
void model_clear(struct model *m);

/* Finding things; NULL when there is none. */
struct model_phys *model_find_phys(struct model *m, const void *handle);
struct model_range *model_find_range(struct model *m, uintptr_t addr);
struct model_map *model_find_map(struct model *m, uintptr_t addr);
struct model_context *model_find_context(struct model *m, const void *value);
/* The mapping that starts exactly there. */
struct model_map *model_find_map_at(struct model *m, uintptr_t addr);
bool model_is_range_free(const struct model *m, uintptr_t start, size_t size);
bool model_is_unmapped(const struct model *m, uintptr_t start, size_t size);

/* Figures: what aclmem_get_stats() must say. */
unsigned model_count_ranges(const struct model *m);
unsigned model_count_phys(const struct model *m);
unsigned model_count_maps(const struct model *m);
unsigned model_count_contexts(const struct model *m);

size_t model_round_up(size_t size, size_t granule);
bool model_is_device_id(const struct model *m, int64_t id);
bool model_is_on_host(const struct model_phys *phys);

/* Address ranges. */
struct verdict model_may_reserve(const struct model *m, const void *out, size_t size,
                                 size_t alignment, uintptr_t expect, uint64_t flags);
struct model_range *model_reserve(struct model *m, uintptr_t start, size_t size,
                                  uint64_t flags);
struct verdict model_may_release(struct model *m, uintptr_t start);
void model_release(struct model *m, uintptr_t start);

/* Physical memory. */
struct verdict model_may_use_prop(const struct model *m,
                                  const aclrtPhysicalMemProp *prop);
size_t model_granule(const aclrtPhysicalMemProp *prop);
struct verdict model_may_malloc(const struct model *m, const void *out, size_t size,
                                const aclrtPhysicalMemProp *prop, uint64_t flags);
struct model_phys *model_malloc(struct model *m, void *handle, size_t size,
                                const aclrtPhysicalMemProp *prop);
struct verdict model_may_free(struct model *m, const void *handle);
void model_free(struct model *m, const void *handle);
struct verdict model_may_use_handle(struct model *m, const void *handle, const void *out);

/* Mappings. */
struct verdict model_may_map(struct model *m, uintptr_t addr, size_t size, size_t offset,
                             const void *handle, uint64_t flags);
struct model_map *model_map(struct model *m, uintptr_t addr, size_t size,
                            const void *handle, bool has_access);
struct verdict model_may_unmap(struct model *m, uintptr_t addr);
void model_unmap(struct model *m, uintptr_t addr);
struct verdict model_may_retain(struct model *m, uintptr_t addr, const void *out);
void model_retain(struct model *m, uintptr_t addr);

/* Access rights. */
struct verdict model_may_set_access(struct model *m, uintptr_t addr, size_t size,
                                    const aclrtMemAccessDesc *desc, size_t count);
void model_set_access(struct model *m, uintptr_t addr, const aclrtMemAccessDesc *desc,
                      size_t count);
struct verdict model_may_get_access(struct model *m, uintptr_t addr,
                                    const aclrtMemLocation *location, const void *out);
/* The entry for a location, to compare with or to fill in when it is MODEL_UNKNOWN. */
int *model_access(struct model_map *map, const aclrtMemLocation *location);

/* Devices and contexts. */
struct verdict model_may_set_device(const struct model *m, int32_t id);
void model_set_device(struct model *m, int32_t id);
struct verdict model_may_reset_device(const struct model *m, int32_t id);
void model_reset_device(struct model *m, int32_t id, bool is_forced);
struct verdict model_may_create_context(const struct model *m, const void *out,
                                        int32_t id);
struct model_context *model_create_context(struct model *m, void *value, int32_t id);
struct verdict model_may_destroy_context(struct model *m, const void *value);
void model_destroy_context(struct model *m, const void *value);
struct verdict model_may_set_context(struct model *m, const void *value);
void model_set_context(struct model *m, const void *value);
/* For calls that need a current context. */
struct verdict model_may_query(const struct model *m, bool has_outputs);
/* The value GetCurrentContext must give; NULL when it is not known yet. */
void *model_current_value(const struct model *m);

/* Views, each of one phys. */
void model_open_view(struct model_phys *phys);
void model_end_view(struct model *m, struct model_phys *phys);

/* Contents. */
enum model_need { MODEL_NOTHING = 0, MODEL_READ = 1, MODEL_WRITE = 2 };

/* One side of a copy: an address that the model knows, or host memory with real bytes. */
struct model_side {
    uintptr_t addr;
    uint8_t *host; /* not NULL: plain host memory, and addr is its address */
};

/* Adds what the range itself breaks: holes, missing rights. */
void model_check_span(struct model *m, struct verdict *v, uintptr_t addr, size_t size,
                      enum model_need need);
struct verdict model_may_copy(struct model *m, const struct model_side *dst,
                              size_t dest_max, const struct model_side *src, size_t count,
                              int kind);
/* The same on a stream. */
struct verdict model_may_copy_async(struct model *m, const struct model_side *dst,
                                    size_t dest_max, const struct model_side *src,
                                    size_t count, int kind, const void *stream);
/*
 * Not for host to host.  A copy into host memory is compared: the address of the first
 * wrong byte, or 0.
 */
uintptr_t model_copy(struct model *m, const struct model_side *dst,
                     const struct model_side *src, size_t count);
struct verdict model_may_fill(struct model *m, uintptr_t addr, size_t max, size_t count);
struct verdict model_may_fill_async(struct model *m, uintptr_t addr, size_t max,
                                    size_t count, const void *stream);
void model_fill(struct model *m, uintptr_t addr, int value, size_t count);
/*
 * Puts a known byte, or MODEL_UNKNOWN, at an address that is mapped; ignored outside of
 * sites.
 */
void model_poke(struct model *m, uintptr_t addr, int value);
int model_peek(struct model *m, uintptr_t addr);
/* The byte at an offset of the memory; NULL outside of sites. */
int16_t *model_phys_byte(const struct model_phys *phys, size_t offset);
/* Offset in a chunk of site number i. */
size_t model_site_offset(unsigned i);

#endif
