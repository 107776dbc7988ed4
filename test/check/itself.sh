#!/bin/sh
# Every small program under the layer check, for the mistakes of the layer itself: itself.sh BUGS
#
# Not those that die or wait on purpose. Work that races on purpose does so on the program's own bytes, which
# ThreadSanitizer reports rightly: only its fixed variant is run.
set -u
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
status=0
for entry in $("$1" --list | awk -F '\t' '{ print $1 ":" $2 }' | grep -v -e device-touch -e wait-never -e deadlock -e failing -e error-ignored/null); do
    case=${entry%%:*}
    case $entry in
    race* | *:race*) variants=fixed ;;
    *) variants="bug fixed" ;;
    esac
    for variant in $variants; do
        ACLMEM_LAYERS=check ACLMEM_CHECK=all "$1" "$case" "$variant" >"$out" 2>&1
        if grep -q -e Sanitizer -e 'runtime error' "$out"; then
            echo "== $case $variant"
            cat "$out"
            status=1
        fi
    done
done
exit $status
