#!/usr/bin/env bash
#
# verify.sh - read back what is in force for work queues, their retry tiers and
# their parking queues, and name what differs from relmq's policies. It looks at
# the queues, not at whether apply.sh was run: a foreign policy that hides ours, an
# operator policy and an argument given at declaration all count.

set -euo pipefail

usage() {
	cat <<'USAGE'
usage: verify.sh [--vhost V] [--node N] QUEUE...

Checks each work queue QUEUE with its QUEUE.retry.* and QUEUE.parked: that it is
a quorum queue, which policy applies, and each key of the policy and arguments.

  --vhost V    virtual host (default /)
  --node N     Erlang node, as in rabbitmqctl -n

RABBITMQCTL names the command to use in place of rabbitmqctl.
Exit status: 0 all as it should be, 1 something differs (one line each), 2 not known.
USAGE
}

# shellcheck source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

main() {
	local queue specs differences
	parse_options "$@"
	[[ -z $dry_run ]] || die "unknown option --dry-run (see --help)"
	connect
	collect

	differences=$(
		flags_that_differ
		for queue in "${queues[@]}"; do
			specs=$(policy work "$queue")$(policy tier "$queue")$(policy parked "$queue")
			queues_that_differ "$queue" "$specs"
		done
	)
	if [[ -n $differences ]]; then
		printf '%s\n' "$differences"
		exit 1
	fi
	for queue in "${queues[@]}"; do
		printf 'OK: %s with %s tiers and parking\n' "$queue" "$(tiers_of "$queue" | wc -l)"
	done
}

# Only servers of this age can say what is in force after operator policies were
# merged in; for older ones queues_that_differ works it out.
collect() {
	local columns=(name type policy arguments)
	if ((${version%%.*} >= 4)); then
		columns+=(effective_policy_definition)
	fi
	ask list_queues -p "$vhost" "${columns[@]}" --formatter json
	printf '%s' "${answer:-[]}" >"$tmp/queues"
	ask list_policies -p "$vhost" --formatter json
	printf '%s' "${answer:-[]}" >"$tmp/policies"
	ask list_operator_policies -p "$vhost" --formatter json
	printf '%s' "${answer:-[]}" >"$tmp/operator_policies"
	if ((${version%%.*} < 4)); then
		ask list_feature_flags name state --formatter json
		printf '%s' "${answer:-[]}" >"$tmp/flags"
	fi
}

# Where this flag is off (a node upgraded from 3.8) the broker accepts the policy
# and dead-letters at most once all the same.
flags_that_differ() {
	[[ -f $tmp/flags ]] || return 0
	jq -r '.[] | select(.name == "stream_queue" and (.state | tostring) != "enabled")
		| "broker: feature flag stream_queue: \(.state), must be enabled for dead-letter-strategy at-least-once"' "$tmp/flags"
}

tiers_of() { # QUEUE
	jq -r --arg prefix "$1.retry." '.[].name | select(startswith($prefix) and (.[($prefix | length):] | test("^[0-9]+(ms|s|m|h|d)$")))' "$tmp/queues"
}

# One line for each difference of one work queue, its tiers and its parking queue.
# SPECS are the three policies as common.sh's policy makes them.
queues_that_differ() { # QUEUE SPECS
	jq -n -r --arg queue "$1" --argjson specs "$(jq -s . <<<"$2")" \
		--slurpfile queues "$tmp/queues" --slurpfile policies "$tmp/policies" \
		--slurpfile operators "$tmp/operator_policies" --rawfile tiers <(tiers_of "$1") '

		# rabbitmqctl 3.x prints arguments as triples of name, type and value.
		def arguments: .arguments // [] | if type == "array" then map({key: .[0], value: .[2]}) | from_entries else . end;
		def definition: if type == "string" then fromjson else . // {} end;

		# The server merges an operator policy in: of two numbers the lower counts.
		def merged($policy; $operator):
			reduce ($operator | to_entries[]) as $o ($policy;
				.[$o.key] |= (if . == null or (type == "number" and $o.value < .) then $o.value else . end));
		def operator_definition($name):
			[$operators[0][] | . as $o | select(."apply-to" | IN("all", "queues", "quorum_queues"))
				| select($name | test($o.pattern))] | max_by(.priority) | .definition | definition;
		def in_force($policy):
			if has("effective_policy_definition") then
				.effective_policy_definition | definition
				| if type == "array" then map({key: .[0], value: (.[2] // .[1])}) | from_entries else . end
			else
				merged(($policy.definition | definition); operator_definition(.name))
			end;

		# The delay that the name of a tier states.
		def delay_ms: capture("\\.retry\\.(?<n>[0-9]+)(?<unit>ms|s|m|h|d)$")
			| (.n | tonumber) * {ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000}[.unit];

		def differs($spec):
			.name as $name
			| (.policy // "") as $applied
			| ([$policies[0][] | select(.name == $applied)][0]) as $policy
			| in_force($policy) as $force
			| arguments as $arguments
			| (if .type != "quorum" then "type: \(.type), must be quorum (declare the queue anew)" else empty end),
			(if $applied == "" then
				"policy: none applies, must be \($spec.name | tojson)"
			elif $applied != $spec.name then
				"policy: \($applied | tojson) (priority \($policy.priority)) applies and hides \($spec.name | tojson)"
			else empty end),
			($spec.definition | to_entries[] | . as {$key, $value}
				| if $force[$key] != $value then
					"\($key): \(if $force | has($key) then $force[$key] | tojson else "not set" end), must be \($value | tojson)"
				elif ($arguments | has("x-" + $key)) and $arguments["x-" + $key] != $value then
					"\($key): argument x-\($key) is \($arguments["x-" + $key] | tojson) and may override the policy, must be \($value | tojson) or not given"
				else empty end),
			($spec.arguments | to_entries[] | . as {$key, $value}
				| (if $value == "@DELAY_MS@" then $name | delay_ms else $value end) as $value
				| select($arguments[$key] != $value)
				| "\($key): \(if $arguments | has($key) then $arguments[$key] | tojson else "not given" end), must be \($value | tojson) (an argument: declare the queue anew)"),
			($spec.forbidden[] as $key
				| (if $force | has($key) then "\($key): \($force[$key] | tojson) by policy, must not be set" else empty end),
				(if $arguments | has("x-" + $key) then "\($key): argument x-\($key) is \($arguments["x-" + $key] | tojson), must not be given" else empty end))
			| "\($name): \(.)";

		($tiers | split("\n")) as $tiers
		| (($queue, $queue + ".parked") as $needed
			| if any($queues[0][]; .name == $needed) then empty
				else "\($needed): queue: missing (relmq-dlx declares it)" end),
		($queues[0][]
			| if .name == $queue then differs($specs[0])
				elif IN(.name; $tiers[]) then differs($specs[1])
				elif .name == $queue + ".parked" then differs($specs[2])
				else empty end)
	' || die "rabbitmqctl's answer could not be read"
}

main "$@"
