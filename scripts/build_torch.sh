#!/bin/sh
# Builds aclmem.npu for the PyTorch of this machine:  build_torch.sh [BUILD [WHEELS]]
#
# BUILD is a build folder of CMake (default: build); the package is in BUILD/python/aclmem/npu.  WHEELS is a folder that
# receives it as a wheel, too.
set -eu
root=$(realpath "$(dirname "$0")/..")
build=$(realpath "${1:-$root/build}")
version=$(sed -n 's/^project(aclmem VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
exec python3 -B "$root/npu/build.py" "$build/python" "$version" ${2:+"$2"}
