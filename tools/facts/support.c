/* See facts.h. */
#include "facts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int device;

aclError absent(const char *name)
{
    printf("absent %s\n", name);
    fflush(stdout);
    _exit(0);
}

void step(const char *name, aclError rc)
{
    if (rc == ACL_SUCCESS)
        return;
    printf("not reached: %s gives %d\n", name, rc);
    fflush(stdout);
    _exit(0);
}

int other_device(void)
{
    uint32_t n = 0;

    STEP(aclrtGetDeviceCount, &n);
    return n > 1 ? (device + 1) % (int)n : -1;
}

aclrtPhysicalMemProp *prop_at(aclrtMemLocationType type, uint32_t id)
{
    static aclrtPhysicalMemProp prop;

    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = type;
    prop.location.id = id;
    return &prop;
}

aclrtPhysicalMemProp *prop_of(aclrtMemAttr attr)
{
    aclrtPhysicalMemProp *prop = prop_at(ACL_MEM_LOCATION_TYPE_DEVICE, (uint32_t)device);

    prop->memAttr = attr;
    return prop;
}

char *reserved(size_t size)
{
    void *addr = NULL;

    STEP(aclrtReserveMemAddress, &addr, size, 0, NULL, 1);
    return addr;
}

aclrtDrvMemHandle physical(size_t size)
{
    aclrtDrvMemHandle handle = NULL;

    STEP(aclrtMallocPhysical, &handle, size, prop_of(ACL_HBM_MEM_HUGE), 0);
    return handle;
}

struct range mapped(size_t size)
{
    struct range range = {reserved(size), size, physical(size)};

    STEP(aclrtMapMem, range.addr, size, 0, range.handle, 0);
    return range;
}

char *block(size_t size)
{
    void *addr = NULL;

    STEP(aclrtMalloc, &addr, size, ACL_MEM_MALLOC_HUGE_FIRST);
    return addr;
}

char *pinned(size_t size)
{
    void *addr = NULL;

    STEP(aclrtMallocHost, &addr, size);
    return addr;
}

aclrtStream stream(void)
{
    aclrtStream s = NULL;

    STEP(aclrtCreateStream, &s);
    return s;
}

aclrtEvent event(uint32_t flag)
{
    aclrtEvent e = NULL;

    STEP(aclrtCreateEventWithFlag, &e, flag);
    return e;
}

aclrtStream captured(void)
{
    aclrtStream s = stream();

    STEP(aclmdlRICaptureBegin, s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    return s;
}

aclmdlRI model_of(aclrtStream s)
{
    aclmdlRI model = NULL;

    STEP(aclmdlRICaptureEnd, s, &model);
    return model;
}

aclrtStream joined(aclrtStream s)
{
    aclrtStream side = stream();
    aclrtEvent e = event(ACL_EVENT_SYNC);

    STEP(aclrtRecordEvent, e, s);
    STEP(aclrtStreamWaitEvent, side, e);
    STEP(aclrtMemsetAsync, block(64), 64, 0, 64, side);
    return side;
}

uint64_t exported(aclrtDrvMemHandle handle, uint64_t flags)
{
    uint64_t number = 0;

    STEP(aclrtMemExportToShareableHandle, handle, ACL_MEM_HANDLE_TYPE_NONE, flags,
         &number);
    return number;
}

size_t free_memory(void)
{
    size_t free = 0, total = 0;

    STEP(aclrtGetMemInfo, ACL_HBM_MEM, &free, &total);
    return free;
}

aclError access_set(char *addr, size_t size, aclrtMemAccessFlags flags)
{
    aclrtMemAccessDesc desc = {
        .flags = flags,
        .location = {.id = (uint32_t)device, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };

    return CALL(aclrtMemSetAccess, addr, size, &desc, 1);
}

const char *soc_name(void)
{
    return aclrtGetSocName != NULL ? aclrtGetSocName() : NULL;
}

bool message_is_given(void)
{
    const char *text = aclGetRecentErrMsg != NULL ? aclGetRecentErrMsg() : NULL;

    return text != NULL && text[0] != '\0';
}

/* ---- a stream that is busy ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void wait_for_the_lock(void *unused)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

void hold(aclrtStream s)
{
    pthread_mutex_lock(&lock);
    STEP(aclrtLaunchHostFunc, s, wait_for_the_lock, NULL);
}

void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- another thread ---- */

static void *context_code_get(void *code)
{
    aclrtContext context = NULL;

    *(long *)code = CALL(aclrtGetCurrentContext, &context);
    return NULL;
}

long context_code_in_new_thread(void)
{
    pthread_t thread;
    long code = -1;

    if (pthread_create(&thread, NULL, context_code_get, &code) == 0)
        pthread_join(thread, NULL);
    return code;
}

/* ---- another process ---- */

int import_for_another(void)
{
    aclrtDrvMemHandle handle = NULL;
    uint64_t number;
    int32_t pid = 0;

    STEP(aclInit, NULL);
    STEP(aclrtSetDevice, device);
    STEP(aclrtDeviceGetBareTgid, &pid);
    printf("%d\n", pid);
    fflush(stdout);
    if (scanf("%lu", &number) != 1)
        return 1;
    printf("%d\n", CALL(aclrtMemImportFromShareableHandle, number, device, &handle));
    fflush(stdout);
    return 0;
}

long imported_by_another(uint64_t number, bool listed)
{
    int to[2], from[2];
    int32_t pid;
    long code = -1;
    char text[16];
    FILE *answers;
    pid_t child;

    if (pipe(to) != 0 || pipe(from) != 0 || (child = fork()) < 0)
        return -1;
    if (child == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        snprintf(text, sizeof text, "%d", device);
        execl("/proc/self/exe", "aclmem_facts", "--import", text, (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    answers = fdopen(from[0], "r");
    if (answers == NULL || fscanf(answers, "%d", &pid) != 1)
        return -1;
    if (listed)
        STEP(aclrtMemSetPidToShareableHandle, number, &pid, 1);
    dprintf(to[1], "%lu\n", number);
    if (fscanf(answers, "%ld", &code) != 1)
        code = -1;
    fclose(answers);
    close(to[1]);
    waitpid(child, NULL, 0);
    return code;
}
