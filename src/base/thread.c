/* See thread.h. */
#include "base/thread.h"

#include <signal.h>

#include "base/sys.h"

/* Raised by what a thread itself does; blocked, they kill without a word. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

int am_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t blocked;
    sigset_t before;
    int rc;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = am_sys_pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
