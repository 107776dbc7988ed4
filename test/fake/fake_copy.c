/*
 * Copies, fills and values.
 *
 * At the call both sides are looked at, as the driver does: the typed functions refuse what
 * is not there or may not be touched.  When the op runs the addresses are translated once
 * more, and memory that is gone by then breaks the context.
 */
#include "fake/fake.h"

#include <stdlib.h>
#include <string.h>

enum { STAGED_MAX = 64 * 1024 }; /* what the driver takes of pageable memory at once */

static const size_t max_pitch = ((size_t)1 << 31) - 1;

/* ---- what lies at an address ---- */

enum side {
    SIDE_DEVICE = 1u << 0,  /* mapped memory, or host memory that the driver knows */
    SIDE_PROGRAM = 1u << 1, /* any other address: taken to be the program's */
};

/* Whether each byte is in memory that the device may use so. */
static bool is_device_range_locked(CUdeviceptr addr, size_t size, int device,
                                   unsigned rights)
{
    while (size) {
        struct fake_mapping *mapping = fake_mapping_at_locked(addr);
        struct fake_host *host = mapping ? NULL : fake_host_at_locked(addr);
        size_t left;

        if (mapping && fake_may_locked(mapping, device, rights))
            left = mapping->addr + mapping->size - addr;
        else if (host)
            left = host->addr + host->size - addr;
        else
            return false;
        left = left < size ? left : size;
        addr += left;
        size -= left;
    }
    return true;
}

static bool is_pageable_locked(CUdeviceptr addr)
{
    return !fake_mapping_at_locked(addr) && !fake_host_at_locked(addr);
}

static size_t extent(size_t pitch, size_t width, size_t height)
{
    return (height - 1) * pitch + width;
}

/* ---- moving bytes, for the engine ---- */

struct piece {
    unsigned char *bytes;
    size_t size;
    struct fake_phys *phys; /* kept; NULL: the program's own memory */
};

/* The bytes from addr on, as many as lie together; what was known must still be there. */
static CUresult get_piece_locked(CUdeviceptr addr, size_t size, int device,
                                 unsigned rights, bool is_known, struct piece *ret_piece)
{
    struct fake_mapping *mapping = is_known ? fake_mapping_at_locked(addr) : NULL;
    size_t left;

    if (!mapping) {
        if (is_known && !fake_host_at_locked(addr))
            return CUDA_ERROR_LAUNCH_FAILED;
        *ret_piece = (struct piece){.bytes = (unsigned char *)addr, .size = size};
        return CUDA_SUCCESS;
    }
    if (!fake_may_locked(mapping, device, rights))
        return CUDA_ERROR_LAUNCH_FAILED;
    left = mapping->addr + mapping->size - addr;
    mapping->phys->refs++;
    *ret_piece = (struct piece){
        .bytes = mapping->phys->bytes + (addr - mapping->addr),
        .size = left < size ? left : size,
        .phys = mapping->phys,
    };
    return CUDA_SUCCESS;
}

static void put_piece_locked(struct piece *piece)
{
    if (piece->phys)
        fake_phys_put_locked(piece->phys);
}

static void fill_bytes(unsigned char *to, size_t size, uint32_t value, unsigned width)
{
    if (width == 1)
        memset(to, (int)value, size);
    else
        for (size_t at = 0; at < size; at += sizeof(value))
            memcpy(to + at, &value, sizeof(value));
}

/* One step of a row. */
static CUresult move_piece(const struct fake_op *op, CUdeviceptr dst, CUdeviceptr src,
                           const unsigned char *staged, size_t size, size_t *ret_done)
{
    struct piece from = {.size = size};
    struct piece to;
    CUresult rc;

    fake_lock();
    rc = get_piece_locked(dst, size, op->rows.dst_device,
                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE, op->rows.is_dst_known, &to);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (op->kind == FAKE_COPY && staged)
        from.bytes = (unsigned char *)staged;
    else if (op->kind == FAKE_COPY)
        rc =
            get_piece_locked(src, size, op->rows.src_device,
                             CU_MEM_ACCESS_FLAGS_PROT_READ, op->rows.is_src_known, &from);
    if (rc != CUDA_SUCCESS) {
        put_piece_locked(&to);
        return fake_unlock(rc);
    }
    *ret_done = to.size < from.size ? to.size : from.size;
    /* Under the lock, so that an export does not come between looking and moving. */
    pthread_rwlock_rdlock(&fake.bytes);
    fake_unlock(CUDA_SUCCESS);
    if (op->kind == FAKE_COPY)
        memmove(to.bytes, from.bytes, *ret_done);
    else if (op->kind == FAKE_WRITE)
        __atomic_store_n((uint32_t *)to.bytes, op->value, __ATOMIC_RELEASE);
    else
        fill_bytes(to.bytes, *ret_done, op->value, op->width);
    pthread_rwlock_unlock(&fake.bytes);
    fake_lock();
    put_piece_locked(&to);
    put_piece_locked(&from);
    return fake_unlock(CUDA_SUCCESS);
}

