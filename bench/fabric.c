/*
 * Memory of another machine beside a bare pair of UCX programs.
 *
 *     aclmem_bench_fabric serve | measure HANDLE         through aclmem
 *     aclmem_bench_fabric bare-serve | bare-measure HEX  UCX alone, with the same settings
 *     aclmem_bench_fabric export N | import              many handles, one on a line
 *
 * The serving side prints the arguments of the measuring side, and sleeps while no bytes
 * come.  The measuring side takes lines "put SIZE N" and "get SIZE N" from standard input,
 * and answers each with the median of N moves in microseconds; a put ends when its bytes
 * have arrived.  bench/fabric.py runs all four between two namespaces.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "acl/acl.h"

#define SIZE_MOST ((size_t)64 << 20)

#define N_MOST 300

static void require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s failed: %s\n", what, aclGetRecentErrMsg());
    exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(void (*move)(int is_put, size_t size), int is_put, size_t size,
                        int n)
{
    double times[N_MOST];

    move(is_put, size);
    for (int i = 0; i < n; i++) {
        double begun = now();

        move(is_put, size);
        times[i] = now() - begun;
    }
    qsort(times, (size_t)n, sizeof times[0], compare);
    return times[n / 2];
}

/* Answers lines "put SIZE N" and "get SIZE N" with the median of N moves. */
static void measure(void (*move)(int is_put, size_t size))
{
    char line[64], what[8];
    size_t size;
    int n;

    while (fgets(line, sizeof line, stdin) != NULL &&
           sscanf(line, "%7s %zu %d", what, &size, &n) == 3 && size <= SIZE_MOST &&
           n > 0 && n <= N_MOST) {
        printf("%.1f\n", median_of(move, strcmp(what, "put") == 0, size, n));
        fflush(stdout);
    }
}

static void hex_print(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", ((const uint8_t *)bytes)[i]);
}

static size_t hex_read(const char *text, void *bytes, size_t size)
{
    size_t n = 0;
    unsigned byte;

    for (; n < size && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        ((uint8_t *)bytes)[n] = (uint8_t)byte;
    return n;
}

static uint8_t *memory;

/* ---- through aclmem ---- */

static void *remote;

static void *mapped(aclrtDrvMemHandle handle)
{
    void *addr;

    require(aclrtReserveMemAddress(&addr, SIZE_MOST, 0, NULL, 1) == 0, "reserve");
    require(aclrtMapMem(addr, SIZE_MOST, 0, handle, 0) == 0, "map");
    return addr;
}

static void serve(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle handle;

    require(aclrtMallocPhysical(&handle, SIZE_MOST, &prop, 0) == 0, "malloc");
    mapped(handle);
    require(aclrtMemExportToShareableHandleV2(handle, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                              &fabric) == 0,
            "export");
    hex_print(&fabric, sizeof fabric);
    printf("\n");
    fflush(stdout);
    getchar();
}

static void move(int is_put, size_t size)
{
    require((is_put ? aclrtMemcpy(remote, size, memory, size, ACL_MEMCPY_HOST_TO_DEVICE)
                    : aclrtMemcpy(memory, size, remote, size,
                                  ACL_MEMCPY_DEVICE_TO_HOST)) == 0,
            "memcpy");
}

static void measure_aclmem(const char *hex)
{
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle handle;

    hex_read(hex, &fabric, sizeof fabric);
    require(aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
                                                0, &handle) == 0,
            "import");
    remote = mapped(handle);
    measure(move);
}

/* ---- many handles ---- */

static double seconds_since(double begun)
{
    return (now() - begun) / 1e6;
}

/* Prints the seconds that it took, behind the handles, and waits for a line. */
static void export_many(int n)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    double begun = now();

    for (int i = 0; i < n; i++) {
        aclrtMemFabricHandle fabric;
        aclrtDrvMemHandle handle;

        require(aclrtMallocPhysical(&handle, 2 << 20, &prop, 0) == 0, "malloc");
        require(aclrtMemExportToShareableHandleV2(
                    handle, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric) == 0,
                "export");
        hex_print(&fabric, sizeof fabric);
        printf("\n");
    }
    printf("%f\n", seconds_since(begun));
    fflush(stdout);
    getchar();
}

