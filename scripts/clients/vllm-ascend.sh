#!/bin/sh
# Builds the allocator as the Python module that it is, and lets it sleep and wake.  CLIENT: its checkout.
set -eu
python=${PYTHON:-python3}
"$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || {
    echo "vllm-ascend: the headers of $python are missing (Debian's package: python3-dev)" >&2
    exit 1
}
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
c++ -std=c++17 -g -shared -fPIC -I"$ASCEND_HOME_PATH/include" -I"$include" "$CLIENT/csrc/camem_allocator.cpp" \
    -o "$CLIENT/vllm_ascend_C.so" -L"$ASCEND_HOME_PATH/lib64" -lascendcl
PYTHONPATH=$CLIENT:${PYTHONPATH-} aclmem run "$python" "$(dirname "$0")/vllm-ascend.py" "$CLIENT/vllm_ascend_C.so"
