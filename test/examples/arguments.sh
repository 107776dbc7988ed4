#!/bin/sh
# An example that takes arguments does not take others: who misspells share_a's --list is not to share with
# everybody.  Its arguments are missing_sync, share_a and share_b as built.
missing_sync=$1
share_a=$2
share_b=$3
failed=0

# refuses program argument...: it says how it is used, and ends with 2 before it does anything.
refuses() {
    said=$("$@" 2>&1 </dev/null)
    status=$?
    case $status,$said in
    "2,usage: ${1##*/} "*) ;;
    *)
        echo "$*: ended with $status and said $said"
        failed=1
        ;;
    esac
}

refuses "$missing_sync" --fix
refuses "$missing_sync" --fixed --fixed
refuses "$share_a" --lists
refuses "$share_a" --list all
refuses "$share_b"
refuses "$share_b" share_a
refuses "$share_b" 0x1234 0x1234
refuses "$share_b" 1234x
exit $failed
