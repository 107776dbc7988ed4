/* See trace_file.h. */
#include "layer/trace_file.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"

#define PAYLOAD (AM_TRACE_SLOT_SIZE - sizeof(struct am_trace_chunk))
/* The packer keeps up with several threads; slots beyond this stay as they are. */
#define QUEUE_MAX 256

_Atomic uint32_t am_trace_generation;

STAILQ_HEAD(slots, am_trace_slot_map);

static struct {
    struct am_lock lock;
    pthread_cond_t change;
    pid_t pid;        /* that opened the file */
    int fd;           /* keeps the shared lock of the file */
    char name[4096];  /* for messages */
    uint32_t process; /* our number in it */
    bool is_over;     /* lock; no slot could be had */
    struct am_trace_header *header;

    struct slots spare; /* lock; empty slots, mapped */
    struct slots full;  /* lock; oldest first */
    size_t n_full;      /* lock */
    bool has_packer;    /* lock */
    bool is_ending;     /* lock */
    pthread_t packer;
    struct am_trace_slot_map *pack; /* the packer's; where frames go */
} file = {
    .lock = AM_LOCK_INIT(AM_RANK_LEAF, "trace file"),
    .change = PTHREAD_COND_INITIALIZER,
    .spare = STAILQ_HEAD_INITIALIZER(file.spare),
    .full = STAILQ_HEAD_INITIALIZER(file.full),
    .fd = -1,
};

/* ---- the file ---- */

/* The name with the process's number for %p; false when it is too long. */
static bool name_expand(const char *name, char *text, size_t size)
{
    const char *mark = strstr(name, "%p");
    int n;

    if (mark == NULL)
        n = snprintf(text, size, "%s", name);
    else
        n = snprintf(text, size, "%.*s%d%s", (int)(mark - name), name, (int)getpid(),
                     mark + 2);
    return n > 0 && (size_t)n < size;
}

static int file_lock(int fd, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    return am_sys_lock_file(fd, &lock);
}

/* A file of our own: nothing of an earlier one stays. */
static int file_begin(int fd)
{
    struct am_trace_header *header;
    struct timespec real;
    int error;

    if (am_sys_ftruncate(fd, 0) != 0)
        return -errno;
    error = am_file_may_have(AM_TRACE_HEADER_SIZE)
                ? am_sys_posix_fallocate(fd, 0, AM_TRACE_HEADER_SIZE)
                : errno;
    if (error != 0)
        return -error;
    header = am_sys_mmap(NULL, AM_TRACE_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                         fd, 0);
    if (header == MAP_FAILED)
        return -errno;
    clock_gettime(CLOCK_REALTIME, &real);
    am_trace_header_fill(header, am_clock(),
                         (uint64_t)real.tv_sec * AM_SECOND + (uint64_t)real.tv_nsec);
    am_step();
    /* The partner is the fence in the reader's bytes_read(). */
    atomic_thread_fence(memory_order_release);
    memcpy(header->magic, AM_TRACE_MAGIC, sizeof header->magic);
    file.header = header;
    return 0;
}

/* A file that another process has begun. */
static int file_join(int fd)
{
    struct am_trace_header *header;
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    if (status.st_size < (off_t)AM_TRACE_HEADER_SIZE)
        return -EINVAL;
    header = am_sys_mmap(NULL, AM_TRACE_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                         fd, 0);
    if (header == MAP_FAILED)
        return -errno;
    if (memcmp(header->magic, AM_TRACE_MAGIC, sizeof header->magic) != 0 ||
        header->version != AM_TRACE_VERSION || header->slot_size != AM_TRACE_SLOT_SIZE) {
        am_sys_munmap(header, AM_TRACE_HEADER_SIZE);
        return -EINVAL;
    }
    file.header = header;
    return 0;
}

/*
 * Alone with the file: begins it.  Otherwise joins, after the process that begins it has
 * done so, which takes it some microseconds.
 */
static int file_enter(int fd)
{
    int rc = -EAGAIN;

    for (int i = 0; i < 1000 && rc == -EAGAIN; i++) {
        if (file_lock(fd, F_WRLCK) == 0) {
            rc = file_begin(fd);
            if (rc == 0 && file_lock(fd, F_RDLCK) != 0)
                rc = -errno;
        } else if (file_lock(fd, F_RDLCK) == 0) {
            rc = file_join(fd);
        } else if (errno == EAGAIN || errno == EACCES) {
            nanosleep(&(struct timespec){0, AM_MILLISECOND}, NULL);
        } else {
            rc = -errno;
        }
    }
    return rc;
}

/* The first slot of the list, which is removed; NULL: the list is empty. */
static struct am_trace_slot_map *slots_pop(struct slots *slots)
{
    struct am_trace_slot_map *slot = STAILQ_FIRST(slots);

    if (slot != NULL)
        STAILQ_REMOVE_HEAD(slots, link);
    return slot;
}

