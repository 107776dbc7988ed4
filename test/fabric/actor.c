/*
 * A program that does what the test orders: one order a line, one answer a line.
 *
 *     export 0x5f...01 1      ->      ok 61636c6d...
 *     map 0x1000.. 2097152 7  ->      107000 aclrtMapMem: ...
 *
 * Numbers are given and printed so that C reads them.  A pattern is made of a seed and of
 * the place of each byte, so bytes at a wrong place differ too.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

#define WORDS_MAX 64
#define LINE_SIZE 65536

static char *words[WORDS_MAX];
static int n_words;
static aclrtStream stream;

static uint64_t number(int i)
{
    return i < n_words ? strtoull(words[i], NULL, 0) : 0;
}

static void *address(int i)
{
    return (void *)(uintptr_t)number(i);
}

/* The answer: a code with its message, or what the format says. */
static void answer(aclError rc, const char *fmt, ...)
{
    const char *why = rc != ACL_SUCCESS ? aclGetRecentErrMsg() : NULL;
    va_list args;

    if (rc != ACL_SUCCESS) {
        printf("%d ", rc);
        for (; why != NULL && *why != '\0'; why++)
            putchar(*why == '\n' ? ' ' : *why);
    } else {
        printf("ok ");
        va_start(args, fmt);
        vprintf(fmt, args);
        va_end(args);
    }
    putchar('\n');
    fflush(stdout);
}

static uint8_t pattern(uint64_t seed, size_t at)
{
    uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + at / 8;

    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (uint8_t)(x >> (8 * (at % 8)));
}

static uint8_t *pattern_make(size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc(size);

    for (size_t i = 0; bytes != NULL && i < size; i++)
        bytes[i] = pattern(seed, i);
    return bytes;
}

static aclrtPhysicalMemProp prop_of(bool is_host)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = is_host ? ACL_MEM_LOCATION_TYPE_HOST
                                     : ACL_MEM_LOCATION_TYPE_DEVICE},
    };

    return prop;
}

/* ---- orders ---- */

static void do_init(void)
{
    aclError rc = aclInit(NULL);

    if (rc == ACL_SUCCESS)
        rc = aclrtSetDevice(0);
    answer(rc, "%d", (int)getpid());
}

static void do_tgid(void)
{
    int32_t pid = 0;
    aclError rc = aclrtDeviceGetBareTgid(&pid);

    answer(rc, "%d", pid);
}

static void do_alloc(void)
{
    aclrtPhysicalMemProp prop = prop_of(number(2) != 0);
    aclrtDrvMemHandle handle = NULL;
    aclError rc = aclrtMallocPhysical(&handle, number(1), &prop, 0);

    answer(rc, "%p", handle);
}

static void do_malloc(void)
{
    void *block = NULL;
    aclError rc = aclrtMalloc(&block, number(1), ACL_MEM_MALLOC_HUGE_FIRST);

    answer(rc, "%p", block);
}

static void do_malloc_host(void)
{
    void *block = NULL;
    aclError rc = aclrtMallocHost(&block, number(1));

    answer(rc, "%p", block);
}

static void fabric_read(int i, aclrtMemFabricHandle *handle)
{
    memset(handle, 0, sizeof *handle);
    for (size_t k = 0; i < n_words && k < sizeof *handle; k++) {
        unsigned byte = 0;

        sscanf(words[i] + 2 * k, "%2x", &byte);
        handle->data[k] = (uint8_t)byte;
    }
}

static void do_export(void)
{
    aclrtMemFabricHandle handle;
    char text[2 * sizeof handle + 1] = "";
    aclError rc = aclrtMemExportToShareableHandleV2(
        address(1), number(2), ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &handle);

    for (size_t i = 0; rc == ACL_SUCCESS && i < sizeof handle; i++)
        snprintf(text + 2 * i, 3, "%02x", handle.data[i]);
    answer(rc, "%s", text);
}

