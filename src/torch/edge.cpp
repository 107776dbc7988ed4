/*
 * Where C ends: PyTorch takes NULL for an address, so memory that is not to be had has to be an
 * exception.
 *
 * The one that becomes torch.OutOfMemoryError is c10::OutOfMemoryError.  This library is built
 * without PyTorch, so it looks up what it needs in the libc10.so that the process has loaded:
 * the constructor of c10::Error, and the type's description.  OutOfMemoryError adds nothing to its
 * base class, so an Error that is thrown under its description is one.  Where either is
 * missing a std::runtime_error is thrown, which becomes a RuntimeError.
 */
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "aclmem/torch.h"
#include "torch/why.h"

namespace {

/* c10::SourceLocation: two texts and a number, passed by value. */
struct SourceLocation {
    const char *function;
    const char *file;
    std::uint32_t line;
};

using ErrorMake = void (*)(void *self, SourceLocation where, std::string message);

const char *const error_make_name = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_"
                                    "stringIcSt11char_traitsIcESaIcEEE";
const char *const type_name = "_ZTIN3c1016OutOfMemoryErrorE";

/* More than a c10::Error of any version has; it has about 128 bytes. */
const std::size_t room = 1024;

/* In a library that is loaded; none is loaded for it. */
void *find(const char *library, const char *symbol)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle != nullptr ? dlsym(handle, symbol) : nullptr;

    if (handle != nullptr)
        dlclose(handle);
    return found;
}

/* Code that throws or catches the type has its description. */
void *type_find()
{
    for (const char *library :
         {"libc10.so", "libc10_cuda.so", "libtorch_python.so", "libtorch_cpu.so"}) {
        void *found = find(library, type_name);

        if (found != nullptr)
            return found;
    }
    return nullptr;
}

void error_destroy(void *error)
{
    static_cast<std::exception *>(error)->~exception(); /* virtual: all of it */
}

void throw_as_torch(const std::string &message)
{
    void *symbol = find("libc10.so", error_make_name);
    void *type = type_find();
    ErrorMake make;
    void *error;

    if (symbol == nullptr || type == nullptr)
        return;
    std::memcpy(&make, &symbol, sizeof make);
    error = abi::__cxa_allocate_exception(room);
    try {
        make(error, SourceLocation{"aclmem_torch_malloc", "aclmem", 0}, message);
    } catch (...) {
        abi::__cxa_free_exception(error);
        return;
    }
    abi::__cxa_throw(error, static_cast<std::type_info *>(type), error_destroy);
}

/* Apart from the call: a block that is there needs none of this code. */
[[noreturn]] __attribute__((noinline, cold)) void refuse(int device)
{
    const char *why = torch_why_no_pool(device);

    if (why != nullptr)
        throw std::runtime_error("aclmem: there is no memory pool on device " +
                                 std::to_string(device) + ": " + why);
    const char *backend = std::getenv("ACLMEM_BACKEND");
    bool is_cuda = backend != nullptr && std::string(backend) == "cuda";
    std::string message = std::string(is_cuda ? "CUDA" : "NPU") +
                          " out of memory. aclmem: " + aclmem_pool_message();

    throw_as_torch(message);
    throw std::runtime_error(message);
}

} // namespace

void *aclmem_torch_malloc(ssize_t size, int device, void *stream)
{
    void *ptr = aclmem_torch_try_malloc(size, device, stream);

    if (ptr == nullptr && size > 0)
        refuse(device);
    return ptr;
}
