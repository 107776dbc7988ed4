/* What bench.c runs, in this order. */
#ifndef BENCH_SECTIONS_H
#define BENCH_SECTIONS_H

void bench_map(void *unused);          /* vmm.c */
void bench_phys(void *unused);         /* vmm.c */
void bench_many(void *unused);         /* vmm.c */
void bench_processes(void *unused);    /* processes.c */
void bench_copy(void *unused);         /* copy.c */
void bench_pages(void *unused);        /* pages.c */
void bench_stream(void *unused);       /* stream.c */
void bench_capture(void *unused);      /* capture.c */
void bench_threads(void *unused);      /* threads.c */
void bench_pool(void *unused);         /* pool.c */
void bench_share(void *unused);        /* share.c */
void bench_call(void *unused);         /* call.c */
void bench_trace(void *unused);        /* trace.c */
void bench_check(void *unused);        /* check.c */
void bench_cuda(void *unused);         /* cuda.c */
void bench_cuda_threads(void *unused); /* cuda_threads.c */
void bench_cuda_capture(void *unused); /* capture.c */
void bench_growth(void *unused); /* growth.c; last: its table comes after all rows */

#endif
