#!/usr/bin/env bash
# with-stack.sh DIR COMMAND [ARGS...] - run a command with the variables of the stack in DIR.
set -euo pipefail
dir=$1
shift
set -a
# shellcheck source=/dev/null
. "$dir/env"
set +a
export RELMQ_STACK_DIR=$dir
exec "$@"