static void do_trust(void)
{
    aclrtMemFabricHandle handle;
    int32_t pid = (int32_t)number(2);

    fabric_read(1, &handle);
    answer(aclrtMemSetPidToShareableHandleV2(&handle, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                             &pid, 1),
           "");
}

static void do_import(void)
{
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle handle = NULL;
    aclError rc;

    fabric_read(1, &fabric);
    rc = aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0,
                                             &handle);
    answer(rc, "%p", handle);
}

static void do_key(void)
{
    char key[ACL_IPC_HANDLE_SIZE] = "";
    aclError rc =
        aclrtIpcMemGetExportKey(address(1), number(2), key, ACL_IPC_HANDLE_SIZE, 1);

    answer(rc, "%s", key);
}

static void do_open_key(void)
{
    void *block = NULL;
    aclError rc = aclrtIpcMemImportByKey(&block, words[1], 0);

    answer(rc, "%p", block);
}

static void do_reserve(void)
{
    void *addr = NULL;
    aclError rc = aclrtReserveMemAddress(&addr, number(1), 0, NULL, 1);

    answer(rc, "%p", addr);
}

static void do_release(void)
{
    answer(aclrtReleaseMemAddress(address(1)), "");
}

static void do_map(void)
{
    answer(aclrtMapMem(address(1), number(2), 0, address(3), 0), "");
}

static void do_unmap(void)
{
    answer(aclrtUnmapMem(address(1)), "");
}

static void do_free(void)
{
    answer(aclrtFreePhysical(address(1)), "");
}

static void do_retain(void)
{
    aclrtDrvMemHandle handle = NULL;
    aclError rc = aclrtMemRetainAllocationHandle(address(1), &handle);

    answer(rc, "%p", handle);
}

static void do_range(void)
{
    void *base = NULL;
    size_t size = 0;
    aclError rc = aclrtMemGetAddressRange(address(1), &base, &size);

    answer(rc, "%p %zu", base, size);
}

static void do_access(void)
{
    aclrtMemAccessDesc desc = {
        .flags = (aclrtMemAccessFlags)number(3),
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };

    answer(aclrtMemSetAccess(address(1), number(2), &desc, 1), "");
}

static void do_view(void)
{
    void *addr = NULL;
    aclError rc = aclmem_host_view(address(1), number(2), &addr);

    answer(rc, "%p", addr);
}

static void do_put(void)
{
    size_t size = number(2);
    uint8_t *bytes = pattern_make(size, number(3));

    answer(aclrtMemcpy(address(1), size, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE), "");
    free(bytes);
}

/* Bytes of a file, from an offset on. */
static void do_load(void)
{
    size_t size = number(2);
    uint8_t *bytes = malloc(size);
    FILE *file = fopen(words[3], "rb");
    bool is_read = file != NULL && fseek(file, (long)number(4), SEEK_SET) == 0 &&
                   fread(bytes, 1, size, file) == size;

    if (file != NULL)
        fclose(file);
    if (is_read)
        answer(aclrtMemcpy(address(1), size, bytes, size, ACL_MEMCPY_HOST_TO_DEVICE), "");
    else
        answer(ACL_ERROR_INVALID_FILE, "");
    free(bytes);
}

/* How many bytes differ from the pattern. */
static void do_check(void)
{
    size_t size = number(2);
    uint8_t *bytes = calloc(1, size);
    aclError rc = aclrtMemcpy(bytes, size, address(1), size, ACL_MEMCPY_DEVICE_TO_HOST);
    size_t n = 0;

    for (size_t i = 0; rc == ACL_SUCCESS && i < size; i++)
        n += bytes[i] != pattern(number(3), i);
    answer(rc, "%zu", n);
    free(bytes);
}

