/*
 * Memory of another machine with each system call and allocation of the program failing in
 * its turn.  The other machine is this process: its own handle, altered so that it names
 * another machine, is imported over the loopback interface.
 */
#include "faulted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FABRIC ACL_MEM_SHARE_HANDLE_TYPE_FABRIC
#define GONE ACL_ERROR_RT_IPC_ERROR
#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION

static aclrtMemFabricHandle fabric;
static aclrtStream stream;
static char key[4200]; /* the option */

/* As src/core/ipc/share.c makes the last eight bytes. */
static void fabric_alter(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    fabric.data[8] ^= 1;
    for (size_t i = 0; i < sizeof fabric - sizeof hash; i++)
        hash = (hash ^ fabric.data[i]) * UINT64_C(0x100000001b3);
    memcpy(&fabric.data[sizeof fabric - sizeof hash], &hash, sizeof hash);
}

static void prepare_handle(struct scene *s)
{
    s->size = CHUNK;
    s->handle = alloc(s->size);
}

static void prepare_export(struct scene *s)
{
    prepare_handle(s);
    assert_acl_ok(aclrtMemExportToShareableHandleV2(s->handle, OPEN, FABRIC, &fabric));
    fabric_alter();
}

static void prepare_mapped(struct scene *s)
{
    prepare_export(s);
    assert_acl_ok(aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &s->more));
    s->va = reserve(s->size);
    map(s->va, s->size, s->more);
}

static void prepare_stream(struct scene *s)
{
    prepare_mapped(s);
    assert_acl_ok(aclrtCreateStream(&stream));
}

static aclError run_export(struct scene *s)
{
    return aclrtMemExportToShareableHandleV2(s->handle, OPEN, FABRIC, &fabric);
}

static aclError run_import(struct scene *s)
{
    return aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &s->more);
}

static aclError run_copy(struct scene *s)
{
    static uint8_t bytes[100000];

    return aclrtMemcpy(s->va, s->size, bytes, sizeof bytes, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError run_fill(struct scene *s)
{
    return aclrtMemset(s->va, s->size, 7, s->size);
}

static aclError run_async(struct scene *s)
{
    aclError rc = aclrtMemsetAsync(s->va, s->size, 7, s->size, stream);
    aclError later = aclrtSynchronizeStream(stream);

    return rc != ACL_SUCCESS ? rc : later;
}

static void check_filled(struct scene *s)
{
    uint8_t last = 0;

    assert_acl_ok(
        aclrtMemcpy(&last, 1, s->va + s->size - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(last, 7);
}

static void clean_all(struct scene *s)
{
    if (stream != NULL)
        assert_acl_ok(aclrtDestroyStream(stream));
    if (s->va != NULL) {
        assert_acl_ok(aclrtUnmapMem(s->va));
        assert_acl_ok(aclrtReleaseMemAddress(s->va));
    }
    if (s->more != NULL)
        assert_acl_ok(aclrtFreePhysical(s->more));
    assert_acl_ok(aclrtFreePhysical(s->handle));
}

#define OVER_FABRIC \
    .option = "ACLMEM_PRODUCT=A3", .more = {"ACLMEM_FABRIC=127.0.0.1", key}

static const struct step steps[] = {
    /* The other code is that of memory that cannot be sealed. */
    {"an export", OVER_FABRIC, .prepare = prepare_handle, .run = run_export,
     .clean = clean_all, .other_code = ACL_ERROR_RT_INTERNAL_ERROR},
    {"an import", OVER_FABRIC, .prepare = prepare_export, .run = run_import,
     .clean = clean_all, .other_code = GONE},
    {"a copy", OVER_FABRIC, .prepare = prepare_mapped, .run = run_copy,
     .clean = clean_all, .other_code = GONE},
    {"a fill", OVER_FABRIC, .prepare = prepare_mapped, .run = run_fill,
     .check = check_filled, .clean = clean_all, .other_code = GONE},
    {"work on a stream", OVER_FABRIC, .prepare = prepare_stream, .run = run_async,
     .check = check_filled, .clean = clean_all, .other_code = GONE},
};

/* The cluster's key, beside the runtime directory; all turns use the same. */
static void key_make(void)
{
    const char *path = key + strlen("ACLMEM_FABRIC_KEY=");
    FILE *file;

    snprintf(key, sizeof key, "ACLMEM_FABRIC_KEY=%s.key", getenv("ACLMEM_RUNTIME_DIR"));
    if (access(path, R_OK) == 0)
        return;
    umask(077);
    file = fopen(path, "w");
    if (file != NULL) {
        fputs("0123456789abcdef0123456789abcdef", file);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    if (access("/sys/class/net", F_OK) != 0) {
        puts("skipped: UCX finds network devices in /sys, which is not mounted");
        return 77;
    }
    key_make();
    return run_faulted(steps, argc, argv);
}
