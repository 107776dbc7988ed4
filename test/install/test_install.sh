#!/bin/sh
# Installs a build into a temporary folder and uses it as others do: test_install.sh <build folder>
set -eu
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
build=$1
: "${CMAKE:=cmake}" "${CC:=cc}" "${CXX:=c++}"

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
root="$temporary/a place"
unset LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH DESTDIR FORCE
unset ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_HOME ASCEND_OPP_PATH PYTHONPATH

fail() {
    echo "FAILED: $1"
    exit 1
}

install_to() {
    "$CMAKE" --install "$build" --prefix "$1" >"$temporary/log" 2>&1
}

# Builds the client with the flags given, as C and as C++, and runs it.
try() {
    claim=$1
    shift
    $CC -Werror "$@" "$here/client.c" -o "$temporary/client" $libs -ldl &&
        "$temporary/client" || fail "$claim, in C"
    $CXX -Werror -x c++ "$@" "$here/client.c" -x none -o "$temporary/client" $libs -ldl &&
        "$temporary/client" || fail "$claim, in C++"
}

install_to "$root" || { cat "$temporary/log"; fail "it can be installed"; }
install_to "$root" || fail "it can be installed again over itself"

# A tree that is moved works from where it lies: from here on, all is tried in another place.
mv "$root" "$temporary/moved"
root=$temporary/moved
[ -z "$(find "$root" -type l -lname '/*')" ] || fail "links are relative"
[ -z "$(find -L "$root" -type l)" ] || fail "links lead somewhere"
! grep -rqF "$temporary" "$root" || fail "no file names the folder it was installed into"

for document in "$root"/share/doc/aclmem/*.md "$root"/share/doc/aclmem/docs/*.md "$root"/share/doc/aclmem/docs/*/*.md; do
    for link in $(grep -o ']([^)#:]*[)#]' "$document" | sed 's/^](//; s/[)#]$//'); do
        [ -e "${document%/*}/$link" ] || fail "links of installed documents lead somewhere: $link in $document"
    done
done

"$root/bin/aclmem" info >"$temporary/log" || fail "the command finds its library"

