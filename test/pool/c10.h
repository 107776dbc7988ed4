/* The part of PyTorch's libc10.so that an exception of the pool's goes through, for tests. */
#ifndef TEST_POOL_C10_H
#define TEST_POOL_C10_H

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace c10
{

struct SourceLocation {
    const char *function;
    const char *file;
    std::uint32_t line;
};

class __attribute__((visibility("default"))) Error : public std::exception
{
    std::string msg_;
    std::vector<std::string> context_;
    std::shared_ptr<int> backtrace_;
    std::string what_;

  public:
    static int n_alive;

    Error(SourceLocation source_location, std::string msg);
    Error(const Error &other);
    ~Error() override;
    const char *what() const noexcept override;
};

class __attribute__((visibility("default"))) OutOfMemoryError : public Error
{
    using Error::Error;
};

} // namespace c10

#endif
