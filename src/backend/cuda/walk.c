/*
 * One side of a copy, in pieces.  See cuda.h.
 *
 * A piece ends with its handle, or is joined of several that lie side by side: one copy
 * of many handles is several times as fast as a copy of each.  Memory that is no longer
 * mapped where the copy was asked for is a piece without addresses: hidden.
 */
#include "backend/cuda/cuda.h"
#include "base/error.h"

static void walk_advance(struct am_cursor *w, size_t size)
{
    w->at += size;
    if (w->at == w->span->size) {
        w->span++;
        w->at = 0;
    }
}

/* The bytes of its span that are left, or `size`. */
static size_t walk_left(const struct am_cursor *w, size_t size)
{
    size_t left = w->span->size - w->at;

    return left < size ? left : size;
}

void cuda_walk_release(struct am_cursor w, size_t size)
{
    const struct am_span *span;

    while ((span = cuda_walk_next(&w, &size)) != NULL) {
        if (cuda_mem_is_device(span->mem))
            cuda_mem_release(span->mem);
    }
}

/* Acquires all of it: NULL; or nothing: the mem that is blocked. */
static struct am_mem *walk_try_acquire(struct am_cursor w, size_t size)
{
    struct am_cursor start = w;
    const struct am_span *span;
    size_t left = size;
    size_t done = 0;

    while ((span = cuda_walk_next(&w, &left)) != NULL) {
        if (cuda_mem_is_device(span->mem) && !cuda_mem_try_acquire(span->mem)) {
            cuda_walk_release(start, done);
            return span->mem;
        }
        done = size - left;
    }
    return NULL;
}

bool cuda_walk_try_acquire(struct am_cursor w, size_t size)
{
    return walk_try_acquire(w, size) == NULL;
}

bool cuda_walks_try_acquire(struct am_cursor to, struct am_cursor from, size_t size)
{
    if (!cuda_walk_try_acquire(to, size))
        return false;
    if (cuda_walk_try_acquire(from, size))
        return true;
    cuda_walk_release(to, size);
    return false;
}

void cuda_walk_acquire(struct am_cursor w, size_t size)
{
    struct am_mem *mem;

    while ((mem = walk_try_acquire(w, size)) != NULL)
        cuda_mem_await(mem);
}

void cuda_walks_acquire(struct am_cursor to, struct am_cursor from, size_t size)
{
    struct am_mem *mem;

    cuda_walk_acquire(to, size);
    while ((mem = walk_try_acquire(from, size)) != NULL) {
        cuda_walk_release(to, size);
        cuda_mem_await(mem);
        cuda_walk_acquire(to, size);
    }
}

aclError cuda_walk_check(struct am_cursor w, size_t size)
{
    const struct am_span *span;
    aclError rc = ACL_SUCCESS;

    while (rc == ACL_SUCCESS && (span = cuda_walk_next(&w, &size)) != NULL) {
        if (cuda_mem_is_device(span->mem))
            rc = cuda_check(cuda_mem_gpu(span->mem));
    }
    return rc;
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

/* Whether the memory, which is acquired, is mapped where the span says. */
static bool span_is_there(const struct am_span *span)
{
    return cuda_mem_is_at(span->mem, (CUdeviceptr)span->addr - span->offset);
}

bool cuda_walk_is_there(struct am_cursor w, size_t size)
{
    const struct am_span *span;

    while ((span = cuda_walk_next(&w, &size)) != NULL) {
        if (cuda_mem_is_device(span->mem) && !span_is_there(span))
            return false;
    }
    return true;
}

/* All of it is there, at no second address, and in a row. */
static bool walk_is_plain(struct am_cursor w, size_t size)
{
    const char *next = w.span->addr;
    const struct am_span *span;

    if (!cuda_walk_is_there(w, size))
        return false;
    while ((span = cuda_walk_next(&w, &size)) != NULL) {
        if ((char *)span->addr != next ||
            (cuda_mem_is_device(span->mem) && (cuda_mem(span->mem)->uses & CUDA_SEVERAL)))
            return false;
        next += span->size;
    }
    return true;
}

bool cuda_walks_can_join(struct am_cursor to, struct am_cursor from, size_t size)
{
    uintptr_t out = (uintptr_t)to.span->addr + to.at;
    uintptr_t in = (uintptr_t)from.span->addr + from.at;

    if (walk_left(&to, size) == size && walk_left(&from, size) == size)
        return false; /* one piece each: there is nothing to join */
    return (out < in ? in - out : out - in) >= size && walk_is_plain(to, size) &&
           walk_is_plain(from, size);
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
    walk_advance(w, piece.size);
    while (--n_joined > 0 && piece.size < size && piece_goes_on(&piece, w->span)) {
        size_t n = walk_left(w, size - piece.size);

        piece.size += n;
        piece.is_joined = true;
        walk_advance(w, n);
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

bool cuda_pieces_overlap(const struct cuda_piece *a, const struct cuda_piece *b,
                         size_t size)
{
    size_t at_a = a->mem != NULL ? a->offset : a->at;
    size_t at_b = b->mem != NULL ? b->offset : b->at;

    return a->mem == b->mem && (at_a < at_b ? at_b - at_a : at_a - at_b) < size;
}
