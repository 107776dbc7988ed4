/* The implementation, called without the exported entry before it. */
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include <stddef.h>

/* Calls am_aclrtGetDeviceCount n times. */
typedef void (*bench_direct_fn)(void *arg, size_t n);
void bench_direct(void *arg, size_t n);

#endif
