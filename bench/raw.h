/*
 * The limits: what the system calls cost that an implementation by system calls would
 * make.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "measure.h"

/* mmap + munmap of 2 MB of a memfd. */
struct subject raw_map(void);

/* The same in a reservation that must stay: mapped over it, and that mapped back. */
struct subject raw_map_fixed(void);

/* memfd_create + ftruncate to 2 MB + close. */
struct subject raw_memfd(void);

/* A mapping of a new memfd, as the library makes its own; the pages come later. */
void *raw_memory(size_t size);
/* The same of private memory, which gets huge pages where the system has them. */
void *raw_private_memory(size_t size);
/* Has its pages there; does nothing on kernels before 5.14. */
void raw_populate(void *p, size_t size);

/*
 * A copy with stores that pass the caches by, of whole aligned cache lines; else memcpy.
 */
void raw_stream(void *dst, const void *src, size_t size);

#endif
