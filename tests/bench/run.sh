#!/usr/bin/env bash
#
# run.sh - one benchmark, on servers of its own. Progress goes to stderr; the last
# line of stdout is one JSON object.

set -euo pipefail

usage() {
	cat <<'USAGE'
usage: run.sh NAME [ARGS]

  relay [OPTIONS] [ROWS]      relmq-publisher beside a bare confirmed publisher (100000)
    --none                    also without an order
    --hot-key                 also a tenth of the rows, all of one key
    --relays N                also N relays together
    --baseline                also the row-at-a-time design
  consumer [MESSAGES]         relmq-consumer beside a bare manual-ack consumer (100000)
  latency [RATE [SECONDS]]    from commit to effect (500 messages/s for 20 s)
    --confirm                 from commit to the broker's confirm instead
  idle [SECONDS]              relmq-publisher with nothing to do (20 s)
  backlog [ROWS]              is the end of a large outbox sent as fast as its start (10000000)
  crowd [PERCENT]             rows that are not to be sent, in the way of those that are
                              (of 2 million SENT, 1 million scheduled, 400,000 held; 100 %)

Environment:
  RELMQ_BUILD_DIR   folder with the programs (default build/release)
  RELMQ_STACK_DIR   folder for the servers, wiped before and after (default .stack/bench)
USAGE
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
stack=$root/tests/support/stack.sh
dir=${RELMQ_STACK_DIR:-$root/.stack/bench}
bench=

# Nothing is left running, however this ends; a second signal does not stop it.
clean_up() {
	trap '' INT TERM
	if [[ -n $bench ]]; then
		kill "$bench" 2>/dev/null || true
		wait "$bench" 2>/dev/null || true
	fi
	"$stack" wipe "$dir" >&2
}

main() {
	local name=${1:-} program
	case $name in
	relay | consumer | latency | idle | backlog | crowd) ;;
	-h | --help | help)
		usage
		return 0
		;;
	*)
		usage >&2
		return 2
		;;
	esac
	shift
	RELMQ_BUILD_DIR=$(cd -- "${RELMQ_BUILD_DIR:-$root/build/release}" && pwd)
	export RELMQ_BUILD_DIR
	program=$RELMQ_BUILD_DIR/tests/bench/bench-$name
	if [[ ! -x $program ]]; then
		printf 'bench: %s is not there: ./dev build release\n' "$program" >&2
		return 1
	fi

	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	"$stack" wipe "$dir" >&2
	"$stack" up "$dir" >&2
	"$root/tests/support/with-stack.sh" "$dir" "$program" "$@" &
	bench=$!
	wait "$bench"
	bench=
}

main "$@"
