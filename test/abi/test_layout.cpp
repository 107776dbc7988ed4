/*
 * The public headers say what the documents say, seen from C++.
 *
 * The facts are those of test_layout.c.  C++ is stricter in two ways: the codes of
 * abi_codes.def are constant expressions, and an enumeration is not the same type as the
 * integer below it.
 */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "acl/acl.h"

#define ABI_TYPE(type_, is_) \
    static_assert(std::is_same<type_, is_>::value, #type_ " is not " #is_);
#include "abi_types.def"
#undef ABI_TYPE

#define ABI_SIZE(type_, size_, align_) \
    static_assert(sizeof(type_) == (size_), "size of " #type_); \
    static_assert(alignof(type_) == (align_), "alignment of " #type_);
#include "abi_sizes.def"
#undef ABI_SIZE

#define ABI_FIELD(type_, field_, is_, offset_) \
    static_assert(offsetof(type_, field_) == (offset_), \
                  "offset of " #type_ "." #field_); \
    static_assert( \
        std::is_same<decltype(static_cast<type_ *>(nullptr)->field_), is_>::value, \
        #type_ "." #field_ " is not " #is_);
#include "abi_fields.def"
#undef ABI_FIELD

#define ABI_VALUE(name_, value_) static_assert((name_) == (value_), #name_);
#include "abi_values.def"
#undef ABI_VALUE

#define ABI_CODE(name_, value_) static_assert((name_) == (value_), #name_);
#include "abi_codes.def"
#undef ABI_CODE

/* The counts cost nothing and let main() say how much was checked. */
#define ABI_TYPE(type_, is_) +1
#define ABI_SIZE(type_, size_, align_) +2
#define ABI_FIELD(type_, field_, is_, offset_) +2
#define ABI_VALUE(name_, value_) +1
#define ABI_CODE(name_, value_) +1
static const int n_compiled = 0
#include "abi_types.def"
#include "abi_sizes.def"
#include "abi_fields.def"
#include "abi_values.def"
#include "abi_codes.def"
    ;

int main()
{
    std::printf("C++: %d facts held when compiled\n", n_compiled);
    return 0;
}