static CUresult move_range(const struct fake_op *op, size_t row, size_t start, size_t end)
{
    const struct fake_rows *rows = &op->rows;
    CUdeviceptr dst = rows->dst + row * rows->dst_pitch;
    CUdeviceptr src = rows->src + row * rows->src_pitch;
    size_t done = 0;

    for (size_t at = start; at < end; at += done) {
        const unsigned char *staged = NULL;
        CUresult rc;

        if (op->staged)
            staged = op->staged + row * rows->src_pitch + at;
        rc = move_piece(op, dst + at, src + at, staged, end - at, &done);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    return CUDA_SUCCESS;
}

/*
 * The driver leaves undefined what becomes of bytes that both sides have.  Here the second
 * half of a copy goes first.
 */
static CUresult move_row(const struct fake_op *op, size_t row)
{
    size_t half = op->kind == FAKE_COPY ? op->rows.width / 2 : 0;
    CUresult rc = move_range(op, row, half, op->rows.width);

    return rc == CUDA_SUCCESS ? move_range(op, row, 0, half) : rc;
}

CUresult fake_move(const struct fake_op *op)
{
    for (size_t row = 0; row < op->rows.height; row++) {
        CUresult rc = move_row(op, row);

        if (rc != CUDA_SUCCESS)
            return rc;
    }
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

/* Queues, and waits until it is done when the program's memory must not be touched later. */
static CUresult queue_and_wait_locked(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_context *context = stream->context;
    bool is_done = false;
    CUresult rc;

    op->ret_done = &is_done;
    rc = fake_stream_queue_locked(stream, op);
    while (rc == CUDA_SUCCESS && !is_done)
        pthread_cond_wait(&fake.changed, &fake.lock);
    return rc == CUDA_SUCCESS ? context->error : rc;
}

static CUresult queue_staged_locked(struct fake_stream *stream, struct fake_op *op,
                                    size_t size)
{
    CUresult rc;

    op->staged = malloc(size);
    if (!op->staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(op->staged, (const void *)op->rows.src, size);
    rc = fake_stream_queue_locked(stream, op);
    if (rc != CUDA_SUCCESS)
        free(op->staged);
    return rc;
}

/* What each side may be is decided by the function. */
static CUresult copy_locked(struct fake_stream *stream, const struct fake_rows *rows,
                            unsigned dst_sides, unsigned src_sides)
{
    struct fake_op op = {.kind = FAKE_COPY, .rows = *rows};
    size_t dst_size;
    size_t src_size;

    if (!rows->width || !rows->height)
        return CUDA_SUCCESS;
    if (!rows->dst || !rows->src)
        return CUDA_ERROR_INVALID_VALUE;
    dst_size = extent(rows->dst_pitch, rows->width, rows->height);
    src_size = extent(rows->src_pitch, rows->width, rows->height);
    if ((!is_pageable_locked(rows->dst) || !(dst_sides & SIDE_PROGRAM)) &&
        !is_device_range_locked(rows->dst, dst_size, rows->dst_device,
                                CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    if ((!is_pageable_locked(rows->src) || !(src_sides & SIDE_PROGRAM)) &&
        !is_device_range_locked(rows->src, src_size, rows->src_device,
                                CU_MEM_ACCESS_FLAGS_PROT_READ))
        return CUDA_ERROR_INVALID_VALUE;
    op.rows.is_dst_known = !is_pageable_locked(rows->dst);
    op.rows.is_src_known = !is_pageable_locked(rows->src);
    if (!op.rows.is_dst_known)
        return queue_and_wait_locked(stream, &op);
    if (op.rows.is_src_known)
        return fake_stream_queue_locked(stream, &op);
    if (src_size > STAGED_MAX)
        return queue_and_wait_locked(stream, &op);
    return queue_staged_locked(stream, &op, src_size);
}

/* Whether the range goes from one handle into the next. */
static bool goes_on_locked(CUdeviceptr addr, size_t size)
{
    const struct fake_mapping *mapping = fake_mapping_at_locked(addr);

    return mapping && size > mapping->addr + mapping->size - addr;
}

/* The driver copies such ranges only where a context is current. */
static bool needs_context_locked(const struct fake_rows *rows)
{
    return rows->width && rows->height &&
           (goes_on_locked(rows->dst,
                           extent(rows->dst_pitch, rows->width, rows->height)) ||
            goes_on_locked(rows->src,
                           extent(rows->src_pitch, rows->width, rows->height)));
}

/* The same by the stream's device. */
static CUresult copy_rows(CUstream handle, struct fake_rows *rows, unsigned dst_sides,
                          unsigned src_sides)
{
    struct fake_context *current;
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS && needs_context_locked(rows) &&
        fake_context_current_locked(&current) != CUDA_SUCCESS)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        rows->dst_device = stream->context->device;
        rows->src_device = stream->context->device;
        rc = copy_locked(stream, rows, dst_sides, src_sides);
    }
    return fake_unlock(rc);
}

static CUresult copy_bytes(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle,
                           unsigned dst_sides, unsigned src_sides)
{
    struct fake_rows rows = {.dst = dst, .src = src, .width = size, .height = 1};

    return copy_rows(handle, &rows, dst_sides, src_sides);
}

CUresult fake_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                            CUstream stream)
{
    unsigned any = SIDE_DEVICE | SIDE_PROGRAM;
    struct fake_stream *captured;
    bool is_captured;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(stream, &captured);
    is_captured = rc == CUDA_SUCCESS && captured->capture.is_on;
    if (is_captured && !fake_graph_add_locked(&captured->capture, dst, src, size))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    fake_unlock(rc);
    if (rc != CUDA_SUCCESS || is_captured)
        return rc;
    return copy_bytes(dst, src, size, stream, any, any);
}

/* The copies have no order: they are queued from the last to the first. */
CUresult fake_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                 size_t n, CUmemcpyAttributes *attributes,
                                 size_t *indexes, size_t n_attributes, size_t *ret_failed,
                                 CUstream stream)
{
    CUresult rc = CUDA_SUCCESS;

    if (!dsts || !srcs || !sizes || !n || !attributes || !indexes || n_attributes != 1 ||
        indexes[0] != 0 || stream == NULL || stream == CU_STREAM_LEGACY ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = n; i-- > 0 && rc == CUDA_SUCCESS;) {
        rc = fake_cuMemcpyAsync(dsts[i], srcs[i], sizes[i], stream);
        if (rc != CUDA_SUCCESS)
            *ret_failed = i;
    }
    return rc;
}

CUresult fake_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size,
                                   CUstream stream)
{
    return copy_bytes(dst, (CUdeviceptr)src, size, stream, SIDE_DEVICE,
                      SIDE_DEVICE | SIDE_PROGRAM);
}

