#!/bin/sh
# The ABI of the last release, recorded, against a library that was built with -g.
#
#     scripts/abi.sh LIBRARY             compare: an added function is fine, a removed or changed one is not
#     scripts/abi.sh --record LIBRARY    write the record anew; done once for each release
#
# The record is libabigail's description of functions and types that the headers declare.  docs/ABI.md has the policy.
set -eu
root=$(dirname "$(realpath "$0")")/..
record=${ABI_RECORD:-$root/test/abi/recorded/libascendcl.abi.gz}

command -v abidiff >/dev/null || {
    echo "abidiff is missing (Debian's package: abigail-tools)"
    exit 77
}
# Only what the headers declare: what is inside may change.
describe() {
    abidw --headers-dir "$root/include" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs "$1"
}

if [ "${1-}" = --record ] && [ $# -eq 2 ]; then
    describe "$2" | gzip -9n >"$record"
    exit 0
fi
[ $# -eq 1 ] || { echo "usage: $0 [--record] LIBRARY" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gunzip -c "$record" >"$folder/old.abi"
describe "$1" >"$folder/new.abi"
# The exit status is a set of bits: 4 is a change, 8 one that breaks programs, 1 and 2 are errors of its own.
abidiff --no-added-syms "$folder/old.abi" "$folder/new.abi" || {
    echo "The library is not compatible with the last release.  docs/ABI.md says what may change, and when the record is"
    echo "written anew."
    exit 1
}
