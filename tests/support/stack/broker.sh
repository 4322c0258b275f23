# shellcheck shell=bash
#
# broker.sh - the RabbitMQ node and its epmd: files, start, and whether it answers.

pick_broker_ports() {
	free_port
	RELMQ_AMQP_PORT=$free
	free_port
	RELMQ_AMQP_TLS_PORT=$free
	free_port
	RELMQ_MGMT_PORT=$free
	free_port
	RELMQ_DIST_PORT=$free
	free_port
	RELMQ_EPMD_PORT=$free
}

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
		listeners.ssl.1 = 127.0.0.1:$RELMQ_AMQP_TLS_PORT
		ssl_options.cacertfile = $dir/tls/ca.pem
		ssl_options.certfile = $dir/tls/server.pem
		ssl_options.keyfile = $dir/tls/server.key
		ssl_options.verify = verify_peer
		ssl_options.fail_if_no_peer_cert = false
	CONF
	if has_ipv6; then
		cat >>"$broker/rabbitmq.conf" <<-CONF
			listeners.tcp.2 = ::1:$RELMQ_AMQP_PORT
			listeners.ssl.2 = ::1:$RELMQ_AMQP_TLS_PORT
		CONF
	fi
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

start_broker() {
	if recover_pid broker && recover_pid epmd && broker_answers; then return 0; fi
	destroy broker
	recover_pid epmd || true
	write_broker_files
	spawn_broker
	await_broker || fail_with_log "a port of the broker was taken by somebody else" "$log/broker.log"
}
