#!/bin/sh
# Configures, builds and tests each of the presets given: the tests that CMakePresets.json does not leave to
# other builds.  It says what each build and its tests took, where it stands every minute, what went wrong,
# and ends with one line: how many tests passed and failed in all of them.
set -u
cd "$(dirname "$0")/.." || exit 1

passed=0
failed=0
skipped=0
jobs=$(nproc)
begun=$(date +%s)

# Since the start, as 3:07.
clock() {
    seconds=$(($(date +%s) - begun))
    printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# number of lines of the log with this status; ctest writes " 3/40 Test  #3: unit.lock ....   Passed"
count() {
    grep -c "^ *[0-9]*/[0-9]* Test *#[0-9]*: .*$1" "$log"
}

# How far the steps or tests in the log are: "120/407".
progress() {
    sed -n 's/^\[\([0-9]*\/[0-9]*\)\] .*/\1/p; s/^ *\([0-9]*\/[0-9]*\) Test .*/\1/p' "$log" | tail -n 1
}

# run WHAT command...: with its output in the log, and a line every minute.
run() {
    what=$1
    shift
    "$@" >"$log" 2>&1 &
    pid=$!
    trap 'kill "$pid" 2>/dev/null' EXIT
    ticks=0
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        ticks=$((ticks + 1))
        [ $((ticks % 60)) -ne 0 ] || echo "$(clock) $preset: $what, $(progress)"
    done
    wait "$pid"
    status=$?
    trap - EXIT
    return "$status"
}

complain() {
    grep -v '^\[[0-9]*/[0-9]*\] ' "$log" # all but the steps that went well
    echo "$(clock) $preset: $1"
    failed=$((failed + 1))
}

check() {
    preset=$1
    build=build/$preset
    [ "$preset" != release ] || build=build
    mkdir -p "$build"
    log=$build/check.log

    cmake --preset "$preset" -DACLMEM_TESTS=ON >"$log" 2>&1 || {
        complain "could not be configured"
        return
    }
    run building cmake --build "$build" --target all checks || {
        complain "could not be built"
        return
    }
    grep -A 5 "warning:" "$log"
    echo "$(clock) $preset: built"
    [ "$preset" != clang ] || return

    # Some tests only wait, so there is one more than there are processors.
    run testing ctest --test-dir "$build" --output-on-failure --no-label-summary --no-tests=error \
        -L '^checked$' -j "$((jobs + 1))"
    status=$?
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

for preset in "$@"; do
    check "$preset"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
