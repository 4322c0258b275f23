#!/usr/bin/env bash
#
# stack.sh - a private MySQL-compatible server and a private RabbitMQ node.
#
# The one place that starts and stops servers, for tests, the demo, the
# benchmarks and ./dev up. Everything a stack owns lies below one directory;
# it listens on 127.0.0.1 only; the system's own services are never touched.
# It knows nothing about relmq's tables and queues: they are made by who uses it.
#
# DIR/env        what a program needs to connect (KEY=VALUE, mode 0600)
# DIR/log/       mysqld.log, broker.log and what the servers print at start
# DIR/run/       pid files, the admin client's option file, the lock
# DIR/mysql/     data of mariadbd or mysqld
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

# ---------------------------------------------------------------- places

# Make the directory's name absolute without resolving its last part, which is a
# symbolic link when the servers live in a chroot and must read the same inside.
locate() {
	local name=$1 parent
	name=${name%/}
	parent=$(dirname -- "$name")
	[[ -n $name && $name != . && $name != .. && $name != */. && $name != */.. ]] || die "'$1' is no place for a stack: give a folder of its own"
	if [[ ${2:-} == create ]]; then
		mkdir -p -- "$parent"
	fi
	# There may be nothing to stop: down and wipe are content with that.
	[[ ! -d $parent ]] || parent=$(cd -- "$parent" && pwd -P)
	dir=$parent/$(basename -- "$name")
	# RabbitMQ's scripts split some of their settings at blanks.
	[[ $dir =~ ^[A-Za-z0-9_./+@%=,:-]+$ ]] || die "$dir: a server cannot live in a path with blanks or quotes"
	log=$dir/log
	run=$dir/run
	broker=$dir/broker
	root=
}

# Read back what `up` wrote. Everything but `up` needs it.
load() {
	[[ -f $dir/env ]] || die "no stack at $dir (stack.sh up $dir makes one)"
	# shellcheck source=/dev/null
	. "$dir/env"
	if [[ -s $dir/root ]]; then
		root=$(<"$dir/root")
	fi
}

# One stack.sh at a time per stack: two `up`, or a test's kill and another's start.
lock() {
	exec 9>"$run/lock"
	flock -w "$timeout_s" 9 || die "$dir is held by another stack.sh"
}

# Words that enter the chroot, if there is one.
enter() {
	if [[ -n $root ]]; then
		chroot "$root" "$@"
	else
		"$@"
	fi
}

# The first of these programs that exists (in the chroot).
first_of() {
	local candidate
	for candidate in "$@"; do
		if [[ -x $root$candidate ]]; then
			printf '%s\n' "$candidate"
			return 0
		fi
	done
	return 1
}

find_programs() {
	# Debian wraps the programs in /usr/sbin to run as user rabbitmq with the
	# system's data folder; the server's own scripts run as anybody, anywhere.
	local candidate
	rabbit_bin=
	for candidate in /usr/lib/rabbitmq/bin /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin /opt/rabbitmq/sbin; do
		if [[ -x $root$candidate/rabbitmq-server ]]; then
			rabbit_bin=$candidate
			break
		fi
	done
	[[ -n $rabbit_bin ]] || die "rabbitmq-server not found${root:+ in $root} (./dev setup installs it)"
	epmd=$(first_of /usr/bin/epmd /usr/local/bin/epmd /usr/lib/erlang/bin/epmd) || die "epmd (Erlang) not found"
	mysqld=$(first_of /usr/sbin/mariadbd /usr/sbin/mysqld /usr/bin/mariadbd /usr/local/sbin/mysqld /usr/local/bin/mysqld) ||
		die "neither mariadbd nor mysqld found${root:+ in $root} (./dev setup installs one)"
	client=$(first_of /usr/bin/mariadb /usr/bin/mysql /usr/local/bin/mysql) || die "no mariadb or mysql client found"
	flavour=mysql
	if [[ $(enter "$mysqld" --version 2>/dev/null) == *MariaDB* ]]; then
		flavour=mariadb
	fi
}

