#!/bin/sh
# The scripts that set a machine up, on machines that lack something:  test_setup.sh <root of the sources>
root=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

fail() {
    echo "FAILED: $1"
    failed=1
}

# has CLAIM TEXT WORDS...: all of the words are in the text.
has() {
    claim=$1
    said=$2
    shift 2
    for words; do
        case $said in
        *"$words"*) continue ;;
        esac
        echo "\"$words\" is not in:"
        echo "$said"
        fail "$claim"
    done
}

# tool NAME SCRIPT: a command of a machine.
tool() {
    printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
    chmod +x "$tools/$1"
}

# machine TOOL...: an empty folder of commands, with those of this machine that are named.
machine() {
    tools=$(mktemp -d -p "$folder")
    for name; do
        ln -s "$(command -v "$name")" "$tools/$name"
    done
}

# ---- no tools, and no rights to install any: each package by name, and one line to paste ----

machine sh sed grep uname dirname env
tool id 'echo 1000'
tool apt-get 'echo "apt-get was called: $*"; exit 1'
setup_fails() {
    claim=$1
    mode=$2
    shift 2
    said=$(PATH=$tools "$root/scripts/setup.sh" "$mode" 2>&1 </dev/null) && fail "$claim: setup.sh $mode did not fail"
    has "$claim" "$said" "$@"
}
setup_fails "without sudo" check "Ninja, the build tool (Debian's package: ninja-build)" \
    "
    apt-get install -y --no-install-recommends cmake ninja-build pkg-config gcc"
setup_fails "the fabric tests need network namespaces, and sanitizer reports a symbolizer" check \
    "(Debian's package: iproute2)" "(Debian's package: llvm)"
setup_fails "a package needs build-essential" deb "(Debian's package: build-essential)"
setup_fails "a bare system needs debootstrap" debian "(Debian's package: debootstrap)"
setup_fails "the sources are packed with Python" sdist "(Debian's package: python3)"
tool sudo '[ "$2" = true ]' # asked whether it may, it agrees
setup_fails "where sudo refuses" check "Ninja, the build tool (Debian's package: ninja-build)" \
    "
    sudo apt-get install -y --no-install-recommends cmake ninja-build pkg-config gcc"
tool python3 'exit 1'
has "where python3 has no pip" "$(PATH=$tools "$root/scripts/pip_word.sh")" "has no pip" python3-aclmem

# ---- a C++ compiler that arrives after the first configuration; clang beside it for C ----

configure() {
    cmake -S "$root" -B "$folder/build" -G Ninja -DCMAKE_C_COMPILER=clang -DACLMEM_PYTHON=OFF 2>&1
}
has "a missing C++ compiler is reported" "$(CXX=/nonexistent/c++ configure)" "libaclmem_torch.so is not built"
said=$(CXX='' configure) && grep -q "libaclmem_torch.so:" "$folder/build/build.ninja" ||
    fail "a C++ compiler that arrived later is not found: $said"
grep -q '^CMAKE_CXX_COMPILER:.*clang' "$folder/build/CMakeCache.txt" && fail "the C++ compiler is not g++"
# The command alone: as a target it needs the libraries that it is linked with.
compile=$(ninja -C "$folder/build" -t commands src/torch/CMakeFiles/aclmem_torch.dir/edge.cpp.o | tail -n 1)
said=$(cd "$folder/build" && sh -c "${compile:-false}" 2>&1) || fail "g++ takes the options beside clang: $compile: $said"

# ---- packing the sources where git fails: none is needed ----

python=$(python3 -c 'import sys; print(sys.executable)')
machine sh
tool git 'echo "fatal: detected dubious ownership" >&2; exit 128'
said=$(PATH=$tools "$python" -B "$root/python/backend.py" "$folder/sdist" 2>&1) || fail "make sdist without git: $said"
case $said in
"$folder"/sdist/aclmem-*.tar.gz) ;;
*) fail "make sdist prints the archive alone: $said" ;;
esac
said=$(tar -tzf "$said" | grep -e /.git/ -e /build/ -e __pycache__) && fail "the archive has what is not source: $(echo "$said" | head -n 3)"

