#!/bin/sh
# Makes sure that what a build needs is here.
#
#     scripts/setup.sh build       what `make` needs
#     scripts/setup.sh check       that, and what the tests need
#     scripts/setup.sh coverage    that, and what the coverage report needs
#     scripts/setup.sh bench       what `make`, and comparing with others, needs
#     scripts/setup.sh wheel       what `make wheel` needs
#     scripts/setup.sh sdist       what `make sdist` needs
#     scripts/setup.sh deb         what `make deb` needs
#     scripts/setup.sh docs        what `make docs` needs
#     scripts/setup.sh aarch64     what `make check-aarch64` needs; libraries are fetched into build/
#     scripts/setup.sh debian      what `make check-debian` needs
#     scripts/setup.sh packages    what `make check-packages` needs
#     scripts/setup.sh torch       what `make`, and the PyTorch device npu with its tests, need
#
# Each row of the tables below is a probe that works on any distribution, the name of Debian's
# package, and what it is.  Where apt-get is at hand and we may use it, only what is missing is
# installed; elsewhere, or where that fails, it is named with the line that installs it, and the exit
# status is 1.
set -u

mode=${1:-build}
case $mode in
build | check | coverage | bench | wheel | sdist | deb | docs | aarch64 | debian | packages | torch) ;;
*)
    echo "usage: $0 build|check|coverage|bench|wheel|sdist|deb|docs|aarch64|debian|packages|torch" >&2
    exit 2
    ;;
esac

needed_to_build() {
    need has_cmake cmake "CMake 3.22 or newer"
    need "has ninja" ninja-build "Ninja, the build tool"
    need "has pkg-config" pkg-config "pkg-config"
    need "has cc" gcc "a C compiler"
    need has_headers libc6-dev "the C library's headers"
    need "has_library jansson" libjansson-dev "jansson, a JSON library"
    need "has_library zlib" zlib1g-dev "zlib, for traces that are compressed"
    need "has_library numa" libnuma-dev "libnuma, memory placement"
    need "has_library libzstd" libzstd-dev "zstd, which compresses traces"
    need "has_library libbsd" libbsd-dev "libbsd, for its tree.h"
    need "has_library libdw" libdw-dev "libdw, which names functions and lines"
    want "has c++" g++ "a C++ compiler, for the pool as an allocator of PyTorch"
    want "has_library ncursesw" libncurses-dev "ncurses, for aclmem top"
    want has_libunwind libunwind8 "libunwind, for stacks that cost little"
    want has_python_headers python3-dev "Python's headers, for the module acl"
    want "has_library ucx" libucx-dev "UCX, for memory of other machines"
    want "has_library libsodium" libsodium-dev "libsodium, for memory of other machines"
    want "has_library libseccomp" libseccomp-dev "libseccomp, for memory of other machines"
}

needed_to_check() {
    need "has gcc" gcc "the GNU C compiler"
    need "has g++" g++ "the GNU C++ compiler"
    need "has_library cmocka" libcmocka-dev "cmocka, a test library"
    need "has clang++" clang "Clang, with its sanitizer runtimes"
    need "has clang-format" clang-format "clang-format"
    need "has ld.lld" lld "lld, the linker of the sanitizers' builds"
    need "has nm" binutils "GNU binutils"
    need "has python3" python3 "Python 3.9 or newer"
    need "has ip" iproute2 "iproute2, which makes the network namespaces of the fabric tests"
    need "has llvm-symbolizer" llvm "LLVM's symbolizer, which names functions in sanitizer reports"
    need has_python_headers python3-dev "Python's headers"
    need "has_module pytest" python3-pytest "pytest"
    need "has_module numpy" python3-numpy "numpy"
    need "has_module yaml" python3-yaml "yaml, to read recipes for CI"
    need "has_module ensurepip" python3-venv "venv, to try the wheel in"
    needed_to_pack
    want "has mkdocs" mkdocs "mkdocs, which makes the site of the documents"
    want "has abidiff" abigail-tools "libabigail, which compares the ABI with the last release's"
    want has_browser chromium "Chromium, which the report page is tested in"
    [ "$(uname -m)" != x86_64 ] || needed_for_aarch64 want
    has_runtimes || lack "$(runtimes_package)" "Clang's address, thread and fuzzer runtimes"
}


