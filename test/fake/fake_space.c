/* Addresses: reservations, mappings and rights. */
#include "fake/fake.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Everything of one kind lies apart, so the start decides; a probe of size 0 finds what
 * covers its address. */
static int compare(CUdeviceptr a, size_t a_size, CUdeviceptr b, size_t b_size)
{
    if (a_size ? a + a_size <= b : a < b)
        return -1;
    if (b_size ? b + b_size <= a : b < a)
        return 1;
    return 0;
}

static int compare_mappings(struct fake_mapping *a, struct fake_mapping *b)
{
    return compare(a->addr, a->size, b->addr, b->size);
}

static int compare_reservations(struct fake_reservation *a, struct fake_reservation *b)
{
    return compare(a->addr, a->size, b->addr, b->size);
}

RB_GENERATE(fake_mappings, fake_mapping, entry, compare_mappings)
RB_GENERATE(fake_reservations, fake_reservation, entry, compare_reservations)

struct fake_mapping *fake_mapping_at_locked(CUdeviceptr addr)
{
    struct fake_mapping probe = {.addr = addr};

    return RB_FIND(fake_mappings, &fake.mappings, &probe);
}

struct fake_reservation *fake_reservation_at_locked(CUdeviceptr addr)
{
    struct fake_reservation probe = {.addr = addr};

    return RB_FIND(fake_reservations, &fake.reservations, &probe);
}

static bool is_range(CUdeviceptr addr, size_t size)
{
    return size && size % FAKE_CHUNK == 0 && addr % FAKE_CHUNK == 0 &&
           addr <= UINT64_MAX - size;
}

/* ---- reservations ---- */

