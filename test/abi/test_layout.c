/*
 * The public headers say what the documents say, seen from C.
 *
 * The facts are in the lists abi_*.def, which test_layout.cpp shares.  All but the codes
 * of abi_codes.def are checked by the compiler: a wrong one does not build.  Those codes
 * are constants of type int, which in C are no constant expressions, so main() compares
 * them here and the compiler does in C++.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "acl/acl.h"

#define ABI_TYPE(type_, is_) \
    _Static_assert(_Generic((type_ *)0, __typeof__(is_) * : 1, default : 0), \
                   #type_ " is not " #is_);
#include "abi_types.def"
#undef ABI_TYPE

#define ABI_SIZE(type_, size_, align_) \
    _Static_assert(sizeof(type_) == (size_), "size of " #type_); \
    _Static_assert(_Alignof(type_) == (align_), "alignment of " #type_);
#include "abi_sizes.def"
#undef ABI_SIZE

#define ABI_FIELD(type_, field_, is_, offset_) \
    _Static_assert(offsetof(type_, field_) == (offset_), \
                   "offset of " #type_ "." #field_); \
    _Static_assert(_Generic(&((type_ *)0)->field_, __typeof__(is_) * : 1, default : 0), \
                   #type_ "." #field_ " is not " #is_);
#include "abi_fields.def"
#undef ABI_FIELD

#define ABI_VALUE(name_, value_) _Static_assert((name_) == (value_), #name_);
#include "abi_values.def"
#undef ABI_VALUE

/* The counts cost nothing and let main() say how much was checked. */
#define ABI_TYPE(type_, is_) +1
#define ABI_SIZE(type_, size_, align_) +2
#define ABI_FIELD(type_, field_, is_, offset_) +2
#define ABI_VALUE(name_, value_) +1
static const int n_compiled = 0
#include "abi_types.def"
#include "abi_sizes.def"
#include "abi_fields.def"
#include "abi_values.def"
    ;

struct code {
    const char *name;
    long is;
    long should_be;
};

#define ABI_CODE(name_, value_) {#name_, (long)name_, value_},
static const struct code codes[] = {
#include "abi_codes.def"
};
#undef ABI_CODE

int main(void)
{
    const size_t n_codes = sizeof(codes) / sizeof(codes[0]);
    int n_wrong = 0;

    for (size_t i = 0; i < n_codes; i++) {
        if (codes[i].is != codes[i].should_be) {
            fprintf(stderr, "%s is %ld and should be %ld\n", codes[i].name, codes[i].is,
                    codes[i].should_be);
            n_wrong++;
        }
    }
    printf("C: %d facts held when compiled, %zu codes compared, %d wrong\n", n_compiled,
           n_codes, n_wrong);
    return n_wrong > 0;
}
