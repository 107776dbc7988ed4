/* What the environment sets in the fake driver; each claim is a process of its own. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/whole_driver.h"
#include "support/support.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

/* What check() returns in a child that has the setting; -SIGNAL where it was killed. */
static int in_child(const char *name, const char *value, int (*check)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        setenv(name, value, 1);
        _exit(check());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int init_code(void)
{
    return cuInit(0);
}

static void without_a_device_there_is_no_driver(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_DEVICES", "0", init_code), CUDA_ERROR_NO_DEVICE);
}

static int device_count(void)
{
    int count = -1;

    cuInit(0);
    cuDeviceGetCount(&count);
    return count;
}

static void there_are_as_many_devices_as_asked_for(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_DEVICES", "5", device_count), 5);
}

static int memory_in_mb(void)
{
    size_t size = 0;

    cuInit(0);
    cuDeviceTotalMem_v2(&size, 0);
    return (int)(size >> 20);
}

static void devices_are_as_large_as_asked_for(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_MEMORY", "128", memory_in_mb), 128);
}

static int version_is_11_4(void)
{
    int version = 0;

    cuDriverGetVersion(&version);
    return version == 11040;
}

static void the_version_is_as_asked_for(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_VERSION", "11040", version_is_11_4), 1);
}

static int can_reach_peer(void)
{
    int can = -1;

    cuInit(0);
    cuDeviceCanAccessPeer(&can, 0, 1);
    return can;
}

static void devices_reach_each_other_or_not(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_PEERS", "1", can_reach_peer), 1);
    assert_int_equal(in_child("FAKE_CUDA_PEERS", "0", can_reach_peer), 0);
}

static int use_a_destroyed_stream(void)
{
    CUcontext context;
    CUstream stream;

    close(STDERR_FILENO); /* its message is no news */
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    cuStreamDestroy_v2(stream);
    return cuStreamQuery(stream);
}

static void a_call_that_crashes_the_driver_ends_the_program(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_DEVICES", "1", use_a_destroyed_stream),
                     -SIGABRT);
}

static int old_driver_is_old(void)
{
    void *library = dlopen(OLD_DRIVER, RTLD_NOW | RTLD_LOCAL);

    return library && dlsym(library, "cuInit") && dlsym(library, "fake_cuda_fail") &&
           !dlsym(library, "cuMemCreate") && !dlsym(library, "cuStreamWaitValue32_v2");
}

static void an_old_driver_has_no_virtual_memory(void **state)
{
    assert_int_equal(in_child("FAKE_CUDA_VERSION", "10010", old_driver_is_old), 1);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(without_a_device_there_is_no_driver),
        cmocka_unit_test(there_are_as_many_devices_as_asked_for),
        cmocka_unit_test(devices_are_as_large_as_asked_for),
        cmocka_unit_test(the_version_is_as_asked_for),
        cmocka_unit_test(devices_reach_each_other_or_not),
        cmocka_unit_test(a_call_that_crashes_the_driver_ends_the_program),
        cmocka_unit_test(an_old_driver_has_no_virtual_memory),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
