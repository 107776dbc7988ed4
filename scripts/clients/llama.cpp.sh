#!/bin/sh
# Builds the backend ggml-cann with the program's own CMake, and lists the devices that it finds.  CLIENT: its checkout.
set -eu
cmake -S "$CLIENT" -B "$CLIENT/build" -DGGML_CANN=ON -DCANN_INSTALL_DIR="$ASCEND_HOME_PATH" -DSOC_TYPE=Ascend910B1 \
    -DLLAMA_CURL=OFF -DCMAKE_BUILD_TYPE=Release
cmake --build "$CLIENT/build" --target llama-cli
aclmem run "$CLIENT/build/bin/llama-cli" --list-devices | tee "$CLIENT/devices"
grep -q CANN "$CLIENT/devices"
