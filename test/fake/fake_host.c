/* Pinned and registered host memory, and what the driver says of an address. */
#include "fake/fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; glibc knows it from 2.35 on */
#define MADV_POPULATE_WRITE 23
#endif

static int compare_hosts(struct fake_host *a, struct fake_host *b)
{
    if (a->size ? a->addr + a->size <= b->addr : a->addr < b->addr)
        return -1;
    if (b->size ? b->addr + b->size <= a->addr : b->addr < a->addr)
        return 1;
    return 0;
}

RB_GENERATE(fake_hosts, fake_host, entry, compare_hosts)

struct fake_host *fake_host_at_locked(CUdeviceptr addr)
{
    struct fake_host probe = {.addr = addr};

    return RB_FIND(fake_hosts, &fake.hosts, &probe);
}

/* ---- pinned memory ---- */

static CUresult add_locked(CUdeviceptr addr, size_t size, bool is_registered,
                           struct fake_context *owner)
{
    struct fake_host *host = malloc(sizeof(*host));

    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *host = (struct fake_host){
        .addr = addr,
        .size = size,
        .is_registered = is_registered,
        .owner = owner,
    };
    RB_INSERT(fake_hosts, &fake.hosts, host);
    return CUDA_SUCCESS;
}

static size_t whole_pages(size_t size)
{
    return (size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
}

static void remove_locked(struct fake_host *host)
{
    RB_REMOVE(fake_hosts, &fake.hosts, host);
    if (!host->is_registered)
        munmap((void *)host->addr, whole_pages(host->size));
    free(host);
}

CUresult fake_cuMemHostAlloc(void **ret_addr, size_t size, unsigned flags)
{
    struct fake_context *context;
    CUresult rc;
    void *addr;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (!ret_addr || flags > 7)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    if (!size) {
        *ret_addr = NULL;
        return fake_unlock(CUDA_SUCCESS);
    }
    if (size > SIZE_MAX / 2)
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    addr = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (addr == MAP_FAILED)
        return fake_unlock(CUDA_ERROR_OUT_OF_MEMORY);
    rc = add_locked((CUdeviceptr)addr, size, false, context);
    if (rc == CUDA_SUCCESS)
        *ret_addr = addr;
    else
        munmap(addr, whole_pages(size));
    return fake_unlock(rc);
}

/* Waits for all work of the context: some of it may use the memory. */
static CUresult end_locked(struct fake_host *host)
{
    struct fake_context *owner = host->owner;
    CUdeviceptr addr = host->addr;

    fake_stream_wait_all_locked(owner);
    if (owner->error != CUDA_SUCCESS)
        return owner->error;
    host = fake_host_at_locked(addr);
    if (!host)
        return CUDA_ERROR_INVALID_VALUE;
    remove_locked(host);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemFreeHost(void *addr)
{
    struct fake_host *host;

    if (!addr)
        return CUDA_SUCCESS;
    fake_lock();
    host = fake_host_at_locked((CUdeviceptr)addr);
    if (!host || host->addr != (CUdeviceptr)addr || host->is_registered)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(end_locked(host));
}

void fake_host_drop_context_locked(struct fake_context *context)
{
    struct fake_host *next;

    for (struct fake_host *host = RB_MIN(fake_hosts, &fake.hosts); host; host = next) {
        next = RB_NEXT(fake_hosts, &fake.hosts, host);
        if (host->owner == context)
            remove_locked(host);
    }
}

/* ---- registered memory ---- */

/* Whether the program may write every page of the range. */
static bool is_writable(CUdeviceptr addr, size_t size)
{
    CUdeviceptr start = addr & ~(CUdeviceptr)(FAKE_PAGE - 1);

    return !madvise((void *)start, whole_pages(addr + size - start), MADV_POPULATE_WRITE);
}

CUresult fake_cuMemHostRegister_v2(void *addr, size_t size, unsigned flags)
{
    struct fake_host probe = {.addr = (CUdeviceptr)addr, .size = size};
    struct fake_context *context;
    struct fake_host *taken;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (!addr || !size || size > SIZE_MAX / 2 || flags > 15)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    taken = RB_FIND(fake_hosts, &fake.hosts, &probe);
    if (taken && taken->is_registered)
        return fake_unlock(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (taken || !is_writable(probe.addr, size))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(add_locked(probe.addr, size, true, context));
}

CUresult fake_cuMemHostUnregister(void *addr)
{
    struct fake_host *host;

    if (!addr)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    host = fake_host_at_locked((CUdeviceptr)addr);
    if (!host)
        return fake_unlock(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (host->addr != (CUdeviceptr)addr || !host->is_registered)
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    return fake_unlock(end_locked(host));
}

CUresult fake_cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_addr, void *host,
                                           unsigned flags)
{
    struct fake_context *context;
    CUresult rc;

    fake_lock();
    rc = fake_context_current_locked(&context);
    if (rc != CUDA_SUCCESS)
        return fake_unlock(rc);
    if (!ret_addr || flags || !fake_host_at_locked((CUdeviceptr)host))
        return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    *ret_addr = (CUdeviceptr)host;
    return fake_unlock(CUDA_SUCCESS);
}

/* ---- what is known of an address ---- */

struct known {
    CUmemorytype type; /* 0: nothing */
    CUdeviceptr start;
    size_t size;
    int device;
    CUcontext context;
    bool is_usable; /* the device has a right to it */
};

/* Of device memory the range is the reservation. */
static struct known look_locked(CUdeviceptr addr)
{
    struct fake_mapping *mapping = fake_mapping_at_locked(addr);
    struct fake_host *host = fake_host_at_locked(addr);

    if (mapping) {
        struct fake_reservation *reservation = fake_reservation_at_locked(addr);
        int device = mapping->phys->prop.location.id;

        return (struct known){
            .type = CU_MEMORYTYPE_DEVICE,
            .start = reservation->addr,
            .size = reservation->size,
            .device = device,
            .is_usable = fake_may_locked(mapping, device, CU_MEM_ACCESS_FLAGS_PROT_READ),
        };
    }
    if (host)
        return (struct known){
            .type = CU_MEMORYTYPE_HOST,
            .start = host->addr,
            .size = host->size,
            .device = host->owner->device,
            .context = (CUcontext)host->owner,
            .is_usable = true,
        };
    return (struct known){.device = -2};
}

/* An attribute's value: bytes of it, and whether it has a meaning there. */
struct value {
    union {
        unsigned long long number;
        void *pointer;
    };
    size_t size;
    bool is_meant;
};

static bool get_locked(CUpointer_attribute attribute, CUdeviceptr addr,
                       struct value *ret_value)
{
    struct known known = look_locked(addr);
    struct value value = {.is_meant = known.type != 0, .size = sizeof(unsigned)};

    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        value.pointer = known.context;
        value.size = sizeof(known.context);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        value.number = known.type;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        value.is_meant = known.is_usable;
        value.number = known.is_usable ? addr : 0;
        value.size = sizeof(addr);
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        value.is_meant = known.type == CU_MEMORYTYPE_HOST;
        value.number = value.is_meant ? addr : 0;
        value.size = sizeof(addr);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        value.number = (unsigned)known.device;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        value.number = known.start;
        value.size = sizeof(known.start);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        value.number = known.size;
        value.size = sizeof(known.size);
        break;
    default:
        return false;
    }
    *ret_value = value;
    return true;
}

CUresult fake_cuPointerGetAttribute(void *ret_value, CUpointer_attribute attribute,
                                    CUdeviceptr addr)
{
    struct value value;
    bool is_good;

    fake_lock();
    is_good = ret_value && get_locked(attribute, addr, &value) && value.is_meant;
    if (is_good)
        memcpy(ret_value, &value.number, value.size);
    return fake_unlock(is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* Where one alone would be refused, the value is blank. */
CUresult fake_cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes,
                                     void **ret_values, CUdeviceptr addr)
{
    struct value value;

    if (!n || !attributes || !ret_values)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    for (unsigned i = 0; i < n; i++)
        if (!get_locked(attributes[i], addr, &value))
            return fake_unlock(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++) {
        get_locked(attributes[i], addr, &value);
        memcpy(ret_values[i], &value.number, value.size);
    }
    return fake_unlock(CUDA_SUCCESS);
}
