#!/bin/bash
# The pair share_a and share_b as two people would run them, in two terminals: without a list, and with
# one, first not listed and then listed.  Its arguments are the two programs as built.
share_a=$1
share_b=$2
failed=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

say() {
    echo "$*"
    failed=1
}

# start NAME program...: its lines come from descriptor NAME_out, what is written to NAME_in goes to it.
start() {
    local name=$1 in out
    shift
    mkfifo "$folder/$name.in" "$folder/$name.out"
    "$@" <"$folder/$name.in" >"$folder/$name.out" &
    eval "${name}_pid=$!"
    exec {in}>"$folder/$name.in" {out}<"$folder/$name.out"
    eval "${name}_in=$in ${name}_out=$out"
    rm "$folder/$name.in" "$folder/$name.out"
}

# The next line from a descriptor that has these words.
line_with() {
    local line
    while IFS= read -r -t 60 line <&"$1"; do
        case $line in
        *"$2"*)
            echo "$line"
            return 0
            ;;
        esac
    done
    return 1
}

number_of() {
    line_with "$1" "share_b 0x" | sed 's/.*share_b //'
}

start a "$share_a"
number=$(number_of "$a_out")
"$share_b" "$number" </dev/null >/dev/null || say "share_b failed"
echo >&"$a_in"
line_with "$a_out" "hello back from share_b" >/dev/null || say "share_a did not see the answer"
wait "$a_pid" || say "share_a failed"

start a "$share_a" --list
number=$(number_of "$a_out")
error=$("$share_b" "$number" </dev/null 2>&1 >/dev/null) && say "share_b was let in without being listed"
case $error in
*207006*aclrtMemSetPidToShareableHandle*) ;;
*) say "share_b was not told why: $error" ;;
esac
start b "$share_b" "$number"
id=$(line_with "$b_out" "this is process" | sed 's/[^0-9]*\([0-9]*\).*/\1/')
echo "$id" >&"$a_in"
line_with "$a_out" "process $id may" >/dev/null || say "share_a did not list process $id"
echo >&"$b_in"
line_with "$b_out" "hello from share_a" >/dev/null || say "share_b did not see what share_a wrote"
wait "$b_pid" || say "share_b failed though it was listed"
echo >&"$a_in"
line_with "$a_out" "hello back from share_b" >/dev/null || say "share_a did not see the answer with a list"
wait "$a_pid" || say "share_a failed with a list"
exit $failed
