#!/bin/sh
# Makes the Debian packages of this tree:  scripts/deb.sh FOLDER
#
# The sources are copied to FOLDER first, so that nothing is written beside them.  The output of the tools is in
# FOLDER/build.log and FOLDER/lintian.log; an error of lintian is an error here.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

for tool in dpkg-buildpackage dh lintian; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing; scripts/setup.sh deb installs what is needed, on Debian and Ubuntu" >&2
        exit 1
    }
done

rm -rf "$folder"/*
archive=$(python3 -B python/backend.py "$folder")
tar -C "$folder" -xzf "$archive"
rm "$archive"
cd "$folder"/aclmem-*
dpkg-buildpackage -b -us -uc >"$folder/build.log" 2>&1 || {
    tail -n 40 "$folder/build.log" | cut -c 1-300 >&2
    exit 1
}
cd ..
rm -rf aclmem-*/
lintian --fail-on error ./*.changes >lintian.log 2>&1 || {
    cat lintian.log >&2
    exit 1
}
ls "$folder"/*.deb
