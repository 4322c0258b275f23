# shellcheck shell=bash
#
# place.sh - where a stack lives, its ports, and the file that tells programs about them.

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
	# A stack that was made before there was TLS.
	if [[ -z ${RELMQ_AMQP_TLS_PORT:-} ]]; then
		free_port
		RELMQ_AMQP_TLS_PORT=$free
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

has_ipv6() { grep -qs '^0\{31\}1 ' /proc/net/if_inet6; }

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
		RELMQ_AMQP_TLS_PORT=$RELMQ_AMQP_TLS_PORT
		RELMQ_MYSQL_TLS_USER=relmq_tls
		RELMQ_TLS_DIR=$dir/tls
		RELMQ_MGMT_PORT=$RELMQ_MGMT_PORT
		RELMQ_NODENAME=$RELMQ_NODENAME
		RELMQ_DIST_PORT=$RELMQ_DIST_PORT
		RELMQ_EPMD_PORT=$RELMQ_EPMD_PORT
	ENV
	mv -f -- "$dir/env.new" "$dir/env"
}

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
