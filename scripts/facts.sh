#!/bin/sh
# Writes what this build answers, for each product and rule set, into a folder:  scripts/facts.sh BIN FOLDER
set -eu
bin=$1
folder=$2
root=$(cd "$(dirname "$0")/.." && pwd)
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
mkdir -p "$folder"
for product in $(sed -n 's/^AM_PRODUCT("\([^"]*\)".*/\1/p' "$root/src/core/device/products.def"); do
    for rules in default strict; do
        ACLMEM_RUNTIME_DIR=$run ACLMEM_PRODUCT=$product ACLMEM_RULES=$rules ACLMEM_MEMORY=1G ACLMEM_DEVICES=2 \
            "$bin/aclmem_facts" --limit 300 >"$folder/$product-$rules.txt"
    done
done
