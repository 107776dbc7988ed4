/*
 * Physical memory.
 *
 * A phys is anonymous memory until it is exported; then its bytes move to a memory file, of
 * which the descriptor is what others import.  So ten thousands of handles cost neither
 * descriptors nor many kernel mappings.
 */
#include "fake/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "fake_cuda_phys";

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

/* It does not look at the properties. */
CUresult fake_cuMemGetAllocationGranularity(size_t *ret_bytes,
                                            const CUmemAllocationProp *prop,
                                            CUmemAllocationGranularity_flags option)
{
    if (!ret_bytes || !prop || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_bytes = FAKE_CHUNK;
    return CUDA_SUCCESS;
}

struct fake_phys *fake_phys_find_locked(CUmemGenericAllocationHandle handle)
{
    return fake_table_find_locked(&fake.physes, handle);
}

void fake_phys_put_locked(struct fake_phys *phys)
{
    if (--phys->refs)
        return;
    if (!phys->is_imported)
        fake.used[phys->prop.location.id] -= phys->size;
    munmap(phys->bytes, phys->size);
    if (phys->fd >= 0)
        close(phys->fd);
    free(phys);
}

/* One more handle, the same number; a new one when all were released. */
CUresult fake_phys_retain_locked(struct fake_phys *phys,
                                 CUmemGenericAllocationHandle *ret_handle)
{
    if (!phys->n_handles) {
        phys->handle = fake_table_add_locked(&fake.physes, phys);
        if (!phys->handle)
            return CUDA_ERROR_OUT_OF_MEMORY;
        phys->refs++;
    }
    phys->n_handles++;
    *ret_handle = phys->handle;
    return CUDA_SUCCESS;
}

/* A phys over fd, or over anonymous memory when it is -1; it takes the descriptor. */
static CUresult make_phys_locked(size_t size, const CUmemAllocationProp *prop, int fd,
                                 CUmemGenericAllocationHandle *ret_handle)
{
    struct fake_phys *phys = calloc(1, sizeof(*phys));
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;

    if (!phys)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phys = (struct fake_phys){
        .size = size,
        .prop = *prop,
        .fd = fd,
        .is_imported = fd >= 0,
        .bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0),
    };
    if (phys->bytes == MAP_FAILED)
        goto err_phys;
    if (fake_phys_retain_locked(phys, ret_handle) != CUDA_SUCCESS)
        goto err_bytes;
    if (!phys->is_imported)
        fake.used[prop->location.id] += size;
    return CUDA_SUCCESS;

err_bytes:
    munmap(phys->bytes, size);
err_phys:
    free(phys);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t size,
                          const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult rc = ret_handle ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!size || size % FAKE_CHUNK || flags)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    if (size > fake.capacity - FAKE_OWN_MEMORY - fake.used[prop->location.id])
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    return fake_unlock(make_phys_locked(size, prop, -1, ret_handle));
}

CUresult fake_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct fake_phys *phys;

    fake_lock();
    phys = fake_phys_find_locked(handle);
    if (!phys)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    if (--phys->n_handles == 0) {
        fake_table_remove_locked(&fake.physes, handle);
        fake_phys_put_locked(phys);
    }
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle,
                                          void *addr)
{
    struct fake_mapping *mapping;

    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    mapping = fake_mapping_at_locked((CUdeviceptr)addr);
    if (!mapping)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(fake_phys_retain_locked(mapping->phys, ret_handle));
}

CUresult fake_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret_prop,
                                                     CUmemGenericAllocationHandle handle)
{
    struct fake_phys *phys;

    if (!ret_prop)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    phys = fake_phys_find_locked(handle);
    if (phys)
        *ret_prop = phys->prop;
    return fake_unlock(phys ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- sharing ---- */

/* What a memory file tells who imports it; it lies behind the bytes. */
struct trailer {
    char magic[16];
    uint64_t size;
    CUmemAllocationProp prop;
};

static const struct trailer blank_trailer = {.magic = "fake cuda phys"};

static bool write_trailer(int fd, const struct fake_phys *phys)
{
    struct trailer trailer = blank_trailer;

    trailer.size = phys->size;
    trailer.prop = phys->prop;
    return !ftruncate(fd, (off_t)phys->size) &&
           pwrite(fd, &trailer, sizeof(trailer), (off_t)phys->size) == sizeof(trailer);
}

static bool read_trailer(int fd, struct trailer *ret_trailer)
{
    struct stat status;
    off_t at;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
        status.st_size < (off_t)sizeof(*ret_trailer))
        return false;
    at = status.st_size - (off_t)sizeof(*ret_trailer);
    return pread(fd, ret_trailer, sizeof(*ret_trailer), at) == sizeof(*ret_trailer) &&
           !memcmp(ret_trailer->magic, blank_trailer.magic,
                   sizeof(blank_trailer.magic)) &&
           ret_trailer->size == (uint64_t)at;
}

/* Copies only pages that hold something, so that memory never touched stays free. */
static void copy_bytes(unsigned char *to, const unsigned char *from, size_t size)
{
    static const unsigned char zeros[FAKE_PAGE];

    for (size_t at = 0; at < size; at += FAKE_PAGE)
        if (memcmp(from + at, zeros, FAKE_PAGE))
            memcpy(to + at, from + at, FAKE_PAGE);
}

/* Moves the bytes to a file; waits until the engines are not using them. */
static CUresult move_to_file_locked(struct fake_phys *phys)
{
    unsigned char *bytes;
    int fd = memfd_create(file_name, MFD_CLOEXEC);

    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!write_trailer(fd, phys))
        goto err;
    bytes = mmap(NULL, phys->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        goto err;
    pthread_rwlock_wrlock(&fake.bytes);
    copy_bytes(bytes, phys->bytes, phys->size);
    munmap(phys->bytes, phys->size);
    phys->bytes = bytes;
    phys->fd = fd;
    pthread_rwlock_unlock(&fake.bytes);
    return CUDA_SUCCESS;

err:
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_cuMemExportToShareableHandle(void *ret_shareable,
                                           CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType type,
                                           unsigned long long flags)
{
    CUresult rc = CUDA_SUCCESS;
    struct fake_phys *phys;
    int fd;

    if (!ret_shareable || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    phys = fake_phys_find_locked(handle);
    if (!phys || !(phys->prop.requestedHandleTypes & type))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    if (phys->fd < 0)
        rc = move_to_file_locked(phys);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    fd = fcntl(phys->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return fake_unlock(CUDA_ERROR_OPERATING_SYSTEM);
    *(int *)ret_shareable = fd;
    return fake_unlock(CUDA_SUCCESS);
}

CUresult fake_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle,
                                             void *shareable,
                                             CUmemAllocationHandleType type)
{
    struct trailer trailer;
    CUresult rc;
    int fd;

    if (!ret_handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (!read_trailer((int)(intptr_t)shareable, &trailer))
        return CUDA_ERROR_UNKNOWN;
    /* What was imported cannot be exported again. */
    trailer.prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fake_lock();
    rc = make_phys_locked(trailer.size, &trailer.prop, fd, ret_handle);
    if (rc != CUDA_SUCCESS)
        close(fd);
    return fake_unlock(rc);
}
