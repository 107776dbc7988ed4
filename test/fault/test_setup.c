/* Faults in aclInit, aclrtSetDevice, aclrtCreateContext. */
#include "faulted.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- aclInit ---- */

static aclError do_init(struct scene *s)
{
    return aclInit(s->path[0] == '\0' ? NULL : s->path);
}

static void library_works(struct scene *s)
{
    struct block b;

    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(CHUNK);
    put_pattern(b.va, CHUNK, 1);
    assert_pattern(b.va, CHUNK, 1);
    block_destroy(&b);
}

/* A file without a name, which a process that ends at once leaves nowhere. */
static void write_config(struct scene *s)
{
    static const char text[] =
        "{\"aclmem\": {\"product\": \"A3\"}, \"err_msg_mode\": \"0\"}";
    int fd = memfd_create("config", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(s->path, sizeof(s->path), "/proc/self/fd/%d", fd);
}

static void config_was_read(struct scene *s)
{
    assert_string_equal(aclmem_option("ACLMEM_PRODUCT"), "A3");
    library_works(s);
}

/* ---- devices and contexts ---- */

static aclError set_device_1(struct scene *s)
{
    return aclrtSetDevice(1);
}

static void device_0_is_current(struct scene *s)
{
    int32_t device = 7, active = 7;

    assert_acl_ok(aclrtGetPrimaryCtxState(1, NULL, &active));
    assert_int_equal(active, 0);
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
}

static void device_1_works(struct scene *s)
{
    int32_t device = 7;

    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_int_equal(free_memory(), 64 * MIB);
}

static void reset_device_1(struct scene *s)
{
    assert_acl_ok(aclrtResetDevice(1));
}

static aclError create_context(struct scene *s)
{
    return aclrtCreateContext(&s->context, 1);
}

static void destroy_context(struct scene *s)
{
    assert_non_null(s->context);
    assert_acl_ok(aclrtDestroyContext(s->context));
}

/* The first call of a process that never calls aclInit. */
static aclError set_device_first(struct scene *s)
{
    return aclrtSetDevice(0);
}

static const struct step steps[] = {
    {"aclInit", NULL, NULL, do_init, NULL, library_works, .is_init = true},
    /* The other code is that of a file that cannot be opened or read. */
    {"aclInit with a file", NULL, write_config, do_init, NULL, config_was_read,
     .is_init = true, .other_code = ACL_ERROR_INVALID_FILE},
    {"setting a device", NULL, NULL, set_device_1, device_0_is_current, device_1_works,
     reset_device_1},
    {"making a context", NULL, NULL, create_context, device_0_is_current, NULL,
     destroy_context},
    {"a start without aclInit", NULL, NULL, set_device_first, NULL, library_works,
     .is_init = true},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
