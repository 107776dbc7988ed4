#!/bin/sh
# Each public header compiles alone, twice over, as C11 and as C++11, with every compiler
# that is installed:  check_headers.sh INCLUDE_DIR
set -u

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: check_headers.sh INCLUDE_DIR" >&2
    exit 2
fi
include=$1
flags="-Wall -Wextra -pedantic -Werror -fsyntax-only"
n_headers=0
n_compiles=0
n_wrong=0

# The declaration is there because ISO C wants one and a header of macros has none.
compile() {
    command -v "$1" >/dev/null 2>&1 || return 0
    n_compiles=$((n_compiles + 1))
    printf '#include "%s"\n#include "%s"\nextern int alone;\n' "$header" "$header" |
        "$1" -x "$2" -std="$3" $flags -I"$include" - && return 0
    echo "$header: does not compile as $3 with $1" >&2
    n_wrong=$((n_wrong + 1))
}

for compiler in gcc g++ clang clang++; do
    command -v $compiler >/dev/null 2>&1 || echo "skipped $compiler: it is not installed"
done
for header in $(cd "$include" && find . -name '*.h' | sed 's,^\./,,' | sort); do
    n_headers=$((n_headers + 1))
    compile gcc c c11
    compile clang c c11
    compile g++ c++ c++11
    compile clang++ c++ c++11
done
echo "$n_headers headers, $n_compiles compilations, $n_wrong wrong"
[ $n_compiles -gt 0 ] && [ $n_wrong -eq 0 ]
