/* The NVIDIA driver, for what is measured beside it. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include "fake/whole_driver.h"

extern struct whole_driver cu;

/* The driver, with the primary context current; NULL, or why there is none. */
const char *driver_start(void);
/* The library on one GPU, by this process's driver. */
void cuda_library_start(void);

/*
 * cuda_share.c: another process that exports memory, made before this one uses the driver,
 * and importing from it.
 */
void cuda_share_start(void);
void cuda_share_measure(void);
void cuda_share_end(void);

#endif
