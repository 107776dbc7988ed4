#!/bin/sh
# Debian's libraries for another processor, unpacked into a folder: nothing of the machine is changed, and the
# user needs no rights.  scripts/sysroot.sh FOLDER
#
# The compiler and the C library are packages of this machine (gcc-aarch64-linux-gnu brings both); what aclmem links
# with besides is fetched for arm64.  apt-get keeps its lists of that architecture in FOLDER/apt.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
root=$(dirname "$(realpath "$0")")
mkdir -p "$1"
folder=$(realpath "$1")

# Debian 13 and Ubuntu 24.04 have some of the libraries under names that end in t64.
packages="libjansson-dev libjansson4 zlib1g-dev zlib1g libzstd-dev libzstd1 libnuma-dev libnuma1 libdw-dev libdw1
    libelf-dev libelf1 liblzma-dev liblzma5 libbz2-1.0 libbsd-dev libmd-dev libunwind8 libcmocka-dev libcmocka0"

# Packages that were unpacked by this list are kept.
if cmp -s "$root/sysroot.sh" "$folder/made_by"; then
    exit 0
fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
    echo "$0: apt-get and dpkg are needed to fetch Debian's libraries for aarch64" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/debs"

# Alone: no lock, no status and no cache of the machine's own apt.  A mirror that does not answer is not waited for.
apt() { # get|cache ARGUMENT...
    tool=apt-$1
    shift
    timeout 120 "$tool" -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}
fail() {
    echo "$0: $1" >&2
    rm -rf "$folder"
    exit 1
}

cd "$folder/debs"
apt get update >&2 || fail "apt-get update for arm64 failed; it needs a network"
names=
missing=
for package in $packages; do
    for name in "$package" "${package}t64" ""; do
        [ -z "$name" ] || [ -z "$(apt cache show "$name" 2>/dev/null)" ] || break
    done
    names="$names $name"
    [ -n "$name" ] || missing="$missing $package"
done
[ -z "$missing" ] || fail "the mirror of this machine has no packages for arm64 of these names:$missing"
# shellcheck disable=SC2086 # the packages are words
apt get download $names >&2 || fail "the libraries for aarch64 could not be fetched from the mirror of this machine"
for package in *.deb; do
    dpkg -x "$package" "$folder"
done
# One prefix for the emulator: the C library beside the others.
mkdir -p "$folder/lib"
for library in /usr/aarch64-linux-gnu/lib/*; do
    [ -e "$folder/lib/${library##*/}" ] || ln -s "$library" "$folder/lib/"
done
rm -rf "$folder/apt" "$folder/debs"
cp "$root/sysroot.sh" "$folder/made_by"
