/*
 * cuda_facts: prints what the driver does, a line for each fact.
 *
 *   cuda_facts              all facts, each in a process of its own
 *   cuda_facts NAME...      these
 *   cuda_facts --list       their names
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/facts.h"

enum { LIMIT_S = 60 }; /* a fact that takes longer hangs */

struct whole_driver cu;

static const struct fact *const lists[] = {
    facts_context, facts_vmm,    facts_access, facts_share,   facts_copy,
    facts_host,    facts_stream, facts_event,  facts_capture,
};

static bool load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "cuda_facts: %s\n", dlerror());
        return false;
    }
#define AM_CU(need_, since_, name_, params_, args_) \
    *(void **)&cu.name_ = dlsym(library, #name_); \
    if (!cu.name_) { \
        fprintf(stderr, "cuda_facts: the driver has no %s\n", #name_); \
        return false; \
    }
#include "fake/whole_driver.def"
#undef AM_CU
    return true;
}

static const struct fact *find(const char *name)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (const struct fact *fact = lists[i]; fact->name; fact++)
            if (!strcmp(fact->name, name))
                return fact;
    return NULL;
}

static int tell(const char *name)
{
    const struct fact *fact = find(name);

    if (!fact) {
        fprintf(stderr, "cuda_facts: there is no fact called %s\n", name);
        return 2;
    }
    if (!load_driver())
        return 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("fact %s:", name);
    alarm(LIMIT_S);
    fact->tell();
    printf("\n");
    /* Without the driver's farewell, which may wait for what a fact has left behind. */
    _exit(0);
}

/* Tells the fact in a new process; false when there is no driver at all. */
static bool tell_apart(const char *name)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "cuda_facts", "--tell", name, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        printf(" %s\n", WTERMSIG(status) == SIGALRM ? "HANGS" : "CRASHES");
    return WIFSIGNALED(status) || WEXITSTATUS(status) == 0;
}

static int for_all(bool (*visit)(const char *name))
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (const struct fact *fact = lists[i]; fact->name; fact++)
            if (!visit(fact->name))
                return 1;
    return 0;
}

static bool print_name(const char *name)
{
    return puts(name) >= 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--tell"))
        return tell(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--other-side"))
        return load_driver() ? share_other_side(atoi(argv[2])) : 1;
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return for_all(print_name);
    if (argc == 1)
        return for_all(tell_apart);
    for (int i = 1; i < argc; i++)
        if (!tell_apart(argv[i]))
            return 1;
    return 0;
}
