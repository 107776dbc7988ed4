#!/bin/sh
# Configures, builds and tests each of the presets given: the tests that CMakePresets.json does not leave to
# other builds.  While a preset is tested the next ones are built, with what its tests leave of the processors.
# It says what each build and its tests took, where it stands every minute, what went wrong, and ends with one
# line: how many tests passed, failed and were skipped in all of them; a preset that is skipped counts as one.
# CHECK_MINUTES is the limit of the whole check (default: 60): tests that run then are ended, and no other is started.
set -u
cd "$(dirname "$0")/.." || exit 1

passed=0
failed=0
skipped=0
jobs=$(nproc)
begun=$(date +%s)
deadline=$((begun + ${CHECK_MINUTES:-60} * 60))
tester=
helper=

# Since the start, as 3:07.
clock() {
    seconds=$(($(date +%s) - begun))
    printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

folder() {
    if [ "$1" = release ]; then echo build; else echo "build/$1"; fi
}

# Why a preset cannot be built on this machine; nothing where it can.
lacks() {
    case $1 in
    aarch64*)
        for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
            command -v "$tool" >/dev/null || echo "$tool is not installed"
        done
        [ -e build/aarch64-sysroot/made_by ] || echo "Debian's libraries for aarch64 are not in build/aarch64-sysroot"
        ;;
    esac
}

# All that is installed, and what the tests use; of the part for another processor only the latter.
targets() {
    case $1 in
    *-part) echo checks ;;
    *) echo all checks ;;
    esac
}

# number of lines of the log with this status; ctest writes " 3/40 Test  #3: unit.lock ....   Passed"
count() {
    grep -c "^ *[0-9]*/[0-9]* Test *#[0-9]*: .*$1" "$log"
}

# How far the steps or tests in the log are: "120/407".
progress() {
    sed -n 's/^\[\([0-9]*\/[0-9]*\)\] .*/\1/p; s/^ *\([0-9]*\/[0-9]*\) Test .*/\1/p' "$log" | tail -n 1
}

# The tests in the log that have begun and not ended, the first to begin first: ", running unit.lock api.map".
running() {
    sed -n 's/^ *Start *\([0-9]*\): \([^ ]*\)$/+ \1 \2/p; s/^ *[0-9]*\/[0-9]* Test *#\([0-9]*\): .*/- \1/p' "$log" |
        awk '$1 == "+" { name[$2] = $3; order[++n] = $2 }
            $1 == "-" { delete name[$2] }
            END { for (i = 1; i <= n; i++) if (order[i] in name) list = list " " name[order[i]]
                  if (list != "") print ", running" list }'
}

# run WHAT command...: with its output added to the log, and a line every minute.
run() {
    what=$1
    shift
    "$@" >>"$log" 2>&1 &
    tester=$!
    ticks=0
    while kill -0 "$tester" 2>/dev/null; do
        sleep 1
        ticks=$((ticks + 1))
        [ $((ticks % 60)) -ne 0 ] || echo "$(clock) $preset: $what, $(progress)$(running)"
    done
    wait "$tester"
    status=$?
    tester=
    return "$status"
}

complain() {
    grep -v -e '^\[[0-9]*/[0-9]*\] ' -e '^-- ' "$log" # all but the steps that went well
    echo "$(clock) $preset: $1"
    failed=$((failed + 1))
}

# ---- building ahead ----

# The builds of the presets given, as far as they come until they are stopped; a failure is left to the turn of its
# preset, which builds what is still missing.
build_ahead() {
    ninja=
    trap '[ -z "$ninja" ] || { kill "$ninja"; wait "$ninja"; }; exit' TERM
    for preset in "$@"; do
        [ -e "$(folder "$preset")/build.ninja" ] || continue
        # shellcheck disable=SC2046 # the targets are words
        nice -n 19 ninja -C "$(folder "$preset")" -j "$jobs" $(targets "$preset") >>"$(folder "$preset")/build.log" 2>&1 &
        ninja=$!
        wait "$ninja"
    done
}

stop_ahead() {
    [ -n "$helper" ] || return 0
    kill "$helper" 2>/dev/null
    wait "$helper" 2>/dev/null
    helper=
}

# ---- one preset ----

check() {
    build=$(folder "$preset")
    why=$(lacks "$preset" | head -n 1)
    if [ -n "$why" ]; then
        echo "$(clock) $preset: skipped: $why"
        skipped=$((skipped + 1))
        return
    fi
    log=$build/build.log
    [ -e "$build/build.ninja" ] || {
        complain "could not be configured"
        return
    }
    # shellcheck disable=SC2046 # the targets are words
    run building ninja -C "$build" $(targets "$preset") || {
        complain "could not be built"
        return
    }
    grep -A 5 "warning:" "$log"
    echo "$(clock) $preset: built"
    [ "$preset" != clang ] || return

    log=$build/check.log
    : >"$log"
    [ "$(date +%s)" -lt "$deadline" ] || {
        complain "not tested: the check has taken ${CHECK_MINUTES:-60} minutes"
        return
    }
    build_ahead "$@" &
    helper=$!
    # Some tests only wait, so there is one more than there are processors.
    run testing ctest --test-dir "$build" --output-on-failure --no-label-summary --no-tests=error \
        -L '^checked$' -j "$((jobs + 1))" --stop-time "$(date -d "@$deadline" +%T)"
    status=$?
    stop_ahead
    good=$(count "   Passed ")
    skips=$(count "\*\*\*Skipped ")
    bad=$(($(count "") - good - skips))
    [ "$status" -eq 0 ] || [ "$bad" -ne 0 ] || bad=1
    [ "$bad" -eq 0 ] || grep -v -e "^ *Start *[0-9]*: " -e "^ *[0-9]*/[0-9]* Test .* Passed " "$log"
    passed=$((passed + good))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
    # Single tests of programs that passed, which say why they cannot run (test/support/left_out.def).
    left=$(grep -ah "^left out: " "$build/Testing/Temporary/LastTest.log")
    [ -z "$left" ] || {
        echo "$left"
        left=", $(echo "$left" | wc -l) single tests left out"
    }
    echo "$(clock) $preset: $good passed, $bad failed, $skips skipped$left"
}

trap 'kill $tester $helper 2>/dev/null' EXIT
trap 'exit 130' INT TERM
for preset in "$@"; do
    build=$(folder "$preset")
    mkdir -p "$build"
    [ -z "$(lacks "$preset")" ] || continue
    cmake --preset "$preset" -DACLMEM_TESTS=ON >"$build/build.log" 2>&1 || rm -f "$build/build.ninja"
done
while [ $# -gt 0 ]; do
    preset=$1
    shift
    check "$@"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