# A repository: only tracked files are packed.
mkdir -p "$folder/clone/python"
cp "$root/python/backend.py" "$folder/clone/python/"
cp "$root/CMakeLists.txt" "$folder/clone/"
if git init -q "$folder/clone" && git -C "$folder/clone" add CMakeLists.txt python; then
    touch "$folder/clone/untracked"
    said=$(cd "$folder/clone" && "$python" -B python/backend.py "$folder/sdist" && tar -tzf "$folder"/sdist/aclmem-*.tar.gz)
    has "tracked files are packed" "$said" /CMakeLists.txt /python/backend.py
    case $said in *untracked*) fail "a file that git does not track is packed: $said" ;; esac
else
    echo "not run: git is not installed, so packing of tracked files is not tested"
fi

# ---- libraries for aarch64: names that a Debian gave up, and what is to blame ----

machine sh dirname realpath mkdir rm cmp cp ln timeout sed
tool dpkg ':'
tool apt-get 'case "$*" in *update*) exit 0 ;; esac; echo "$*" >"'"$folder"'/fetched"'
tool apt-cache 'for name; do :; done; case $name in libdw1 | libelf1) ;; *) echo "Package: $name" ;; esac'
said=$(PATH=$tools "$root/scripts/sysroot.sh" "$folder/sysroot" 2>&1) || fail "libraries for aarch64: $said"
has "renamed libraries are fetched" "$(cat "$folder/fetched") " " libdw1t64 " " libelf1t64 " " libnuma1 "
rm -rf "$folder/sysroot"
tool apt-cache ':'
has "libraries that do not exist are named" "$(PATH=$tools "$root/scripts/sysroot.sh" "$folder/sysroot" 2>&1)" \
    "has no packages for arm64 of these names: libjansson-dev"
tool apt-get 'exit 100'
has "a network that is missing is blamed" "$(PATH=$tools "$root/scripts/sysroot.sh" "$folder/sysroot" 2>&1)" \
    "apt-get update for arm64 failed; it needs a network"

# ---- the last line of a check ----

mkdir -p "$folder/tree/scripts"
cp "$root/scripts/check.sh" "$folder/tree/scripts/"
machine
tool cmake 'mkdir -p build/dev/Testing/Temporary; touch build/dev/build.ninja build/dev/Testing/Temporary/LastTest.log'
tool ninja ':'
for name in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do tool $name ':'; done
tool ctest 'echo "1/3 Test  #1: unit.a ...   Passed    0.1 sec"
echo "2/3 Test  #2: unit.b ...***Skipped   0.1 sec"
echo "3/3 Test  #3: unit.c ...***Failed   0.1 sec"
exit 8'
said=$(PATH=$tools:$PATH "$folder/tree/scripts/check.sh" dev aarch64-part)
has "a build that is skipped says why" "$said" "aarch64-part: skipped: Debian's libraries for aarch64 are not in"
[ "$(echo "$said" | tail -n 1)" = "1 passed, 1 failed, 2 skipped" ] || fail "the last line counts all: $said"

# Every minute a line names the tests that run.  A minute is as long as the script counts: its sleep returns at once.
# The tests end after 60 sleeps that began when both tests had begun: one of these sleeps ends a minute.
tool sleep '[ ! -e begun ] || { echo . >>ticks; [ "$(wc -l <ticks)" -le 60 ] || touch ticked; }'
tool ctest 'echo "        Start   1: unit.a"
echo "        Start   2: unit.b"
echo " 1/2 Test   #1: unit.a ...   Passed    0.1 sec"
touch begun
until [ -e ticked ]; do :; done
echo " 2/2 Test   #2: unit.b ...***Timeout 180.1 sec"
exit 8'
said=$(PATH=$tools:$PATH "$folder/tree/scripts/check.sh" dev)
has "a line names the tests that run" "$said" "dev: testing, 1/2, running unit.b
"
said=$(PATH=$tools:$PATH CHECK_MINUTES=0 "$folder/tree/scripts/check.sh" dev)
has "no test begins after the limit" "$said" "dev: not tested: the check has taken 0 minutes" "0 passed, 1 failed, 0 skipped"

# ---- make check-debian ----

said=$("$root/scripts/check_debian.sh" 11 2>&1)
[ $? -eq 2 ] || fail "a version that is not known is refused"
has "the usage" "$said" "scripts/check_debian.sh [--keep] [VERSION...] [-- COMMAND...]"
tool id 'echo 1000'
has "only root makes systems" "$(PATH=$tools:$PATH "$root/scripts/check_debian.sh" 12 2>&1)" "only root can make a system"
exit "$failed"
