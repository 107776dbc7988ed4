/* See region.h. */
#include "core/vmm/region.h"

#include "base/error.h"
#include "base/log.h"
#include "base/util.h"

#define REGION_SIZE (256 * AM_GIB)
#define CUT_MAX (REGION_SIZE / 16)
#define TRIES 16 /* reservations that are stepped over to find room between them */

/* A program can do without: it is tried once. */
static void region_open_locked(struct am_region *region,
                               const struct am_backend_ops *backend)
{
    struct am_capture before;
    void *start;

    before = am_error_hush();
    if (backend->reserve_own(REGION_SIZE, AM_GIB, &start) == ACL_SUCCESS) {
        region->start = (uintptr_t)start;
        region->size = REGION_SIZE;
        region->next = region->start;
        region->end = region->start;
    }
    am_error_capture_end(before);
    region->backend = backend;
}

static bool is_inside(const struct am_region *region, uintptr_t start, size_t size)
{
    return start >= region->start && start - region->start <= region->size &&
           size <= region->size - (start - region->start);
}

/* Low addresses first, which have been in use: a device's page tables are there. */
static bool room_find_locked(size_t size, size_t align, uintptr_t *ret_start)
    AM_REQUIRES(am_vspace.lock)
{
    struct am_region *region = &am_vspace.region;

    for (int i = 0; i < TRIES && region->next < region->end; i++) {
        uintptr_t at = am_align_up(region->next, align);
        const struct am_reservation *taken = am_reservation_first(at, size);

        if (taken == NULL && is_inside(region, at, size)) {
            *ret_start = at;
            return true;
        }
        region->next = taken != NULL ? taken->start + taken->size : region->end;
    }
    *ret_start = am_align_up(region->end, align);
    if (is_inside(region, *ret_start, size))
        return true;
    if (region->next >=
        region->end) /* a gap that was too small so far may do for the next */
        region->next = region->start;
    return false;
}

bool am_region_cut_locked(const struct am_backend_ops *backend, size_t size, size_t align,
                          void *want, uintptr_t *ret_start)
{
    struct am_region *region = &am_vspace.region;
    uintptr_t start = (uintptr_t)want;

    /*
     * Not for a caller that requests an address, which the region might cover, nor for
     * large reservations.
     */
    if (region->backend == NULL && want == NULL && size <= CUT_MAX)
        region_open_locked(region, backend);
    if (region->backend != backend) /* none, or of a backend that was stopped */
        return false;
    if (want != NULL &&
        (!is_inside(region, start, size) || am_reservation_first(start, size) != NULL))
        return false;
    if (want == NULL && (size > CUT_MAX || !room_find_locked(size, align, &start)))
        return false;
    if (start + size > region->end)
        region->end = start + size;
    region->n_cut++;
    *ret_start = start;
    return true;
}

void am_region_give_locked(uintptr_t start, size_t size)
{
    struct am_region *region = &am_vspace.region;

    am_assert(region->n_cut > 0 && is_inside(region, start, size));
    if (start < region->next)
        region->next = start;
    if (--region->n_cut == 0)
        region->end = region->start;
}

void am_region_release_locked(void)
{
    struct am_region *region = &am_vspace.region;

    am_assert(region->n_cut == 0);
    if (region->size > 0 &&
        region->backend->release((void *)region->start, region->size) != ACL_SUCCESS)
        am_log(AM_LOG_INFO, "%zu bytes of addresses at %p could not be released",
               region->size, (void *)region->start);
    *region = (struct am_region){.size = 0};
}
