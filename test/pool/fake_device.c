#include "fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE FAKE_PAGE
#define UNIT FAKE_UNIT
#define UNITS (PAGE / UNIT)
#define N_STREAMS FAKE_STREAMS
#define BASE ((uintptr_t)1 << 40)
#define N_PAGES 16384u /* of addresses */
#define N_FRAMES 1024u
#define N_DEPS 4096u
#define N_RESERVED 512u
#define STREAM_BASE 0x5000u

/* How far streams are: for each the number of its last work. */
struct clock {
    uint32_t at[N_STREAMS];
};

/* One page of memory, in a handle of n; the handle is the address of the first. */
struct frame {
    unsigned n; /* 0: a later page of a handle, or none */
    bool is_alive;
    unsigned n_mapped;
    struct page *used; /* where it was used last, if it is still mapped there */
    uint32_t stamps[UNITS];
    struct clock last[UNITS]; /* at whichever address */
};

/* One page of addresses. */
struct page {
    struct frame *frame;
    struct clock last; /* work at these addresses */
    uint32_t owner[UNITS];
};

/* From its work number `at` on a stream comes after the clock. */
struct dep {
    unsigned stream;
    uint32_t at;
    struct clock clock;
};

struct event {
    bool is_recorded;
    unsigned stream;
    struct clock clock;
};

struct range {
    size_t first, n; /* pages */
};

static struct frame frames[N_FRAMES];
static struct page pages[N_PAGES];
static struct range reserved[N_RESERVED]; /* by address */
static size_t n_reserved;
static struct dep deps[N_DEPS];
static size_t n_deps;
static struct clock known[N_STREAMS]; /* what a stream's next work comes after */
static struct clock now, done;
static unsigned names[N_STREAMS];
static size_t n_frames, n_alive, n_limit, n_events;
static unsigned fail_every, n_calls;
static bool has_failed, is_capturing, is_aliased;

void fake_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "pool model: %s\n", what);
    abort();
}

#define require fake_require

void fake_begin(size_t n_pages)
{
    require(n_pages <= N_FRAMES, "too many pages");
    n_frames = n_limit = n_pages;
    memset(pages, 0, sizeof pages);
    memset(&now, 0, sizeof now);
    memset(&done, 0, sizeof done);
    memset(known, 0, sizeof known);
    n_deps = n_calls = fail_every = 0;
    is_capturing = has_failed = is_aliased = false;
    for (unsigned i = 0; i < N_STREAMS; i++)
        names[i] = i;
}

void fake_end(void)
{
    require(n_alive == 0, "memory is left");
    require(n_reserved == 0, "addresses are left");
    require(n_events == 0, "events are left");
}

void fake_set_limit(size_t n_pages)
{
    n_limit = n_pages > n_alive ? n_pages : n_alive;
}

size_t fake_held(void)
{
    return n_alive;
}

void fake_fail_every(unsigned n)
{
    fail_every = n;
    n_calls = 0;
}

bool fake_has_failed(void)
{
    bool had = has_failed;

    has_failed = false;
    return had;
}

static bool call_fails(void)
{
    if (fail_every == 0 || ++n_calls % fail_every != 0)
        return false;
    has_failed = true;
    return true;
}

void fake_set_capturing(bool is_on)
{
    is_capturing = is_on;
}

void fake_set_aliased(bool is_on)
{
    is_aliased = is_on;
}

/* ---- streams ---- */

aclrtStream fake_stream(unsigned i)
{
    return (aclrtStream)(uintptr_t)(STREAM_BASE + 16 * names[i]);
}

static unsigned stream_find(aclrtStream stream)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        if (fake_stream(i) == stream)
            return i;
    }
    require(false, "a stream that is not there");
    return 0;
}

static void clock_raise(struct clock *clock, const struct clock *to)
{
    for (unsigned i = 0; i < N_STREAMS; i++)
        clock->at[i] = clock->at[i] > to->at[i] ? clock->at[i] : to->at[i];
}

static bool clock_is_done(const struct clock *clock)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        if (clock->at[i] > done.at[i])
            return false;
    }
    return true;
}

/* The stream gets there, after all that it waits for. */
static void stream_reach(unsigned stream, uint32_t at)
{
    if (done.at[stream] >= at)
        return;
    for (size_t i = 0; i < n_deps; i++) {
        if (deps[i].stream != stream || deps[i].at > at)
            continue;
        for (unsigned s = 0; s < N_STREAMS; s++) {
            if (s != stream)
                stream_reach(s, deps[i].clock.at[s]);
        }
    }
    done.at[stream] = at;
}

static void streams_reach_all(void)
{
    for (unsigned i = 0; i < N_STREAMS; i++)
        stream_reach(i, now.at[i]);
}

void fake_stream_run(unsigned i, uint32_t n)
{
    uint32_t left = now.at[i] - done.at[i];

    stream_reach(i, done.at[i] + (n < left ? n : left));
}

