/* Facts about pinned and registered memory, pointers, rows and values. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake/facts.h"

static void pinned(void)
{
    void *addr = &addr;
    CUdeviceptr device = 0;
    void *other;

    use_device();
    say_code("zero", cu.cuMemHostAlloc(&addr, 0, 0));
    say_yes("is_null", addr == NULL);
    say_code("flags", cu.cuMemHostAlloc(&addr, 4096, 0x100));
    say_code("null", cu.cuMemHostAlloc(NULL, 4096, 0));
    say_code("too_much", cu.cuMemHostAlloc(&addr, (size_t)1 << 50, 0));
    say_code("good", cu.cuMemHostAlloc(&addr, 1, CU_MEMHOSTALLOC_PORTABLE));
    say_yes("page_aligned", (uintptr_t)addr % 4096 == 0);
    say_code("device", cu.cuMemHostGetDevicePointer_v2(&device, addr, 0));
    say_yes("same", device == (CUdeviceptr)addr);
    say_code("device_flags", cu.cuMemHostGetDevicePointer_v2(&device, addr, 1));
    other = make_pinned(64 * 1024);
    say_code("device_inside",
             cu.cuMemHostGetDevicePointer_v2(&device, (char *)other + 100, 0));
    say_yes("same", device == (CUdeviceptr)other + 100);
    say_code("device_of_program", cu.cuMemHostGetDevicePointer_v2(&device, &other, 0));
    say_code("device_of_null", cu.cuMemHostGetDevicePointer_v2(&device, NULL, 0));
    say_code("free_inside", cu.cuMemFreeHost((char *)other + 100));
    say_code("free_program", cu.cuMemFreeHost(&other));
    say_code("unregister", cu.cuMemHostUnregister(other));
    say_code("free", cu.cuMemFreeHost(other));
    say_code("free_twice", cu.cuMemFreeHost(other));
    say_code("free_null", cu.cuMemFreeHost(NULL));
}

static void pinned_is_zero(void)
{
    unsigned char *addr;
    bool zero = true;

    use_device();
    addr = make_pinned(CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        zero &= addr[i] == 0;
    say_yes("zero", zero);
}

static void registering(void)
{
    unsigned char *addr = aligned_alloc(4096, 16 * 4096);
    CUdeviceptr device = 0;
    void *memory;

    use_device();
    memory = make_pinned(8192);
    memset(addr, 0, 16 * 4096);
    say_code("zero", cu.cuMemHostRegister_v2(addr, 0, 0));
    say_code("null", cu.cuMemHostRegister_v2(NULL, 4096, 0));
    say_code("flags", cu.cuMemHostRegister_v2(addr, 4096, 0x100));
    say_code("good", cu.cuMemHostRegister_v2(addr, 4096, CU_MEMHOSTREGISTER_PORTABLE));
    say_code("device", cu.cuMemHostGetDevicePointer_v2(&device, addr + 8, 0));
    say_yes("same", device == (CUdeviceptr)addr + 8);
    say_code("again", cu.cuMemHostRegister_v2(addr, 4096, 0));
    say_code("overlap", cu.cuMemHostRegister_v2(addr, 8192, 0));
    say_code("pinned", cu.cuMemHostRegister_v2(memory, 4096, 0));
    say_code("free", cu.cuMemFreeHost(addr));
    say_code("unregister_inside", cu.cuMemHostUnregister(addr + 64));
    say_code("unregister", cu.cuMemHostUnregister(addr));
    say_code("unregister_twice", cu.cuMemHostUnregister(addr));
    say_code("unregister_null", cu.cuMemHostUnregister(NULL));
    say_code("unregister_program", cu.cuMemHostUnregister(addr + 4096));
}

static void registering_odd(void)
{
    unsigned char *addr = aligned_alloc(4096, 16 * 4096);
    CUdeviceptr device = 0;

    use_device();
    memset(addr, 0, 16 * 4096);
    say_code("odd", cu.cuMemHostRegister_v2(addr + 100, 100, 0));
    say_code("device", cu.cuMemHostGetDevicePointer_v2(&device, addr + 100, 0));
    say_yes("same", device == (CUdeviceptr)addr + 100);
    say_code("before_it", cu.cuMemHostGetDevicePointer_v2(&device, addr, 0));
    say_code("same_page", cu.cuMemHostRegister_v2(addr + 1000, 100, 0));
    say_code("unregister_page", cu.cuMemHostUnregister(addr));
    say_code("unregister", cu.cuMemHostUnregister(addr + 100));
}

static void registering_strange(void)
{
    void *read_only;
    void *shared;
    void *hole;

    use_device();
    read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say_code("read_only", cu.cuMemHostRegister_v2(read_only, 4096, 0));
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    say_code("shared", cu.cuMemHostRegister_v2(shared, 4096, 0));
    hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole, 4096);
    say_code("hole", cu.cuMemHostRegister_v2(hole, 4096, 0));
}

/* What is said of an address, attribute by attribute. */
static void say_attributes(const char *kind, CUdeviceptr addr, CUdeviceptr start)
{
    CUcontext context = (CUcontext)1;
    CUdeviceptr pointer = 1;
    size_t size = 1;
    unsigned type = 77;
    int ordinal = 77;
    CUresult rc;

    printf(" %s:", kind);
    rc = cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr);
    say_code("type", rc);
    if (rc == CUDA_SUCCESS)
        say_number("is", type);
    rc = cu.cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, addr);
    say_code("device", rc);
    if (rc == CUDA_SUCCESS)
        say_yes("same", pointer == addr);
    rc = cu.cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, addr);
    say_code("host", rc);
    if (rc == CUDA_SUCCESS)
        say_yes("same", pointer == addr);
    rc = cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr);
    say_code("ordinal", rc);
    if (rc == CUDA_SUCCESS)
        say_number("is", ordinal);
    rc = cu.cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, addr);
    say_code("start", rc);
    if (rc == CUDA_SUCCESS)
        say_yes("same", pointer == start);
    rc = cu.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, addr);
    say_code("size", rc);
    if (rc == CUDA_SUCCESS)
        say_number("is", (long long)size);
    rc = cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, addr);
    say_code("context", rc);
    if (rc == CUDA_SUCCESS)
        say_yes("is_null", context == NULL);
}