/* Addresses that nobody can touch, a multiple of align; at hint where that is free. */
static void *take_addresses(size_t size, size_t align, CUdeviceptr hint)
{
    char *addr = MAP_FAILED;
    char *start;

    if (hint && hint % align == 0) {
        addr = mmap((void *)hint, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (addr != MAP_FAILED && (CUdeviceptr)addr == hint)
            return addr;
        if (addr != MAP_FAILED)
            munmap(addr, size);
    }
    addr = mmap(NULL, size + align, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addr == MAP_FAILED)
        return NULL;
    start = (char *)(((uintptr_t)addr + align - 1) & ~(uintptr_t)(align - 1));
    if (start > addr)
        munmap(addr, (size_t)(start - addr));
    munmap(start + size, (size_t)(addr + align - start));
    return start;
}

CUresult fake_cuMemAddressReserve(CUdeviceptr *ret_addr, size_t size, size_t align,
                                  CUdeviceptr hint, unsigned long long flags)
{
    struct fake_reservation *reservation;

    if (!ret_addr || !size || size % FAKE_CHUNK || flags || (align & (align - 1)) ||
        hint % FAKE_CHUNK)
        return CUDA_ERROR_INVALID_VALUE;
    if (align < FAKE_CHUNK)
        align = FAKE_CHUNK;
    if (size > SIZE_MAX - align)
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservation = malloc(sizeof(*reservation));
    if (!reservation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservation->addr = (CUdeviceptr)take_addresses(size, align, hint);
    reservation->size = size;
    if (!reservation->addr) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_addr = reservation->addr;
    fake_lock();
    RB_INSERT(fake_reservations, &fake.reservations, reservation);
    return fake_unlock(CUDA_SUCCESS);
}

static bool is_mapped_somewhere_locked(CUdeviceptr addr, size_t size)
{
    struct fake_mapping probe = {.addr = addr, .size = size};

    return RB_FIND(fake_mappings, &fake.mappings, &probe) != NULL;
}

CUresult fake_cuMemAddressFree(CUdeviceptr addr, size_t size)
{
    struct fake_reservation *reservation;

    fake_lock();
    reservation = fake_reservation_at_locked(addr);
    if (!reservation || reservation->addr != addr || reservation->size != size ||
        is_mapped_somewhere_locked(addr, size))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    RB_REMOVE(fake_reservations, &fake.reservations, reservation);
    munmap((void *)addr, size);
    free(reservation);
    return fake_unlock(CUDA_SUCCESS);
}

/* ---- mappings ---- */

/* A range may go on from one reservation into its neighbour. */
static bool is_reserved_locked(CUdeviceptr addr, size_t size)
{
    CUdeviceptr end = addr + size;

    while (addr < end) {
        struct fake_reservation *reservation = fake_reservation_at_locked(addr);

        if (!reservation)
            return false;
        addr = reservation->addr + reservation->size;
    }
    return true;
}

static CUresult map_locked(CUdeviceptr addr, size_t size, struct fake_phys *phys)
{
    struct fake_mapping *mapping = malloc(sizeof(*mapping));

    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *mapping = (struct fake_mapping){.addr = addr, .size = size, .phys = phys};
    phys->refs++;
    RB_INSERT(fake_mappings, &fake.mappings, mapping);
    return CUDA_SUCCESS;
}

/* Stricter than the driver, which takes a mapping that runs over the end. */
CUresult fake_cuMemMap(CUdeviceptr addr, size_t size, size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct fake_phys *phys;

    if (!size || size > UINT64_MAX - addr || addr % FAKE_CHUNK || flags)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    phys = fake_phys_find_locked(handle);
    if (!phys)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    if (offset || size != phys->size)
        return fake_unlock(CUDA_ERROR_NOT_SUPPORTED);
    if (!is_reserved_locked(addr, size) || is_mapped_somewhere_locked(addr, size))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(map_locked(addr, size, phys));
}

/* The first mapping at or behind addr, and before end. */
static struct fake_mapping *next_locked(CUdeviceptr addr, CUdeviceptr end)
{
    struct fake_mapping probe = {.addr = addr};
    struct fake_mapping *mapping = RB_NFIND(fake_mappings, &fake.mappings, &probe);

    return mapping && mapping->addr < end ? mapping : NULL;
}

/* Whether no mapping lies only partly in the range. */
static bool has_whole_mappings_locked(CUdeviceptr addr, CUdeviceptr end)
{
    struct fake_mapping *mapping;

    for (CUdeviceptr at = addr; at < end; at = mapping->addr + mapping->size) {
        mapping = next_locked(at, end);
        if (!mapping)
            return true;
        if (mapping->addr < addr || mapping->addr + mapping->size > end)
            return false;
    }
    return true;
}

/* Whatever is mapped in the range, which may be nothing. */
CUresult fake_cuMemUnmap(CUdeviceptr addr, size_t size)
{
    struct fake_mapping *mapping;

    if (!is_range(addr, size))
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    if (!is_reserved_locked(addr, size) || !has_whole_mappings_locked(addr, addr + size))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    while ((mapping = next_locked(addr, addr + size)) != NULL) {
        RB_REMOVE(fake_mappings, &fake.mappings, mapping);
        fake_phys_put_locked(mapping->phys);
        free(mapping);
    }
    return fake_unlock(CUDA_SUCCESS);
}

/* ---- rights ---- */

bool fake_may_locked(const struct fake_mapping *mapping, int device, unsigned rights)
{
    return (mapping->rights >> (2 * device) & rights) == rights;
}

static CUresult check_desc(const CUmemAccessDesc *desc)
{
    if (desc->location.type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->location.id < 0 ||
        desc->location.id >= fake.n_devices ||
        (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/*
 * Whole mappings without a hole, of memory that the device can reach.  Stricter than the
 * driver, which may overlook a hole and then gives no right to what lies behind it.
 */
static CUresult check_range_locked(CUdeviceptr addr, CUdeviceptr end, int device)
{
    while (addr < end) {
        struct fake_mapping *mapping = fake_mapping_at_locked(addr);

        if (!mapping || mapping->addr != addr || mapping->addr + mapping->size > end)
            return CUDA_ERROR_INVALID_VALUE;
        if (mapping->phys->prop.location.id != device && !fake.has_peers)
            return CUDA_ERROR_INVALID_DEVICE;
        addr += mapping->size;
    }
    return CUDA_SUCCESS;
}

static void set_rights_locked(CUdeviceptr addr, CUdeviceptr end,
                              const CUmemAccessDesc *desc)
{
    int shift = 2 * desc->location.id;
    struct fake_mapping *mapping;

    for (; addr < end; addr += mapping->size) {
        mapping = fake_mapping_at_locked(addr);
        mapping->rights = (uint16_t)((mapping->rights & ~(3u << shift)) |
                                     (unsigned)desc->flags << shift);
    }
}

CUresult fake_cuMemSetAccess(CUdeviceptr addr, size_t size, const CUmemAccessDesc *desc,
                             size_t n_desc)
{
    CUresult rc = CUDA_SUCCESS;

    if (!desc || !n_desc || !is_range(addr, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < n_desc; i++)
        rc = check_desc(&desc[i]);
    fake_lock();
    for (size_t i = 0; rc == CUDA_SUCCESS && i < n_desc; i++)
        rc = check_range_locked(addr, addr + size, desc[i].location.id);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < n_desc; i++)
        set_rights_locked(addr, addr + size, &desc[i]);
    return fake_unlock(rc);
}

CUresult fake_cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location,
                             CUdeviceptr addr)
{
    struct fake_mapping *mapping;

    if (!ret_flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->id < 0 || location->id >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    mapping = fake_mapping_at_locked(addr);
    if (mapping)
        *ret_flags = mapping->rights >> (2 * location->id) & 3;
    return fake_unlock(mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
