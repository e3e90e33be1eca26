#!/usr/bin/env bash
# Fuzzes every target, or those that are named, each for its share of the seconds:
#
#   ./fuzz.sh SECONDS [TARGET...]
#
# Coverage-guided by cargo-fuzz on the toolchain that is there, stable too; where that cannot be built,
# the same checks run over mutations of the kept corpus, and the output says so. For each target it
# prints the inputs tried, the coverage, the corpus and the crashes. What fails is kept under
# fuzz/artifacts and named, and the exit code is then 1. What is found on the way stays in fuzz/target
# and is where the next run begins.
set -euo pipefail
cd "$(dirname "$0")"

CARGO_FUZZ_VERSION=0.13.2
ALL=(lines lossless loader chunk_rows model paths)

usage() {
    echo "usage: ./fuzz.sh SECONDS [TARGET...], of: ${ALL[*]}" >&2
    exit 2
}
[[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || usage
seconds=$1
shift
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=("${ALL[@]}")
for target in "${targets[@]}"; do
    [[ " ${ALL[*]} " == *" $target "* ]] || usage
done
share=$((seconds / ${#targets[@]}))
[ "$share" -gt 0 ] || share=1
failed=0

# Why there is no guidance by coverage; empty if there is.
unguided=
if [ -n "${SESSIOND_FUZZ_UNGUIDED:-}" ]; then
    unguided="asked for by SESSIOND_FUZZ_UNGUIDED"
elif ! cargo fuzz --version >/dev/null 2>&1 &&
    ! cargo install cargo-fuzz --locked --version "$CARGO_FUZZ_VERSION" >&2; then
    unguided="cargo-fuzz could not be installed"
fi
if [ -z "$unguided" ]; then
    # The flags of coverage are a nightly's; this variable has a stable compiler take them.
    export RUSTC_BOOTSTRAP=1
    for target in "${targets[@]}"; do
        if ! cargo fuzz build -O -s none "$target" >&2; then
            unguided="the fuzzer could not be built"
            break
        fi
    done
fi

kept_of() { find "fuzz/artifacts/$1" -type f 2>/dev/null | sort || true; }

guided() {
    local target=$1 found="fuzz/target/found/$1" log="fuzz/target/$1.log" words=() host
    host=$(rustc -vV | sed -n 's/^host: //p')
    mkdir -p "$found" "fuzz/artifacts/$target"
    case "$target" in model | paths) ;; *) words=(-dict=fuzz/words.dict) ;; esac
    local code=0
    "fuzz/target/$host/release/$target" "$found" "fuzz/corpus/$target" \
        -max_total_time="$share" -max_len="$(longest "$target")" "${words[@]}" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" >"$log" 2>&1 || code=$?
    local tried state crashes=0
    tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    state=$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+/[0-9]+[A-Za-z]*' "$log" | tail -n 1 || true)
    if [ "$code" -ne 0 ]; then
        crashes=1
        failed=1
        tail -n 40 "$log" >&2
    fi
    # shellcheck disable=SC2086
    set -- $state
    echo "$target: ${tried:-?} inputs tried, ${2:-?} edges and ${4:-?} features covered, corpus of ${6:-?} bytes, $crashes crashes"
}

# Longer inputs are slower and find nothing that shorter ones do not.
longest() {
    case "$1" in
    model) echo 400 ;;
    paths) echo 700 ;;
    *) echo 3000 ;;
    esac
}

unguided() {
    local target=$1 log="target/fuzz-$1.log" code=0
    mkdir -p target
    SESSIOND_FUZZ_SECONDS=$share SESSIOND_FUZZ_SEED=$(date +%s) \
        cargo test --test fuzz -- --exact "corpus::$target" --nocapture >"$log" 2>&1 || code=$?
    if [ "$code" -ne 0 ]; then
        failed=1
        tail -n 40 "$log" >&2
        echo "$target: 1 crash; coverage not measured"
    else
        grep "^$target: " "$log" | sed 's/$/; coverage not measured/'
    fi
}

if [ -n "$unguided" ]; then
    echo "no guidance by coverage ($unguided): mutations of the kept corpus instead"
    cargo test --test fuzz --no-run >&2
fi
for target in "${targets[@]}"; do
    before=$(kept_of "$target")
    if [ -n "$unguided" ]; then unguided "$target"; else guided "$target"; fi
    comm -13 <(echo "$before") <(kept_of "$target") | sed "s/^/$target: fails on /"
done
exit "$failed"
