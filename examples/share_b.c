/*
 * Memory in two processes, the second half: who uses it.
 *
 *     build/bin/share_b NUMBER     with the number that share_a gave
 *
 * It says its id, for a share_a that has a list, and waits for Enter; then it imports the
 * memory, reads what is there, and answers.
 */
#include <inttypes.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE (2 * MB)
#define TEXT_SIZE 64

int main(int argc, char **argv)
{
    char answer[TEXT_SIZE] = "hello back from share_b";
    char text[TEXT_SIZE];
    aclrtDrvMemHandle handle;
    uint64_t number;
    int32_t pid;
    void *addr;
    char *end;

    number = argc == 2 ? strtoull(argv[1], &end, 0) : 0;
    if (number == 0 || *end != '\0') {
        fprintf(stderr, "usage: share_b NUMBER, as share_a says\n");
        return 2;
    }
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtDeviceGetBareTgid(&pid));
    printf("this is process %d; press Enter when share_a may share\n", pid);
    fflush(stdout);
    getchar();

    CHECK(aclrtMemImportFromShareableHandle(number, 0, &handle));
    CHECK(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    CHECK(aclrtMapMem(addr, SIZE, 0, handle, 0));
    CHECK(aclrtMemcpy(text, sizeof text, addr, sizeof text, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("the memory says: %.*s\n", TEXT_SIZE, text);
    CHECK(aclrtMemcpy(addr, SIZE, answer, sizeof answer, ACL_MEMCPY_HOST_TO_DEVICE));

    CHECK(aclrtUnmapMem(addr));
    CHECK(aclrtReleaseMemAddress(addr));
    CHECK(aclrtFreePhysical(handle));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return strcmp(text, "hello from share_a") != 0;
}
