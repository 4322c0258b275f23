#!/usr/bin/env bash
#
# demo.sh - orders become shipments, once each and in order, while everything is killed.
#
# Environment: RELMQ_BUILD_DIR (where the programs are), RELMQ_STACK_DIR (a folder for the
# private servers), DEMO_ORDERS (10000), DEMO_RATE (orders a second, 160), DEMO_SEED (when
# the blows fall). Exit status: 0 if nothing was lost, doubled or out of order.
#
# The result is computed from the tables and queues alone; no program is asked.

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
build=$(cd -- "${RELMQ_BUILD_DIR:-$root/build/dev}" && pwd)
mkdir -p "${RELMQ_STACK_DIR:-$root/.stack/demo}"
dir=$(cd -- "${RELMQ_STACK_DIR:-$root/.stack/demo}" && pwd)
stack=$root/tests/support/stack.sh
orders=${DEMO_ORDERS:-10000}
rate=${DEMO_RATE:-160}
RANDOM=${DEMO_SEED:-$$}
database=relmq_shop # the stack's user may use databases of this prefix
settle_s=45 # how long everything may take to come to rest after the last order

declare -A pid=()

say() { printf '%s\n' "$*"; }
die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

finish() {
	local name
	for name in "${!pid[@]}"; do
		kill -KILL "${pid[$name]}" 2>/dev/null || true
	done
	wait
	# Nothing in there is needed any more: no need to wait for an orderly stop.
	"$stack" kill-broker "$dir" >/dev/null 2>&1 || true
	"$stack" kill-db "$dir" >/dev/null 2>&1 || true
	"$stack" wipe "$dir" >/dev/null || true
}

sql() { "$stack" sql "$dir" -N -B "$database" "$@"; }
ctl() { "$stack" ctl "$dir" "$@"; }

# ------------------------------------------------------------------ before

start_servers() {
	say "starting a private database and a private broker ..."
	"$stack" up "$dir" >/dev/null
	set -a
	# shellcheck source=/dev/null
	. "$dir/env"
	set +a
	export RELMQ_RABBITMQ_PASSWORD=$RELMQ_AMQP_PASSWORD RELMQ_CONFIG=$dir/relmq.json
}

write_config() {
	sed -e "s/@MYSQL_PORT@/$RELMQ_MYSQL_PORT/; s/@AMQP_PORT@/$RELMQ_AMQP_PORT/" "$here/relmq.json.in" >"$RELMQ_CONFIG"
}

api() { # METHOD PATH [JSON]: the password goes by stdin, so that no process list shows it
	printf 'user = "%s:%s"\n' "$RELMQ_AMQP_USER" "$RELMQ_AMQP_PASSWORD" |
		curl -sSf -K - -X "$1" -H 'content-type: application/json' ${3:+-d "$3"} \
			"http://127.0.0.1:$RELMQ_MGMT_PORT/api/$2" >/dev/null
}

# Messages go to exchange `shop`, which hands each to the work queue and a copy to `audit`,
# where nobody takes it: so it can be counted afterwards how often was published.
prepare() {
	"$stack" sql "$dir" -e "CREATE DATABASE $database"
	sql <"$here/schema.sql"
	"$build/relmq" migrate
	"$build/relmq-dlx" declare
	api PUT exchanges/%2F/shop '{"type":"direct","durable":true}'
	api PUT queues/%2F/audit '{"durable":true,"arguments":{"x-queue-type":"quorum"}}'
	api POST bindings/%2F/e/shop/q/orders '{"routing_key":"orders"}'
	api POST bindings/%2F/e/shop/q/audit '{"routing_key":"orders"}'
	RABBITMQCTL=$dir/ctl "$root/rabbit-policies/apply.sh" orders
	RABBITMQCTL=$dir/ctl "$root/rabbit-policies/verify.sh" orders
}

# The policy scripts want one command to call.
write_ctl() {
	# shellcheck disable=SC2016 # "$@" is for the script that is written
	printf '#!/bin/sh\nexec "%s" ctl "%s" "$@"\n' "$stack" "$dir" >"$dir/ctl"
	chmod +x "$dir/ctl"
}

# ------------------------------------------------------------------ programs

launch() { # NAME COMMAND...
	local name=$1
	shift
	"$@" >>"$dir/$name.log" 2>&1 &
	pid[$name]=$!
}

launch_named() {
	case $1 in
	publisher) launch publisher "$build/relmq-publisher" ;;
	consumer) launch consumer "$build/relmq-consumer" ;;
	shop) launch shop "$build/examples/shop/shop" "$RELMQ_MYSQL_HOST" "$RELMQ_MYSQL_PORT" \
		"$RELMQ_MYSQL_USER" "$database" "$orders" "$rate" ;;
	esac
}

alive() { kill -0 "${pid[$1]}" 2>/dev/null; }

check_alive() {
	local name
	for name in publisher consumer; do
		alive "$name" || die "$name ended by itself; its last words: $(tail -n 2 "$dir/$name.log")"
	done
}

# ------------------------------------------------------------------ blows

# What, and about when: percent of the orders written, a few percent of chance on top. A
# broker takes half a minute to stop and start: until it is back nothing flows.
blows=(publisher:6 consumer:13 shop:19 broker:25 consumer:68 publisher:78 shop:88)
flows=1000 # a blow waits until fewer rows than this wait: it shall hit what moves

