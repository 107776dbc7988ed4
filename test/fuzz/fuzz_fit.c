/* The placement engine beside its model: four bytes are an operation. */
#include "unit/fit_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    fit_model_run(bytes, n_bytes);
    return 0;
}