/* Handles from standard input, until an empty line; prints the seconds, and waits. */
static void import_many(void)
{
    char line[2 * sizeof(aclrtMemFabricHandle) + 2];
    double seconds = 0;

    while (fgets(line, sizeof line, stdin) != NULL && line[0] != '\n') {
        aclrtMemFabricHandle fabric;
        aclrtDrvMemHandle handle;
        double begun = now();

        hex_read(line, &fabric, sizeof fabric);
        require(aclrtMemImportFromShareableHandleV2(
                    &fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &handle) == 0,
                "import");
        seconds += seconds_since(begun);
    }
    printf("%f\n", seconds);
    fflush(stdout);
    getchar();
}

/* ---- UCX alone ---- */

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_rkey_h rkey;
static uint64_t remote_address;

static void bare_open(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_config_t *config;

    require(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    require(ucp_init(&params, config, &context) == UCS_OK, "ucp_init");
    require(ucp_worker_create(context, &worker_params, &worker) == UCS_OK, "worker");
}

/* Sleeps until something is to be done. */
static void bare_progress(void)
{
    struct pollfd p = {.events = POLLIN};

    if (ucp_worker_progress(worker) != 0 || ucp_worker_arm(worker) != UCS_OK)
        return;
    ucp_worker_get_efd(worker, &p.fd);
    poll(&p, 1, 1000);
}

static void bare_serve(void)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory,
        .length = SIZE_MOST,
    };
    ucp_address_t *address;
    size_t size, rkey_size;
    void *packed;
    ucp_mem_h handle;

    require(ucp_mem_map(context, &params, &handle) == UCS_OK, "ucp_mem_map");
    require(ucp_rkey_pack(context, handle, &packed, &rkey_size) == UCS_OK, "pack");
    require(ucp_worker_get_address(worker, &address, &size) == UCS_OK, "address");
    printf("%p ", (void *)memory);
    hex_print(address, size);
    printf(" ");
    hex_print(packed, rkey_size);
    printf("\n");
    fflush(stdout);
    for (;;)
        bare_progress();
}

static void bare_wait(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        require(!UCS_PTR_IS_ERR(request), "a move");
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        bare_progress();
    ucp_request_free(request);
}

static void bare_move(int is_put, size_t size)
{
    ucp_request_param_t param = {0};
    ucs_status_ptr_t request;

    if (!is_put) {
        bare_wait(ucp_get_nbx(ep, memory, size, remote_address, rkey, &param));
        return;
    }
    request = ucp_put_nbx(ep, memory, size, remote_address, rkey, &param);
    bare_wait(ucp_ep_flush_nbx(ep, &param));
    bare_wait(request);
}

static void bare_measure(const char *where, const char *address, const char *key)
{
    uint8_t bytes[2][1024];
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (ucp_address_t *)bytes[0],
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
    };

    remote_address = strtoull(where, NULL, 0);
    hex_read(address, bytes[0], sizeof bytes[0]);
    hex_read(key, bytes[1], sizeof bytes[1]);
    require(ucp_ep_create(worker, &params, &ep) == UCS_OK, "ucp_ep_create");
    require(ucp_ep_rkey_unpack(ep, bytes[1], &rkey) == UCS_OK, "unpack");
    measure(bare_move);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    memory = aligned_alloc(4096, SIZE_MOST);
    memset(memory, 1, SIZE_MOST);
    if (strncmp(what, "bare", 4) == 0)
        bare_open();
    else
        require(aclInit(NULL) == 0 && aclrtSetDevice(0) == 0, "aclInit");
    if (strcmp(what, "serve") == 0)
        serve();
    else if (strcmp(what, "measure") == 0 && argc == 3)
        measure_aclmem(argv[2]);
    else if (strcmp(what, "export") == 0 && argc == 3)
        export_many(atoi(argv[2]));
    else if (strcmp(what, "import") == 0)
        import_many();
    else if (strcmp(what, "bare-serve") == 0)
        bare_serve();
    else if (strcmp(what, "bare-measure") == 0 && argc == 5)
        bare_measure(argv[2], argv[3], argv[4]);
    else
        return 2;
    return 0;
}
