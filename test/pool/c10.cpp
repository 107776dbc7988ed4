#include "c10.h"

#include <utility>

namespace c10 {

int Error::n_alive;

Error::Error(SourceLocation source_location, std::string msg)
    : msg_(std::move(msg)), context_(3, "some context that does not fit into the string"),
      backtrace_(std::make_shared<int>(7)), what_(msg_ + " in " + source_location.function)
{
    n_alive++;
}

Error::Error(const Error &other)
    : std::exception(other), msg_(other.msg_), context_(other.context_),
      backtrace_(other.backtrace_), what_(other.what_)
{
    n_alive++;
}

Error::~Error()
{
    n_alive--;
}

const char *Error::what() const noexcept
{
    return what_.c_str();
}

/* PyTorch's own allocator throws it, so the type's description is there. */
__attribute__((visibility("default"))) void out_of_memory()
{
    throw OutOfMemoryError({"", "", 0}, "");
}

} // namespace c10
