#!/bin/sh
# What the NVIDIA driver does, compared with what the tests take it to do: test/fake/facts.expected.
#
#   scripts/cuda_facts.sh             the driver of this machine; needs a C compiler and a GPU
#   scripts/cuda_facts.sh PROGRAM [NAME...]   a cuda_facts that is built already; without the facts of these names
#
# The libcuda.so.1 that the loader finds is asked.  Prints the differences and exits 1 when there are any.
set -u
cd "$(dirname "$0")/.." || exit 1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=${1:-}
if [ -n "$program" ]; then
    shift
else
    program=$work/cuda_facts
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Isrc -Itest test/fake/facts*.c -o "$program" -ldl -lpthread || exit 1
fi
"$program" >"$work/all" || exit 1
cp test/fake/facts.expected "$work/expected"
for name in "$@"; do
    for side in all expected; do
        grep -v "^fact $name:" "$work/$side" >"$work/left" && mv "$work/left" "$work/$side"
    done
done
diff -u "$work/expected" "$work/all" || {
    echo "the driver differs from test/fake/facts.expected"
    exit 1
}
echo "$(wc -l <"$work/all") facts, all as expected"