static void stream_wait(unsigned stream, const struct clock *clock)
{
    size_t n = 0;

    if (n_deps == N_DEPS) {
        for (size_t i = 0; i < n_deps; i++) {
            if (!clock_is_done(&deps[i].clock))
                deps[n++] = deps[i];
        }
        n_deps = n;
        if (n > N_DEPS / 2) {
            streams_reach_all();
            n_deps = 0;
        }
    }
    deps[n_deps++] = (struct dep){stream, now.at[stream] + 1, *clock};
    clock_raise(&known[stream], clock);
}

static struct clock clock_of(unsigned stream)
{
    struct clock clock = known[stream];

    clock.at[stream] = now.at[stream];
    return clock;
}

void fake_stream_follow(unsigned i, unsigned other)
{
    struct clock clock = clock_of(other);

    if (i != other)
        stream_wait(i, &clock);
}

void fake_stream_renew(unsigned i)
{
    bool is_taken = true;

    require(done.at[i] == now.at[i], "a stream ends with work");
    for (unsigned name = names[i] + 1; is_taken; name++) {
        is_taken = false;
        for (unsigned s = 0; s < N_STREAMS; s++)
            is_taken |= names[s] == name % 8;
        if (!is_taken)
            names[i] = name % 8;
    }
}

/* ---- bytes ---- */

static struct page *page_at(uintptr_t addr)
{
    require(addr >= BASE && (addr - BASE) / PAGE < N_PAGES,
            "an address that was never reserved");
    return &pages[(addr - BASE) / PAGE];
}

/* The bytes of a page are used there, and no block that has them is elsewhere. */
static void page_use(struct page *page)
{
    struct page *before = page->frame->used;

    for (unsigned i = 0; before != NULL && before != page && i < UNITS; i++)
        require(before->owner[i] == 0, "one page behind blocks at two addresses");
    page->frame->used = page;
}

#define for_each_unit(at_, ptr_, size_) \
    for (uintptr_t at_ = (uintptr_t)(ptr_), end_ = at_ + (size_); at_ < end_; at_ += UNIT)

static unsigned unit_of(uintptr_t addr)
{
    return (unsigned)(addr % PAGE / UNIT);
}

void fake_own(const void *ptr, size_t size, uint32_t owner)
{
    require((uintptr_t)ptr % UNIT == 0, "not aligned");
    for_each_unit(at, ptr, size)
    {
        struct page *page = page_at(at);

        require(owner == 0 || page->owner[unit_of(at)] == 0, "two blocks share a byte");
        page->owner[unit_of(at)] = owner;
    }
}

void fake_write(unsigned stream, const void *ptr, size_t size, uint32_t stamp)
{
    uint32_t number = ++now.at[stream];

    for_each_unit(at, ptr, size)
    {
        struct page *page = page_at(at);
        struct clock *last;

        require(page->frame != NULL, "work on bytes without memory");
        page_use(page);
        last = &page->frame->last[unit_of(at)];
        for (unsigned s = 0; s < N_STREAMS; s++)
            require(s == stream || last->at[s] <= done.at[s] ||
                        last->at[s] <= known[stream].at[s],
                    "work on bytes that another stream may be using");
        last->at[stream] = page->last.at[stream] = number;
        page->frame->stamps[unit_of(at)] = stamp;
    }
}

void fake_check(const void *ptr, size_t size, uint32_t stamp)
{
    for_each_unit(at, ptr, size)
    {
        struct page *page = page_at(at);

        require(page->frame != NULL, "a block without memory");
        require(page->frame->stamps[unit_of(at)] == stamp, "bytes have changed");
    }
}

/* Bytes of device memory stand at the beginning of each unit. */
aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                     aclrtMemcpyKind kind)
{
    bool is_out = kind == ACL_MEMCPY_DEVICE_TO_HOST;
    const char *device = is_out ? src : dst;
    char *host = is_out ? dst : (char *)(uintptr_t)src;

    require(count <= destMax, "a copy that is too long");
    if (call_fails())
        return ACL_ERROR_RT_PARAM_INVALID;
    for (size_t i = 0; i < count; i += UNIT) {
        struct page *page = page_at((uintptr_t)device + i);
        uint32_t *stamp;

        require(page->frame != NULL, "a copy of bytes without memory");
        page_use(page);
        require(clock_is_done(&page->frame->last[unit_of((uintptr_t)device + i)]),
                "a copy under queued work");
        stamp = &page->frame->stamps[unit_of((uintptr_t)device + i)];
        memcpy(is_out ? host + i : (char *)stamp, is_out ? (char *)stamp : host + i,
               sizeof *stamp);
    }
    return ACL_SUCCESS;
}

