/* See stacks.h. */
#include "layer/stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "layer/modules.h"

#define BUCKETS (1u << 16)
#define ARENA_SIZE AM_MIB
#define PAGE_STACKS (1u << 12) /* of the table number -> stack */
#define PAGES_MAX (1u << 10)   /* so there are at most 4 million */

/* Written once, then only read. */
struct stack {
    struct stack *next; /* in the bucket; older ones follow */
    uint64_t hash;
    uint32_t number;
    uint32_t era;
    uint32_t n;
    uintptr_t frame[];
};

static struct {
    pthread_once_t once;
    int (*unwind)(void **frames, int max);
    uintptr_t own_start; /* the code of this library */
    uintptr_t own_end;

    _Atomic(struct stack *) bucket[BUCKETS]; /* read without the lock */
    _Atomic(struct stack **) page[PAGES_MAX];
    struct am_lock lock;
    _Atomic uint32_t n;
    size_t bytes; /* lock */
    char *arena;  /* lock; what is left of it */
    size_t room;
} stacks = {
    .once = PTHREAD_ONCE_INIT,
    .lock = AM_LOCK_INIT(AM_RANK_LEAF, "stacks"),
};

static _Atomic unsigned depth = AM_STACK_FRAMES;
static _Thread_local bool is_taking __attribute__((tls_model("initial-exec")));
/* The thread's last stack: a loop makes the same call again. */
static _Thread_local const struct stack *last __attribute__((tls_model("initial-exec")));

/*
 * What the unwinder loads and opens, it does now: a pipe too, which must not take the place
 * of standard descriptors that the program has closed.
 */
static void first_take(void)
{
    void *frames[1];
    int taken[3];

    for (int i = 0; i < 3; i++)
        taken[i] = fcntl(i, F_GETFD) < 0 ? am_sys_open("/dev/null", O_RDWR) : -1;
    stacks.unwind(frames, 1);
    for (int i = 0; i < 3; i++) {
        if (taken[i] >= 0)
            close(taken[i]);
    }
}

/*
 * Whether functions may sign their return addresses (pointer authentication of aarch64, as in
 * the C library of Debian 13).  unw_backtrace ends the stack at a signed address.
 */
static bool has_signed_returns(void)
{
#ifdef HWCAP_PACA
    return (getauxval(AT_HWCAP) & HWCAP_PACA) != 0;
#else
    return false;
#endif
}

static void unwinder_open(void)
{
    void *library =
        has_signed_returns() ? NULL : dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    const struct am_module *own;

    am_modules_update();
    own = am_module_own();
    stacks.own_start = own != NULL ? own->start : 0;
    stacks.own_end = own != NULL ? own->end : 0;
    if (library != NULL)
        stacks.unwind = (int (*)(void **, int))dlsym(library, "unw_backtrace");
    if (stacks.unwind == NULL) {
        am_log(AM_LOG_INFO, "stacks are taken by glibc, ten times slower: %s",
               has_signed_returns() ? "this processor has pointer authentication"
                                    : "there is no libunwind.so.8");
        stacks.unwind = backtrace;
    }
    first_take();
}

void am_stacks_open(void)
{
    pthread_once(&stacks.once, unwinder_open);
}

void am_stacks_set_depth(unsigned n)
{
    depth = n < AM_STACK_FRAMES_MAX ? n : AM_STACK_FRAMES_MAX;
}

static int frames_take(void **frames)
{
    return stacks.unwind(frames, (int)atomic_load_explicit(&depth, memory_order_relaxed));
}