# ------------------------------------------------------------- processes

# Every server carries this in its environment. It is how a process is known to
# be ours whatever a stale pid file says, and how one is found whose pid file is lost.
mark() { printf 'RELMQ_STACK_SERVER=%s:%s' "$1" "$dir"; }

carries() { # PID MARK
	[[ -r /proc/$1/environ ]] && tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF -- "$2"
}

# Print the pid of our server NAME if it lives. A zombie has no environment any
# more, so it counts as gone even where nobody reaps it.
pid_of() { # NAME
	local pid=
	if [[ -s $run/$1.pid ]]; then
		pid=$(<"$run/$1.pid")
		if [[ $pid =~ ^[0-9]+$ ]] && carries "$pid" "$(mark "$1")"; then
			printf '%s\n' "$pid"
			return 0
		fi
	fi
	return 1
}

alive() { pid_of "$1" >/dev/null; }

# Pids of everything that carries NAME's mark, helpers of the server included.
marked() { # NAME
	local proc wanted
	wanted=$(mark "$1")
	for proc in /proc/[0-9]*; do
		if carries "${proc#/proc/}" "$wanted"; then
			printf '%s\n' "${proc#/proc/}"
		fi
	done
}

# A server whose pid file was lost (stack.sh itself killed between fork and
# write) is found by its mark, so that it is adopted or stopped, never forgotten.
recover_pid() { # NAME
	local pid
	alive "$1" && return 0
	for pid in $(marked "$1"); do
		case $(<"/proc/$pid/comm") in
		mariadbd | mysqld | beam.smp | epmd)
			printf '%s\n' "$pid" >"$run/$1.pid"
			return 0
			;;
		esac
	done
	rm -f "$run/$1.pid"
	return 1
}

# Start a server in a session of its own, so that Ctrl-C in the caller's terminal
# leaves it to `down`; with a clean environment, so that nothing of the caller's
# RABBITMQ_*, NOTIFY_SOCKET or MYSQL_* reaches it; and holding none of the caller's
# descriptors, so that whoever reads our output sees its end. The command becomes
# the process: no shell stays between us and the pid.
spawn() { # NAME LOG [KEY=VALUE...] COMMAND...
	local name=$1 out=$2 fd
	shift 2
	local words=(env -i LANG=C.UTF-8 TERM=dumb "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		"$(mark "$name")" "$@")
	if [[ -n $root ]]; then
		words=(chroot "$root" "${words[@]}")
	fi
	(
		for fd in /proc/self/fd/*; do
			fd=${fd##*/}
			if ((fd > 2 && fd != 255)); then
				eval "exec $fd>&-"
			fi
		done
		cd /
		exec setsid "${words[@]}" </dev/null >>"$out" 2>&1
	) &
	printf '%s\n' "$!" >"$run/$name.pid"
	disown
	# Between fork and exec the mark is not there yet, and `alive` would say no.
	poll 10 spawned "$!" "$name" || true
}

spawned() { # PID NAME
	carries "$1" "$(mark "$2")" || [[ ! -d /proc/$1 ]]
}

# Run a check until it succeeds or the seconds are over.
poll() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

gone() { ! alive "$1"; }

none_marked() { [[ -z $(marked "$1") ]]; }

# TERM, then KILL; helpers the server left behind are ended too.
stop() { # NAME [SECONDS]
	local name=$1 grace=${2:-30} pid
	recover_pid "$name" || true
	if pid=$(pid_of "$name"); then
		kill -TERM "$pid" 2>/dev/null || true
		poll "$grace" gone "$name" || say "$name (pid $pid) ignored SIGTERM for $grace s: killing it"
	fi
	destroy "$name"
}

