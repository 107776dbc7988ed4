/*
 * Calls chosen by a fuzzer, compared with the model.
 *
 * The input's bytes are the choices that test/model draws from its generator: which call,
 * which arguments.  Every input is therefore a sequence of calls, most of them sensible,
 * and a change of one byte changes one choice and what follows from it.  The library
 * stays initialised from input to input; each input starts with nothing alive and tears
 * down what it made, so the figures that the next one starts from are themselves
 * compared.
 *
 * Options come from the environment, as always: ACLMEM_RULES=strict makes it the strict
 * rules' fuzzer.
 */
#include <stdlib.h>
#include <string.h>

#include "model/run.h"

enum { MAX_STEPS = 2000, CHECK_EVERY = 64 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct run_options options = {
    .is_alone = true, .n_devices = 2, .memory = 64 * MODEL_MIB};

static bool is_env(const char *name, const char *value)
{
    const char *got = getenv(name);

    return got != NULL && strcmp(got, value) == 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    setenv("ACLMEM_DEVICES", "2", 1);
    setenv("ACLMEM_LOG", "error", 0);
    unsetenv("ACLMEM_PRODUCT"); /* the model is that of the default one */
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    options.is_strict = is_env("ACLMEM_RULES", "strict");
    options.is_addressable = is_env("ACLMEM_ISOLATE", "0");
    if (aclInit(NULL) != ACL_SUCCESS)
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static struct run r;
    struct source src = source_of_bytes(bytes, n_bytes);

    if (n_bytes == 0)
        return 0;
    run_open(&r, &options, &src, "fuzzer's input", abort);
    while (!source_is_dry(&src) && r.step < MAX_STEPS) {
        run_step(&r);
        if (r.step % CHECK_EVERY == 0)
            run_check_all(&r);
    }
    run_check_all(&r);
    run_tear_down(&r);
    run_close(&r);
    return 0;
}