/* How many bytes differ from one value. */
static void do_check_value(void)
{
    size_t size = number(2);
    uint8_t *bytes = calloc(1, size);
    aclError rc = aclrtMemcpy(bytes, size, address(1), size, ACL_MEMCPY_DEVICE_TO_HOST);
    size_t n = 0;

    for (size_t i = 0; rc == ACL_SUCCESS && i < size; i++)
        n += bytes[i] != (uint8_t)number(3);
    answer(rc, "%zu", n);
    free(bytes);
}

/* The bytes, in hexadecimal digits. */
static void do_peek(void)
{
    uint8_t bytes[256];
    char text[2 * sizeof bytes + 1] = "";
    size_t size = number(2) < sizeof bytes ? number(2) : sizeof bytes;
    aclError rc = aclrtMemcpy(bytes, size, address(1), size, ACL_MEMCPY_DEVICE_TO_HOST);

    for (size_t i = 0; rc == ACL_SUCCESS && i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    answer(rc, "%s", text);
}

/* The Adler-32 sum of the bytes, as zlib's. */
static void do_sum(void)
{
    size_t size = number(2);
    uint8_t *bytes = calloc(1, size);
    uint32_t a = 1, b = 0;
    aclError rc =
        aclrtMemcpy(bytes, size, address(1), size,
                    number(3) != 0 ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_DEVICE_TO_HOST);

    for (size_t i = 0; rc == ACL_SUCCESS && i < size; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    answer(rc, "%u", b << 16 | a);
    free(bytes);
}

static void do_copy(void)
{
    answer(aclrtMemcpy(address(1), number(3), address(2), number(3),
                       (aclrtMemcpyKind)number(4)),
           "");
}

static void do_set(void)
{
    answer(aclrtMemset(address(1), number(2), (int32_t)number(3), number(2)), "");
}

static aclrtStream the_stream(void)
{
    if (stream == NULL)
        aclrtCreateStream(&stream);
    return stream;
}

static void do_copy_async(void)
{
    answer(aclrtMemcpyAsync(address(1), number(3), address(2), number(3),
                            (aclrtMemcpyKind)number(4), the_stream()),
           "");
}

#define STREAMS_MAX 128
static aclrtStream streams[STREAMS_MAX];
static size_t n_streams;

/* Copies the same bytes on so many streams, one copy on each. */
static void do_copy_streams(void)
{
    aclError rc = ACL_SUCCESS;

    for (n_streams = 0; rc == ACL_SUCCESS && n_streams < number(5); n_streams++) {
        rc = aclrtCreateStream(&streams[n_streams]);
        if (rc == ACL_SUCCESS)
            rc = aclrtMemcpyAsync(address(1), number(3), address(2), number(3),
                                  (aclrtMemcpyKind)number(4), streams[n_streams]);
    }
    answer(rc, "");
}

/* Waits for the streams of copy_streams. */
static void do_sync_streams(void)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = 0; rc == ACL_SUCCESS && i < n_streams; i++) {
        rc = aclrtSynchronizeStream(streams[i]);
        if (rc == ACL_SUCCESS)
            rc = aclrtDestroyStream(streams[i]);
    }
    answer(rc, "");
}

static void do_set_async(void)
{
    answer(aclrtMemsetAsync(address(1), number(2), (int32_t)number(3), number(2),
                            the_stream()),
           "");
}

static void do_sync(void)
{
    answer(aclrtSynchronizeStream(the_stream()), "");
}

static void do_copy_2d(void)
{
    answer(aclrtMemcpy2d(address(1), number(2), address(3), number(4), number(5),
                         number(6), (aclrtMemcpyKind)number(7)),
           "");
}

static void do_copy_2d_async(void)
{
    answer(aclrtMemcpy2dAsync(address(1), number(2), address(3), number(4), number(5),
                              number(6), (aclrtMemcpyKind)number(7), the_stream()),
           "");
}