needed_to_pack() {
    need "has patchelf" patchelf "patchelf, to carry libraries in a wheel"
    need "has strip" binutils "GNU binutils"
}

needed_for_systems() {
    need "has debootstrap" debootstrap "debootstrap, which makes Debian systems in folders"
}

needed_to_check_packages() {
    needed_for_systems
    need "has_library cmocka" libcmocka-dev "cmocka, a test library"
    need "has ip" iproute2 "iproute2, which makes the network namespaces of the fabric tests"
}

needed_for_debian() {
    need "has_package build-essential" build-essential "Debian's tools for every build of a package"
    need "has dpkg-buildpackage" dpkg-dev "dpkg's tools for building packages"
    need "has dh" debhelper "debhelper"
    need "has lintian" lintian "lintian, which checks packages"
    need has_python_headers python3-dev "Python's headers"
    need "has_library ucx" libucx-dev "UCX, for memory of other machines"
    need "has_library libsodium" libsodium-dev "libsodium, for memory of other machines"
    need "has_library libseccomp" libseccomp-dev "libseccomp, for memory of other machines"
}

# needed_for_aarch64 need|want
needed_for_aarch64() {
    $1 "has aarch64-linux-gnu-gcc" gcc-aarch64-linux-gnu "the GNU C compiler for aarch64"
    $1 "has aarch64-linux-gnu-g++" g++-aarch64-linux-gnu "the GNU C++ compiler for aarch64"
    $1 "has qemu-aarch64" qemu-user "qemu-user, an emulator for programs"
}

needed_for_torch() {
    need "has c++" g++ "a C++ compiler"
    need has_python_headers python3-dev "Python's headers"
    need "has_module torch" python3-torch "PyTorch"
    need has_torch_headers libtorch-dev "PyTorch's headers"
    need has_pybind11 pybind11-dev "pybind11"
    need has_openblas libopenblas0 "OpenBLAS, without which products of matrices take 50 times as long"
    for module in pytest numpy expecttest psutil hypothesis; do
        need "has_module $module" "python3-$module" "$module, for the tests"
    done
    need "has_module setuptools.command" python3-setuptools "setuptools, which PyTorch's database of operators imports"
}

needed_to_cover() {
    need "has gcovr" gcovr "gcovr, coverage reports"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# 3.22 or newer
has_cmake() {
    has cmake || return 1
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\.[0-9]*\).*/\1/p')
    [ "${version%%.*}" -gt 3 ] || { [ "${version%%.*}" -eq 3 ] && [ "${version#*.}" -ge 22 ]; }
}


has_package() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_browser() {
    has chromium || has chromium-browser || has google-chrome || has chrome
}

has_libunwind() {
    for folder in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib; do
        [ ! -e "$folder/libunwind.so.8" ] || return 0
    done
    return 1
}

has_library() {
    has pkg-config && pkg-config --exists "$1"
}

# The Python that the module is built for: the system's, as in python/CMakeLists.txt.
the_python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}

has_python_headers() {
    "$(the_python)" "$(dirname "$0")/../python/about.py" >/dev/null 2>&1
}

has_module() {
    "$(the_python)" -c "import $1" >/dev/null 2>&1
}

has_torch_headers() {
    "$(the_python)" -c "import os, sys, torch
folders = [os.path.join(os.path.dirname(torch.__file__), 'include'), '/usr/include']
sys.exit(not any(os.path.exists(os.path.join(f, 'ATen', 'ATen.h')) for f in folders))" 2>/dev/null
}

# PyTorch of pip carries it.
has_pybind11() {
    "$(the_python)" -c "import os, sys, torch
folders = [os.path.join(os.path.dirname(torch.__file__), 'include'), '/usr/include']
sys.exit(not any(os.path.exists(os.path.join(f, 'pybind11', 'pybind11.h')) for f in folders))" 2>/dev/null
}

