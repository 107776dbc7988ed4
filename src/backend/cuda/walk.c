/*
 * Both sides of a copy, or the one of a fill, in pieces.  See cuda.h.
 *
 * A piece ends with its handle, or is joined of several that lie side by side: one copy
 * of many handles is several times as fast as a copy of each.  Memory that is no longer
 * mapped where the copy was asked for is a piece without addresses: hidden.
 */
#include "backend/cuda/cuda.h"
#include "base/error.h"

/* ---- the spans of both sides ---- */

struct walk {
    struct am_cursor at[2];
    size_t left[2];
};

static inline struct walk walk_begin(const struct am_step *step)
{
    return (struct walk){{step->dst, step->src},
                         {step->size, step->src.span != NULL ? step->size : 0}};
}

/* The next span, of the destination first; NULL at the end. */
static inline const struct am_span *walk_next(struct walk *walk)
{
    unsigned i = walk->left[0] == 0;
    const struct am_span *span = walk->at[i].span;
    size_t in_span;

    if (walk->left[i] == 0)
        return NULL;
    in_span = span->size - walk->at[i].at;
    walk->left[i] -= in_span < walk->left[i] ? in_span : walk->left[i];
    walk->at[i] = (struct am_cursor){span + 1, 0};
    return span;
}

/* The same, device memory only. */
static inline const struct am_span *walk_next_device(struct walk *walk)
{
    const struct am_span *span = walk_next(walk);

    while (span != NULL && !cuda_mem_is_device(span->mem))
        span = walk_next(walk);
    return span;
}

static void spans_release(const struct am_step *step, size_t n, uint64_t number)
{
    struct walk walk = walk_begin(step);
    const struct am_span *span;

    for (; n > 0 && (span = walk_next_device(&walk)) != NULL; n--) {
        if (number != 0)
            cuda_number_raise(&cuda_mem(span->mem)->launched, number);
        cuda_mem_release(span->mem);
    }
}

AM_HOT void cuda_step_release(const struct am_step *step, uint64_t number)
{
    spans_release(step, SIZE_MAX, number);
}

/* Acquires all device memory: NULL; or nothing: the memory that is blocked. */
static struct am_mem *step_try_acquire(const struct am_step *step)
{
    struct walk walk = walk_begin(step);
    const struct am_span *span;

    for (size_t n = 0; (span = walk_next_device(&walk)) != NULL; n++) {
        if (!cuda_mem_try_acquire(span->mem)) {
            spans_release(step, n, 0);
            return span->mem;
        }
    }
    return NULL;
}

aclError cuda_step_acquire(const struct am_step *step)
{
    struct walk walk = walk_begin(step);
    const struct am_span *span;
    struct am_mem *blocked;

    while ((span = walk_next_device(&walk)) != NULL)
        AM_TRY(cuda_check(cuda_mem_gpu(span->mem)));
    while ((blocked = step_try_acquire(step)) != NULL)
        cuda_mem_await(blocked);
    return ACL_SUCCESS;
}

/* Whether the memory, which is acquired, is mapped where the span says. */
static inline bool span_is_there(const struct am_span *span)
{
    return cuda_mem(span->mem)->bound == (CUdeviceptr)span->addr - span->offset ||
           cuda_mem_is_at(span->mem, (CUdeviceptr)span->addr - span->offset);
}

static bool step_is_there(const struct am_step *step)
{
    struct walk walk = walk_begin(step);
    const struct am_span *span;

    while ((span = walk_next_device(&walk)) != NULL) {
        if (!span_is_there(span))
            return false;
    }
    return true;
}

/* Whether the driver itself has locked the program's memory there. */
AM_COLD static bool is_known(const void *addr)
{
    CUmemorytype type = 0;

    return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    (CUdeviceptr)addr) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

