/* The facts of header.c, seen from C++11. */
#include HEADER

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define ABI_TYPE(type_, is_) \
    static_assert(std::is_same<type_, is_>::value, #type_ " is not " #is_);
#define ABI_SIZE(type_, size_, align_) \
    static_assert(sizeof(type_) == (size_), "size of " #type_); \
    static_assert(alignof(type_) == (align_), "alignment of " #type_);
#define ABI_FIELD(type_, field_, offset_) \
    static_assert(offsetof(type_, field_) == (offset_), "offset of " #type_ "." #field_);
#define ABI_VALUE(name_, value_) static_assert((name_) == (value_), #name_);
#define ABI_NAME(name_) \
    static_assert(std::is_function<decltype(name_)>::value, #name_ " is no function");
#include FACTS