in_flight() {
	local rows queue
	queue=$(ctl -q list_queues --no-table-headers name messages_ready messages_unacknowledged 2>/dev/null |
		awk '$1 == "orders" { print $2 " ready and " $3 " unacknowledged messages" }') || true
	rows=$(sql -e 'SELECT COUNT(*) FROM message_outbox')
	printf '%s rows in the outbox, %s in the queue' "$rows" "${queue:-? messages}"
}

strike() {
	local victim=$1 flight
	flight=$(in_flight)
	if [[ $victim == broker ]]; then
		say "    restarting the broker: $flight"
		"$stack" restart-broker "$dir" >/dev/null
		return
	fi
	alive "$victim" || return 0 # the writer may have finished
	say "    kill -9 $victim: $flight"
	kill -KILL "${pid[$victim]}"
	wait "${pid[$victim]}" 2>/dev/null || true
	launch_named "$victim"
}

progress() {
	sql -e "SELECT CONCAT('  ', (SELECT COUNT(*) FROM orders), ' orders committed, ',
		(SELECT COUNT(*) FROM message_outbox), ' rows waiting, ', (SELECT COUNT(*) FROM shipments), ' shipped')"
}

run() {
	local blow=0 at='' written=0 waiting=0 shown=$SECONDS
	launch_named publisher
	launch_named consumer
	launch_named shop
	while ((written < orders)); do
		read -rt 0.3 _ <>"$dir/never" || true
		read -r written waiting < <(sql -e 'SELECT (SELECT COUNT(*) FROM orders), (SELECT COUNT(*) FROM message_outbox)')
		check_alive
		if ((blow < ${#blows[@]})); then
			at=${at:-$((${blows[blow]#*:} + RANDOM % 6))}
			if ((written * 100 >= at * orders && (waiting < flows || written * 100 >= (at + 5) * orders))); then
				strike "${blows[blow]%:*}"
				blow=$((blow + 1))
				at=
			fi
		fi
		if ((SECONDS - shown >= 5)); then
			shown=$SECONDS
			progress
		fi
	done
	((blow == ${#blows[@]})) || die "only $blow of ${#blows[@]} blows fell before the last order"
}

# All is at rest when no row waits and every order has its effect; what is really lost
# never gets one, so there is a deadline.
come_to_rest() {
	local end=$((SECONDS + settle_s)) open
	say "  all orders are written; waiting until all is at rest ..."
	while ((SECONDS < end)); do
		open=$(sql -e "SELECT (SELECT COUNT(*) FROM message_outbox)
			+ (SELECT COUNT(*) FROM orders o LEFT JOIN shipments s ON s.order_id = o.id WHERE s.id IS NULL)")
		((open > 0)) || break
		read -rt 0.3 _ <>"$dir/never" || true
	done
	# A second effect of a copy that is still under way would come now.
	kill -TERM "${pid[publisher]}"
	wait "${pid[publisher]}" || true
	while ((SECONDS < end)) && [[ $(messages orders) != 0 ]]; do
		:
	done
	kill -TERM "${pid[consumer]}"
	wait "${pid[consumer]}" || true
	pid=()
}

messages() { # QUEUE: ready and unacknowledged, "" when it cannot be told
	ctl -q list_queues --no-table-headers name messages 2>/dev/null | awk -v q="$1" '$1 == q { print $2 }'
}

# ------------------------------------------------------------------ the table

row() { printf '  %-28s %10s   %s\n' "$1" "$2" "${3:-}"; }

report() {
	local -A n=()
	local name value published
	while read -r name value; do
		n[$name]=$value
	done < <(sql <"$here/report.sql")
	published=$(messages audit)
	n[parked]=$(messages orders.parked)
	n[waiting]=$(messages orders)
	[[ -n $published && -n ${n[parked]} && -n ${n[waiting]} && -n ${n[p99_ms]:-} ]] || die "the result could not be read"
	say ""
	row "orders committed" "${n[committed]}"
	row "orders rolled back" "${n[rolled_back]}" "ids of orders that are missing"
	row "rows left in the outbox" "${n[rows_left]}"
	row "messages left in the queue" "${n[waiting]}"
	row "effects" "${n[effects]}" "shipments"
	row "duplicates absorbed" "$((published - n[committed]))" "published again after a kill, no second effect"
	row "parked" "${n[parked]}"
	row "lost" "${n[lost]}"
	row "doubled" "$((n[doubled] + n[unfounded]))"
	row "out of order" "${n[out_of_order]}" "per customer"
	row "time to effect, median" "${n[median_ms]} ms" "from the order's INSERT to its shipment"
	row "time to effect, 99th pct" "${n[p99_ms]} ms" "the kills are in it"
	say ""
	((n[committed] == orders)) || die "only ${n[committed]} of $orders orders were committed"
	((n[rows_left] == 0 && n[waiting] == 0 && n[parked] == 0)) || die "something is left, see the table"
	((n[lost] == 0 && n[doubled] == 0 && n[unfounded] == 0 && n[out_of_order] == 0)) ||
		die "lost, doubled or out of order: the promise is broken"
	say "nothing lost, nothing doubled, nothing out of order"
}

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
start_servers
mkfifo "$dir/never" # something to wait on with a time-out
write_config
write_ctl
prepare
say "writing $orders orders at $rate a second while programs are killed and the broker is restarted:"
run
come_to_rest
report
