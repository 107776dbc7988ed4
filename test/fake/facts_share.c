/* Facts about descriptors of memory. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "fake/facts.h"

static CUresult export(CUmemGenericAllocationHandle handle, int *ret_fd)
{
    return cu.cuMemExportToShareableHandle(ret_fd, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult import(int fd, CUmemGenericAllocationHandle *ret_handle)
{
    return cu.cuMemImportFromShareableHandle(ret_handle, (void *)(intptr_t)fd,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void exporting(void)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    int first = -1;
    int second = -1;

    use_device();
    handle = make_memory(CHUNK);
    say_code("first", export(handle, &first));
    say_code("second", export(handle, &second));
    say_yes("different", first != second);
    say_yes("close_on_exec", fcntl(first, F_GETFD) & FD_CLOEXEC);
    say_code("type_none", cu.cuMemExportToShareableHandle(&first, handle, 0, 0));
    say_code("type_other", cu.cuMemExportToShareableHandle(
                               &first, handle, (CUmemAllocationHandleType)2, 0));
    say_code("flags", cu.cuMemExportToShareableHandle(
                          &first, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    say_code("null", export(handle, NULL));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    must(cu.cuMemCreate(&handle, CHUNK, &prop, 0), "create");
    say_code("not_asked_for", export(handle, &first));
}

static void importing(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle copy = 0;
    CUmemGenericAllocationHandle second = 0;
    CUmemAllocationProp prop = {0};
    CUdeviceptr addr;
    int fd;

    use_device();
    addr = reserve(8 * CHUNK);
    handle = make_memory(2 * CHUNK);
    must(export(handle, &fd), "export");
    say_code("import", import(fd, &copy));
    say_yes("same", copy == handle);
    say_code("again", import(fd, &second));
    say_yes("same", second == copy);
    say_yes("descriptor_stays_open", fcntl(fd, F_GETFD) >= 0);
    close(fd);
    must(cu.cuMemGetAllocationPropertiesFromHandle(&prop, copy), "properties");
    say_number("location", prop.location.type);
    say_number("id", prop.location.id);
    say_number("handle_types", prop.requestedHandleTypes);
    say_code("map_part", cu.cuMemMap(addr, CHUNK, 0, copy, 0));
    say_code("map_more", cu.cuMemMap(addr, 4 * CHUNK, 0, copy, 0));
    say_code("map", cu.cuMemMap(addr + 4 * CHUNK, 2 * CHUNK, 0, copy, 0));
    say_code("export", export(copy, &fd));
    say_code("release", cu.cuMemRelease(copy));
    say_code("release_other", cu.cuMemRelease(second));
    say_code("release_own", cu.cuMemRelease(handle));
}

static void importing_nonsense(void)
{
    CUmemGenericAllocationHandle handle = 7;
    int fd = open("/dev/null", O_RDWR);

    use_device();
    say_code("closed", import(1000, &handle));
    say_code("negative", import(-1, &handle));
    say_code("foreign", import(fd, &handle));
    say_code("type", cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, 0));
    say_yes("untouched", handle == 7);
}

/* Memory that only a descriptor keeps. */
static void descriptor_keeps(void)
{
    CUmemGenericAllocationHandle handle;
    int fd;

    use_device();
    handle = make_memory(CHUNK);
    must(export(handle, &fd), "export");
    must(cu.cuMemRelease(handle), "release");
    say_code("import", import(fd, &handle));
    say_code("release", cu.cuMemRelease(handle));
    close(fd);
}

/* The other process adds one to the first byte, and says what it found there. */
int share_other_side(int fd)
{
    CUmemGenericAllocationHandle handle;
    unsigned char *pinned;
    CUdeviceptr addr;
    CUstream stream;

    use_device();
    must(import(fd, &handle), "import");
    addr = reserve(CHUNK);
    map(addr, CHUNK, handle);
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "access");
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    pinned = make_pinned(4096);
    must(cu.cuMemcpyDtoHAsync_v2(pinned, addr, 1, stream), "copy");
    must(cu.cuStreamSynchronize(stream), "synchronize");
    pinned[1] = (unsigned char)(pinned[0] + 1);
    must(cu.cuMemcpyHtoDAsync_v2(addr, pinned + 1, 1, stream), "copy");
    must(cu.cuStreamSynchronize(stream), "synchronize");
    return pinned[0];
}

static void other_process(void)
{
    CUmemGenericAllocationHandle handle;
    unsigned char *pinned;
    CUdeviceptr addr;
    int fd;

    use_device();
    handle = make_memory(CHUNK);
    addr = reserve(CHUNK);
    map(addr, CHUNK, handle);
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "access");
    must(cu.cuMemsetD8Async(addr, 41, CHUNK, NULL), "fill");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    must(export(handle, &fd), "export");
    fcntl(fd, F_SETFD, 0);
    say_number("other_found", run_other_side(fd));
    pinned = make_pinned(4096);
    must(cu.cuMemcpyDtoHAsync_v2(pinned, addr, 1, NULL), "copy");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    say_number("found_after", pinned[0]);
}

const struct fact facts_share[] = {
    {"share.export", exporting},
    {"share.import", importing},
    {"share.import_nonsense", importing_nonsense},
    {"share.descriptor_keeps", descriptor_keeps},
    {"share.other_process", other_process},
    {NULL, NULL},
};
