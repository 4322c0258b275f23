# shellcheck shell=bash
#
# database.sh - mariadbd or mysqld: its files, its start, and whether it answers.

pick_db_port() {
	free_port
	RELMQ_MYSQL_PORT=$free
}

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
		bind-address = 127.0.0.1$(has_ipv6 && printf ',::1')
		skip-name-resolve
		loose-mysqlx = 0
		loose-secure-file-priv = $dir/mysql/tmp
		log-error = $log/mysqld.log
		innodb-buffer-pool-size = 256M
		max-connections = 200
		ssl-ca = $dir/tls/ca.pem
		ssl-cert = $dir/tls/server.pem
		ssl-key = $dir/tls/server.key
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
		CREATE USER IF NOT EXISTS 'relmq_tls'@'%' IDENTIFIED BY '$RELMQ_MYSQL_PASSWORD' REQUIRE SSL;
		GRANT ALL PRIVILEGES ON \`relmq%\`.* TO 'relmq_tls'@'%';
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
	# Nobody of ours lives here any more. Whatever has the number of a killed server by now, be it
	# the server's own zombie, must not keep the next one from its socket.
	rm -f -- "$RELMQ_MYSQL_SOCKET" "$RELMQ_MYSQL_SOCKET.lock"
	: >"$log/mysqld.log"
	spawn mysqld "$log/mysqld.out" "$mysqld" --defaults-file="$run/my.cnf" --init-file="$run/init.sql"
}

sql() { enter "$client" --defaults-file="$run/client.cnf" "$@"; }

db_answers() { sql -e 'DO 1' >/dev/null 2>&1 </dev/null; }

await_db() {
	poll "$timeout_s" ready_or_dead mysqld db_answers ||
		fail_with_log "the database did not answer within $timeout_s s" "$log/mysqld.log" "$log/mysqld.out"
	alive mysqld && return 0
	port_clash "$log/mysqld.log" "$log/mysqld.out" && return 1
	fail_with_log "the database ended while starting" "$log/mysqld.log" "$log/mysqld.out"
}

start_db() {
	if recover_pid mysqld && db_answers; then return 0; fi
	stop mysqld
	write_db_files
	spawn_db
	await_db || fail_with_log "port $RELMQ_MYSQL_PORT was taken by somebody else" "$log/mysqld.log"
}