# The files by which programs know a toolkit and its version, read as they read them.
arch=$(uname -m)
cat >"$temporary/version.c" <<'end'
#include <stdio.h>
#include "acl/acl.h"
int main(int argc, char **argv)
{
    char text[ACL_PKG_VERSION_MAX_SIZE];
    return aclsysGetVersionStr(argv[1], text) != 0 || puts(text) < 0;
}
end
$CC -I"$root/include" "$temporary/version.c" -o "$temporary/version" -L"$root/lib64" -lascendcl -Wl,-rpath,"$root/lib64"
version=$("$temporary/version" toolkit)
[ "$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' "$root/version.cfg" | head -1)" = "$version" ] || fail "version.cfg"
[ "$(sed -n 's/^Version=//p' "$root/compiler/version.info")" = "$version" ] || fail "compiler/version.info"
info=$root/$arch-linux/ascend_toolkit_install.info
[ "$(sed -n 's/^version=//p' "$info")" = "$version" ] || fail "version in $info"
sed -n 's/^innerversion=//p' "$info" | grep -qE '^V100R001C[0-9]+B[0-9]+$' || fail "innerversion in $info"
[ "$(sed -n 's/^arch=//p' "$info")" = "$arch" ] || fail "arch in $info"
[ "$(cd "${info%/*}" && cd "$(sed -n 's/^path=//p' "$info")" && pwd)" = "$root" ] || fail "path in $info"
[ "$(sed -n 's/^Version=//p' "$root/driver/version.info")" = "$("$temporary/version" driver)" ] || fail "driver/version.info"
grep -qE '^Innerversion=V100R001C[0-9]+B[0-9]+$' "$root/driver/version.info" || fail "Innerversion of the driver"
[ -d "$root/opp/vendors" ] || fail "opp/vendors is there"

for shell in bash dash zsh ksh; do
    command -v "$shell" >/dev/null || continue
    for at in "$root" .; do
        said=$(cd "$root" && "$shell" -c ". '$at/set_env.sh'; . '$at/set_env.sh'
            echo \$ASCEND_HOME_PATH,\$ASCEND_TOOLKIT_HOME,\$LD_LIBRARY_PATH")
        [ "$said" = "$root,$root,$root/lib64" ] || fail "set_env.sh serves $shell from $at: $said"
    done
done
said=$(LD_LIBRARY_PATH=/other sh -euc ". '$root/set_env.sh'; echo \$LD_LIBRARY_PATH")
[ "$said" = "$root/lib64:/other" ] || fail "set_env.sh keeps what was there: $said"

(
    . "$root/set_env.sh"
    libs=-lascendcl
    try "set_env.sh and the usual paths" -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/lib64"
    [ "$(command -v aclmem)" = "$root/bin/aclmem" ] || fail "set_env.sh finds the command"
    for name in libascendcl.so libascendcl.so.1; do
        "$temporary/client" $name || fail "$name can be loaded by name"
    done
    arch=$ASCEND_HOME_PATH/$(uname -m)-linux
    try "paths with the architecture" -I"$arch/include" -L"$arch/lib64"
    try "the link-time folder" -I"$arch/include" -L"$arch/devlib"
    try "the stub" -I"$root/include" -L"$root/lib64/stub"
    try "the runtime's folder" -I"$root/runtime/include" -L"$root/runtime/lib64"
    try "acllib" -I"$root/acllib/include" -L"$root/acllib/lib64"

    # All headers, and every library that a program may name.
    headers=
    for header in $(cd "$root/include" && find acl aclnn hccl -name '*.h'); do
        headers="$headers -include $header"
    done
    libs="-Wl,-z,now,--no-as-needed -lascendcl -lruntime -lmsprofiler -lacl_op_compiler -lacl_tdt_channel -lacl_tdt_queue
        -lnnopbase -lopapi -lhccl -L$root/driver/lib64/driver -lascend_hal"
    try "all headers and libraries" $headers -I"$root/include" -L"$root/lib64"
    for name in runtime msprofiler acl_op_compiler acl_tdt_channel acl_tdt_queue nnopbase opapi hccl; do
        "$temporary/client" lib$name.so || fail "lib$name.so can be loaded by name"
    done
    [ "$ASCEND_OPP_PATH" = "$root/opp" ] || fail "set_env.sh names the operators' folder"

    libs=$(pkg-config --libs ascendcl)
    try "pkg-config after set_env.sh" $(pkg-config --cflags ascendcl)
)

# Where the tree's programs cannot start, set_env.sh says why, and sets the variables all the same.
cp "$root/bin/aclmem" "$temporary/aclmem.kept"
cp "$info" "$temporary/info.kept"
cannot_start() { # WORDS MESSAGE-OF-THE-LOADER
    printf '#!/bin/sh\necho "%s" >&2\nexit 1\n' "$2" >"$root/bin/aclmem"
    said=$(sh -euc ". '$root/set_env.sh'; echo \$ASCEND_HOME_PATH" 2>&1)
    case $said in
    *"$1"*"$root") ;;
    *) fail "set_env.sh says \"$1\": $said" ;;
    esac
}
cannot_start "newer C library than this machine has" "aclmem: version GLIBC_2.99 not found"
cannot_start "do not start on this machine" "error while loading shared libraries"
sed -i 's/^arch=.*/arch=riscv64/' "$info"
cannot_start "is for riscv64, and this machine is $arch" "Exec format error"
cp "$temporary/aclmem.kept" "$root/bin/aclmem"
cp "$temporary/info.kept" "$info"

# A home that cannot be written to, or none: nothing is written there.
$CC -Werror -I"$root/include" "$here/client.c" -o "$temporary/client" -L"$root/lib64" -lascendcl -ldl
for home in /proc/self /nonexistent; do
    HOME=$home "$root/bin/aclmem" run "$temporary/client" >"$temporary/log" 2>&1 ||
        { cat "$temporary/log"; fail "aclmem run works with the home $home"; }
done
(unset HOME && "$root/bin/aclmem" run "$temporary/client" >/dev/null) || fail "aclmem run works without a home"
said=$(TMPDIR=/proc/self "$root/bin/aclmem" run "$temporary/client" 2>&1) && fail "findings need a folder"
case $said in
*"TMPDIR names a folder that can be written to"*) ;;
*) fail "aclmem run says that TMPDIR cannot be written to: $said" ;;
esac

# The module, which finds the library with set_env.sh and without it.
if [ -n "${PYTHON:-}" ]; then
    steps=$root/share/aclmem/examples/seven_steps.py
    (. "$root/set_env.sh" && "$PYTHON" -B "$steps" >/dev/null) || fail "the Python module after set_env.sh"
    PYTHONPATH=$root/python/site-packages "$PYTHON" -B "$steps" >/dev/null || fail "the Python module finds its library"
