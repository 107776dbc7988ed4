/* See raw.h. */
#include "raw.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static int memfd_of(size_t size)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);

    MUST_HOLD(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    return fd;
}

static int chunk_fd(void)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_of(CHUNK);
    return fd;
}

static void map_run(void *arg, size_t n)
{
    int fd = chunk_fd();

    (void)arg;
    while (n-- > 0) {
        void *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        MUST_HOLD(p != MAP_FAILED && munmap(p, CHUNK) == 0);
    }
}

struct subject raw_map(void)
{
    return (struct subject){.run = map_run};
}

static void map_fixed_run(void *arg, size_t n)
{
    int fd = chunk_fd();

    while (n-- > 0) {
        MUST_HOLD(mmap(arg, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                       0) != MAP_FAILED);
        MUST_HOLD(mmap(arg, CHUNK, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                       0) != MAP_FAILED);
    }
}

struct subject raw_map_fixed(void)
{
    static char *space;

    if (space == NULL) {
        space = mmap(NULL, 4 * CHUNK, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        MUST_HOLD(space != MAP_FAILED);
    }
    return (struct subject){.run = map_fixed_run, .arg = space + CHUNK};
}

static void memfd_run(void *arg, size_t n)
{
    (void)arg;
    while (n-- > 0)
        MUST_HOLD(close(memfd_of(CHUNK)) == 0);
}

struct subject raw_memfd(void)
{
    return (struct subject){.run = memfd_run};
}

void *raw_memory(size_t size)
{
    int fd = memfd_of(size);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    MUST_HOLD(p != MAP_FAILED && close(fd) == 0);
    madvise(p, size, MADV_HUGEPAGE);
    return p;
}

void *raw_private_memory(size_t size)
{
    char *p = mmap(NULL, size + CHUNK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before = -(uintptr_t)p % CHUNK;

    MUST_HOLD(p != MAP_FAILED);
    if (before > 0)
        munmap(p, before);
    munmap(p + before + size, CHUNK - before);
    madvise(p + before, size, MADV_HUGEPAGE);
    return p + before;
}

void raw_populate(void *p, size_t size)
{
    madvise(p, size, MADV_POPULATE_WRITE);
}

#ifdef __SSE2__
void raw_stream(void *dst, const void *src, size_t size)
{
    const __m128i *from = src;
    __m128i *to = dst;

    for (size_t i = 0; i < size / sizeof *to; i += 4) {
        __m128i a = _mm_load_si128(&from[i]);
        __m128i b = _mm_load_si128(&from[i + 1]);
        __m128i c = _mm_load_si128(&from[i + 2]);
        __m128i d = _mm_load_si128(&from[i + 3]);

        _mm_stream_si128(&to[i], a);
        _mm_stream_si128(&to[i + 1], b);
        _mm_stream_si128(&to[i + 2], c);
        _mm_stream_si128(&to[i + 3], d);
    }
    _mm_sfence();
}
#else
void raw_stream(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
}
#endif
