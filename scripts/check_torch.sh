#!/bin/sh
# Tests the PyTorch device npu:
#
#     scripts/check_torch.sh [SUITE...] [-- PYTEST-OPTIONS]   in Debian systems with PyTorch, in build/systems; as root.
#                                                             SUITE: 13 or sid (default: both)
#     scripts/check_torch.sh --here [PYTEST-OPTIONS]          with the PyTorch of this machine, after `make torch`, and the
#                                                             console blocks of docs/TORCH.md; BUILD is the build folder
#                                                             (default: build)
#     scripts/check_torch.sh --sanitize [PYTEST-OPTIONS]      the same with an extension that is built with the sanitizers of
#                                                             addresses and of undefined behaviour
#
# Where no system can be made, the reason is printed and the exit status is 0.
set -u
root=$(realpath "$(dirname "$0")/..")

if [ "${1:-}" = --sanitize ]; then
    shift
    build=$(realpath "${BUILD:-$root/build}")
    mkdir -p "$build/torch-sanitize"
    ln -sfn ../lib64 "$build/torch-sanitize/lib64"
    flags="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined"
    CXXFLAGS="$flags -fno-omit-frame-pointer -O0" LDFLAGS=$flags "$root/scripts/build_torch.sh" "$build/torch-sanitize" || exit 1
    ln -sfn ../../../python/aclmem/torch.py "$build/torch-sanitize/python/aclmem/torch.py"
    cd "$root/npu/test" || exit 1
    # Python and PyTorch leave their memory to the end of the process.  Tests of the process's memory (million, growing) are
    # left out: the sanitizer keeps freed memory.
    ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 \
        LD_PRELOAD="$(${CXX:-c++} -print-file-name=libasan.so) $(${CXX:-c++} -print-file-name=libstdc++.so)" \
        PYTHONPATH=$build/torch-sanitize/python NPU_TEST_COMMAND=$build/bin/aclmem PYTHONDONTWRITEBYTECODE=1 NPU_TEST_SCALE=0.1 \
        exec python3 -m pytest -q -ra -p no:cacheprovider test_copies.py test_graphs.py test_memory.py test_streams.py \
        test_processes.py test_fused.py test_models.py -k 'not million and not growing and not chaos' "$@"
fi
if [ "${1:-}" = --here ]; then
    shift
    build=$(realpath "${BUILD:-$root/build}")
    cd "$root/npu/test" || exit 1
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} NPU_TEST_COMMAND=$build/bin/aclmem PYTHONDONTWRITEBYTECODE=1 \
        python3 -m pytest -q -ra -p no:cacheprovider "$@" || exit 1
    exec python3 "$root/test/docs/test_transcripts.py" "$build" --python "$(command -v python3)" docs/TORCH.md
fi
suites=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    suites="$suites $1"
    shift
done
[ $# -eq 0 ] || shift
systems=$root/build/systems
. "$root/scripts/debian_system.sh"
why=$(system_lacks)
[ -n "$why" ] || why=$(system_bootstrap trixie)
[ -z "$why" ] || { echo "check-torch: skipped: $why"; exit 0; }
# shellcheck disable=SC2086 # a list of words
exec "$root/scripts/check_debian.sh" ${suites:-13 sid} -- "make torch && scripts/check_torch.sh --here $*"
