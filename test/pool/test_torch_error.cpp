/* Out of memory with PyTorch's libc10.so in the process, or with a stand-in for it, is PyTorch's own exception. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "aclmem/torch.h"
#include "c10.h"
#include "require.h"

/* As PyTorch turns exceptions into Python's: the first type that matches. */
static const char *python_type()
{
    try {
        aclmem_torch_malloc(ssize_t(1) << 50, 0, nullptr);
    } catch (const c10::OutOfMemoryError &error) {
        REQUIRE(c10::Error::n_alive == 1);
        REQUIRE(std::strncmp(error.what(), "NPU out of memory. aclmem: ", 27) == 0);
        for (const char *words : {"MB live", "MB idle", "MB lost at borders", "would fit now"})
            REQUIRE(std::strstr(error.what(), words) != nullptr);
        return "torch.OutOfMemoryError";
    } catch (const std::exception &) {
        return "RuntimeError";
    }
    return "none";
}

int main()
{
    for (int i = 0; i < 3; i++) {
        REQUIRE(std::strcmp(python_type(), "torch.OutOfMemoryError") == 0);
        REQUIRE(c10::Error::n_alive == 0);
    }
    /* Through c10's base class and std::exception too. */
    try {
        aclmem_torch_malloc(ssize_t(1) << 50, 0, nullptr);
        REQUIRE(false);
    } catch (const c10::Error &) {
    }
    return 0;
}
