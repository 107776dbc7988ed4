#!/bin/sh
# Builds aclmem and installs it for the steps of a CI job that come after this one:  scripts/ci_install.sh FOLDER
#
# On GitHub Actions the following steps find the command, the library and the headers; elsewhere source FOLDER/set_env.sh.
set -eu
folder=$1
cd "$(dirname "$0")/.."
make install PREFIX="$folder"
[ -n "${GITHUB_ENV:-}" ] || exit 0
. "$folder/set_env.sh"
for name in ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_HOME ASCEND_OPP_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH \
    CMAKE_PREFIX_PATH PYTHONPATH; do
    eval "value=\${$name:-}"
    echo "$name=$value" >>"$GITHUB_ENV"
done
echo "$ASCEND_HOME_PATH/bin" >>"$GITHUB_PATH"
