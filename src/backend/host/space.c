/*
 * Address space: reservations, and real mappings for memory that the program may touch.
 *
 * A reservation is PROT_NONE address space, so a stray access faults.  The program's are
 * handed out from 16 TB up, where nothing else usually lies, so that an address that the
 * program learned, released and asks for again is still free; ours below.  Neighbouring
 * reservations are one mapping for the kernel.  Where a window is taken (a sanitizer's shadow
 * memory, say), the kernel's choice serves.
 */
#include "backend/host/host.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"

#define SPACE_END ((size_t)1 << 47) /* where most kernels stop */
#define SPACE_TRIES 16

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/*
 * A function of the thread sanitizer, in a program that is built with it; otherwise
 * NULL.
 */
extern void __tsan_init(void) __attribute__((weak));

/*
 * A plain hint is not enough: Linux 6.7 to 6.12 ignores it when anything lies in the 2 MB
 * behind the range (fixed by "mm: respect mmap hint address when aligning for THP").
 * Thread sanitizer ends a program that insists on an address of the sanitizer's own, and
 * takes a hint.
 */
static int reserve_exact(void)
{
    return __tsan_init != NULL ? 0 : MAP_FIXED_NOREPLACE;
}

static struct am_lock space_lock = AM_LOCK_INIT(AM_RANK_LEAF, "space");

/* Managed memory lies below, programs and libraries above. */
static struct window {
    uintptr_t low, high;
    uintptr_t next; /* space_lock; where the next reservation is tried */
} windows[] = {
    {12 * AM_TIB, 16 * AM_TIB, 12 * AM_TIB}, /* ours */
    {16 * AM_TIB, 80 * AM_TIB, 16 * AM_TIB}, /* the program's */
};
static struct window *const window_ours = &windows[0];
static struct window *const window_program = &windows[1];

/* At exactly `want`, or -errno. */
static int reserve_at(uintptr_t want, size_t size)
{
    void *at = am_sys_mmap((void *)want, size, PROT_NONE, RESERVE_FLAGS | reserve_exact(),
                           -1, 0);

    if (at == MAP_FAILED) /* below mmap_min_addr, and above what the kernel gives */
        return errno == EPERM || (errno == ENOMEM && want + size > SPACE_END) ? -EEXIST
                                                                              : -errno;
    if ((uintptr_t)at != want) {
        munmap(at, size);
        return -EEXIST;
    }
    return 0;
}

/* Wherever the kernel has room: more is reserved, and what sticks out is given back. */
int host_reserve_aligned(size_t size, size_t align, void **ret_addr)
{
    size_t wide = size + align;
    uintptr_t at;
    uintptr_t start;
    void *p;

    if (wide < size)
        return -ENOMEM;
    p = am_sys_mmap(NULL, wide, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    at = (uintptr_t)p;
    start = am_align_up(at, align);
    if (start > at)
        munmap(p, start - at);
    if (at + wide > start + size)
        munmap((void *)(start + size), at + wide - (start + size));
    *ret_addr = (void *)start;
    return 0;
}

/* From where the last one ended; false when that did not work out in a few tries. */
static bool reserve_next(struct window *window, size_t size, size_t align,
                         void **ret_addr)
{
    bool is_done = false;

    am_lock(&space_lock);
    for (int i = 0; i < SPACE_TRIES && !is_done; i++) {
        uintptr_t want = am_align_up(window->next, align);

        if (size > window->high - window->low)
            break;
        if (want > window->high - size)
            want = window->low;
        window->next = want + size;
        is_done = reserve_at(want, size) == 0;
        if (is_done)
            *ret_addr = (void *)want;
    }
    am_unlock(&space_lock);
    return is_done;
}

static aclError reserve_anywhere(struct window *window, size_t size, size_t align,
                                 void **ret_addr)
{
    int rc = reserve_next(window, size, align, ret_addr)
                 ? 0
                 : host_reserve_aligned(size, align, ret_addr);

    return rc == 0 ? ACL_SUCCESS : host_error(-rc, "reserving addresses", size);
}

aclError host_reserve_own(size_t size, size_t align, void **ret_addr)
{
    return reserve_anywhere(window_ours, size, align, ret_addr);
}

aclError host_reserve(size_t size, size_t align, void *want, void **ret_addr)
{
    int rc;

    if (want == NULL)
        return reserve_anywhere(window_program, size, align, ret_addr);
    rc = reserve_at((uintptr_t)want, size);
    if (rc == -EEXIST)
        return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                       "%zu bytes at expectPtr %p are not available in this process: %s; "
                       "choose another address",
                       size, want,
                       (uintptr_t)want + size > SPACE_END
                           ? "addresses of programs end at 128 TB"
                           : "these addresses are already in use");
    if (rc != 0)
        return host_error(-rc, "reserving addresses", size);
    *ret_addr = want;
    return ACL_SUCCESS;
}

