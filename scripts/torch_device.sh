#!/bin/sh
# Tests the PyTorch device npu on a machine that has PyTorch, pytest and a C++ compiler, and no network:
#
#     scripts/torch_device.sh pack                     here: makes build/torch-device, after `make wheel`; expecttest is taken
#                                                      from MODULES, a folder (default: where python3 has it)
#     scripts/torch_device.sh run [PYTEST-OPTIONS]     there: builds the extension for the PyTorch of python3, and tests it,
#                                                      each file of npu/test in a process
#
# The tree and build/torch-device travel to the machine; nothing of build/ else does.  ACLMEM_BACKEND=cuda makes device
# memory of the GPU's.  `run` compiles what changed; what compilers say is in build/torch-device/build.log.
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

run() {
    chmod +x "$site"/aclmem/bin/* # zip files lose it
    if ! ACLMEM_LIB=$site/aclmem/lib64 "$root/scripts/build_torch.sh" "$device" >"$device/build.log" 2>&1; then
        cat "$device/build.log" >&2
        exit 1
    fi
    # The package beside the one of the wheel, where _C finds the library.
    cp -r "$device/python/aclmem/npu" "$site/aclmem/"
    cd "$root/npu/test"
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" NPU_TEST_COMMAND="$site/aclmem/bin/aclmem" PYTHONDONTWRITEBYTECODE=1
    failed=0
    for file in test_*.py; do
        echo "== $file"
        python3 -m pytest -q -ra -p no:cacheprovider --tb=short "$file" "$@" || failed=1
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
