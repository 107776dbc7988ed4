/*
 * Declared accesses of host functions: include/aclmem/access.h.
 *
 * A strided access is a list of runs of consecutive bytes; each run is a piece of the function's work.  An access with
 * more than RUNS_MAX runs is checked in its first ones: a conflict may be missed, and none is invented.
 */
#include "layer/order.h"

#include "aclmem/access.h"
#include "layer/hooks.h"
#include "layer/layers.h"

#define RUNS_MAX 1024
#define DIMS_MAX 16

static _Thread_local struct {
    const aclmem_access *list;
    size_t n;
    bool is_set;
} declared __attribute__((tls_model("initial-exec")));

AM_LAYER_EXPORT int aclmem_wants_access(void)
{
    return am_check_is_on();
}

AM_LAYER_EXPORT void aclmem_declare_access(const aclmem_access *accesses, size_t n)
{
    declared.list = accesses;
    declared.n = n;
    declared.is_set = true;
}

/* A strided access: runs of `run` bytes, at each combination of the indices of the dimensions. */
struct strided {
    uint64_t addr;
    uint64_t run;
    unsigned n_dims;
    int64_t size[DIMS_MAX];
    int64_t stride[DIMS_MAX]; /* positive, ascending */
};

/* Inserts a dimension by its stride. */
static void dim_insert(struct strided *s, int64_t size, int64_t stride)
{
    unsigned i = s->n_dims++;

    if (stride < 0) {
        s->addr += (uint64_t)((size - 1) * stride);
        stride = -stride;
    }
    for (; i > 0 && s->stride[i - 1] > stride; i--) {
        s->stride[i] = s->stride[i - 1];
        s->size[i] = s->size[i - 1];
    }
    s->stride[i] = stride;
    s->size[i] = size;
}

/* Inner dimensions without gaps become part of the run. */
static void dims_join(struct strided *s)
{
    unsigned n = 0;

    while (n < s->n_dims && (uint64_t)s->stride[n] <= s->run) {
        s->run += (uint64_t)(s->size[n] - 1) * (uint64_t)s->stride[n];
        n++;
    }
    s->n_dims -= n;
    for (unsigned i = 0; i < s->n_dims; i++) {
        s->stride[i] = s->stride[i + n];
        s->size[i] = s->size[i + n];
    }
}

/* False: the access has no element, or more dimensions than we follow. */
static bool strided_make(const aclmem_access *access, struct strided *ret)
{
    *ret = (struct strided){.addr = (uintptr_t)access->address, .run = access->item};
    if (access->n_dims > DIMS_MAX || access->item == 0)
        return false;
    for (unsigned i = 0; i < access->n_dims; i++) {
        if (access->sizes[i] <= 0)
            return false;
        if (access->sizes[i] > 1 && access->strides[i] != 0)
            dim_insert(ret, access->sizes[i], access->strides[i]);
    }
    dims_join(ret);
    return true;
}

/* The next combination of indices; false: there is none. */
static bool index_next(const struct strided *s, int64_t index[])
{
    for (unsigned i = 0; i < s->n_dims; i++) {
        if (++index[i] < s->size[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static void access_add(struct am_call *call, const aclmem_access *access)
{
    bool is_write = (access->flags & ACLMEM_ACCESS_WRITE) != 0;
    int64_t index[DIMS_MAX] = {0};
    struct strided s;
    unsigned n = 0;

    if (!strided_make(access, &s))
        return;
    do {
        uint64_t addr = s.addr;

        for (unsigned i = 0; i < s.n_dims; i++)
            addr += (uint64_t)(index[i] * s.stride[i]);
        am_call_add_range(call, (const void *)(uintptr_t)addr, s.run, is_write,
                          "an access of the function");
    } while (++n < RUNS_MAX && index_next(&s, index));
}

bool am_access_add(struct am_call *call)
{
    if (!declared.is_set)
        return false;
    declared.is_set = false;
    for (size_t i = 0; i < declared.n; i++)
        access_add(call, &declared.list[i]);
    call->is_waited = false; /* nothing waits for memory that the layer does not know */
    return true;
}