aclError host_release(void *addr, size_t size)
{
    if (am_sys_munmap(addr, size) != 0)
        return host_error(errno, "releasing addresses", size);
    am_lock(&space_lock);
    for (size_t i = 0; i < AM_ARRAY_SIZE(windows); i++) {
        if (windows[i].next == (uintptr_t)addr + size)
            windows[i].next = (uintptr_t)addr;
    }
    am_unlock(&space_lock);
    return ACL_SUCCESS;
}

/* The rights of the program itself: its own, or those of the owner. */
static int rights_prot(const struct am_mem *mem, const struct am_rights *rights)
{
    const struct am_bank_spec *spec = &mem->bank->spec;
    uint64_t bits = AM_HOST_BIT | (spec->device < 0 ? 0 : UINT64_C(1) << spec->driver);

    return (rights->read & bits ? PROT_READ : 0) |
           (rights->write & bits ? PROT_WRITE : 0);
}

/*
 * One mapping that is there to be given up.  The kernel refuses even to replace a
 * mapping in a process that has as many as it may have, and a program must be able to
 * unmap there; addresses that are free for a moment could be taken by another mapping.
 */
static _Atomic(void *) spare;

static void spare_take(void)
{
    void *none = NULL;
    void *page;

    if (atomic_load_explicit(&spare, memory_order_relaxed) != NULL)
        return;
    /* Shared, so that it never becomes one with its neighbour. */
    page = mmap(NULL, 1, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && !atomic_compare_exchange_strong(&spare, &none, page))
        munmap(page, 1);
}

static bool spare_give(void)
{
    void *page = atomic_exchange(&spare, NULL);

    return page != NULL && munmap(page, 1) == 0;
}

void *host_remap(void *view, size_t size, void *addr)
{
    void *p = am_sys_mremap(view, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, addr);
    int error = errno;

    while (p == MAP_FAILED && reserve_at((uintptr_t)addr, size) == -ENOMEM &&
           spare_give())
        ;
    errno = error;
    return p;
}

void host_map_undo(void *addr, size_t size, struct am_mem *mem)
{
    struct am_capture before = am_error_hush();

    host_unmap(addr, size, mem);
    am_error_capture_end(before);
}

/* Imported memory has no descriptor: its view is mapped a second time. */
static aclError map_again(void *addr, size_t size, struct am_mem *mem,
                          const struct am_rights *rights)
{
    aclError rc;

    if (host_remap(host_mem(mem)->store->view, size, addr) == MAP_FAILED)
        return host_error(errno, "mapping memory", size);
    rc = host_protect(addr, size, mem, rights);
    if (rc != ACL_SUCCESS)
        host_map_undo(addr, size, mem);
    return rc;
}

aclError host_map(void *addr, size_t size, struct am_mem *mem,
                  const struct am_rights *rights)
{
    if (!host_mem_is_addressable(mem))
        return ACL_SUCCESS;
    if (mem->bank->spec.is_pinned)
        return host_pinned_map(addr, size, mem);
    spare_take();
    if (host_mem(mem)->store->fd < 0)
        return map_again(addr, size, mem, rights);
    if (am_sys_mmap(addr, size, rights_prot(mem, rights),
                    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, host_mem(mem)->store->fd,
                    0) == MAP_FAILED)
        return host_error(errno, "mapping memory", size);
    return ACL_SUCCESS;
}

aclError host_protect(void *addr, size_t size, struct am_mem *mem,
                      const struct am_rights *rights)
{
    if (!host_mem_is_addressable(mem))
        return ACL_SUCCESS;
    if (am_sys_mprotect(addr, size, rights_prot(mem, rights)) != 0)
        return host_error(errno, "changing access", size);
    return ACL_SUCCESS;
}

aclError host_unmap(void *addr, size_t size, struct am_mem *mem)
{
    if (!host_mem_is_addressable(mem))
        return ACL_SUCCESS;
    /*
     * Addresses stay reserved: the mapping is replaced, so that no other mapping can
     * take them in between.
     */
    while (am_sys_mmap(addr, size, PROT_NONE, RESERVE_FLAGS | MAP_FIXED, -1, 0) ==
           MAP_FAILED) {
        if (errno != ENOMEM || !spare_give())
            return host_error(ENOMEM, "unmapping memory", size);
    }
    spare_take();
    return ACL_SUCCESS;
}
