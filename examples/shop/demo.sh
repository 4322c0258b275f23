#!/usr/bin/env bash
#
# demo.sh - orders become shipments, once each and in order, while everything is killed.
#
# What came out is computed from the tables and queues; no program of ours is asked. Exit
# status: 0 if every order has exactly one shipment, in order, and nothing is left anywhere.
#
# Environment:
#   RELMQ_BUILD_DIR  where the programs are (build/dev)
#   RELMQ_STACK_DIR  a folder for the private servers, removed at the end (.stack/demo)
#   DEMO_ORDERS      how many orders (10000)
#   DEMO_RATE        orders a second (170)
#   DEMO_SEED        a number that fixes the moments of the blows

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(cd -- "$here/../.." && pwd)
build=$(cd -- "${RELMQ_BUILD_DIR:-$root/build/dev}" && pwd)
dir=${RELMQ_STACK_DIR:-$root/.stack/demo}
stack=$root/tests/support/stack.sh
orders=${DEMO_ORDERS:-10000}
rate=${DEMO_RATE:-170}
seed=${DEMO_SEED:-$$}
RANDOM=$seed

declare -A pid=() # our programs by name

say() { printf '%3d s  %s\n' "$SECONDS" "$*"; }
die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

last_words() {
	local log
	for log in "$work"/*.log; do
		[[ -s $log ]] || continue
		printf -- '--- last lines of %s\n' "${log##*/}"
		tail -n 5 -- "$log"
	done
}

# ------------------------------------------------------------------ begin and end

# A folder with something else in it is not ours to remove.
prepare_folder() {
	local program
	for program in relmq relmq-publisher relmq-consumer relmq-dlx examples/shop/shop; do
		[[ -x $build/$program ]] || die "$build/$program is not there: build first (./dev build)"
	done
	mkdir -p -- "$dir"
	dir=$(cd -- "$dir" && pwd)
	work=$dir/shop
	if [[ ! -f $dir/run/lock && -n $(find "$dir" -mindepth 1 -maxdepth 1 ! -name shop -print -quit) ]]; then
		die "$dir is neither empty nor a stack"
	fi
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	"$stack" wipe "$dir" >/dev/null # left by a demo that was killed
	mkdir -p -- "$work"
}

# Whatever happened: our programs, the servers and the folder go. Nothing of the servers is
# needed any more, so they are not asked to stop in an orderly way.
finish() {
	local status=$? name
	trap '' INT TERM
	((status == 0 || status == 130 || status == 143)) || last_words >&2
	for name in "${!pid[@]}"; do
		kill -KILL "${pid[$name]}" 2>/dev/null || true
		wait "${pid[$name]}" 2>/dev/null || true
	done
	if [[ -f $dir/env ]]; then
		"$stack" kill-broker "$dir" >/dev/null 2>&1 || true
		"$stack" kill-db "$dir" >/dev/null 2>&1 || true
	fi
	"$stack" wipe "$dir" >/dev/null || true
	rm -rf -- "$work"
	rmdir -- "$dir" 2>/dev/null || true
}

start_servers() {
	say "starting a private database and a private broker"
	"$stack" up "$dir" >"$work/stack.log" 2>&1 || die "the servers did not start"
	set -a
	# shellcheck source=/dev/null
	. "$dir/env"
	set +a
	export RELMQ_RABBITMQ_PASSWORD=$RELMQ_AMQP_PASSWORD RELMQ_CONFIG=$work/relmq.json SHOP_EXCHANGE=shop
	sed -e "s/@MYSQL_PORT@/$RELMQ_MYSQL_PORT/; s/@AMQP_PORT@/$RELMQ_AMQP_PORT/" "$here/relmq.json.in" >"$RELMQ_CONFIG"
}

# Messages go to exchange `shop`. It hands each to the work queue, and a copy to queue `audit`
# from which nobody takes: so it can be counted in the end how often something was published.
prepare_tables_and_queues() {
	say "creating tables, queues and policies"
	{
		sql <"$here/schema.sql"
		"$build/relmq" migrate
		# A quorum queue counts its messages every five seconds: ours shall do it every fifth of one.
		"$stack" ctl "$dir" -q eval 'application:set_env(rabbit, quorum_tick_interval, 200).'
		"$build/relmq-dlx" declare
		api PUT exchanges/%2F/shop '{"type":"direct","durable":true}'
		api PUT queues/%2F/audit '{"durable":true,"arguments":{"x-queue-type":"quorum"}}'
		api POST bindings/%2F/e/shop/q/orders '{"routing_key":"orders"}'
		api POST bindings/%2F/e/shop/q/audit '{"routing_key":"orders"}'
		export RABBITMQCTL="$stack ctl $dir"
		"$root/rabbit-policies/apply.sh" orders
		"$root/rabbit-policies/verify.sh" orders
	} >"$work/prepare.log" 2>&1
}

# ------------------------------------------------------------------ asking the servers

sql() { "$stack" sql "$dir" -N -B "$RELMQ_MYSQL_DATABASE" "$@"; }

