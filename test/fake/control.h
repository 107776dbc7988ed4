/*
 * What a test may ask of the fake driver beyond the driver's own functions.
 *
 * A test that is not linked with it finds these with dlsym() in "libcuda.so.1".  The environment
 * is read by cuInit() and cuDriverGetVersion(), once:
 *
 *   FAKE_CUDA_DEVICES   how many, 0 to 8             2
 *   FAKE_CUDA_MEMORY    of each device, in MB        2048
 *   FAKE_CUDA_VERSION   as cuDriverGetVersion        12080
 *   FAKE_CUDA_PEERS     whether devices reach each other  1
 */
#ifndef AM_TEST_FAKE_CONTROL_H
#define AM_TEST_FAKE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The nth call from now on (1: the next) of the function called name, or of any function
 * when it is NULL, gives code and does nothing; and all after it when is_lasting.  0: no
 * call.
 */
void fake_cuda_fail(const char *name, uint64_t nth, int code, bool is_lasting);

/* Whether it happened; calls of name, or of any, since the last fake_cuda_fail(). */
bool fake_cuda_failed(void);
uint64_t fake_cuda_calls(void);

/* Threads that are in cuStreamSynchronize() now and have something to wait for. */
unsigned fake_cuda_waiting(void);

/* The priority of the stream that was made last. */
int fake_cuda_priority(void);

/* Streams do nothing until they are let go; or just those that have something to do now. */
void fake_cuda_hold(bool is_held);
void fake_cuda_hold_busy(void);

/*
 * The device's context breaks as if a kernel had, with the code that all calls give then;
 * what no program can do: CUDA_SUCCESS mends it.
 */
void fake_cuda_break(int device, int code);

/* What is alive. */
struct fake_cuda_counts {
    uint64_t handles;
    uint64_t mappings;
    uint64_t reservations;
    uint64_t pinned;
    uint64_t registered;
    uint64_t streams;
    uint64_t events;
    uint64_t retained; /* primary contexts, by how often */
};
void fake_cuda_count(struct fake_cuda_counts *ret_counts);

#endif
