#!/usr/bin/env bash
# A mixed load on one store for SECONDS (default 60): several daemons, SIGKILL at random moments, restarts, failing
# storage, slow readers; after each round every log is held to what its clients were told. Ends with its figures, or
# with a status other than 0 and the seed to repeat it with: `SESSIOND_STORM_SEED=N ./soak.sh SECONDS`.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
case $seconds in
'' | *[!0-9]*)
    echo "usage: $0 [SECONDS]" >&2
    exit 2
    ;;
esac
export SESSIOND_SOAK_SECONDS=$seconds
export SESSIOND_STORM_SEED=${SESSIOND_STORM_SEED:-$(date +%s)}

cargo test --release --locked --test processes --no-run # and the daemon
echo "seed $SESSIOND_STORM_SEED, $seconds s"
# The last round may go on a little; what hangs is a failure, too.
if ! timeout "$((seconds + 300))" cargo test --release --locked --test processes -- --nocapture soak::; then
    echo "broken: repeat it with SESSIOND_STORM_SEED=$SESSIOND_STORM_SEED $0 $seconds" >&2
    exit 1
fi
