/*
 * The least that an allocator behind PyTorch's pluggable interface can do: the block that was freed
 * last is given out again.  What torch.empty costs with it is the limit for every other.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>

static void *last;
static ssize_t last_size;

static void *driver_malloc(size_t size)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*cuMemAlloc_v2)(unsigned long long *ret_ptr, size_t size) = NULL;
    unsigned long long ptr = 0;

    if (driver != NULL)
        *(void **)&cuMemAlloc_v2 = dlsym(driver, "cuMemAlloc_v2");
    if (cuMemAlloc_v2 == NULL || cuMemAlloc_v2(&ptr, size) != 0)
        return NULL;
    return (void *)ptr;
}

__attribute__((visibility("default"))) void *floor_malloc(ssize_t size, int device,
                                                          void *stream);
void *floor_malloc(ssize_t size, int device, void *stream)
{
    void *ptr = last;

    if (ptr == NULL || last_size != size)
        return driver_malloc((size_t)size);
    last = NULL;
    return ptr;
}

__attribute__((visibility("default"))) void floor_free(void *ptr, ssize_t size,
                                                       int device, void *stream);
void floor_free(void *ptr, ssize_t size, int device, void *stream)
{
    last = ptr;
    last_size = size;
}
