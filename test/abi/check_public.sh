#!/bin/sh
# check_public.sh LIBRARY INCLUDE PREFIX: the library runs over any libascendcl.so.
# It calls declared functions of AscendCL and of aclmem/pool.h, needs libascendcl.so by the vendor's name, and exports PREFIX alone.
set -eu
library=$1 include=$2 prefix=$3
wrong=0

# Functions of libc and others have a version (name@GLIBC_2.2.5); the compiler's own begin with an underscore.
for name in $(nm -D --undefined-only "$library" | awk '{ print $NF }' | grep -v '@' | grep -v '^_'); do
    case $name in
    acl*) grep -qwr "$name" "$include/acl" "$include/aclmem/pool.h" && continue ;;
    esac
    echo "$library calls $name, which no public header declares"
    wrong=1
done
for name in $(nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | grep -v '^_'); do
    case $name in
    "$prefix"*) grep -qwr "$name" "$include/aclmem" && continue ;;
    esac
    echo "$library exports $name, which no header declares"
    wrong=1
done
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(libascend.*\|libaclmem.*\)\]/\1/p'); do
    case $needed in
    libascendcl.so | libaclmem_pool.so) ;;
    *) echo "$library needs $needed" && wrong=1 ;;
    esac
done
exit $wrong
