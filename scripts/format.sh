#!/bin/sh
# Formats the C sources in place; with --check, only names what would change and exits 1.
#
# One version of clang-format decides, since no two agree on everything: others are not used to check.
set -u
cd "$(dirname "$0")/.." || exit 1
pinned=14

format=clang-format-$pinned
command -v "$format" >/dev/null || format=clang-format
version=$("$format" --version | sed 's/.*version \([0-9]*\).*/\1/')

sources=$(find src include test examples bench tools python -name '*.[ch]' 2>/dev/null)
if [ "${1:-}" != --check ]; then
    exec "$format" -i $sources
fi
if [ "$version" != "$pinned" ]; then
    echo "not checked: this is clang-format $version, and $pinned decides"
    exit 77
fi
files=$("$format" --dry-run $sources 2>&1 | sed -n 's/^\([^: ]*\):[0-9].*/\1/p' | sort -u)
[ -z "$files" ] || {
    echo "not as clang-format has it, make format mends it:"
    echo "$files"
    exit 1
}
