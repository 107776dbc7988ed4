/* How tests steer the fake: see control.h. */
#include "fake/control.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake.h"

#define EXPORTED __attribute__((visibility("default")))

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : otherwise;
}

void fake_control_read(void)
{
    static bool is_read;

    if (is_read)
        return;
    is_read = true;
    fake.n_devices = (int)number("FAKE_CUDA_DEVICES", 2);
    if (fake.n_devices > FAKE_MAX_DEVICES)
        fake.n_devices = FAKE_MAX_DEVICES;
    fake.capacity = (size_t)number("FAKE_CUDA_MEMORY", 2048) << 20;
    fake.version = (int)number("FAKE_CUDA_VERSION", 12080);
    fake.has_peers = number("FAKE_CUDA_PEERS", 1) != 0;
}

/* ---- faults ---- */

/* A lock of its own: it is asked before each call, in host functions too. */
static struct {
    pthread_mutex_t lock;
    char name[64]; /* "": any */
    uint64_t left; /* calls until it fails; 0: none does */
    uint64_t calls;
    CUresult code;
    bool is_lasting;
    bool has_failed;
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

CUresult fake_control_fault(const char *name)
{
    CUresult rc = CUDA_SUCCESS;

    pthread_mutex_lock(&fault.lock);
    if (!fault.name[0] || !strcmp(fault.name, name)) {
        fault.calls++;
        if (fault.left && --fault.left == 0) {
            rc = fault.code;
            fault.has_failed = true;
            fault.left = fault.is_lasting ? 1 : 0;
        }
    }
    pthread_mutex_unlock(&fault.lock);
    return rc;
}

void fake_control_forget(void)
{
    pthread_mutex_init(&fault.lock, NULL);
}

EXPORTED void fake_cuda_fail(const char *name, uint64_t nth, int code, bool is_lasting)
{
    pthread_mutex_lock(&fault.lock);
    fault.name[0] = '\0';
    if (name)
        strncat(fault.name, name, sizeof(fault.name) - 1);
    fault.left = nth;
    fault.calls = 0;
    fault.code = (CUresult)code;
    fault.is_lasting = is_lasting;
    fault.has_failed = false;
    pthread_mutex_unlock(&fault.lock);
}

EXPORTED bool fake_cuda_failed(void)
{
    bool has_failed;

    pthread_mutex_lock(&fault.lock);
    has_failed = fault.has_failed;
    pthread_mutex_unlock(&fault.lock);
    return has_failed;
}

EXPORTED uint64_t fake_cuda_calls(void)
{
    uint64_t calls;

    pthread_mutex_lock(&fault.lock);
    calls = fault.calls;
    pthread_mutex_unlock(&fault.lock);
    return calls;
}

/* ---- streams and contexts ---- */

EXPORTED unsigned fake_cuda_waiting(void)
{
    unsigned n;

    fake_lock();
    n = fake.n_waiting;
    fake_unlock(CUDA_SUCCESS);
    return n;
}

EXPORTED int fake_cuda_priority(void)
{
    int priority;

    fake_lock();
    priority = fake.last_priority;
    fake_unlock(CUDA_SUCCESS);
    return priority;
}

/* All streams, and beside that each one that has something to do. */
static void hold(bool is_held, bool is_busy_held)
{
    struct fake_stream *stream;

    fake_lock();
    fake.is_held = is_held;
    for (int i = 0; i < fake.n_devices; i++) {
        if (!fake.contexts[i].has_threads)
            continue;
        TAILQ_FOREACH (stream, &fake.contexts[i].streams, entry)
            stream->is_held = is_busy_held && !TAILQ_EMPTY(&stream->ops);
        pthread_cond_broadcast(&fake.contexts[i].work);
    }
    fake_unlock(CUDA_SUCCESS);
}

EXPORTED void fake_cuda_hold(bool is_held)
{
    hold(is_held, false);
}

EXPORTED void fake_cuda_hold_busy(void)
{
    hold(false, true);
}

EXPORTED void fake_cuda_break(int device, int code)
{
    fake_lock();
    if (device >= 0 && device < fake.n_devices)
        fake_context_break_locked(&fake.contexts[device], (CUresult)code);
    fake_unlock(CUDA_SUCCESS);
}

static uint64_t count_table(const struct fake_table *table)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < table->n; i++)
        n += table->slots[i].object != NULL;
    return n;
}

EXPORTED void fake_cuda_count(struct fake_cuda_counts *ret_counts)
{
    struct fake_cuda_counts counts = {0};
    struct fake_reservation *reservation;
    struct fake_mapping *mapping;
    struct fake_host *host;

    fake_lock();
    counts.handles = count_table(&fake.physes);
    counts.streams = count_table(&fake.streams);
    counts.events = count_table(&fake.events);
    RB_FOREACH (mapping, fake_mappings, &fake.mappings)
        counts.mappings++;
    RB_FOREACH (reservation, fake_reservations, &fake.reservations)
        counts.reservations++;
    RB_FOREACH (host, fake_hosts, &fake.hosts)
        *(host->is_registered ? &counts.registered : &counts.pinned) += 1;
    for (int i = 0; i < fake.n_devices; i++)
        counts.retained += fake.contexts[i].retained;
    *ret_counts = counts;
    fake_unlock(CUDA_SUCCESS);
}
