#!/bin/sh
# Tests the PyTorch device npu on a machine that has PyTorch, pytest and a C++ compiler, and no network:
#
#     scripts/torch_device.sh pack            here: makes build/torch-device, after `make wheel`; expecttest is taken from
#                                             MODULES, a folder (default: where python3 has it)
#     scripts/torch_device.sh run [FILE...] [-- PYTEST-OPTIONS]
#                                             there: builds the extension for the PyTorch of python3, and tests it: the
#                                             files of npu/test (default: all), each in a process
#
# The tree and build/torch-device travel to the machine; nothing of build/ else does.  ACLMEM_BACKEND=cuda makes device
# memory of the GPU's.  `run` compiles what changed; what compilers say is in build/torch-device/build.log.  The files run at
# the same time, and each has its own runtime directory, so that none counts the memory of another one; a file is ended after
# LIMIT seconds (default: 3600).
set -eu
root=$(realpath "$(dirname "$0")/..")
device=$root/build/torch-device
site=$device/site

pack() {
    rm -rf "$device"
    mkdir -p "$device"
    wheel=$(find "$root/build/wheel" -name 'aclmem-*.whl' | sort | tail -n 1)
    [ -n "$wheel" ] || { echo "there is no wheel in build/wheel; make wheel builds it" >&2; exit 1; }
    python3 -m zipfile -e "$wheel" "$site"
    from=${MODULES:-$(python3 -c 'import os, expecttest; print(os.path.dirname(os.path.dirname(expecttest.__file__)))')}
    cp -rL "$from"/expecttest "$site/"
    find "$device" -name __pycache__ -prune -exec rm -rf {} +
    du -sh "$device"
}

# The exit status of pytest, after its output.
test_file() {
    name=$1
    shift
    folder=$(mktemp -d)
    status=0
    ACLMEM_RUNTIME_DIR=$folder timeout "${LIMIT:-3600}" \
        python3 -m pytest -q -ra -p no:cacheprovider --tb=short "$name" "$@" >"$folder/log" 2>&1 || status=$?
    # In one piece: other files are tested at the same time.
    { echo "== $name: exit status $status"; cat "$folder/log"; } >"$folder/all"
    cat "$folder/all"
    rm -rf "$folder"
    return "$status"
}

run() {
    files=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        files="$files $1"
        shift
    done
    [ $# -eq 0 ] || shift
    chmod +x "$site"/aclmem/bin/* # zip files lose it
    if ! ACLMEM_LIB=$site/aclmem/lib64 "$root/scripts/build_torch.sh" "$device" >"$device/build.log" 2>&1; then
        cat "$device/build.log" >&2
        exit 1
    fi
    # The package beside the one of the wheel, where _C finds the library.
    cp -r "$device/python/aclmem/npu" "$site/aclmem/"
    cd "$root/npu/test"
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" NPU_TEST_COMMAND="$site/aclmem/bin/aclmem" PYTHONDONTWRITEBYTECODE=1
    running=
    for file in ${files:-test_*.py}; do
        test_file "$file" "$@" &
        running="$running $!"
    done
    failed=0
    for process in $running; do
        wait "$process" || failed=1
    done
    return "$failed"
}

case ${1:-} in
pack) pack ;;
run)
    shift
    run "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2
    exit 2
    ;;
esac
