#!/bin/sh
# Builds the backend ggml-cann with the program's own CMake, and lists the devices that it finds.  CLIENT: its checkout;
# OPERATOR_HEADERS: a folder with aclnnop/, the headers of its operators or stubs of them, which aclmem does not have.
set -eu
stubs=${OPERATOR_HEADERS:-/nonexistent}
missing=$(sed -n 's/^#include *[<"]\(aclnnop\/[^>"]*\)[>"].*/\1/p' "$CLIENT"/ggml/src/ggml-cann/* | sort -u | while read -r header; do
    [ -e "$stubs/$header" ] || echo "$header"
done)
[ -z "$missing" ] || {
    echo "llama.cpp: $(echo "$missing" | wc -l) headers of operators are missing, the first is $(echo "$missing" | head -n 1)." \
        "OPERATOR_HEADERS=FOLDER names a folder that has them, or stubs of them" >&2
    exit 1
}
cmake -S "$CLIENT" -B "$CLIENT/build" -DGGML_CANN=ON -DCANN_INSTALL_DIR="$ASCEND_HOME_PATH" -DSOC_TYPE=Ascend910B1 \
    -DLLAMA_CURL=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-I$stubs"
cmake --build "$CLIENT/build" --target llama-cli
aclmem run "$CLIENT/build/bin/llama-cli" --list-devices | tee "$CLIENT/devices"
grep -q CANN "$CLIENT/devices"