CUresult fake_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size,
                                   CUstream stream)
{
    return copy_bytes((CUdeviceptr)dst, src, size, stream, SIDE_DEVICE | SIDE_PROGRAM,
                      SIDE_DEVICE);
}

CUresult fake_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                   CUstream stream)
{
    return copy_bytes(dst, src, size, stream, SIDE_DEVICE, SIDE_DEVICE);
}

/* Each side by the rights of its own context's device. */
CUresult fake_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                                CUcontext from, size_t size, CUstream handle)
{
    struct fake_context *dst_context = fake_context_find(to);
    struct fake_context *src_context = fake_context_find(from);
    struct fake_rows rows = {.dst = dst, .src = src, .width = size, .height = 1};
    struct fake_stream *stream;
    CUresult rc;

    if (!dst_context || !src_context)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc == CUDA_SUCCESS) {
        rows.dst_device = dst_context->device;
        rows.src_device = src_context->device;
        rc = copy_locked(stream, &rows, SIDE_DEVICE, SIDE_DEVICE);
    }
    return fake_unlock(rc);
}

/* What a side of a copy of rows may be; 0: no such type. */
static unsigned sides_of(CUmemorytype type)
{
    switch ((int)type) {
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_UNIFIED:
        return SIDE_DEVICE | SIDE_PROGRAM;
    case CU_MEMORYTYPE_DEVICE:
        return SIDE_DEVICE;
    default:
        return 0;
    }
}

