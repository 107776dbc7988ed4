/*
 * Threads of the library's own.  They take no signals of the program: one that waits for a
 * signal with sigwait(), a signalfd or pselect() has blocked it in its own threads, and
 * would wait in vain while any other thread can be handed it.
 */
#ifndef AM_BASE_THREAD_H
#define AM_BASE_THREAD_H

#include <pthread.h>

/* 0 or an errno.  A fault in the thread still reaches the program's handler. */
int am_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
