#!/bin/sh
# The library exports the names of the lists and aclmem_*, no more and no less:
#     check_exports.sh LIBRARY MORE LIST...
# MORE is an extended regular expression of whole names that may be there too; none: -
set -eu

if [ $# -lt 3 ] || [ ! -f "$1" ] || [ ! -f "$3" ]; then
    echo "usage: check_exports.sh LIBRARY MORE LIST..." >&2
    exit 2
fi
library=$1
more=${2#-}
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The preprocessor reads the rows, so their layout does not matter.
grep -hv '^#' "$@" |
    ${CC:-cc} -E -P -x c \
        -D'AM_FUNCTION(n,...)=@n@' -D'AM_FUNCTION_RET(r,n,...)=@n@' \
        -D'AM_UNSUPPORTED(r,n,p)=@n@' -D'AM_API_VARIADIC(r,n,p)=@n@' \
        -D'AM_RUNTIME(n,p)=@n@' \
        -D'AM_DATA(n)=@n@' -D'AM_REFUSED(r,n,p,v)=@n@' -D'AM_REFUSED_NAME(n,v)=@n@' - |
    tr -s ' @' '\n\n' | grep . | LC_ALL=C sort -u >"$work/expected"

# A version node is an absolute symbol (A), and a version follows the name after an @.
nm -D --defined-only "$library" >"$work/nm"
awk '$(NF - 1) != "A" { sub(/@.*/, "", $NF); print $NF }' "$work/nm" |
    grep -v '^aclmem_' | grep -vxE "${more:-^$}" | LC_ALL=C sort -u >"$work/exported"

if grep -nvE '^(acl|rt|Hccl)[A-Za-z0-9]*$' "$work/expected" >&2; then
    echo "the lines above are not rows" >&2
    exit 1
fi
LC_ALL=C comm -23 "$work/expected" "$work/exported" | sed 's/$/: listed, not exported/' \
    >"$work/wrong"
LC_ALL=C comm -13 "$work/expected" "$work/exported" | sed 's/$/: exported, not listed/' \
    >>"$work/wrong"
cat "$work/wrong" >&2
echo "$(wc -l <"$work/expected") names listed, $(wc -l <"$work/wrong") wrong"
[ ! -s "$work/wrong" ]