static void attributes_device(void)
{
    CUdeviceptr addr;

    use_device();
    addr = make_mapped(2 * CHUNK);
    say_attributes("mapped", addr + 4096, addr);
    addr = reserve(2 * CHUNK);
    say_attributes("reserved", addr + 4096, addr);
    map(addr, CHUNK, make_memory(CHUNK));
    say_attributes("no_access", addr + 4096, addr);
}

static void attributes_host(void)
{
    unsigned char *memory = aligned_alloc(4096, 16 * 4096);
    CUdeviceptr addr;

    use_device();
    addr = (CUdeviceptr)make_pinned(CHUNK);
    say_attributes("pinned", addr + 64, addr);
    must(cu.cuMemHostRegister_v2(memory, 16 * 4096, CU_MEMHOSTREGISTER_PORTABLE), "reg");
    say_attributes("registered", (CUdeviceptr)memory + 64, (CUdeviceptr)memory);
    must(cu.cuMemHostUnregister(memory), "unregister");
    say_attributes("program", (CUdeviceptr)memory + 64, (CUdeviceptr)memory);
    say_attributes("null", 0, 0);
}

static void attributes_several(void)
{
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 77;
    int ordinal = 77;
    void *values[] = {&type, &ordinal};
    CUdeviceptr addr;

    use_device();
    addr = make_mapped(CHUNK);
    say_code("mapped", cu.cuPointerGetAttributes(2, wanted, values, addr));
    say_number("type", type);
    say_number("ordinal", ordinal);
    say_code("program", cu.cuPointerGetAttributes(2, wanted, values, (CUdeviceptr)&addr));
    say_number("type", type);
    say_number("ordinal", ordinal);
    say_code("none", cu.cuPointerGetAttributes(0, wanted, values, addr));
    wanted[0] = (CUpointer_attribute)9999;
    say_code("unknown", cu.cuPointerGetAttributes(2, wanted, values, addr));
}

static CUDA_MEMCPY2D rows_to(CUdeviceptr dst, const void *src)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = src,
        .srcPitch = 100,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = dst,
        .dstPitch = 200,
        .WidthInBytes = 50,
        .Height = 10,
    };
}

static void rows(void)
{
    static unsigned char text[2000];
    static unsigned char back[2000];
    CUDA_MEMCPY2D copy;
    CUdeviceptr addr;

    use_device();
    addr = make_mapped(CHUNK);
    memset(text, 3, sizeof(text));
    copy = rows_to(addr, text);
    say_code("good", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    must(cu.cuMemcpyDtoHAsync_v2(back, addr, 2000, NULL), "back");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    say_yes("row", back[200] == 3 && back[249] == 3);
    say_yes("gap", back[250] == 0 && back[399] == 0);
    copy.WidthInBytes = 101;
    say_code("wider_than_pitch", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy = rows_to(addr, text);
    copy.Height = 0;
    say_code("no_rows", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy = rows_to(addr, text);
    copy.WidthInBytes = 0;
    say_code("no_width", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy = rows_to(addr, text);
    copy.dstPitch = (size_t)1 << 32;
    say_code("pitch_4_gb", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy = rows_to(addr, text);
    copy.Height = 1;
    copy.srcPitch = 0;
    copy.dstPitch = 0;
    say_code("one_row_no_pitch", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy = rows_to(addr, text);
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = (CUdeviceptr)text;
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    say_code("unified", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    copy.srcMemoryType = (CUmemorytype)9;
    say_code("type", cu.cuMemcpy2DAsync_v2(&copy, NULL));
    say_code("null", cu.cuMemcpy2DAsync_v2(NULL, NULL));
    say_code("synchronize", cu.cuStreamSynchronize(NULL));
}

static void rows_over_the_end(void)
{
    static unsigned char text[2000];
    CUDA_MEMCPY2D copy;
    CUdeviceptr addr;
    CUresult rc;

    use_device();
    addr = reserve(2 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "access");
    copy = rows_to(addr + CHUNK - 1000, text);
    rc = cu.cuMemcpy2DAsync_v2(&copy, NULL);
    say_code("code", rc);
    if (rc == CUDA_SUCCESS)
        say_code("then", cu.cuStreamSynchronize(NULL));
}

const struct fact facts_host[] = {
    {"host.pinned", pinned},
    {"host.pinned_is_zero", pinned_is_zero},
    {"host.register", registering},
    {"host.register_odd", registering_odd},
    {"host.register_strange", registering_strange},
    {"pointer.device", attributes_device},
    {"pointer.host", attributes_host},
    {"pointer.several", attributes_several},
    {"rows.copy", rows},
    {"rows.over_the_end", rows_over_the_end},
    {NULL, NULL},
};
