/* Facts about physical memory, reservations and mappings. */
#include <stdio.h>

#include "fake/facts.h"

static CUresult granularity_of(CUmemAllocationProp prop, size_t *ret_size)
{
    return cu.cuMemGetAllocationGranularity(ret_size, &prop,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

static void granularity(void)
{
    CUmemAllocationProp prop = device_prop();
    size_t size = 0;

    must(cu.cuInit(0), "cuInit");
    say_code("minimum", granularity_of(prop, &size));
    say_number("is", (long long)size);
    say_code("recommended", cu.cuMemGetAllocationGranularity(
                                &size, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    say_number("is", (long long)size);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    must(granularity_of(prop, &size), "not_shareable");
    say_number("not_shareable", (long long)size);
    say_code("null", cu.cuMemGetAllocationGranularity(NULL, &prop, 0));
    say_code("null_prop", cu.cuMemGetAllocationGranularity(&size, NULL, 0));
    say_code("option", cu.cuMemGetAllocationGranularity(
                           &size, &prop, (CUmemAllocationGranularity_flags)7));
}

/* Properties that are wrong, for both functions that take some. */
static void wrong_prop(const char *key, CUmemAllocationProp prop)
{
    CUmemGenericAllocationHandle handle;
    size_t size;

    printf(" %s:", key);
    say_code("granularity", granularity_of(prop, &size));
    say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
}

static void properties(void)
{
    CUmemAllocationProp prop;

    must(cu.cuInit(0), "cuInit");
    prop = device_prop();
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    wrong_prop("type", prop);
    prop = device_prop();
    prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    wrong_prop("location", prop);
    prop = device_prop();
    prop.location.id = 1000;
    wrong_prop("beyond", prop);
    prop.location.id = -1;
    wrong_prop("negative", prop);
    prop = device_prop();
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    wrong_prop("host", prop);
}

static void create(void)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle = 1;
    size_t total;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDeviceTotalMem_v2(&total, 0), "total");
    say_code("zero", cu.cuMemCreate(&handle, 0, &prop, 0));
    say_code("odd", cu.cuMemCreate(&handle, CHUNK + 4096, &prop, 0));
    say_code("half", cu.cuMemCreate(&handle, CHUNK / 2, &prop, 0));
    say_code("flags", cu.cuMemCreate(&handle, CHUNK, &prop, 1));
    say_code("null", cu.cuMemCreate(NULL, CHUNK, &prop, 0));
    say_code("null_prop", cu.cuMemCreate(&handle, CHUNK, NULL, 0));
    say_code("too_much", cu.cuMemCreate(&handle, total / CHUNK * 2 * CHUNK, &prop, 0));
    say_code("far_too_much", cu.cuMemCreate(&handle, (size_t)1 << 60, &prop, 0));
    say_yes("handle_untouched", handle == 1);
    say_code("good", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    say_yes("not_zero", handle != 0);
}

static void release(void)
{
    CUmemGenericAllocationHandle handle;

    use_device();
    handle = make_memory(CHUNK);
    say_code("good", cu.cuMemRelease(handle));
    say_code("twice", cu.cuMemRelease(handle));
    say_code("zero", cu.cuMemRelease(0));
}

/* When memory counts as used, in MB. */
static void accounting(void)
{
    size_t before;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    use_device();
    addr = reserve(64 * MB);
    before = free_memory();
    handle = make_memory(64 * MB);
    say_number("created", (long long)((before - free_memory()) / MB));
    map(addr, 64 * MB, handle);
    must(set_access(addr, 64 * MB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "access");
    say_number("mapped", (long long)((before - free_memory()) / MB));
    must(cu.cuMemRelease(handle), "release");
    say_number("released", (long long)((before - free_memory()) / MB));
    must(cu.cuMemUnmap(addr, 64 * MB), "unmap");
    say_number("unmapped", (long long)((before - free_memory()) / MB));
}

static CUresult try_reserve(size_t size, size_t align, CUdeviceptr hint, CUdeviceptr *ret)
{
    return cu.cuMemAddressReserve(ret, size, align, hint, 0);
}

static void reserving(void)
{
    CUdeviceptr addr = 0;

    must(cu.cuInit(0), "cuInit");
    say_code("zero", try_reserve(0, 0, 0, &addr));
    say_code("page", try_reserve(4096, 0, 0, &addr));
    say_code("odd", try_reserve(CHUNK + 4096, 0, 0, &addr));
    say_code("null", cu.cuMemAddressReserve(NULL, CHUNK, 0, 0, 0));
    say_code("flags", cu.cuMemAddressReserve(&addr, CHUNK, 0, 0, 1));
    say_code("align_3", try_reserve(CHUNK, 3, 0, &addr));
    say_code("align_6_mb", try_reserve(CHUNK, 6 * MB, 0, &addr));
    say_code("too_much", try_reserve((size_t)1 << 60, 0, 0, &addr));
    say_yes("untouched", addr == 0);
    say_code("good", try_reserve(CHUNK, 0, 0, &addr));
    say_yes("is_2_mb_aligned", addr % CHUNK == 0);
    say_code("align_page", try_reserve(CHUNK, 4096, 0, &addr));
    say_yes("is_2_mb_aligned", addr % CHUNK == 0);
    say_code("align_1_gb", try_reserve(CHUNK, 1024 * MB, 0, &addr));
    say_yes("is_1_gb_aligned", addr % (1024 * MB) == 0);
}

static void reserving_hint(void)
{
    CUdeviceptr old;
    CUdeviceptr addr = 0;

    must(cu.cuInit(0), "cuInit");
    old = reserve(64 * MB);
    must(cu.cuMemAddressFree(old, 64 * MB), "free");
    say_code("free", try_reserve(64 * MB, 0, old, &addr));
    say_yes("honoured", addr == old);
    say_code("taken", try_reserve(64 * MB, 0, old, &addr));
    say_yes("elsewhere", addr != old);
    say_code("unaligned", try_reserve(CHUNK, 0, old + 4096, &addr));
    say_yes("is_2_mb_aligned", addr % CHUNK == 0);
    say_code("program", try_reserve(CHUNK, 0, (CUdeviceptr)&old & ~(CHUNK - 1), &addr));
    say_yes("elsewhere", addr != ((CUdeviceptr)&old & ~(CHUNK - 1)));
    say_code("low", try_reserve(CHUNK, 0, CHUNK, &addr));
}

static void reserving_many_tb(void)
{
    CUdeviceptr addr = 0;

    must(cu.cuInit(0), "cuInit");
    say_code("code", try_reserve((size_t)32 << 40, 0, 0, &addr));
}

static void reserving_16_tb(void)
{
    CUdeviceptr want = (CUdeviceptr)16 << 40;
    CUdeviceptr addr = 0;

    must(cu.cuInit(0), "cuInit");
    say_code("code", try_reserve(CHUNK, 0, want, &addr));
    say_yes("honoured", addr == want);
}

static void reserved_memory(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(CHUNK);
    say_yes("program_can_read_reserved", can_read((void *)addr));
    addr = make_mapped(CHUNK);
    say_yes("program_can_read_mapped", can_read((void *)addr));
}

static void freeing(void)
{
    CUdeviceptr addr;

    must(cu.cuInit(0), "cuInit");
    addr = reserve(4 * CHUNK);
    say_code("first_half", cu.cuMemAddressFree(addr, 2 * CHUNK));
    say_code("second_half", cu.cuMemAddressFree(addr + 2 * CHUNK, 2 * CHUNK));
    say_code("more", cu.cuMemAddressFree(addr, 8 * CHUNK));
    say_code("zero", cu.cuMemAddressFree(addr, 0));
    say_code("null", cu.cuMemAddressFree(0, CHUNK));
    say_code("whole", cu.cuMemAddressFree(addr, 4 * CHUNK));
    say_code("twice", cu.cuMemAddressFree(addr, 4 * CHUNK));
}

static void freeing_mapped(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(2 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    say_code("free", cu.cuMemAddressFree(addr, 2 * CHUNK));
    say_code("unmap", cu.cuMemUnmap(addr, CHUNK));
    say_code("free_now", cu.cuMemAddressFree(addr, 2 * CHUNK));
}

static void mapping_part(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    use_device();
    handle = make_memory(2 * CHUNK);
    addr = reserve(8 * CHUNK);
    say_code("second_half", cu.cuMemMap(addr, CHUNK, CHUNK, handle, 0));
    say_code("first_half", cu.cuMemMap(addr + 2 * CHUNK, CHUNK, 0, handle, 0));
    say_code("more", cu.cuMemMap(addr + 4 * CHUNK, 4 * CHUNK, 0, handle, 0));
    say_code("whole", cu.cuMemMap(addr + 4 * CHUNK, 2 * CHUNK, 0, handle, 0));
}

static void mapping(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    use_device();
    handle = make_memory(CHUNK);
    addr = reserve(4 * CHUNK);
    say_code("flags", cu.cuMemMap(addr, CHUNK, 0, handle, 1));
    say_code("zero", cu.cuMemMap(addr, 0, 0, handle, 0));
    say_code("half", cu.cuMemMap(addr, MB, 0, handle, 0));
    say_code("unaligned", cu.cuMemMap(addr + 4096, CHUNK, 0, handle, 0));
    say_code("no_handle", cu.cuMemMap(addr, CHUNK, 0, 0, 0));
    say_code("not_reserved", cu.cuMemMap(addr + (4096 * MB), CHUNK, 0, handle, 0));
    say_code("good", cu.cuMemMap(addr, CHUNK, 0, handle, 0));
    say_code("taken", cu.cuMemMap(addr, CHUNK, 0, make_memory(CHUNK), 0));
    say_code("overlap", cu.cuMemMap(addr, 2 * CHUNK, 0, make_memory(2 * CHUNK), 0));
    say_code("second_address", cu.cuMemMap(addr + CHUNK, CHUNK, 0, handle, 0));
}

static void mapping_across(void)
{
    CUdeviceptr first;
    CUdeviceptr second = 0;

    use_device();
    first = reserve(2 * CHUNK);
    must(cu.cuMemAddressFree(first, 2 * CHUNK), "free");
    must(try_reserve(CHUNK, 0, first, &first), "first");
    must(try_reserve(CHUNK, 0, first + CHUNK, &second), "second");
    say_yes("neighbours", second == first + CHUNK);
    say_code("map", cu.cuMemMap(first, 2 * CHUNK, 0, make_memory(2 * CHUNK), 0));
}

static void unmapping(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(8 * CHUNK);
    map(addr, 2 * CHUNK, make_memory(2 * CHUNK));
    say_code("first_half", cu.cuMemUnmap(addr, CHUNK));
    say_code("second_half", cu.cuMemUnmap(addr + CHUNK, CHUNK));
    say_code("more", cu.cuMemUnmap(addr, 3 * CHUNK));
    say_code("zero", cu.cuMemUnmap(addr, 0));
    say_code("whole", cu.cuMemUnmap(addr, 2 * CHUNK));
    say_code("twice", cu.cuMemUnmap(addr, 2 * CHUNK));
    say_code("never_mapped", cu.cuMemUnmap(addr + 4 * CHUNK, CHUNK));
    say_code("never_reserved", cu.cuMemUnmap(addr + 4096 * MB, CHUNK));
}

static void unmapping_several(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(8 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    map(addr + CHUNK, CHUNK, make_memory(CHUNK));
    say_code("neighbours", cu.cuMemUnmap(addr, 2 * CHUNK));
    map(addr, CHUNK, make_memory(CHUNK));
    map(addr + 2 * CHUNK, CHUNK, make_memory(CHUNK));
    say_code("around_a_hole", cu.cuMemUnmap(addr, 3 * CHUNK));
    say_code("first", cu.cuMemUnmap(addr, CHUNK));
    say_code("last", cu.cuMemUnmap(addr + 2 * CHUNK, CHUNK));
}

static void retaining(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle again = 0;
    CUdeviceptr addr;

    use_device();
    addr = reserve(2 * CHUNK);
    say_code("not_mapped", cu.cuMemRetainAllocationHandle(&again, (void *)addr));
    handle = make_memory(CHUNK);
    map(addr, CHUNK, handle);
    say_code("start", cu.cuMemRetainAllocationHandle(&again, (void *)addr));
    say_yes("same", again == handle);
    say_code("inside", cu.cuMemRetainAllocationHandle(&again, (void *)(addr + 4096)));
    say_yes("same", again == handle);
    say_code("release", cu.cuMemRelease(handle));
    say_code("release", cu.cuMemRelease(handle));
    say_code("release", cu.cuMemRelease(handle));
    say_code("release_four", cu.cuMemRelease(handle));
    say_code("after", cu.cuMemRetainAllocationHandle(&again, (void *)addr));
    say_code("release", cu.cuMemRelease(again));
    say_code("unmap", cu.cuMemUnmap(addr, CHUNK));
}

static void handle_properties(void)
{
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle handle;

    use_device();
    handle = make_memory(CHUNK);
    say_code("good", cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    say_number("type", prop.type);
    say_number("location", prop.location.type);
    say_number("id", prop.location.id);
    say_number("handle_types", prop.requestedHandleTypes);
    say_code("null", cu.cuMemGetAllocationPropertiesFromHandle(NULL, handle));
}

const struct fact facts_vmm[] = {
    {"vmm.granularity", granularity},
    {"vmm.properties", properties},
    {"vmm.create", create},
    {"vmm.release", release},
    {"vmm.accounting", accounting},
    {"vmm.reserve", reserving},
    {"vmm.reserve_hint", reserving_hint},
    {"vmm.reserve_many_tb", reserving_many_tb},
    {"vmm.reserve_16_tb", reserving_16_tb},
    {"vmm.program_sees", reserved_memory},
    {"vmm.free", freeing},
    {"vmm.free_mapped", freeing_mapped},
    {"vmm.map_part", mapping_part},
    {"vmm.map", mapping},
    {"vmm.map_across_reservations", mapping_across},
    {"vmm.unmap", unmapping},
    {"vmm.unmap_several", unmapping_several},
    {"vmm.retain", retaining},
    {"vmm.handle_properties", handle_properties},
    {NULL, NULL},
};
