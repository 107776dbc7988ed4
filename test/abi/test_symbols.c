/*
 * Clients find the library's functions by name: test_symbols LIBRARY
 *
 * Every name of the lists in src/api resolves with dlsym.  Every function of
 * api_unsupported.def is then called: it returns 207000 and leaves a message that names it.
 * Those functions check no argument, so a call without any stands for all calls.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

typedef void (*any_fn)(void);
typedef const char *(*message_fn)(void);

struct symbol {
    const char *name;
    bool (*returns_its_value)(any_fn fn); /* NULL where the function is not called. */
};

#ifdef __clang__ /* a call without arguments is meant */
#define ANY_ARGUMENTS __attribute__((no_sanitize("function")))
#else
#define ANY_ARGUMENTS
#endif

#define AM_UNSUPPORTED(ret_, name_, params_) \
    ANY_ARGUMENTS static bool calls_##name_(any_fn fn) \
    { \
        return ((ret_(*)(void))fn)() == ACL_ERROR_RT_FEATURE_NOT_SUPPORT; \
    }
#include "../../src/api/api_unsupported.def"
#undef AM_UNSUPPORTED

#define AM_API(ret_, name_, ...) {#name_, NULL},
#define AM_UNSUPPORTED(ret_, name_, params_) {#name_, calls_##name_},
#define AM_API_VARIADIC(ret_, name_, params_) {#name_, NULL},
static const struct symbol symbols[] = {
#include "../../src/api/api.def"
#include "../../src/api/api_unsupported.def"
#include "../../src/api/api_variadic.def"
};

/* ISO C has no cast from dlsym's result to a function. */
static any_fn symbol_find(void *library, const char *name)
{
    void *address = dlsym(library, name);
    any_fn fn;

    memcpy(&fn, &address, sizeof(fn));
    return fn;
}

static bool symbol_refuses(const struct symbol *symbol, any_fn fn, message_fn recent)
{
    const char *message;

    recent(); /* Takes what earlier calls left. */
    if (!symbol->returns_its_value(fn)) {
        fprintf(stderr, "%s: returns another value than its row says\n", symbol->name);
        return false;
    }
    message = recent();
    if (message == NULL || strstr(message, symbol->name) == NULL) {
        fprintf(stderr, "%s: is not named by the message \"%s\"\n", symbol->name,
                message ? message : "(none)");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const size_t n_symbols = sizeof(symbols) / sizeof(symbols[0]);
    size_t n_called = 0, n_wrong = 0;
    message_fn recent;
    Dl_info info;
    void *library;

    if (argc != 2) {
        fprintf(stderr, "usage: test_symbols LIBRARY\n");
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    recent = (message_fn)symbol_find(library, "aclGetRecentErrMsg");

    for (size_t i = 0; i < n_symbols; i++) {
        any_fn fn = symbol_find(library, symbols[i].name);

        if (fn == NULL) {
            fprintf(stderr, "%s: not found\n", symbols[i].name);
            n_wrong++;
        } else if (recent != NULL && symbols[i].returns_its_value != NULL) {
            n_called++;
            n_wrong += !symbol_refuses(&symbols[i], fn, recent);
        }
    }
    /* It stays loaded: threads keep data of it that only its code can free. */
    if (dlclose(library) != 0 || dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL) {
        fprintf(stderr, "the library can be unloaded\n");
        n_wrong++;
    }
    /* Clients take the toolkit's root from it: what stands before "lib64". */
    if (dladdr((void *)recent, &info) == 0 || strstr(info.dli_fname, "/lib64/") == NULL) {
        fprintf(stderr, "%s: the library does not lie in a lib64\n", argv[1]);
        n_wrong++;
    }
    printf("%zu names looked up, %zu of them called, %zu wrong\n", n_symbols, n_called,
           n_wrong);
    return n_wrong > 0;
}
