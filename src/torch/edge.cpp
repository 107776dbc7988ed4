/*
 * Where C ends: PyTorch takes NULL for an address, so memory that is not to be had has to be an
 * exception.
 */
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "aclmem/torch.h"

void *aclmem_torch_malloc(ssize_t size, int device, void *stream)
{
    void *ptr = aclmem_torch_try_malloc(size, device, stream);

    if (ptr == nullptr && size > 0) {
        const char *backend = std::getenv("ACLMEM_BACKEND");
        bool is_cuda = backend != nullptr && std::string(backend) == "cuda";

        throw std::runtime_error(std::string(is_cuda ? "CUDA" : "NPU") +
                                 " out of memory. aclmem: " + aclmem_pool_message());
    }
    return ptr;
}