destroy() { # NAME
	local pid
	recover_pid "$1" || true
	if pid=$(pid_of "$1"); then
		kill -KILL "$pid" 2>/dev/null || true
		poll 10 gone "$1" || die "$1 (pid $pid) cannot be killed"
	fi
	# A dead node's helpers notice the closed pipe by themselves within moments.
	if ! poll 2 none_marked "$1"; then
		for pid in $(marked "$1"); do
			kill -KILL "$pid" 2>/dev/null || true
		done
		poll 10 none_marked "$1" || die "processes of $1 are left: $(marked "$1" | tr '\n' ' ')"
	fi
	rm -f "$run/$1.pid"
}

fail_with_log() { # TEXT FILE...
	local file
	printf 'stack: %s\n' "$1" >&2
	shift
	for file in "$@"; do
		[[ -s $file ]] || continue
		printf -- '--- last lines of %s\n' "$file" >&2
		tail -n 20 -- "$file" >&2
	done
	exit 1
}

# ----------------------------------------------------------------- ports

listening() { # PORT
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# A free port below the range the kernel gives to outgoing connections, so that a
# stopped server finds its port still free. Another stack may take it between this
# look and the bind: then the start fails and `up` picks again.
taken_ports=" "
free_port() {
	local low=20000 high=32000 port tries
	if [[ -r /proc/sys/net/ipv4/ip_local_port_range ]]; then
		read -r high _ </proc/sys/net/ipv4/ip_local_port_range
		((high > low + 2000)) || { low=33000 && high=60000; }
	fi
	for ((tries = 0; tries < 200; tries++)); do
		port=$((low + (RANDOM * 32768 + RANDOM) % (high - low)))
		if [[ $taken_ports != *" $port "* ]] && ! listening "$port"; then
			taken_ports+="$port "
			free=$port
			return 0
		fi
	done
	die "no free port found"
}

pick_db_port() {
	free_port
	RELMQ_MYSQL_PORT=$free
}

pick_broker_ports() {
	free_port
	RELMQ_AMQP_PORT=$free
	free_port
	RELMQ_MGMT_PORT=$free
	free_port
	RELMQ_DIST_PORT=$free
	free_port
	RELMQ_EPMD_PORT=$free
}

secret() { od -An -v -tx1 -N16 /dev/urandom | tr -d ' \n'; }

write_env() {
	cat >"$dir/env.new" <<-ENV
		RELMQ_MYSQL_HOST=127.0.0.1
		RELMQ_MYSQL_PORT=$RELMQ_MYSQL_PORT
		RELMQ_MYSQL_SOCKET=$RELMQ_MYSQL_SOCKET
		RELMQ_MYSQL_USER=relmq
		RELMQ_MYSQL_PASSWORD=$RELMQ_MYSQL_PASSWORD
		RELMQ_MYSQL_DATABASE=relmq
		RELMQ_MYSQL_ADMIN_USER=relmq_admin
		RELMQ_MYSQL_ADMIN_PASSWORD=$RELMQ_MYSQL_ADMIN_PASSWORD
		RELMQ_AMQP_HOST=127.0.0.1
		RELMQ_AMQP_PORT=$RELMQ_AMQP_PORT
		RELMQ_AMQP_USER=relmq
		RELMQ_AMQP_PASSWORD=$RELMQ_AMQP_PASSWORD
		RELMQ_AMQP_VHOST=/
		RELMQ_MGMT_PORT=$RELMQ_MGMT_PORT
		RELMQ_NODENAME=$RELMQ_NODENAME
		RELMQ_DIST_PORT=$RELMQ_DIST_PORT
		RELMQ_EPMD_PORT=$RELMQ_EPMD_PORT
	ENV
	mv -f -- "$dir/env.new" "$dir/env"
}

# ------------------------------------------------------------- new stack

# The folder in the chroot has the same name inside as DIR has outside, through a
# symbolic link: no mount to be left behind, and the socket works from both sides.
enter_root() { # ROOT
	[[ -d $1 ]] || die "RELMQ_STACK_ROOT=$1: no such folder"
	root=$(cd -- "$1" && pwd -P)
	((EUID == 0)) || die "RELMQ_STACK_ROOT needs root: only root may chroot"
	[[ -e $root/proc/self ]] || die "$root has no /proc: mount -t proc proc $root/proc"
	[[ -e $root/dev/null ]] || die "$root has no /dev/null"
	grep -qw localhost "$root/etc/hosts" 2>/dev/null || die "$root/etc/hosts does not name localhost: echo '127.0.0.1 localhost' >> $root/etc/hosts"
	[[ ! -d $dir || -L $dir ]] || die "$dir is a folder already: a stack in a chroot needs a new name"
	mkdir -p -- "$root$dir"
	ln -sfn -- "$root$dir" "$dir"
	printf '%s\n' "$root" >"$dir/root"
}

create() {
	local hash
	hash=$(printf '%s' "$dir" | cksum | cut -d ' ' -f 1)
	hash=$(printf '%x' "$hash")
	RELMQ_NODENAME=relmq-$hash@localhost
	RELMQ_MYSQL_PASSWORD=$(secret)
	RELMQ_MYSQL_ADMIN_PASSWORD=$(secret)
	RELMQ_AMQP_PASSWORD=$(secret)
	RELMQ_MYSQL_SOCKET=$run/mysqld.sock
	# The kernel's limit on a socket's path is 107 bytes.
	if ((${#RELMQ_MYSQL_SOCKET} > 100)); then
		[[ -z $root ]] || die "$dir: too long a path for a socket"
		RELMQ_MYSQL_SOCKET=/tmp/relmq-stack-$EUID-$hash.sock
	fi
	pick_db_port
	pick_broker_ports
	write_env
}

# -------------------------------------------------------------- database

write_db_files() {
	mkdir -p "$dir/mysql/tmp"
	# No key here weakens the server: a commit is on disk when it returns, as in
	# production. secure_file_priv only replaces a packaged default whose folder
	# may not exist, which mysqld refuses to start with.
	cat >"$run/my.cnf" <<-CNF
		[mysqld]
		datadir = $dir/mysql/data
		tmpdir = $dir/mysql/tmp
		socket = $RELMQ_MYSQL_SOCKET
		port = $RELMQ_MYSQL_PORT
		bind-address = 127.0.0.1
		skip-name-resolve
		loose-mysqlx = 0
		loose-secure-file-priv = $dir/mysql/tmp
		log-error = $log/mysqld.log
		innodb-buffer-pool-size = 256M
		max-connections = 200
	CNF
	if ((EUID == 0)); then
		echo "user = root" >>"$run/my.cnf"
	fi
	cat >"$run/client.cnf" <<-CNF
		[client]
		user = relmq_admin
		password = $RELMQ_MYSQL_ADMIN_PASSWORD
		socket = $RELMQ_MYSQL_SOCKET
	CNF
	# Run by the server at every start before it listens: no password shows up in
	# a process list, and there is no moment in which the server answers without it.
	cat >"$run/init.sql" <<-SQL
		CREATE USER IF NOT EXISTS 'relmq_admin'@'%' IDENTIFIED BY '$RELMQ_MYSQL_ADMIN_PASSWORD';
		GRANT ALL PRIVILEGES ON *.* TO 'relmq_admin'@'%' WITH GRANT OPTION;
		CREATE USER IF NOT EXISTS 'relmq'@'%' IDENTIFIED BY '$RELMQ_MYSQL_PASSWORD';
		GRANT ALL PRIVILEGES ON \`relmq%\`.* TO 'relmq'@'%';
		CREATE DATABASE IF NOT EXISTS relmq CHARACTER SET utf8mb4;
		DROP USER IF EXISTS ''@'localhost';
	SQL
	if [[ $flavour == mysql ]]; then
		# --initialize-insecure leaves root without a password.
		echo "ALTER USER 'root'@'localhost' IDENTIFIED BY '$RELMQ_MYSQL_ADMIN_PASSWORD';" >>"$run/init.sql"
	fi
}

# Nothing half made is ever started: the data folder gets its name when it is whole.
install_db() {
	local fresh=$dir/mysql/data.new as_root=()
	[[ ! -d $dir/mysql/data ]] || return 0
	rm -rf -- "$fresh"
	if ((EUID == 0)); then
		as_root=(--user=root)
	fi
	if [[ $flavour == mariadb ]]; then
		local tool
		tool=$(first_of /usr/bin/mariadb-install-db /usr/bin/mysql_install_db /usr/local/bin/mariadb-install-db) ||
			die "mariadb-install-db not found"
		# root gets socket authentication only, the default: no account without a password.
		enter "$tool" --no-defaults --datadir="$fresh" --skip-test-db --skip-name-resolve --force \
			"${as_root[@]}" >"$log/install-db.log" 2>&1 ||
			fail_with_log "mariadb-install-db failed" "$log/install-db.log"
	else
		enter "$mysqld" --defaults-file="$run/my.cnf" --initialize-insecure --datadir="$fresh" \
			>"$log/install-db.log" 2>&1 ||
			fail_with_log "mysqld --initialize-insecure failed" "$log/install-db.log" "$log/mysqld.log"
	fi
	mv -- "$fresh" "$dir/mysql/data"
}

spawn_db() {
	install_db
	: >"$log/mysqld.log"
	spawn mysqld "$log/mysqld.out" "$mysqld" --defaults-file="$run/my.cnf" --init-file="$run/init.sql"
}

sql() { enter "$client" --defaults-file="$run/client.cnf" "$@"; }

db_answers() { sql -e 'DO 1' >/dev/null 2>&1 </dev/null; }

# -------------------------------------------------------------- RabbitMQ

write_broker_files() {
	local home=$broker/home
	mkdir -p "$home" "$broker/conf.d"
	if [[ ! -f $home/.erlang.cookie ]]; then
		secret >"$home/.erlang.cookie"
		chmod 0400 "$home/.erlang.cookie"
	fi
	echo '[rabbitmq_management].' >"$broker/enabled_plugins"
	echo '[].' >"$broker/advanced.config"
	# Exists and is empty, so that /etc/rabbitmq/rabbitmq-env.conf is not read.
	: >"$broker/rabbitmq-env.conf"
	# The default user is made with the node's data: no rabbitmqctl, which takes a
	# second a call, and no password in a process list. The limits are absolute
	# because fractions of a shared machine's memory and disk mean nothing here.
	cat >"$broker/rabbitmq.conf" <<-CONF
		listeners.tcp.1 = 127.0.0.1:$RELMQ_AMQP_PORT
		management.tcp.ip = 127.0.0.1
		management.tcp.port = $RELMQ_MGMT_PORT
		default_vhost = /
		default_user = relmq
		default_pass = $RELMQ_AMQP_PASSWORD
		default_user_tags.administrator = true
		vm_memory_high_watermark.absolute = 2GB
		disk_free_limit.absolute = 50MB
		log.dir = $log
		log.file = broker.log
		log.file.level = info
		log.console = false
	CONF
}

# What the node and its command line tools must agree on.
broker_env() {
	printf '%s\n' \
		"HOME=$broker/home" \
		"RABBITMQ_NODENAME=$RELMQ_NODENAME" \
		"RABBITMQ_CONF_ENV_FILE=$broker/rabbitmq-env.conf" \
		"RABBITMQ_MNESIA_BASE=$broker/data" \
		"RABBITMQ_LOG_BASE=$log" \
		"RABBITMQ_ENABLED_PLUGINS_FILE=$broker/enabled_plugins" \
		"ERL_EPMD_PORT=$RELMQ_EPMD_PORT" \
		"ERL_EPMD_ADDRESS=127.0.0.1" \
		"RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}"
}

spawn_epmd() {
	alive epmd || spawn epmd "$log/epmd.out" "$epmd" -address 127.0.0.1 -port "$RELMQ_EPMD_PORT"
}

spawn_broker() {
	local settings
	mapfile -t settings < <(broker_env)
	spawn_epmd
	: >"$log/broker.out"
	# ALLOW_INPUT makes the script exec the VM and not wait for it, so that its pid
	# is ours; -noinput then takes the input away again.
	spawn broker "$log/broker.out" "${settings[@]}" \
		"RABBITMQ_DIST_PORT=$RELMQ_DIST_PORT" \
		"RABBITMQ_CONFIG_FILE=$broker/rabbitmq.conf" \
		"RABBITMQ_CONFIG_FILES=$broker/conf.d" \
		"RABBITMQ_ADVANCED_CONFIG_FILE=$broker/advanced.config" \
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}" \
		"RABBITMQ_ALLOW_INPUT=1" \
		"RABBITMQ_SERVER_START_ARGS=-noinput" \
		"$rabbit_bin/rabbitmq-server"
}

# One request proves the node, its management plugin, our user and the AMQP listener.
broker_answers() {
	local line=
	{
		printf 'GET /api/health/checks/port-listener/%s HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n' \
			"$RELMQ_AMQP_PORT" "$(printf 'relmq:%s' "$RELMQ_AMQP_PASSWORD" | base64 -w 0)" >&3
		IFS= read -r -t 10 line <&3
	} 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$RELMQ_MGMT_PORT" || return 1
	[[ $line == HTTP/*" 200 "* ]]
}

ctl() {
	local settings
	mapfile -t settings < <(broker_env)
	enter env -i LANG=C.UTF-8 TERM=dumb "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
		"${settings[@]}" "$rabbit_bin/rabbitmqctl" "$@"
}

# --------------------------------------------------------------- waiting

# Wait until the server answers. Returns 1 when it died because a port was taken
# by somebody else meanwhile; any other failure ends with the log's last lines.
ready_or_dead() { "$2" || gone "$1"; }

port_clash() { # FILE...
	grep -qsE 'eaddrinuse|[Aa]ddress already in use|another mysqld server running on port' "$@"
}

await_db() {
	poll "$timeout_s" ready_or_dead mysqld db_answers ||
		fail_with_log "the database did not answer within $timeout_s s" "$log/mysqld.log" "$log/mysqld.out"
	alive mysqld && return 0
	port_clash "$log/mysqld.log" "$log/mysqld.out" && return 1
	fail_with_log "the database ended while starting" "$log/mysqld.log" "$log/mysqld.out"
}

await_broker() {
	poll "$timeout_s" ready_or_dead broker broker_answers ||
		fail_with_log "RabbitMQ did not answer within $timeout_s s" "$log/broker.log" "$log/broker.out"
	# A node whose own epmd lost the race for its port may have found a stranger's.
	alive epmd || return 1
	alive broker && return 0
	port_clash "$log/broker.out" "$log/epmd.out" && return 1
	tail -n 60 -- "$log/broker.log" 2>/dev/null | port_clash - && return 1
	fail_with_log "RabbitMQ ended while starting" "$log/broker.log" "$log/broker.out"
}

# -------------------------------------------------------------- commands

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
			if ((try > 1)) || listening "$RELMQ_AMQP_PORT" || listening "$RELMQ_MGMT_PORT" ||
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

start_db() {
	if recover_pid mysqld && db_answers; then return 0; fi
	stop mysqld
	write_db_files
	spawn_db
	await_db || fail_with_log "port $RELMQ_MYSQL_PORT was taken by somebody else" "$log/mysqld.log"
}

start_broker() {
	if recover_pid broker && recover_pid epmd && broker_answers; then return 0; fi
	destroy broker
	recover_pid epmd || true
	write_broker_files
	spawn_broker
	await_broker || fail_with_log "a port of the broker was taken by somebody else" "$log/broker.log"
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
