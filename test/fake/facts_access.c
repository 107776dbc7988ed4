/* Facts about rights. */
#include "fake/facts.h"

static long long access_at(CUdeviceptr addr)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 99;
    CUresult rc = cu.cuMemGetAccess(&flags, &here, addr);

    return rc == CUDA_SUCCESS ? (long long)flags : -(long long)rc;
}

static void setting(void)
{
    CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUdeviceptr addr;

    use_device();
    addr = reserve(4 * CHUNK);
    say_code("not_mapped", set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    map(addr, 2 * CHUNK, make_memory(2 * CHUNK));
    say_code("count_zero", cu.cuMemSetAccess(addr, 2 * CHUNK, &desc, 0));
    say_code("null", cu.cuMemSetAccess(addr, 2 * CHUNK, NULL, 1));
    say_code("zero", cu.cuMemSetAccess(addr, 0, &desc, 1));
    say_code("unaligned", cu.cuMemSetAccess(addr + 4096, CHUNK, &desc, 1));
    say_code("odd_size", cu.cuMemSetAccess(addr, 4096, &desc, 1));
    desc.flags = (CUmemAccess_flags)2;
    say_code("flags", cu.cuMemSetAccess(addr, 2 * CHUNK, &desc, 1));
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    desc.location.id = 1000;
    say_code("beyond", cu.cuMemSetAccess(addr, 2 * CHUNK, &desc, 1));
    desc.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};
    say_code("host", cu.cuMemSetAccess(addr, 2 * CHUNK, &desc, 1));
    say_code("good", set_access(addr, 2 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    say_code("into_hole",
             set_access(addr, 4 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static void setting_part(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(2 * CHUNK);
    map(addr, 2 * CHUNK, make_memory(2 * CHUNK));
    say_code("first_half", set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    say_number("first", access_at(addr));
    say_number("second", access_at(addr + CHUNK));
    say_code("second_half",
             set_access(addr + CHUNK, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    say_number("first", access_at(addr));
    say_number("second", access_at(addr + CHUNK));
}

static void setting_several(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(4 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    map(addr + CHUNK, CHUNK, make_memory(CHUNK));
    say_code("neighbours",
             set_access(addr, 2 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    say_number("first", access_at(addr));
    say_number("second", access_at(addr + CHUNK));
}

static void getting(void)
{
    CUmemLocation beyond = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1000};
    unsigned long long flags = 99;
    CUdeviceptr addr;

    use_device();
    addr = reserve(2 * CHUNK);
    say_number("reserved", access_at(addr));
    map(addr, CHUNK, make_memory(CHUNK));
    say_number("mapped", access_at(addr));
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ), "read");
    say_number("read", access_at(addr));
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "readwrite");
    say_number("readwrite", access_at(addr));
    say_number("inside", access_at(addr + 100));
    say_code("beyond", cu.cuMemGetAccess(&flags, &beyond, addr));
    say_code("set_none", set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    say_number("none", access_at(addr));
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "readwrite");
    must(cu.cuMemUnmap(addr, CHUNK), "unmap");
    say_number("unmapped", access_at(addr));
    map(addr, CHUNK, make_memory(CHUNK));
    say_number("mapped_again", access_at(addr));
    say_number("foreign", access_at((CUdeviceptr)&addr));
}

/* One handle at two addresses, with a right each. */
static void two_addresses(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    use_device();
    handle = make_memory(CHUNK);
    addr = reserve(2 * CHUNK);
    map(addr, CHUNK, handle);
    map(addr + CHUNK, CHUNK, handle);
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "readwrite");
    say_number("other_after_first", access_at(addr + CHUNK));
    say_code("read", set_access(addr + CHUNK, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    say_number("first", access_at(addr));
    say_number("second", access_at(addr + CHUNK));
}

const struct fact facts_access[] = {
    {"access.set", setting},
    {"access.set_part", setting_part},
    {"access.set_several", setting_several},
    {"access.get", getting},
    {"access.two_addresses", two_addresses},
    {NULL, NULL},
};