# What is looked at all the time goes through one client that stays: starting one costs more
# than the look.
open_eyes() {
	coproc eyes { sql --unbuffered; }
}

look() {
	printf '%s\n' 'SELECT (SELECT COUNT(*) FROM orders), (SELECT COUNT(*) FROM message_outbox), (SELECT COUNT(*) FROM shipments);' >&"${eyes[1]}"
	read -r -t 30 written rows shipped <&"${eyes[0]}" || die "the database does not answer"
	((rows < peak)) || peak=$rows
}

# The password goes by stdin, so that no list of processes shows it.
api() { # METHOD PATH [JSON]
	printf 'user = "%s:%s"\n' "$RELMQ_AMQP_USER" "$RELMQ_AMQP_PASSWORD" |
		curl -sSf -m 10 -K - -X "$1" -H 'content-type: application/json' ${3:+-d "$3"} \
			"http://127.0.0.1:$RELMQ_MGMT_PORT/api/$2"
}

# What `rabbitmqctl list_queues` shows, which itself takes a second to start.
queue_now() {
	api GET 'queues?disable_stats=true&enable_queue_totals=true' 2>/dev/null |
		jq -r '.[] | select(.name == "orders") | "\(.messages_ready) messages ready, \(.messages_unacknowledged) unacknowledged"' ||
		printf 'the broker is away'
}

# "NAME COUNT" of every queue, for the result: here each queue is asked itself and not what it
# last counted. Messages that a consumer holds are not in it; in the end nobody consumes.
messages_in_queues() {
	"$stack" ctl "$dir" -q eval '[begin {ok, Ready, _} = rabbit_amqqueue:stat(Q),
		{resource, _, queue, Name} = amqqueue:get_name(Q), io:format("~s ~b~n", [Name, Ready]) end ||
		Q <- rabbit_amqqueue:list(<<"/">>)], ok.'
}

# The broker's own statistics, which it forgets when it is restarted: added up here.
returned=0 returned_before=0
count_returned() {
	local now
	now=$(api GET queues/%2F/orders 2>/dev/null | jq '.message_stats.redeliver // 0') || return 0
	((now >= returned - returned_before)) || returned_before=$returned
	returned=$((returned_before + now))
}

# ------------------------------------------------------------------ the three programs

# They die with this script, even if it is killed itself.
launch() { # NAME
	local command
	case $1 in
	publisher) command=("$build/relmq-publisher") ;;
	consumer) command=("$build/relmq-consumer") ;;
	shop) command=("$build/examples/shop/shop" "$orders" "$rate") ;;
	esac
	setpriv --pdeathsig KILL -- "${command[@]}" >>"$work/$1.log" 2>&1 &
	pid[$1]=$!
}

alive() { kill -0 "${pid[$1]}" 2>/dev/null; }

check_alive() {
	local name
	for name in "$@"; do
		alive "$name" || die "$name ended by itself"
	done
}

# It ends by itself when all orders are written, and not before.
shop_is_done() {
	look
	((written >= orders)) || die "shop ended by itself"
}

stop() { # NAME: an orderly end, with a deadline
	local end=$((SECONDS + 15)) status=0
	kill -TERM "${pid[$1]}" 2>/dev/null || die "$1 ended by itself"
	while alive "$1"; do
		((SECONDS < end)) || die "$1 does not stop"
		sleep 0.1
	done
	wait "${pid[$1]}" || status=$?
	unset "pid[$1]"
	((status == 0)) || die "$1 ended with status $status"
}

# ------------------------------------------------------------------ the blows

