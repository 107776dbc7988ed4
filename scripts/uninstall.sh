#!/bin/sh
# Removes what `make install` put into the given folder, by the list that it left there.
set -u

[ $# -eq 1 ] || {
    echo "usage: $0 folder" >&2
    exit 2
}
root=$(cd "$1" && pwd) || exit 1
manifest=$root/share/aclmem/manifest
if [ ! -f "$manifest" ]; then
    echo "$root: there is no $manifest, so nothing of aclmem's to remove" >&2
    exit 1
fi

# Each file, then its folders as far as they became empty.
files=$(cat "$manifest")
cd "$root" || exit 1
echo "$files" | while IFS= read -r file; do
    case /$file/ in
    *//* | */../*) continue ;;
    esac
    rm -f "./$file"
    rmdir -p "$(dirname "./$file")" 2>/dev/null
done
rmdir "$root" 2>/dev/null
exit 0
