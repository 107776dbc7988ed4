/* See apart.h. */
#include "apart.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

void apart(void (*run)(void *arg), void *arg)
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    MUST_HOLD(pid >= 0);
    if (pid == 0) {
        run(arg);
        exit(0);
    }
    MUST_HOLD(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        exit(1); /* the child has said why */
}

void *apart_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    MUST_HOLD(p != MAP_FAILED);
    return p;
}
