/*
 * Memory in two processes, the first half: who has it.
 *
 *     build/bin/share_a            in one terminal; it says what to type in the other
 *     build/bin/share_a --list     the same, for one process and no other
 *
 * The number that names the memory is all that the other process needs.  With a list, the
 * other process's id is asked for, and any other that learns the number is refused.
 */
#include <inttypes.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE (2 * MB)
#define TEXT_SIZE 64

/* The next number that somebody types. */
static long ask(const char *question)
{
    char line[64];

    printf("%s\n", question);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL ? strtol(line, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    int has_list = argc > 1 && strcmp(argv[1], "--list") == 0;
    char text[TEXT_SIZE] = "hello from share_a";
    aclrtDrvMemHandle handle;
    uint64_t number;
    void *addr;

    if (argc > 1 + has_list) {
        fprintf(stderr, "usage: share_a [--list]\n");
        return 2;
    }
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMallocPhysical(&handle, SIZE, &device_memory, 0));
    CHECK(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    CHECK(aclrtMapMem(addr, SIZE, 0, handle, 0));
    CHECK(aclrtMemcpy(addr, SIZE, text, sizeof text, ACL_MEMCPY_HOST_TO_DEVICE));

    CHECK(aclrtMemExportToShareableHandle(
        handle, ACL_MEM_HANDLE_TYPE_NONE,
        has_list ? ACL_RT_VMM_EXPORT_FLAG_DEFAULT
                 : ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
        &number));
    printf("in the other terminal: share_b 0x%016" PRIx64 "\n", number);
    if (has_list) {
        int32_t pid = (int32_t)ask("which process may have it? (share_b says its id)");

        CHECK(aclrtMemSetPidToShareableHandle(number, &pid, 1));
        printf("process %d may\n", pid);
    }

    ask("press Enter when share_b has answered");
    CHECK(aclrtMemcpy(text, sizeof text, addr, sizeof text, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("the memory says: %.*s\n", TEXT_SIZE, text);

    CHECK(aclrtUnmapMem(addr));
    CHECK(aclrtReleaseMemAddress(addr));
    CHECK(aclrtFreePhysical(handle));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return strcmp(text, "hello back from share_b") != 0;
}