/* The direction, one size, and pairs of addresses. */
static void batch(bool is_async)
{
    void *to[WORDS_MAX], *from[WORDS_MAX];
    size_t sizes[WORDS_MAX], index = 0, failed = 0;
    bool is_back = number(1) == ACL_MEMCPY_DEVICE_TO_HOST;
    aclrtMemLocation device = {.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemLocation host = {.type = ACL_MEM_LOCATION_TYPE_HOST};
    aclrtMemcpyBatchAttr attr = {
        .dstLoc = is_back ? host : device,
        .srcLoc = is_back ? device : host,
    };
    size_t n = 0;

    for (int i = 3; i + 1 < n_words; i += 2, n++) {
        to[n] = address(i);
        from[n] = address(i + 1);
        sizes[n] = number(2);
    }
    answer(is_async
               ? aclrtMemcpyBatchAsync(to, sizes, from, sizes, n, &attr, &index, 1,
                                       &failed, the_stream())
               : aclrtMemcpyBatch(to, sizes, from, sizes, n, &attr, &index, 1, &failed),
           "");
}

static void do_batch(void)
{
    batch(false);
}

static void do_batch_async(void)
{
    batch(true);
}

static void do_value(void)
{
    answer(aclrtValueWrite(address(1), number(2), 0, the_stream()), "");
}

static void do_abort(void)
{
    answer(aclrtStreamAbort(the_stream()), "");
}

static void do_finalize(void)
{
    answer(aclFinalize(), "");
    stream = NULL;
}

/*
 * From now on the kernel refuses packet filters and has no Landlock, for this program and
 * for its children.
 */
static void do_refuse_protection(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_FILTER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    bool is_done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;

    answer(is_done ? ACL_SUCCESS : ACL_ERROR_FAILURE, "");
}

static void do_option(void)
{
    const char *value = NULL;

    value = getenv(words[1]);
    answer(ACL_SUCCESS, "%s", value != NULL ? value : "");
}

static const struct {
    const char *name;
    void (*run)(void);
} orders[] = {
    {"init", do_init},
    {"tgid", do_tgid},
    {"alloc", do_alloc},
    {"malloc", do_malloc},
    {"malloc_host", do_malloc_host},
    {"export", do_export},
    {"trust", do_trust},
    {"import", do_import},
    {"key", do_key},
    {"open_key", do_open_key},
    {"reserve", do_reserve},
    {"release", do_release},
    {"map", do_map},
    {"unmap", do_unmap},
    {"free", do_free},
    {"retain", do_retain},
    {"range", do_range},
    {"access", do_access},
    {"view", do_view},
    {"put", do_put},
    {"load", do_load},
    {"check", do_check},
    {"check_value", do_check_value},
    {"peek", do_peek},
    {"sum", do_sum},
    {"copy", do_copy},
    {"set", do_set},
    {"copy_async", do_copy_async},
    {"copy_streams", do_copy_streams},
    {"sync_streams", do_sync_streams},
    {"set_async", do_set_async},
    {"sync", do_sync},
    {"copy_2d", do_copy_2d},
    {"copy_2d_async", do_copy_2d_async},
    {"batch", do_batch},
    {"batch_async", do_batch_async},
    {"value", do_value},
    {"abort", do_abort},
    {"finalize", do_finalize},
    {"option", do_option},
    {"refuse_protection", do_refuse_protection},
};

int main(void)
{
    static char line[LINE_SIZE];

    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t i = 0;

        n_words = 0;
        for (char *word = strtok(line, " \n"); word != NULL && n_words < WORDS_MAX;
             word = strtok(NULL, " \n"))
            words[n_words++] = word;
        if (n_words == 0)
            continue;
        while (i < sizeof orders / sizeof orders[0] &&
               strcmp(orders[i].name, words[0]) != 0)
            i++;
        if (i == sizeof orders / sizeof orders[0]) {
            printf("-1 no such order: %s\n", words[0]);
            fflush(stdout);
        } else {
            orders[i].run();
        }
    }
    return 0;
}