# What is hit, and when: so many percent of the orders are written; or the backlog flows,
# which the broker's absence left: it has shrunk to a part of what it was.
blows=(publisher:5 consumer:11 shop:17 broker:23 shop:29 publisher:backlog consumer:backlog)
choose_moments() {
	local i
	for i in "${!blows[@]}"; do
		case ${blows[i]#*:} in
		backlog) part[i]=$((20 + RANDOM % 60)) ;;
		*) blows[i]=${blows[i]%:*}:$((${blows[i]#*:} + RANDOM % 5)) ;;
		esac
	done
}

due() { # BLOW
	local percent=${blows[$1]#*:}
	if [[ $percent == backlog ]]; then
		((peak > 200 && rows * 100 < peak * part[$1])) && return 0
		percent=90 # there never was one
	fi
	((written * 100 >= percent * orders))
}

strike() { # VICTIM
	local queue
	[[ $1 == consumer ]] || peak=0
	[[ $1 == broker ]] || check_alive "$1"
	sleep "0.$((RANDOM % 20 + 10))" # right after a look is not just any moment
	queue=$(queue_now)
	if [[ $1 == broker ]]; then
		"$stack" restart-broker "$dir" >"$work/broker.log" 2>&1 &
		pid[broker]=$!
		look
		say "restart broker     in flight: $rows rows, $queue"
		return
	fi
	kill -KILL "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null || true
	look
	launch "$1"
	say "$(printf 'kill -9 %-9s  in flight: %d rows, %s' "$1" "$rows" "$queue")"
}

broker_is_back() {
	[[ -n ${pid[broker]:-} ]] || return 0
	! alive broker || return 0
	wait "${pid[broker]}" || die "the broker did not come back"
	unset 'pid[broker]'
	say "the broker is back"
}

# ------------------------------------------------------------------ the run

written=0 rows=0 shipped=0 peak=0 part=()

progress() {
	say "$written of $orders orders, $rows rows in the outbox, $shipped shipped"
	count_returned
}

write_and_strike() {
	local next=0 shown=$SECONDS end=$((SECONDS + orders / rate + 60))
	open_eyes
	launch publisher
	launch consumer
	launch shop
	while ((written < orders)); do
		((SECONDS < end)) || die "the orders are not written in time"
		sleep 0.1
		alive shop || shop_is_done
		look
		check_alive publisher consumer
		broker_is_back
		if ((next < ${#blows[@]})) && due "$next"; then
			strike "${blows[next]%:*}"
			next=$((next + 1))
		fi
		if ((SECONDS - shown >= 5)); then
			shown=$SECONDS
			progress
		fi
	done
	((next == ${#blows[@]})) || die "only $next of ${#blows[@]} blows fell before the last order"
}

# At rest: no row waits and every order has a shipment. What is lost never gets one, so there
# is a deadline, and then the report says what is missing.
come_to_rest() {
	local end=$((SECONDS + 45)) shown=$SECONDS
	say "all orders are written; waiting until everything is at rest"
	wait "${pid[shop]}" || die "the shop failed"
	unset 'pid[shop]'
	while look && ((rows > 0 || shipped < written || ${#pid[@]} > 2)); do
		((SECONDS < end)) || break
		sleep 0.1
		check_alive publisher consumer
		broker_is_back
		if ((SECONDS - shown >= 5)); then
			shown=$SECONDS
			progress
		fi
	done
	# A second copy may still be in the queue: if it had an effect, that would show now.
	stop publisher
	until messages_in_queues | grep -x 'orders 0' >/dev/null; do
		((SECONDS < end)) || break
	done
	stop consumer
}

# ------------------------------------------------------------------ the result

row() { printf '  %-26s %9s   %s\n' "$1" "$2" "${3:-}"; }

# Into n[]: what the tables and the queues say.
declare -A n=()
collect() {
	local name value
	count_returned
	while read -r name value; do
		n[$name]=$value
	done < <(sql <"$here/report.sql")
	while read -r name value; do
		case $name in
		audit) n[published]=$value ;;
		orders.parked) n[parked]=$value ;;
		orders | orders.retry.*) n[queued]=$((${n[queued]:-0} + value)) ;;
		esac
	done < <(messages_in_queues)
	[[ -n ${n[calm_ms]:-} && -n ${n[published]:-} && -n ${n[parked]:-} && -n ${n[queued]:-} ]] ||
		die "the result could not be read"
}

report() {
	printf '\n'
	row "orders committed" "${n[committed]}"
	row "orders rolled back" "${n[rolled_back]}" "ids that are missing among the orders'"
	row "rows left in the outbox" "${n[rows_left]}"
	row "messages left in queues" "${n[queued]}"
	row "effects" "${n[effects]}" "shipments"
	row "duplicates absorbed" "$((n[published] - n[committed]))" "copies published again: messages in queue audit, less orders"
	row "delivered again" "$returned" "by the broker's statistics, which lag and end at its restart"
	row "begun again" "${n[resumed]}" "of these, before they had an effect: by table message_inbox"
	row "parked" "${n[parked]}"
	row "lost" "${n[lost]}" "orders without a shipment"
	row "doubled" "${n[doubled]}" "shipments beyond an order's first"
	row "effects without an order" "${n[unfounded]}" "of an order that was rolled back, say"
	row "out of order" "${n[out_of_order]}" "shipments after one of a later order of the customer"
	row "commit to effect, median" "${n[median_ms]}" "ms; waiting for what was killed is in it"
	row "commit to effect, 99 %" "${n[p99_ms]}" "ms; likewise"
	row "last 1000 orders, median" "${n[calm_ms]}" "ms; after the blows"
	printf '\n'
}

judge() {
	local name wrong=()
	for name in lost doubled unfounded out_of_order parked rows_left queued; do
		((n[$name] == 0)) || wrong+=("$name: ${n[$name]}")
	done
	((n[committed] == orders)) || wrong+=("committed: ${n[committed]}, not $orders")
	((n[published] >= orders)) || wrong+=("published: only ${n[published]}")
	((${#wrong[@]} == 0)) || die "FAILED: $(printf '%s; ' "${wrong[@]}")see the table"
	say "nothing lost, nothing doubled, nothing out of order"
}

prepare_folder
start_servers
prepare_tables_and_queues
choose_moments
say "writing $orders orders at $rate a second; the blows fall by DEMO_SEED=$seed"
write_and_strike
come_to_rest
collect
report
judge