static uint64_t frames_hash(const uintptr_t *frame, uint32_t n)
{
    uint64_t hash = n;

    for (uint32_t i = 0; i < n; i++) {
        hash = (hash ^ frame[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static const struct stack *stack_find(const uintptr_t *frame, uint32_t n, uint64_t hash)
{
    const struct stack *s =
        atomic_load_explicit(&stacks.bucket[hash % BUCKETS], memory_order_acquire);

    while (s != NULL &&
           (s->hash != hash || s->n != n || memcmp(s->frame, frame, n * sizeof *frame)))
        s = s->next;
    return s;
}

/* A permanent allocation; NULL if memory is short. */
static void *arena_take_locked(size_t size)
{
    void *at;

    if (size > stacks.room) {
        at = am_sys_mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return NULL;
        stacks.arena = at;
        stacks.room = ARENA_SIZE;
    }
    at = stacks.arena;
    stacks.arena += size;
    stacks.room -= size;
    stacks.bytes += size;
    return at;
}

/* Room for one more number in the table. */
static struct stack **slot_take_locked(uint32_t number)
{
    uint32_t page = number / PAGE_STACKS;

    if (page >= PAGES_MAX)
        return NULL;
    if (stacks.page[page] == NULL) {
        void *made = arena_take_locked(PAGE_STACKS * sizeof(struct stack *));

        if (made == NULL)
            return NULL;
        atomic_store_explicit(&stacks.page[page], made, memory_order_release);
    }
    return &stacks.page[page][number % PAGE_STACKS];
}

static const struct stack *stack_add(const uintptr_t *frame, uint32_t n, uint64_t hash)
{
    uint32_t era = am_modules_update();
    struct stack *s = NULL;
    struct stack **slot;
    const struct stack *found;

    am_lock(&stacks.lock);
    found = stack_find(frame, n, hash);
    if (found == NULL) {
        slot = slot_take_locked(stacks.n + 1);
        if (slot != NULL)
            s = arena_take_locked(sizeof *s + n * sizeof *frame);
    }
    if (s != NULL) {
        s->hash = hash;
        s->number = stacks.n + 1;
        s->era = era;
        s->n = n;
        memcpy(s->frame, frame, n * sizeof *frame);
        *slot = s;
        /* Behind the slot: the acquire in am_stack_frames() is its partner. */
        atomic_store_explicit(&stacks.n, s->number, memory_order_release);
        s->next = stacks.bucket[hash % BUCKETS];
        atomic_store_explicit(&stacks.bucket[hash % BUCKETS], s, memory_order_release);
        found = s;
    }
    am_unlock(&stacks.lock);
    return found;
}

static bool is_own(uintptr_t addr)
{
    return stacks.own_start <= addr && addr < stacks.own_end;
}

/* The number of n frames. */
static const struct stack *stack_enter(const uintptr_t *frame, uint32_t n)
{
    const struct stack *s = last;
    uint64_t hash;

    if (s != NULL && s->n == n && memcmp(s->frame, frame, n * sizeof *frame) == 0)
        return s;
    hash = frames_hash(frame, n);
    s = stack_find(frame, n, hash);
    if (s == NULL)
        s = stack_add(frame, n, hash);
    last = s;
    return s;
}

uint32_t am_stack_take(void)
{
    void *frames[AM_STACK_FRAMES_MAX];
    const uintptr_t *frame = (const uintptr_t *)frames;
    const struct stack *s;
    uint32_t n;
    int all;

    if (is_taking)
        return 0;
    is_taking = true;
    all = frames_take(frames);
    n = all > 0 ? (uint32_t)all : 0;
    for (; n > 0 && is_own(*frame); n--)
        frame++;
    s = stack_enter(frame, n);
    is_taking = false;
    return s != NULL ? s->number : 0;
}

uint32_t am_stack_take_from(uintptr_t instruction)
{
    void *frames[AM_STACK_FRAMES_MAX];
    uintptr_t *frame = (uintptr_t *)frames;
    const struct stack *s;
    uint32_t n;
    int all;

    if (is_taking)
        return 0;
    is_taking = true;
    all = frames_take(frames);
    n = all > 0 ? (uint32_t)all : 0;
    for (; n > 0 && *frame != instruction; n--)
        frame++;
    if (n == 0) { /* the unwinder did not come so far */
        frame = (uintptr_t *)frames;
        n = 1;
    }
    *frame = instruction + 1; /* as if it were what a call returns to */
    s = stack_enter(frame, n);
    is_taking = false;
    return s != NULL ? s->number : 0;
}

const uintptr_t *am_stack_frames(uint32_t stack, size_t *ret_n, uint32_t *ret_era)
{
    struct stack *s = NULL;

    if (stack != 0 && stack <= atomic_load_explicit(&stacks.n, memory_order_acquire))
        s = stacks.page[stack / PAGE_STACKS][stack % PAGE_STACKS];
    *ret_n = s != NULL ? s->n : 0;
    *ret_era = s != NULL ? s->era : 0;
    return s != NULL ? s->frame : NULL;
}

uint32_t am_stacks_count(size_t *ret_bytes)
{
    *ret_bytes = stacks.bytes;
    return stacks.n;
}