/* What a forked child has of its parent's file: nothing. */
static void file_forget(void)
{
    struct am_trace_slot_map *slot;

    while ((slot = slots_pop(&file.spare)) != NULL ||
           (slot = slots_pop(&file.full)) != NULL)
        free(slot);
    free(file.pack);
    am_lock_init(&file.lock, AM_RANK_LEAF, "trace file");
    pthread_cond_init(&file.change, NULL);
    if (file.fd >= 0)
        close(file.fd);
    file.fd = -1;
    file.n_full = 0;
    file.has_packer = false;
    file.is_ending = false;
    file.is_over = false;
    file.pack = NULL;
    file.header = NULL;
}

int am_trace_file_open(const char *name, bool *ret_is_new)
{
    char text[sizeof file.name];
    int fd;
    int rc;

    *ret_is_new = false;
    if (!name_expand(name, text, sizeof text))
        return -ENAMETOOLONG;
    if (file.pid == getpid() && file.header != NULL && strcmp(text, file.name) == 0)
        return 0;
    file_forget();
    fd = am_sys_openat(AT_FDCWD, text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0)
        return -errno;
    fd = am_fd_move_up(fd);
    rc = file_enter(fd);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    memcpy(file.name, text, sizeof text);
    file.fd = fd;
    file.pid = getpid();
    file.process = atomic_fetch_add(&file.header->n_processes, 1) + 1;
    madvise(file.header, AM_TRACE_HEADER_SIZE, MADV_DONTFORK);
    am_trace_generation++;
    *ret_is_new = true;
    return 0;
}

/* ---- slots ---- */

/* A new slot at the end of the file; NULL and errno if the file cannot grow. */
static struct am_trace_slot_map *slot_claim(void)
{
    struct am_trace_slot_map *slot = am_sys_malloc(sizeof *slot);
    uint64_t number;
    off_t at;
    int error;
    void *map;

    if (slot == NULL)
        return NULL;
    number = atomic_fetch_add(&file.header->n_slots, 1);
    at = (off_t)(AM_TRACE_HEADER_SIZE + number * AM_TRACE_SLOT_SIZE);
    /* Pages that the disk has no room for must never be touched: that is a SIGBUS. */
    error = am_file_may_have((size_t)at + AM_TRACE_SLOT_SIZE)
                ? am_sys_posix_fallocate(file.fd, at, AM_TRACE_SLOT_SIZE)
                : errno;
    if (error != 0) {
        free(slot);
        errno = error;
        return NULL;
    }
    slot->lead = (size_t)at % am_page_size();
    map = am_sys_mmap(NULL, slot->lead + AM_TRACE_SLOT_SIZE, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, file.fd, at - (off_t)slot->lead);
    if (map == MAP_FAILED) {
        free(slot);
        return NULL;
    }
    madvise(map, slot->lead + AM_TRACE_SLOT_SIZE, MADV_DONTFORK);
    slot->chunk = (struct am_trace_chunk *)((char *)map + slot->lead);
    return slot;
}

/* No room: the trace ends, the program goes on. */
static void recording_end(int error, uint64_t now)
{
    bool is_first;
    uint64_t never = 0;

    am_lock(&file.lock);
    is_first = !file.is_over;
    file.is_over = true;
    am_unlock(&file.lock);
    atomic_compare_exchange_strong(&file.header->full_at, &never, now);
    if (is_first)
        am_log(AM_LOG_WARN,
               "the trace ends here, the program goes on: no room for \"%s\" (%s); free "
               "space, or give a file on another disk in ACLMEM_TRACE",
               file.name, strerror(error));
}

static void chunk_begin(struct am_trace_chunk *chunk, enum am_trace_slot kind,
                        uint32_t thread, uint64_t number, uint64_t now)
{
    chunk->magic = AM_TRACE_CHUNK_MAGIC;
    chunk->process = file.process;
    chunk->thread = thread;
    chunk->number = number;
    chunk->began = now;
    atomic_store_explicit(&chunk->fill, 0, memory_order_relaxed);
    atomic_store_explicit(&chunk->ended, 0, memory_order_relaxed);
    /* The partner is the fence in bytes_read() of the reader: the fields are the new chunk's. */
    atomic_store_explicit(&chunk->kind, kind, memory_order_release);
    /*
     * A reader that was at the slot's last chunk reads the fields once more behind the
     * bytes.  So the fields change before the bytes do.
     */
    atomic_thread_fence(memory_order_release);
}

static struct am_trace_slot_map *slot_take(enum am_trace_slot kind, uint32_t thread,
                                           uint64_t number, uint64_t now)
{
    struct am_trace_slot_map *slot;
    bool is_over;

    am_lock(&file.lock);
    slot = slots_pop(&file.spare);
    is_over = file.is_over;
    am_unlock(&file.lock);
    if (slot == NULL && !is_over) {
        slot = slot_claim();
        if (slot == NULL)
            recording_end(errno, now);
    }
    if (slot != NULL)
        chunk_begin(slot->chunk, kind, thread, number, now);
    return slot;
}

