#!/usr/bin/env bash
#
# apply.sh - set relmq's policies for work queues, their retry tiers and their
# parking queues. Safe to run again: what is in place is left alone.

set -euo pipefail

usage() {
	cat <<'USAGE'
usage: apply.sh [--vhost V] [--node N] [--dry-run] QUEUE...

Sets three policies for each work queue QUEUE: one for QUEUE, one for
QUEUE.retry.*, one for QUEUE.parked. The queues need not exist yet.

  --vhost V    virtual host (default /)
  --node N     Erlang node, as in rabbitmqctl -n
  --dry-run    print what would be set; change nothing

RABBITMQCTL names the command to use in place of rabbitmqctl.
Exit status: 0 done, 2 not done.
USAGE
}

# shellcheck source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# Above the priority that policies usually get, and below 1000: an operator can
# still put one on top, and verify.sh then names it.
priority=100

main() {
	local queue kind wanted name there args
	parse_options "$@"
	connect
	ask list_policies -p "$vhost" --formatter json
	there=${answer:-[]}

	for queue in "${queues[@]}"; do
		for kind in work tier parked; do
			wanted=$(policy "$kind" "$queue")
			name=$(jq -r .name <<<"$wanted")
			if in_place "$wanted" "$there"; then
				printf '%s: unchanged\n' "$name"
				continue
			fi
			args=(set_policy -p "$vhost" --priority "$priority" --apply-to "$(jq -r .apply_to <<<"$wanted")"
				-- "$name" "$(jq -r .pattern <<<"$wanted")" "$(jq -c .definition <<<"$wanted")")
			if [[ -n $dry_run ]]; then
				printf "%s: would run: rabbitmqctl %s\n" "$name" "${args[*]@Q}"
				continue
			fi
			ask "${args[@]}"
			printf '%s: set\n' "$name"
		done
	done
}

# list_policies gives the definition as a string of JSON (3.x, 4.x) or an object.
in_place() { # WANTED POLICIES
	jq -e --argjson wanted "$1" --argjson priority "$priority" '
		any(.[]; .name == $wanted.name and .pattern == $wanted.pattern
			and ."apply-to" == $wanted.apply_to and .priority == $priority
			and (.definition | if type == "string" then fromjson else . end) == $wanted.definition)
	' <<<"$2" >/dev/null
}

main "$@"
