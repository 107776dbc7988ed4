/* Starting, errors and devices. */
#include "fake/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_driver fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .bytes = PTHREAD_RWLOCK_INITIALIZER,
};

_Thread_local bool fake_in_function;

void fake_lock(void)
{
    pthread_mutex_lock(&fake.lock);
}

CUresult fake_unlock(CUresult rc)
{
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

void fake_die(const char *what, const void *handle)
{
    fprintf(stderr, "fake driver: %s %p is gone or never was; the driver would crash\n",
            what, handle);
    abort();
}

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name;
    const char *text;
} errors[] = {
#define FAKE_ERROR(name_, text_) {name_, #name_, text_},
#include "fake/fake_errors.def"
#undef FAKE_ERROR
};

static CUresult find_error(CUresult code, const char **ret_name, const char **ret_text)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code != code)
            continue;
        *ret_name = errors[i].name;
        *ret_text = errors[i].text;
        return CUDA_SUCCESS;
    }
    *ret_name = NULL;
    *ret_text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGetErrorName(CUresult rc, const char **ret_name)
{
    const char *text;

    return ret_name ? find_error(rc, ret_name, &text) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGetErrorString(CUresult rc, const char **ret_text)
{
    const char *name;

    return ret_text ? find_error(rc, &name, ret_text) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- starting ---- */

/* The real driver does not work in the child of a fork either. */
static void forget_all(void)
{
    pthread_mutex_init(&fake.lock, NULL);
    fake_control_forget();
    fake.is_initialised = false;
    fake.n_devices = -1;
}

CUresult fake_cuInit(unsigned flags)
{
    CUresult rc = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    if (fake.n_devices < 0)
        return fake_unlock(CUDA_ERROR_NOT_INITIALIZED);
    if (!fake.is_initialised) {
        fake_control_read();
        if (fake.n_devices)
            pthread_atfork(NULL, NULL, forget_all);
        else
            rc = CUDA_ERROR_NO_DEVICE;
    }
    fake.is_initialised = rc == CUDA_SUCCESS;
    return fake_unlock(rc);
}

CUresult fake_cuDriverGetVersion(int *ret_version)
{
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    fake_control_read();
    *ret_version = fake.version;
    return fake_unlock(CUDA_SUCCESS);
}

/* ---- devices ---- */

static bool is_device(CUdevice device)
{
    return device >= 0 && device < fake.n_devices;
}

/* The answer of a function that has an output and a device. */
static CUresult check(const void *output, CUdevice device)
{
    if (!output)
        return CUDA_ERROR_INVALID_VALUE;
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetCount(int *ret_count)
{
    if (!ret_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_count = fake.n_devices;
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGet(CUdevice *ret_device, int ordinal)
{
    CUresult rc = check(ret_device, ordinal);

    if (rc == CUDA_SUCCESS)
        *ret_device = ordinal;
    return rc;
}

CUresult fake_cuDeviceGetName(char *name, int size, CUdevice device)
{
    if (size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (check(name, device) == CUDA_SUCCESS)
        snprintf(name, (size_t)size, "Fake GPU %d", device);
    return check(name, device);
}

CUresult fake_cuDeviceGetUuid_v2(CUuuid *ret_uuid, CUdevice device)
{
    CUresult rc = check(ret_uuid, device);

    if (rc == CUDA_SUCCESS) {
        memcpy(ret_uuid->bytes, "fake-gpu-uuid-", 14);
        ret_uuid->bytes[14] = 0;
        ret_uuid->bytes[15] = (char)device;
    }
    return rc;
}

CUresult fake_cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    char text[16];

    if (check(id, device) != CUDA_SUCCESS)
        return check(id, device);
    snprintf(text, sizeof(text), "0000:%02X:00.0", (0x10 + (unsigned)device) & 0xff);
    if (size <= (int)strlen(text))
        return CUDA_ERROR_INVALID_VALUE;
    strcpy(id, text);
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device)
{
    CUresult rc = check(ret_bytes, device);

    if (rc == CUDA_SUCCESS)
        *ret_bytes = fake.capacity;
    return rc;
}

CUresult fake_cuDeviceGetAttribute(int *ret_value, CUdevice_attribute attribute,
                                   CUdevice device)
{
    CUresult rc = check(ret_value, device);

    if (rc != CUDA_SUCCESS)
        return rc;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *ret_value = 0x10 + device;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        *ret_value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *ret_value = 1;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
    CUresult rc = check(ret_can, device);

    if (rc == CUDA_SUCCESS)
        rc = check(ret_can, peer);
    if (rc == CUDA_SUCCESS)
        *ret_can = device != peer && fake.has_peers;
    return rc;
}
