#!/bin/sh
# What the NVIDIA driver does, compared with what the tests take it to do: test/fake/facts.expected.
#
#   scripts/cuda_facts.sh             the driver of this machine; needs a C compiler and a GPU
#   scripts/cuda_facts.sh PROGRAM     a cuda_facts that is built already
#
# The libcuda.so.1 that the loader finds is asked.  Prints the differences and exits 1 when there are any.
set -u
cd "$(dirname "$0")/.." || exit 1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=${1:-}
if [ -z "$program" ]; then
    program=$work/cuda_facts
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Isrc -Itest test/fake/facts*.c -o "$program" -ldl -lpthread || exit 1
fi
"$program" >"$work/facts" || exit 1
diff -u test/fake/facts.expected "$work/facts" || {
    echo "the driver differs from test/fake/facts.expected"
    exit 1
}
echo "$(wc -l <"$work/facts") facts, all as expected"
