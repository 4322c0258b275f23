# shellcheck shell=bash
#
# process.sh - starting, finding and ending servers that are ours, and no others.

# Every server carries this in its environment. It is how a process is known to
# be ours whatever a stale pid file says, and how one is found whose pid file is lost.
mark() { printf 'RELMQ_STACK_SERVER=%s:%s' "$1" "$dir"; }

carries() { # PID MARK
	grep -qszxF -- "$2" "/proc/$1/environ"
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

# Pids of everything that carries NAME's mark, helpers of the server included. One look at
# all processes: a fork for each would take seconds on a busy machine.
marked() { # NAME
	{ grep -lszxF -- "$(mark "$1")" /proc/[0-9]*/environ || true; } | cut -d/ -f3
}

# A server whose pid file was lost (stack.sh itself killed between fork and
# write) is found by its mark, so that it is adopted or stopped, never forgotten.
recover_pid() { # NAME
	local pid comm
	alive "$1" && return 0
	for pid in $(marked "$1"); do
		comm=$(cat "/proc/$pid/comm" 2>/dev/null) || continue # it has just ended
		case $comm in
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

# What await_db and await_broker wait for: whether it answers or is dead is looked at
# afterwards. They return 1 when it died because a port was taken by somebody else
# meanwhile; any other failure ends with the log's last lines.
ready_or_dead() { "$2" || ended "$1"; }

# In the middle of an execve a process has no environment, and so no mark: a server that
# is still being started through scripts is dead only when its process is.
ended() { # NAME
	local pid stat
	gone "$1" || return 1
	pid=$(cat "$run/$1.pid" 2>/dev/null) || return 0
	stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 0
	stat=${stat##*) }
	[[ $stat == [ZX]* ]]
}

port_clash() { # FILE...
	grep -qsE 'eaddrinuse|[Aa]ddress already in use|another mysqld server running on port' "$@"
}
