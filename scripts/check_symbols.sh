#!/bin/sh
# The library never calls itself through its public names, so that layers see the program's calls
# and nothing else: the given objects (of base, backend and core) have no undefined acl* symbol.
set -u

[ $# -gt 0 ] || {
    echo "usage: $0 object..." >&2
    exit 2
}
symbols=$(nm -u -A "$@") || exit 1
calls=$(echo "$symbols" | grep ' U acl')
[ -z "$calls" ] || {
    echo "public functions called from inside the library:"
    echo "$calls"
    exit 1
}
