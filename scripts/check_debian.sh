#!/bin/sh
# Runs README's two commands on bare Debian systems, as a stranger does:
#
#     scripts/check_debian.sh [--keep] [VERSION...] [-- COMMAND...]
#
#     VERSION     12, 13 or sid (default: 12 and 13)
#     COMMAND     the shell command to run in the tree (default: make run && make check)
#     --keep      use the system and the build folder of the last run with --keep again, and keep them; otherwise
#                 each run begins with a bare system, and removes it at the end
#
# The systems are in build/systems.  The whole output is in build/systems/VERSION.log; the lines of the check and its
# result are printed.  The exit status is 1 if a command failed in one of the systems.
#
# All of it runs in a mount and a process namespace of its own: if this script ends, for whatever reason, the kernel
# ends the processes in the system and removes its mounts.
set -u
root=$(realpath "$(dirname "$0")/..")
systems=$root/build/systems
. "$root/scripts/debian_system.sh"

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" | sed '/^The systems/,$d' >&2
    exit 2
}

suite_of() {
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    sid) echo sid ;;
    esac
}

# tree_copy FOLDER: the files of this working tree; the build folder there is kept.  All files are new, because a file that
# changed before the last build would be older than its object.
tree_copy() {
    mkdir -p "$1"
    find "$1" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    tar -c -C "$root" --exclude=./build --exclude=./.git . | tar -x -m --no-same-owner -C "$1"
}

# inside VERSION SYSTEM COMMAND: as process 1 of the namespaces.
inside() {
    set -e
    system_mount "$(suite_of "$1")" "$2"
    if [ ! -e "$2/usr/bin/make" ]; then # the one tool that README takes for granted
        system_run "$2" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends make >/dev/null'
    fi
    system_run "$2" sh -c "cd /root/aclmem && $3"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
    exit
fi

keep=
versions=
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=yes ;;
    12 | 13 | sid) versions="$versions $1" ;;
    --)
        shift
        break
        ;;
    *) usage ;;
    esac
    shift
done
command=${*:-make run && make check}
why=$(system_lacks)
[ -z "$why" ] || { echo "$0: $why" >&2; exit 1; }

runner=
system=
finish() {
    [ -z "$runner" ] || { kill -KILL "$runner" 2>/dev/null; wait "$runner" 2>/dev/null; }
    [ -n "$keep" ] || [ -z "$system" ] || rm -rf --one-file-system "$system"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

failed=0
for version in ${versions:-12 13}; do
    suite=$(suite_of "$version")
    system=$systems/$suite.check
    log=$systems/$version.log
    begun=$(date +%s)
    mkdir -p "$systems"
    exec 9>"$systems/$suite.lock"
    flock -n 9 || {
        echo "Debian $version: another check uses build/systems/$suite.check" >&2
        failed=1
        system=
        continue
    }
    system_bootstrap "$suite" || { failed=1; continue; }
    [ -n "$keep" ] && [ -e "$system/usr" ] || system_copy "$suite" "$system" || exit 1
    tree_copy "$system/root/aclmem" || { echo "Debian $version: the tree could not be copied" >&2; exit 1; }
    echo "Debian $version: $command"
    unshare -m -p -f --kill-child "$0" --inside "$version" "$system" "$command" >"$log" 2>&1 </dev/null &
    runner=$!
    tail -n +1 -f --pid="$runner" "$log" &
    wait "$runner"
    status=$?
    runner=
    wait
    result="exit status $status"
    counted=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    [ "$status" -eq 0 ] || failed=1
    minutes=$((($(date +%s) - begun) / 60))
    results="${results:-}Debian $version: ${counted:+$counted; }$result, after $minutes minutes; the output is in ${log#"$root/"}
"
    [ -n "$keep" ] || rm -rf --one-file-system "$system"
    system=
done
printf '%s' "${results:-}"
exit "$failed"