fi

libs="$(PKG_CONFIG_PATH=$root/lib64/pkgconfig pkg-config --libs ascendcl) -Wl,-rpath,$root/lib64"
try "pkg-config with PKG_CONFIG_PATH" $(PKG_CONFIG_PATH="$root/lib64/pkgconfig" pkg-config --cflags ascendcl)

for language in C CXX; do
    for option in "-DCMAKE_PREFIX_PATH=$root" "-Daclmem_ROOT=$root"; do
        rm -rf "$temporary/cmake"
        "$CMAKE" -S "$here/project" -B "$temporary/cmake" -DCLIENT_LANGUAGE=$language "$option" \
            >"$temporary/log" 2>&1 && "$CMAKE" --build "$temporary/cmake" >"$temporary/log" 2>&1 &&
            "$temporary/cmake/client" || { cat "$temporary/log"; fail "find_package, $option, $language"; }
    done
done

# The fabric between machines is a part that can be missing: UCX where it runs, or all of it.
fabric() {
    LD_LIBRARY_PATH=$temporary/other/lib64 ACLMEM_PRODUCT=A3 ACLMEM_RUNTIME_DIR=$temporary/run "$@" >"$temporary/log" 2>&1 ||
        { cat "$temporary/log"; fail "the fabric: $*"; }
}
cp -a "$root" "$temporary/other"
$CC -Werror -I"$root/include" "$here/fabric.c" -o "$temporary/fabric" $libs || fail "a program with a fabric handle"
"$root/bin/aclmem" fabric keygen "$temporary/key" >/dev/null || fail "aclmem fabric keygen"
echo "no library" >"$temporary/other/lib64/libaclmem_fabric.so"
fabric "$temporary/fabric"
if [ -e "$root/lib64/aclmem-fabric" ]; then
    fabric env ACLMEM_FABRIC=127.0.0.1 ACLMEM_FABRIC_KEY="$temporary/key" "$temporary/fabric" "install libucx0"
    rm "$temporary/other/lib64/aclmem-fabric"
fi
fabric env ACLMEM_FABRIC=127.0.0.1 ACLMEM_FABRIC_KEY="$temporary/key" "$temporary/fabric" "libucx0"

# Removing takes everything of ours and nothing else.
touch "$root/lib64/theirs"
mkdir -p "$root/python/site-packages/acl/__pycache__" # of a Python that the module is not for
touch "$root/python/site-packages/acl/__pycache__/__init__.cpython-399.pyc"
"$project/scripts/uninstall.sh" "$root" || fail "it can be removed"
[ "$(cd "$root" && find . | sort | tr '\n' ' ')" = ". ./lib64 ./lib64/theirs " ] ||
    fail "removing takes everything of ours and nothing else"
! "$project/scripts/uninstall.sh" "$root" 2>/dev/null || fail "there is nothing to remove twice"
said=$("$project/scripts/uninstall.sh" "$temporary/nowhere" 2>&1) && fail "nothing can be removed from nowhere"
[ "$said" = "$temporary/nowhere: there is no such folder, so nothing to remove" ] || fail "it says so: $said"

# Somebody else's library stays, unless it is meant.
for place in lib64 x86_64-linux/lib64 runtime/lib64; do
    foreign=$temporary/foreign/$place
    mkdir -p "$foreign"
    echo theirs >"$foreign/libascendcl.so"
    ! install_to "$temporary/foreign" || fail "a foreign library in $place is not replaced"
    [ "$(find "$temporary/foreign" -type f)" = "$foreign/libascendcl.so" ] || fail "nothing was installed"
    grep -q "is not aclmem's" "$temporary/log" || fail "the refusal says why"
    [ "$place" != lib64 ] || FORCE=1 install_to "$temporary/foreign" || fail "FORCE=1 replaces it"
    rm -rf "$temporary/foreign"
done

DESTDIR=$temporary/stage install_to /opt/aclmem || fail "DESTDIR"
[ -f "$temporary/stage/opt/aclmem/lib64/libascendcl.so" ] || fail "DESTDIR stages"
"$project/scripts/uninstall.sh" "$temporary/stage/opt/aclmem" || fail "a staged tree can be removed"
[ ! -e "$temporary/stage/opt/aclmem" ] || fail "a staged tree is removed whole"
