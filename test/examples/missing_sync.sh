#!/bin/sh
# A missing synchronisation works without chaos, is found by some seeds, always by the same ones, and is
# gone from the program that was put right.  Its argument is examples/missing_sync as built.
program=$1
failed=0

say() {
    echo "$*"
    failed=1
}

# The seeds, of the first 20, that the program does not survive.
losing_seeds() {
    for seed in $(seq 0 19); do
        ACLMEM_CHAOS=$seed "$program" "$@" >/dev/null || printf '%s ' "$seed"
    done
}

unset ACLMEM_CHAOS
for i in 1 2 3; do
    "$program" >/dev/null || say "without chaos it failed"
done

first=$(losing_seeds)
again=$(losing_seeds)
[ -n "$first" ] || say "no seed finds what is missing"
[ "$first" = "$again" ] || say "seeds $first found it, and later seeds $again"
case " $first" in
*" 1 "*) ;;
*) say "seed 1, which the example names, does not find it; these do: $first" ;;
esac

fixed=$(losing_seeds --fixed)
[ -z "$fixed" ] || say "seeds $fixed break the program that was put right"
exit $failed
