#!/bin/sh
# Runs a command with its output in a file:  scripts/quietly.sh FILE COMMAND...
# Of that output only warnings are shown, and all but the steps that went well where it fails.
file=$1
shift
"$@" >"$file" 2>&1
status=$?
if [ "$status" -ne 0 ]; then
    grep -v '^\[[0-9]*/[0-9]*\] ' "$file" >&2
else
    grep -A 5 "warning:" "$file" >&2
fi
exit "$status"