/* ---- memory and addresses ---- */

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                          aclrtMemGranularityOptions option,
                                          size_t *granularity)
{
    *granularity = PAGE;
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    *free = (n_frames - n_alive) * PAGE;
    *total = n_frames * PAGE;
    return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    unsigned n = (unsigned)(size / PAGE);
    unsigned row = 0;

    require(size % PAGE == 0, "a handle of part of a page");
    if (call_fails() || n_alive + n > n_frames)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    require(n_alive + n <= n_limit, "more memory than the limit");
    for (unsigned i = 0; i < N_FRAMES; i++) {
        row = frames[i].is_alive ? 0 : row + 1;
        if (row < n)
            continue;
        i -= n - 1;
        memset(&frames[i], 0, n * sizeof frames[i]);
        for (unsigned j = 0; j < n; j++)
            frames[i + j].is_alive = true;
        frames[i].n = n;
        n_alive += n;
        *handle = &frames[i];
        return ACL_SUCCESS;
    }
    return ACL_ERROR_RT_MEMORY_ALLOCATION; /* the records are full: not a fault of the pool */
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    struct frame *frame = handle;

    require(frame->is_alive && frame->n > 0, "freed what is no handle");
    for (unsigned i = 0; i < frame->n; i++) {
        require(frame[i].n_mapped == 0, "freed memory that is mapped");
        frame[i].is_alive = false;
    }
    n_alive -= frame->n;
    frame->n = 0;
    return ACL_SUCCESS;
}

aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment,
                                void *expectPtr, uint64_t flags)
{
    size_t n = size / PAGE, at = 0, i = 0;

    if (call_fails() || n_reserved == N_RESERVED)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    while (i < n_reserved && reserved[i].first - at < n) {
        at = reserved[i].first + reserved[i].n;
        i++;
    }
    if (N_PAGES - at < n)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    memmove(&reserved[i + 1], &reserved[i], (n_reserved - i) * sizeof *reserved);
    reserved[i] = (struct range){.first = at, .n = n};
    n_reserved++;
    *virPtr = (void *)(BASE + at * PAGE);
    return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void *virPtr)
{
    size_t first = ((uintptr_t)virPtr - BASE) / PAGE;

    for (size_t i = 0; i < n_reserved; i++) {
        if (reserved[i].first != first)
            continue;
        for (size_t j = 0; j < reserved[i].n; j++)
            require(pages[first + j].frame == NULL, "released with memory behind it");
        memmove(&reserved[i], &reserved[i + 1], (n_reserved - i - 1) * sizeof *reserved);
        n_reserved--;
        return ACL_SUCCESS;
    }
    require(false, "released what is not reserved");
    return ACL_SUCCESS;
}

aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags)
{
    struct frame *frame = handle;
    struct page *page = page_at((uintptr_t)virPtr);

    if (call_fails())
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    require(frame->is_alive && frame->n * PAGE == size, "mapped part of a handle");
    for (unsigned i = 0; i < frame->n; i++) {
        require(page[i].frame == NULL, "mapped twice");
        require(frame[i].n_mapped++ == 0 || is_aliased, "one page at two addresses");
        page[i].frame = &frame[i];
        page[i].last = (struct clock){0};
    }
    return ACL_SUCCESS;
}

aclError aclrtUnmapMem(void *virPtr)
{
    struct page *page = page_at((uintptr_t)virPtr);

    if (call_fails())
        return ACL_ERROR_RT_PARAM_INVALID;
    require(page->frame != NULL, "unmapped twice");
    for (unsigned i = 0, n = page->frame->n; i < n; i++) {
        require(clock_is_done(&page[i].last), "unmapped under queued work");
        page[i].frame->n_mapped--;
        if (page[i].frame->used == &page[i])
            page[i].frame->used = NULL;
        page[i].frame = NULL;
    }
    return ACL_SUCCESS;
}

/* ---- order ---- */

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    require(!is_capturing, "an event created while a graph is captured");
    if (call_fails())
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *event = calloc(1, sizeof(struct event));
    n_events++;
    return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    free(event);
    n_events--;
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    struct event *e = event;

    require(!is_capturing, "an event recorded while a graph is captured");
    e->stream = stream_find(stream);
    if (call_fails())
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    e->is_recorded = true;
    e->clock = clock_of(e->stream);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    struct event *e = event;

    require(!is_capturing, "an event asked while a graph is captured");
    require(e->is_recorded, "an event that was never recorded");
    if (call_fails())
        return ACL_ERROR_RT_PARAM_INVALID;
    *status = clock_is_done(&e->clock) ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                       : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    struct event *e = event;

    require(!is_capturing, "a wait while a graph is captured");
    require(e->is_recorded, "an event that was never recorded");
    for (unsigned i = 0; i < N_STREAMS; i++)
        stream_reach(i, e->clock.at[i]);
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    struct event *e = event;

    require(!is_capturing, "an order while a graph is captured");
    require(e->is_recorded, "an event that was never recorded");
    if (call_fails())
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    stream_wait(stream_find(stream), &e->clock);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    unsigned i = stream_find(stream);

    require(!is_capturing, "a wait while a graph is captured");
    stream_reach(i, now.at[i]);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void)
{
    require(!is_capturing, "a wait while a graph is captured");
    streams_reach_all();
    return ACL_SUCCESS;
}

/* ---- one context, always current ---- */

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    *context = (aclrtContext)1;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *deviceId)
{
    *deviceId = 0;
    return ACL_SUCCESS;
}
