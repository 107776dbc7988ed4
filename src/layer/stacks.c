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

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "layer/modules.h"

#define BUCKETS (1u << 16)
#define ARENA_SIZE AM_MIB
#define PAGE_STACKS (1u << 12) /* of the table number -> stack */
#define PAGES_MAX (1u << 10)   /* so there are at most 4 million */

/* Frames, or a text, of which n is 0.  Written once, then only read. */
struct stack {
    struct stack *next; /* in the bucket; older ones follow */
    uint64_t hash;
    uint32_t number;
    uint32_t era;
    uint32_t n;    /* frames */
    uint32_t size; /* bytes */
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
    char *arena; /* lock; what is left of it */
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

static uint64_t content_hash(const void *content, size_t size)
{
    uint64_t hash = size;

    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        size_t left = size - at;
        uint64_t word = 0;

        memcpy(&word, (const char *)content + at,
               left < sizeof word ? left : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool is_equal(const struct stack *s, const void *content, uint32_t n, size_t size)
{
    return s->n == n && s->size == size && memcmp(s->frame, content, size) == 0;
}

static const struct stack *stack_find(const void *content, uint32_t n, size_t size,
                                      uint64_t hash)
{
    const struct stack *s =
        atomic_load_explicit(&stacks.bucket[hash % BUCKETS], memory_order_acquire);

    while (s != NULL && (s->hash != hash || !is_equal(s, content, n, size)))
        s = s->next;
    return s;
}

/* A permanent allocation; NULL if memory is short. */
static void *arena_take_locked(size_t size)
{
    void *at;

    size = am_align_up(size, sizeof(uintptr_t));
    if (size > ARENA_SIZE)
        return NULL;
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

static const struct stack *stack_add(const void *content, uint32_t n, size_t size,
                                     uint64_t hash)
{
    uint32_t era = am_modules_update();
    struct stack *s = NULL;
    struct stack **slot;
    const struct stack *found;

    am_lock(&stacks.lock);
    found = stack_find(content, n, size, hash);
    if (found == NULL) {
        slot = slot_take_locked(stacks.n + 1);
        if (slot != NULL)
            s = arena_take_locked(sizeof *s + size);
    }
    if (s != NULL) {
        s->hash = hash;
        s->number = stacks.n + 1;
        s->era = era;
        s->n = n;
        s->size = (uint32_t)size;
        memcpy(s->frame, content, size);
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

/* The entry of n frames, or of a text; NULL: the table is full. */
static const struct stack *stack_enter(const void *content, uint32_t n, size_t size)
{
    uint64_t hash = content_hash(content, size);
    const struct stack *s = stack_find(content, n, size, hash);

    return s != NULL ? s : stack_add(content, n, size, hash);
}

/* instruction: 0, or where a signal came. */
static uint32_t stack_take(uintptr_t instruction)
{
    void *frames[AM_STACK_FRAMES_MAX];
    uintptr_t *frame = (uintptr_t *)frames;
    size_t n;
    int all;

    if (is_taking)
        return 0;
    is_taking = true;
    all = stacks.unwind(frames, (int)atomic_load_explicit(&depth, memory_order_relaxed));
    n = all > 0 ? (size_t)all : 0;
    while (n > 0 &&
           (instruction != 0 ? *frame != instruction
                             : stacks.own_start <= *frame && *frame < stacks.own_end)) {
        frame++;
        n--;
    }
    if (instruction != 0 && n == 0) { /* the unwinder did not come so far */
        frame = (uintptr_t *)frames;
        n = 1;
    }
    if (instruction != 0)
        *frame = instruction + 1; /* as if it were what a call returns to */
    if (last == NULL || !is_equal(last, frame, (uint32_t)n, n * sizeof *frame))
        last = stack_enter(frame, (uint32_t)n, n * sizeof *frame);
    is_taking = false;
    return last != NULL ? last->number : 0;
}

uint32_t am_stack_take(void)
{
    return stack_take(0);
}

uint32_t am_stack_take_from(uintptr_t instruction)
{
    return stack_take(instruction);
}

uint32_t am_stack_enter_text(const char *text)
{
    const struct stack *s = stack_enter(text, 0, strlen(text) + 1);

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

const char *am_stack_text(uint32_t stack)
{
    return (const char *)stacks.page[stack / PAGE_STACKS][stack % PAGE_STACKS]->frame;
}

uint32_t am_stacks_count(void)
{
    return stacks.n;
}