struct am_trace_slot_map *am_trace_slot_take(uint32_t thread, uint64_t number,
                                             uint64_t now)
{
    return slot_take(AM_TRACE_RAW, thread, number, now);
}

void am_trace_lose(uint64_t n)
{
    if (file.header != NULL)
        atomic_fetch_add_explicit(&file.header->n_lost, n, memory_order_relaxed);
}

/* ---- full slots ---- */

/* The slot stays in the file as it is. */
static void slot_drop(struct am_trace_slot_map *slot)
{
    am_sys_munmap((char *)slot->chunk - slot->lead, slot->lead + AM_TRACE_SLOT_SIZE);
    free(slot);
}

/* A place for a frame with n bytes of data; NULL when the file is full. */
static struct am_trace_frame *frame_place(size_t size)
{
    struct am_trace_chunk *pack = file.pack != NULL ? file.pack->chunk : NULL;
    size_t room = sizeof(struct am_trace_frame) + am_align_up(size, 8);

    if (pack == NULL || am_trace_used(pack->fill) + room > PAYLOAD) {
        if (file.pack != NULL)
            slot_drop(file.pack);
        file.pack = slot_take(AM_TRACE_PACK, 0, 0, am_clock());
        if (file.pack == NULL)
            return NULL;
        pack = file.pack->chunk;
    }
    return (struct am_trace_frame *)((char *)(pack + 1) + am_trace_used(pack->fill));
}

/* False: the chunk stays in its slot, as it is. */
static bool slot_pack(ZSTD_CCtx *context, struct am_trace_slot_map *slot, char *buffer,
                      size_t size)
{
    struct am_trace_chunk *chunk = slot->chunk;
    struct am_trace_frame *frame;
    uint32_t used = am_trace_used(chunk->fill);
    size_t n = ZSTD_compress2(context, buffer, size, chunk + 1, used);

    if (ZSTD_isError(n) || n > PAYLOAD - sizeof *frame - 8)
        return false;
    frame = frame_place(n);
    if (frame == NULL)
        return false;
    *frame = (struct am_trace_frame){
        .magic = AM_TRACE_FRAME_MAGIC,
        .process = chunk->process,
        .thread = chunk->thread,
        .size = (uint32_t)n,
        .number = chunk->number,
        .began = chunk->began,
        .used = used,
    };
    memcpy(frame + 1, buffer, n);
    n = sizeof *frame + am_align_up(n, 8);
    am_step();
    /*
     * Both partners are the fence in the reader's bytes_read(): a frame below `fill` is whole,
     * and a chunk that is missing in its slot is in the pack.
     */
    atomic_fetch_add_explicit(&file.pack->chunk->fill, n, memory_order_release);
    am_step();
    atomic_store_explicit(&chunk->kind, AM_TRACE_FREE, memory_order_release);
    return true;
}

/* The next full slot; NULL when the packer is to end and no slot is full. */
static struct am_trace_slot_map *full_next(void)
{
    struct am_trace_slot_map *slot;

    am_lock(&file.lock);
    while (STAILQ_EMPTY(&file.full) && !file.is_ending)
        pthread_cond_wait(&file.change, &file.lock.mutex);
    slot = slots_pop(&file.full);
    file.n_full -= slot != NULL;
    am_unlock(&file.lock);
    return slot;
}

static void *packer_run(void *arg)
{
    size_t size = ZSTD_compressBound(AM_TRACE_SLOT_SIZE);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    char *buffer = am_sys_malloc(size);
    struct am_trace_slot_map *slot;

    if (context != NULL) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    }
    while ((slot = full_next()) != NULL) {
        if (context != NULL && buffer != NULL && slot_pack(context, slot, buffer, size)) {
            am_lock(&file.lock);
            STAILQ_INSERT_HEAD(&file.spare, slot, link);
            am_unlock(&file.lock);
        } else {
            slot_drop(slot);
        }
    }
    free(buffer);
    ZSTD_freeCCtx(context);
    return NULL;
}

void am_trace_slot_give(struct am_trace_slot_map *slot)
{
    bool is_queued;

    am_lock(&file.lock);
    if (!file.has_packer && !file.is_ending)
        file.has_packer = am_thread_start(&file.packer, packer_run, NULL) == 0;
    is_queued = file.has_packer && file.n_full < QUEUE_MAX;
    if (is_queued) {
        STAILQ_INSERT_TAIL(&file.full, slot, link);
        file.n_full++;
        pthread_cond_signal(&file.change);
    }
    am_unlock(&file.lock);
    if (!is_queued)
        slot_drop(slot);
}

void am_trace_file_settle(void)
{
    bool has_packer;

    if (file.pid != getpid() || file.header == NULL)
        return;
    am_lock(&file.lock);
    has_packer = file.has_packer;
    file.has_packer = false;
    file.is_ending = true;
    pthread_cond_broadcast(&file.change);
    am_unlock(&file.lock);
    if (has_packer)
        pthread_join(file.packer, NULL);
    am_lock(&file.lock);
    file.is_ending = false;
    am_unlock(&file.lock);
}