AM_HOT bool cuda_step_acquire_for(const struct am_step *step, const struct cuda_gpu *gpu)
{
    struct walk walk = walk_begin(step);
    const struct am_span *span;
    size_t n = 0;

    while ((span = walk_next(&walk)) != NULL) {
        struct am_mem *mem = span->mem;
        bool is_fine;

        if (cuda_mem_is_device(mem)) {
            is_fine = cuda_mem_gpu(mem) == gpu && cuda_mem_try_acquire(mem);
            n += is_fine;
            is_fine = is_fine && span_is_there(span);
        } else {
            is_fine = mem == NULL ? is_known(span->addr)
                                  : mem->bank->ops == &am_backend_cuda; /* pinned */
        }
        if (!is_fine) {
            spans_release(step, n, 0);
            return false;
        }
    }
    return true;
}

bool cuda_step_can_join(const struct am_step *step)
{
    bool is_one_each =
        step->size <= step->dst.span->size - step->dst.at &&
        (step->src.span == NULL || step->size <= step->src.span->size - step->src.at);

    return !is_one_each && step_is_there(step);
}

/* ---- pieces ---- */

static void cursor_advance(struct am_cursor *w, size_t size)
{
    w->at += size;
    if (w->at == w->span->size) {
        w->span++;
        w->at = 0;
    }
}

/*
 * The address at which the host accesses a span.  Memory of the host backend has a
 * separate address: at the program's address the driver has reserved, but not mapped, memory.
 */
static aclError host_address(const struct am_cursor *w, CUdeviceptr *ret_at)
{
    struct am_span rest = *w->span;
    bool is_private;
    void *addr;

    *ret_at = (CUdeviceptr)w->span->addr + w->at;
    if (rest.mem == NULL || rest.mem->bank->ops == &am_backend_cuda)
        return ACL_SUCCESS;
    rest.offset += w->at;
    rest.size -= w->at;
    AM_TRY(rest.mem->bank->ops->view_open(&rest, 1, false, &addr, &is_private));
    *ret_at = (CUdeviceptr)addr;
    /* It stays: such memory never moves, and the span keeps it. */
    rest.mem->bank->ops->view_close(&rest, 1, addr, is_private);
    return ACL_SUCCESS;
}

/* The current piece, to the end of its span. */
static aclError piece_find(const struct am_cursor *w, struct cuda_piece *ret_piece)
{
    const struct am_span *span = w->span;
    struct cuda_piece piece = {.size = span->size - w->at};
    aclError rc = ACL_SUCCESS;

    if (!cuda_mem_is_device(span->mem)) {
        rc = host_address(w, &piece.at);
    } else {
        piece.gpu = cuda_mem_gpu(span->mem);
        piece.mem = span->mem;
        piece.offset = span->offset + w->at;
        piece.is_hidden = !span_is_there(span);
        piece.at = piece.is_hidden ? 0 : (CUdeviceptr)span->addr + w->at;
    }
    *ret_piece = piece;
    return rc;
}

/* Whether the span, which is there, goes on where the piece ends. */
static bool piece_goes_on(const struct cuda_piece *piece, const struct am_span *span)
{
    return piece->gpu != NULL && cuda_mem_is_device(span->mem) &&
           cuda_mem_gpu(span->mem) == piece->gpu &&
           (CUdeviceptr)span->addr == piece->at + piece->size;
}

aclError cuda_piece_take(struct am_cursor *w, size_t size, size_t n_joined,
                         struct cuda_piece *ret_piece)
{
    struct cuda_piece piece;

    AM_TRY(piece_find(w, &piece));
    if (piece.size > size)
        piece.size = size;
    cursor_advance(w, piece.size);
    while (--n_joined > 0 && piece.size < size && piece_goes_on(&piece, w->span)) {
        size_t n = w->span->size - w->at;

        if (n > size - piece.size)
            n = size - piece.size;
        piece.size += n;
        piece.is_joined = true;
        cursor_advance(w, n);
    }
    *ret_piece = piece;
    return ACL_SUCCESS;
}

void cuda_piece_advance(struct cuda_piece *piece, size_t size)
{
    if (!piece->is_hidden)
        piece->at += size;
    piece->offset += size;
    piece->size -= size;
}
