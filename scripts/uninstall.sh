#!/bin/sh
# Removes what `make install` put into the given folder, by the list that it left there.
set -u

[ $# -eq 1 ] || {
    echo "usage: $0 folder" >&2
    exit 2
}
[ -d "$1" ] || {
    echo "$1: there is no such folder, so nothing to remove" >&2
    exit 1
}
root=$(cd "$1" && pwd) || exit 1
manifest=$root/share/aclmem/manifest
if [ ! -f "$manifest" ]; then
    echo "$root: there is no $manifest, so nothing of aclmem's to remove" >&2
    exit 1
fi

# Each file, then the folders that are ours alone.
files=$(cat "$manifest")
cd "$root" || exit 1
echo "$files" | while IFS= read -r file; do
    case /$file/ in
    *//* | */../*) continue ;;
    esac
    rm -f "./$file"
done
rm -rf python/site-packages/acl/__pycache__ # left by a Python that the module is not for

# Then the folders of those files that became empty, the deepest first, but for folders that a system has
# anyway: those stay there, empty or not.
folders() {
    echo "$files" | while IFS= read -r file; do
        while file=$(dirname "$file") && [ "$file" != . ]; do
            echo "$file"
        done
    done | sort -ru
}

is_shared() {
    case $1 in
    bin | include | lib64 | lib64/pkgconfig | python | python/site-packages | share | share/doc | share/cmake | \
        share/man | share/man/* | share/bash-completion | share/bash-completion/* | share/zsh | share/zsh/* | \
        share/fish | share/fish/*) return 0 ;;
    esac
    return 1
}

case $root in
/ | /usr | /usr/local | "${HOME:-/}") is_system=true ;;
*) is_system=false ;;
esac
folders | while IFS= read -r folder; do
    case /$folder/ in
    *//* | */../*) continue ;;
    esac
    ! $is_system || ! is_shared "$folder" || continue
    rmdir "./$folder" 2>/dev/null
done
# Links to folders have none of their own in the list.
rmdir opp/vendors opp "$(uname -m)-linux" runtime acllib 2>/dev/null
$is_system || rmdir "$root" 2>/dev/null
exit 0
