#!/bin/sh
# Fetches a public program, builds its memory code against aclmem and runs it: for people with a network.
#
#     scripts/try_client.sh --list           the programs, with commit and licence
#     scripts/try_client.sh NAME [FOLDER]    FOLDER: a checkout of it that is here already
#
# scripts/clients/clients.txt is the table, and scripts/clients/NAME.sh builds and runs one.  What is fetched goes to
# build/clients/; BUILD= names another build.  No test of this project needs it.
set -eu
root=$(realpath "$(dirname "$0")/..")
build=${BUILD:-$root/build}
table=$root/scripts/clients/clients.txt

# cell NUMBER: of the row of this client
cell() {
    sed -n "s/^$pattern *|/|/p" "$table" | cut -d'|' -f"$1" | sed 's/^ *//; s/ *$//'
}

names() {
    sed -n 's/^\([^#| ][^| ]*\) *|.*/\1/p' "$table"
}

fail() {
    echo "try_client: $*" >&2
    exit 1
}

if [ "${1-}" = --list ]; then
    grep -v '^#' "$table"
    exit 0
fi
name=${1-}
if [ $# -lt 1 ] || [ $# -gt 2 ] || ! names | grep -qxF -e "$name"; then
    echo "usage: $0 --list | NAME [FOLDER]; NAME is one of:" $(names) >&2
    exit 2
fi
pattern=$(printf '%s' "$name" | sed 's/[.]/\\./g')
address=$(cell 2)
commit=$(cell 3)
[ -x "$build/bin/aclmem" ] || fail "there is no build of aclmem in $build; run make first"

if [ $# -eq 2 ]; then
    [ -d "$2" ] || fail "there is no folder $2"
    CLIENT=$(realpath "$2")
else
    CLIENT=$build/clients/$name
    command -v git >/dev/null || fail "git is missing; it fetches $name"
    rm -rf "$CLIENT"
    mkdir -p "$CLIENT"
    echo "Fetching $name ($(cell 4)) at $commit from $address"
    # Files come as they are needed; the commit may be a short one.
    git clone --quiet --filter=blob:none --no-checkout "$address" "$CLIENT" || {
        rm -rf "$CLIENT"
        fail "$name could not be fetched from $address. It needs a network; with a checkout at commit $commit run: $0 $name FOLDER"
    }
    # shellcheck disable=SC2046 # the files are words
    git -C "$CLIENT" checkout --quiet "$commit" -- $(cell 5) ||
        fail "$address has no commit $commit with: $(cell 5)"
fi

tree=$build/clients/aclmem
cmake --install "$build" --prefix "$tree" >"$build/clients.log" 2>&1 ||
    fail "aclmem could not be installed; see $build/clients.log"
export CLIENT
. "$tree/set_env.sh"
"$root/scripts/clients/$name.sh" || fail "$name did not run to the end"
echo "$name ran: $(cell 6)"
