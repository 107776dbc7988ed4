/*
 * A header of the toolkit, included alone, has what facts/ lists of it: types, sizes,
 * offsets, values and functions.  Compiled for each header as C11; HEADER and FACTS name
 * it and its list.  What is wrong does not compile.  header.cpp is the same as C++11.
 */
#include HEADER

#include <stddef.h>
#include <stdint.h>

#define ABI_TYPE(type_, is_) \
    _Static_assert(_Generic((type_ *)0, __typeof__(is_) * : 1, default : 0), \
                   #type_ " is not " #is_);
#define ABI_SIZE(type_, size_, align_) \
    _Static_assert(sizeof(type_) == (size_), "size of " #type_); \
    _Static_assert(_Alignof(type_) == (align_), "alignment of " #type_);
#define ABI_FIELD(type_, field_, offset_) \
    _Static_assert(offsetof(type_, field_) == (offset_), "offset of " #type_ "." #field_);
#define ABI_VALUE(name_, value_) _Static_assert((name_) == (value_), #name_);
#define ABI_NAME(name_) _Static_assert(sizeof(&name_) == sizeof(void *), #name_);
#include FACTS
