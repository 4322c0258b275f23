# shellcheck shell=bash
#
# common.sh - what apply.sh and verify.sh share: options, how rabbitmqctl is
# called, and how a policy file becomes a policy. Sourced, never run.

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
me=$(basename -- "$0")
vhost=/
node=
dry_run=
queues=()

# Exit 2: the answer is not known (bad usage, no broker); 1 is verify's "differs".
die() {
	printf '%s: %s\n' "$me" "$*" >&2
	exit 2
}

parse_options() {
	while (($# > 0)); do
		case $1 in
		--vhost | --node)
			(($# > 1)) || die "$1 needs a value"
			if [[ $1 == --vhost ]]; then vhost=$2; else node=$2; fi
			shift
			;;
		--vhost=*) vhost=${1#*=} ;;
		--node=*) node=${1#*=} ;;
		--dry-run) dry_run=1 ;;
		-h | --help)
			usage
			exit 0
			;;
		--)
			shift
			queues+=("$@")
			break
			;;
		-*) die "unknown option $1 (see --help)" ;;
		*) queues+=("$1") ;;
		esac
		shift
	done
	((${#queues[@]} > 0)) || {
		usage >&2
		exit 2
	}
	local queue
	for queue in "${queues[@]}"; do
		[[ -n $queue ]] || die "a queue's name is empty"
		# 255 bytes is AMQP's limit for a name; the tiers and the parking queue add to it.
		(($(printf '%s' "$queue" | wc -c) <= 240)) || die "queue name too long: $queue"
	done
	command -v jq >/dev/null || die "jq is needed (apt-get install jq)"
}

# The command that reaches rabbitmqctl, as words.
#
# Debian's /usr/sbin/rabbitmqctl passes root's arguments through a second shell
# with only double quotes escaped, which expands $ and ` and eats backslashes in
# a policy. The server's own script below /usr/lib gets them as they are; root
# runs it as the user whose Erlang cookie opens the node.
find_ctl() {
	local own=/usr/lib/rabbitmq/bin/rabbitmqctl home=/var/lib/rabbitmq
	if [[ -n ${RABBITMQCTL:-} ]]; then
		read -r -a ctl <<<"$RABBITMQCTL"
	elif [[ -x $own ]]; then
		ctl=("$own")
		if ((EUID == 0)) && [[ -f $home/.erlang.cookie ]] && id rabbitmq >/dev/null 2>&1; then
			ctl=(runuser -u rabbitmq -- env "HOME=$home" "$own")
		fi
	else
		ctl=(rabbitmqctl)
	fi
	command -v "${ctl[0]}" >/dev/null || die "${ctl[0]} not found: put rabbitmqctl in PATH, or name it in RABBITMQCTL"
	if [[ -n $node ]]; then
		ctl+=(-n "$node")
	fi
}

# Run rabbitmqctl. Its output is left in $answer; a failure ends the script with
# one line that holds the line in which rabbitmqctl says why.
ask() {
	local code=0 why
	answer=$("${ctl[@]}" -q -t 60 "$@" 2>"$tmp/stderr" </dev/null) || code=$?
	((code != 0)) || return 0
	why=$(grep -m 1 -iE 'unable to|error|does not exist|not found|refused|denied' "$tmp/stderr" || head -n 1 "$tmp/stderr")
	case $code in
	69 | 75 | 126 | 127) die "RabbitMQ${node:+ node $node} cannot be reached (exit $code): ${why:-no reason given}" ;;
	*) die "rabbitmqctl $1 failed (exit $code): ${why:-no reason given}" ;;
	esac
}

connect() {
	tmp=$(mktemp -d)
	trap 'rm -rf -- "$tmp"' EXIT
	find_ctl
	ask status --formatter json
	version=$(jq -r '.rabbitmq_version // empty' <<<"$answer") || true
	[[ -n $version ]] || die "rabbitmqctl status does not name the server's version"
}

# One policy for one queue and this server's version, as one JSON object:
#   name, pattern, apply_to, definition, arguments, and forbidden (keys that must
#   not be in force). A key with "since" is dropped on an older server, and must
#   then not be in force at all.
policy() { # FILE QUEUE
	jq -c --arg queue "$2" --arg version "$version" '
		def number: split(".")[0:2] | map(gsub("[^0-9].*$"; "") | tonumber) | .[0] * 1000 + .[1];
		def fill($from; $to): split($from) | join($to);
		def literal: gsub("(?<c>[\\\\.^$|?*+()\\[\\]{}])"; "\\\(.c)");
		($version | number) as $have
		| def here: .since == null or (.since | number) <= $have;
		walk(if type == "string" then fill("@QUEUE_RE@"; $queue | literal) | fill("@QUEUE@"; $queue) else . end)
		| {
			name, pattern,
			apply_to: (if $have >= ("3.12" | number) then "quorum_queues" else "queues" end),
			definition: (.definition | map_values(select(here) | .value)),
			arguments: (.arguments | map_values(.value)),
			forbidden: ((.forbidden | keys) + (.definition | to_entries | map(select(.value | here | not) | .key)))
		}' "$here/$1.json" || die "$here/$1.json is not a policy file"
}
