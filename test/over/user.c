/* A program of the vendor's customers: user linked | dlopen. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

int vendor_only(int x);

static int linked(void)
{
    aclError (*lacking)(uint32_t *) =
        (aclError(*)(uint32_t *))dlsym(RTLD_DEFAULT, "aclrtGetDeviceCount");
    uint32_t count = 0;
    void *block;

    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 1;
    if (aclrtMalloc(&block, 1000, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS ||
        aclrtFree(block) != ACL_SUCCESS)
        return 2;
    if (aclrtMallocCached(&block, 2000, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS ||
        aclrtFree(block) != ACL_SUCCESS)
        return 3;
    printf("%s %d\n", aclrtGetSocName(), vendor_only(1));
    printf("missing %d\n", lacking != NULL ? lacking(&count) : 0);
    return aclFinalize();
}

static int opened(void)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW);
    aclError (*init)(const char *);
    aclError (*take)(void **, size_t, aclrtMemMallocPolicy);
    void *block;

    if (library == NULL)
        return 1;
    init = (aclError(*)(const char *))dlsym(library, "aclInit");
    take =
        (aclError(*)(void **, size_t, aclrtMemMallocPolicy))dlsym(library, "aclrtMalloc");
    if (init == NULL || take == NULL || init(NULL) != ACL_SUCCESS)
        return 2;
    return take(&block, 3000, ACL_MEM_MALLOC_HUGE_FIRST);
}

/* Uses a freed block, and does not wait for the default stream. */
static int wrong(void)
{
    char host[100];
    void *block;
    void *other;

    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtMalloc(&block, 100, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS ||
        aclrtMalloc(&other, 100, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        return 1;
    aclrtFree(block);
    aclrtMemcpy(host, 100, block, 100, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtMemsetAsync(other, 100, 1, 100, NULL);
    aclrtMemcpy(host, 100, other, 100, ACL_MEMCPY_DEVICE_TO_HOST);
    return aclFinalize();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "wrong") == 0)
        return wrong();
    return argc > 1 && strcmp(argv[1], "dlopen") == 0 ? opened() : linked();
}
