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
rmdir include/acl/error_codes include/acl include/aclnn include/hccl include/aclmem opp/vendors opp compiler \
    driver/lib64/driver driver/lib64 driver share/aclmem/examples share/aclmem \
    share/doc/aclmem/docs share/doc/aclmem share/cmake/aclmem lib64/stub "$(uname -m)-linux" runtime acllib \
    python/site-packages/acl 2>/dev/null

# Then those that became empty, but for folders of the system, which stay, empty or not.
case $root in
/ | /usr | /usr/local | "${HOME:-/}") exit 0 ;;
esac
rmdir bin include lib64/pkgconfig lib64 share/doc share/cmake share python/site-packages python "$root" 2>/dev/null
exit 0
