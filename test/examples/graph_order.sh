#!/bin/sh
# aclmem run reports the missing order of examples/graph_order, and nothing of the program that was put right.
# Its arguments are aclmem and graph_order as built.
"$1" run "$2"
status=$?
[ $status = 99 ] || { echo "the mistake is not found: exit code $status"; exit 1; }
"$1" run "$2" --fixed