# PyTorch of pip has MKL; Debian's uses the BLAS of the system.
has_openblas() {
    ! has_package python3-torch || has_package libopenblas0
}

has_headers() {
    has cc && echo "#include <stdio.h>" | cc -E -x c -o /dev/null - 2>/dev/null
}

# Clang answers with a path where it finds the file, and with the bare name where it does not.
# The architecture is part of the file's name or of its folder's, by how Clang was built.
has_runtimes() {
    has clang || return 1
    for runtime in asan tsan fuzzer; do
        case $(clang -print-file-name="libclang_rt.$runtime-$(uname -m).a") in
        /*) continue ;;
        esac
        case $(clang -print-file-name="libclang_rt.$runtime.a") in
        /*) continue ;;
        esac
        return 1
    done
}

runtimes_package() {
    if has clang; then
        version=$(clang -dumpversion)
    else # the one that the package clang is of
        version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    fi
    version=${version%%.*}
    [ -n "$version" ] || return 0
    if has apt-cache && ! apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
        echo "libclang-common-$version-dev" # Ubuntu up to 22.04
    else
        echo "libclang-rt-$version-dev"
    fi
}

need() {
    $1 || lack "$2" "$3"
}

# What a build can do without: it is installed where that is possible, and otherwise only named.
want() {
    $1 || {
        packages="$packages $2"
        wanted="$wanted
    $3 (Debian's package: $2)"
    }
}

lack() {
    [ -n "$1" ] || return 0 # what it is called here is not known yet
    packages="$packages $1"
    needed="$needed $1"
    missing="$missing
    $2 (Debian's package: $1)"
}

look() {
    packages=
    needed=
    missing=
    wanted=
    case $mode in
    sdist) need "has python3" python3 "Python 3.9 or newer" ;;
    debian) needed_for_systems ;;
    *) needed_to_build ;;
    esac
    case $mode in check | coverage) needed_to_check ;; esac
    [ "$mode" != wheel ] || needed_to_pack
    [ "$mode" != packages ] || needed_to_check_packages
    [ "$mode" != deb ] || needed_for_debian
    [ "$mode" != docs ] || need "has mkdocs" mkdocs "mkdocs, which makes the site of the documents"
    [ "$mode" != aarch64 ] || needed_for_aarch64 need
    [ "$mode" != coverage ] || needed_to_cover
    [ "$mode" != torch ] || needed_for_torch
    [ -n "$packages" ]
}

# sudo is asked for a password only where somebody can type it.
may_install() {
    has apt-get || return 1
    as_root=
    [ "$(id -u)" -ne 0 ] || return 0
    as_root=sudo
    has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

# Where one that can be done without is not to be had, the others are.
install_packages() {
    echo "Installing:$packages"
    apt_get update -qq || return
    apt_get install -y -qq --no-install-recommends $packages >/dev/null ||
        { [ -n "$needed" ] && [ "$needed" != "$packages" ] && apt_get install -y -qq --no-install-recommends $needed >/dev/null; }
}

apt_get() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

# All is here; libraries of another processor are no packages of this machine.  The check does without them.
done_well() {
    case $mode in
    aarch64) exec "$(dirname "$0")/sysroot.sh" "$(dirname "$0")/../build/aarch64-sysroot" ;;
    check) ! has qemu-aarch64 || "$(dirname "$0")/sysroot.sh" "$(dirname "$0")/../build/aarch64-sysroot" ;;
    esac
    exit 0
}

look || done_well
if may_install; then
    # Which runtimes is known for sure once Clang is there.
    install_packages && { look || done_well; } && install_packages
    look || done_well
fi
if [ -z "$missing" ]; then
    echo "This is missing, and is done without:$wanted" >&2
    done_well
fi
{
    echo "This is missing:$missing"
    [ -z "$wanted" ] || echo "This is missing too, and can be done without:$wanted"
    if has apt-get; then
        as_root=
        ! has sudo || as_root="sudo "
        echo "Install all of it, as root, with this line, and try again:"
        echo "    ${as_root}apt-get install -y --no-install-recommends$packages"
    else
        echo "Install it and try again."
    fi
} >&2
exit 1