static bool is_pitch(size_t pitch, size_t width, size_t height)
{
    return pitch <= max_pitch && (width <= pitch || height <= 1);
}

CUresult fake_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    struct fake_rows rows;

    if (!copy || !sides_of(copy->srcMemoryType) || !sides_of(copy->dstMemoryType) ||
        !is_pitch(copy->srcPitch, copy->WidthInBytes, copy->Height) ||
        !is_pitch(copy->dstPitch, copy->WidthInBytes, copy->Height))
        return CUDA_ERROR_INVALID_VALUE;
    rows = (struct fake_rows){
        .dst = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)copy->dstHost
                                                         : copy->dstDevice,
        .src = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)copy->srcHost
                                                         : copy->srcDevice,
        .dst_pitch = copy->dstPitch,
        .src_pitch = copy->srcPitch,
        .width = copy->WidthInBytes,
        .height = copy->Height,
    };
    rows.dst += copy->dstY * copy->dstPitch + copy->dstXInBytes;
    rows.src += copy->srcY * copy->srcPitch + copy->srcXInBytes;
    return copy_rows(stream, &rows, sides_of(copy->dstMemoryType),
                     sides_of(copy->srcMemoryType));
}

/* ---- fills and values ---- */

/* An op that touches size bytes at addr. */
static CUresult queue_at(CUstream handle, CUdeviceptr addr, size_t size, unsigned rights,
                         struct fake_op *op)
{
    struct fake_stream *stream;
    CUresult rc;

    fake_lock();
    rc = fake_stream_find_locked(handle, &stream);
    if (rc != CUDA_SUCCESS || !size)
        return fake_unlock(rc);
    op->rows.dst_device = stream->context->device;
    if (!is_device_range_locked(addr, size, op->rows.dst_device, rights))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(fake_stream_queue_locked(stream, op));
}

static CUresult fill(enum fake_kind kind, CUdeviceptr dst, uint32_t value, unsigned width,
                     size_t n, CUstream stream)
{
    struct fake_op op = {
        .kind = kind,
        .rows = {.dst = dst, .width = n * width, .height = 1, .is_dst_known = true},
        .value = value,
        .width = width,
    };

    if (dst % width || n > SIZE_MAX / width)
        return CUDA_ERROR_INVALID_VALUE;
    return queue_at(stream, dst, n * width, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &op);
}

CUresult fake_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n,
                              CUstream stream)
{
    return fill(FAKE_FILL, dst, value, 1, n, stream);
}

CUresult fake_cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
    return fill(FAKE_FILL, dst, value, 4, n, stream);
}

CUresult fake_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
                                      unsigned flags)
{
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return fill(FAKE_WRITE, addr, value, 4, 1, stream);
}

CUresult fake_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
                                     unsigned flags)
{
    struct fake_op op = {
        .kind = FAKE_WAIT_VALUE,
        .rows = {.dst = addr, .width = 4, .height = 1},
        .value = value,
        .flags = flags,
    };

    if (flags > CU_STREAM_WAIT_VALUE_NOR || addr % 4)
        return CUDA_ERROR_INVALID_VALUE;
    return queue_at(stream, addr, 4, CU_MEM_ACCESS_FLAGS_PROT_READ, &op);
}

/* Memory that is gone holds whatever one waits for; the driver would fault. */
bool fake_value_holds_locked(const struct fake_op *op)
{
    struct piece piece;
    uint32_t now;

    if (get_piece_locked(op->rows.dst, 4, op->rows.dst_device,
                         CU_MEM_ACCESS_FLAGS_PROT_READ, true, &piece))
        return true;
    now = __atomic_load_n((uint32_t *)piece.bytes, __ATOMIC_ACQUIRE);
    put_piece_locked(&piece);
    switch (op->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return (int32_t)(now - op->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == op->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & op->value) != 0;
    default:
        return ~(now | op->value) != 0;
    }
}
