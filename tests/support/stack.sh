#!/usr/bin/env bash
#
# stack.sh - a private MySQL-compatible server and a private RabbitMQ node.
#
# The one place that starts and stops servers, for tests, the demo, the
# benchmarks and ./dev up. Everything a stack owns lies below one directory;
# it listens on loopback only (127.0.0.1, and ::1 where there is one); the system's own services are never touched.
# It knows nothing about relmq's tables and queues: they are made by who uses it.
#
# DIR/env        what a program needs to connect (KEY=VALUE, mode 0600)
# DIR/log/       mysqld.log, broker.log and what the servers print at start
# DIR/run/       pid files, the admin client's option file, the lock
# DIR/mysql/     data of mariadbd or mysqld
# DIR/tls/       certificates, see stack/tls.sh
# DIR/broker/    data, configuration and Erlang cookie of the RabbitMQ node
# DIR/root       the chroot the servers live in, if any (see RELMQ_STACK_ROOT)

set -euo pipefail

usage() {
	cat <<'USAGE'
usage: stack.sh COMMAND DIR [ARGS...]

  up DIR              start both servers and wait until they answer
  down DIR            stop them; data and ports are kept for the next up
  wipe DIR            down, and remove DIR
  status DIR          what runs; exit 0 if both do, else 1
  env DIR             print the connection settings, for: . <(stack.sh env DIR)

  stop-broker DIR     clean stop       stop-db DIR
  start-broker DIR    same port, data  start-db DIR
  restart-broker DIR  stop and start   restart-db DIR
  kill-broker DIR     SIGKILL          kill-db DIR

  ctl DIR ARGS...     rabbitmqctl against this node
  sql DIR [ARGS...]   database client as the administrator, on the socket

Environment:
  RELMQ_STACK_ROOT     `up` of a new stack only: run both servers inside this
                       chroot (as root; it needs /proc, and localhost in /etc/hosts).
                       DIR becomes a symbolic link to a folder in the chroot.
  RELMQ_STACK_TIMEOUT  seconds to wait for a server (default 120)
USAGE
}

say() { printf 'stack: %s\n' "$*"; }
die() {
	printf 'stack: %s\n' "$*" >&2
	exit 1
}

timeout_s=${RELMQ_STACK_TIMEOUT:-120}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=stack/place.sh
. "$here/stack/place.sh"
# shellcheck source=stack/process.sh
. "$here/stack/process.sh"
# shellcheck source=stack/tls.sh
. "$here/stack/tls.sh"
# shellcheck source=stack/database.sh
. "$here/stack/database.sh"
# shellcheck source=stack/broker.sh
. "$here/stack/broker.sh"

# Both servers are started before either is waited for. What already runs and
# answers is kept; what runs and does not (left by a crash) is replaced.
cmd_up() {
	local try need_db=1 need_broker=1
	umask 077
	if [[ ! -f $dir/env && -n ${RELMQ_STACK_ROOT:-} ]]; then
		enter_root "$RELMQ_STACK_ROOT"
	fi
	mkdir -p "$log" "$run" "$broker"
	lock
	find_programs_of_stack
	[[ -f $dir/env ]] || create
	load
	make_certificates

	if recover_pid mysqld && db_answers; then need_db=; fi
	if recover_pid broker && recover_pid epmd && broker_answers; then need_broker=; fi
	if [[ -z $need_db$need_broker ]]; then
		say "already running: $(summary)"
		return 0
	fi

	for ((try = 1; try <= 5; try++)); do
		if [[ -n $need_broker ]]; then
			destroy broker
			destroy epmd
			if ((try > 1)) || listening "$RELMQ_AMQP_PORT" || listening "$RELMQ_AMQP_TLS_PORT" ||
				listening "$RELMQ_MGMT_PORT" ||
				listening "$RELMQ_DIST_PORT" || listening "$RELMQ_EPMD_PORT"; then
				pick_broker_ports
			fi
			write_broker_files
			spawn_broker
		fi
		if [[ -n $need_db ]]; then
			stop mysqld
			if ((try > 1)) || listening "$RELMQ_MYSQL_PORT"; then
				pick_db_port
			fi
			write_db_files
			spawn_db
		fi
		write_env
		if [[ -n $need_db ]] && await_db; then need_db=; fi
		if [[ -n $need_broker ]] && await_broker; then need_broker=; fi
		if [[ -z $need_db$need_broker ]]; then
			say "up: $(summary)"
			return 0
		fi
	done
	die "no free ports after $((try - 1)) attempts"
}

find_programs_of_stack() {
	if [[ -s $dir/root ]]; then
		root=$(<"$dir/root")
	fi
	find_programs
}

summary() { printf '%s on port %s, RabbitMQ on port %s (management %s)' \
	"$(basename "$mysqld")" "$RELMQ_MYSQL_PORT" "$RELMQ_AMQP_PORT" "$RELMQ_MGMT_PORT"; }

# Bounded: every wait below has its own limit. Works without a whole stack too, for
# an `up` that was killed half-way.
cmd_down() {
	if [[ ! -d $run ]]; then
		say "nothing at $dir"
		return 0
	fi
	lock
	stop broker 40
	stop mysqld 40
	stop epmd 5
	say "down: $dir"
}

cmd_wipe() {
	local real
	cmd_down
	# Only what looks like a stack is ever removed.
	if [[ -f $run/lock && -d $log ]]; then
		real=$(cd -- "$dir" && pwd -P)
		if [[ -f $dir/env ]]; then
			load
			rm -f -- "$RELMQ_MYSQL_SOCKET"
		fi
		rm -rf -- "$real"
		rm -f -- "$dir" 2>/dev/null || true
	fi
}

cmd_status() {
	local name pid all=0
	for name in mysqld broker epmd; do
		if pid=$(pid_of "$name"); then
			printf '%s running, pid %s\n' "$name" "$pid"
		else
			printf '%s stopped\n' "$name"
			all=1
		fi
	done
	printf 'database port %s, AMQP port %s, management port %s\n' "$RELMQ_MYSQL_PORT" "$RELMQ_AMQP_PORT" "$RELMQ_MGMT_PORT"
	return "$all"
}

main() {
	local command=${1:-}
	case $command in
	-h | --help | help)
		usage
		return 0
		;;
	up | down | wipe | status | env | ctl | sql | \
		stop-broker | start-broker | restart-broker | kill-broker | stop-db | start-db | restart-db | kill-db) ;;
	*)
		usage >&2
		return 2
		;;
	esac
	if (($# < 2)); then
		usage >&2
		return 2
	fi
	if [[ $command == up ]]; then
		locate "$2" create
	else
		locate "$2"
	fi
	shift 2

	case $command in
	up)
		cmd_up
		return
		;;
	down)
		cmd_down
		return
		;;
	wipe)
		cmd_wipe
		return
		;;
	esac

	load
	case $command in
	env | status) ;;
	ctl | sql) find_programs ;;
	*)
		find_programs
		umask 077
		lock
		;;
	esac

	case $command in
	env) cat -- "$dir/env" ;;
	status) cmd_status ;;
	ctl) ctl "$@" ;;
	sql) sql "$@" ;;
	stop-broker) stop broker 40 ;;
	kill-broker) destroy broker ;;
	start-broker) start_broker ;;
	restart-broker)
		stop broker 40
		start_broker
		;;
	stop-db) stop mysqld 40 ;;
	kill-db) destroy mysqld ;;
	start-db) start_db ;;
	restart-db)
		stop mysqld 40
		start_db
		;;
	esac
}

main "$@"
