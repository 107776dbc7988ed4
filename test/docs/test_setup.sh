#!/bin/sh
# What scripts/setup.sh says on a machine with no tools, where the user may not install any: each package by
# name, and one line to paste; also where there is a sudo and it refuses.  test_setup.sh <root of the sources>
root=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

for tool in sh sed grep uname dirname env; do
    ln -s "$(command -v "$tool")" "$folder/$tool"
done
printf '#!/bin/sh\necho 1000\n' >"$folder/id"
printf '#!/bin/sh\necho "apt-get was called: $*"\nexit 1\n' >"$folder/apt-get"
chmod +x "$folder/id" "$folder/apt-get"

# expect WORDS...: setup.sh fails and says all of them.
expect() {
    if said=$(PATH=$folder "$root/scripts/setup.sh" check 2>&1 </dev/null); then
        echo "$1: it did not fail"
        failed=1
    fi
    shift
    for words in "$@"; do
        case $said in
        *"$words"*) continue ;;
        esac
        echo "\"$words\" is not in:"
        echo "$said"
        failed=1
    done
}

expect "without sudo" "Ninja, the build tool (Debian's package: ninja-build)" \
    "
    apt-get install -y --no-install-recommends cmake ninja-build pkg-config gcc"
printf '#!/bin/sh\n[ "$2" = true ]\n' >"$folder/sudo" # asked whether it may, it agrees
chmod +x "$folder/sudo"
expect "where sudo refuses" "Ninja, the build tool (Debian's package: ninja-build)" \
    "
    sudo apt-get install -y --no-install-recommends cmake ninja-build pkg-config gcc"
# A Python without pip.
printf '#!/bin/sh\nexit 1\n' >"$folder/python3"
chmod +x "$folder/python3"
case $(PATH=$folder "$root/scripts/pip_word.sh") in
*"has no pip"*python3-aclmem*) ;;
*)
    echo "where python3 has no pip: it does not say so"
    failed=1
    ;;
esac
exit "$failed"
