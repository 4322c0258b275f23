# shellcheck shell=bash
#
# tls.sh - certificates for the servers of a stack, made once and good for ten years: an
# authority of its own, what the servers show, and what a program must refuse.
#
# DIR/tls/ca.pem       the authority         other-ca.pem  one that signed nothing here
# DIR/tls/server.pem   shown by both servers, for the name localhost and no other
# DIR/tls/good.pem     the same, to put it back when a test has put another in its place
# DIR/tls/expired.pem  for the same key, and no longer valid
# DIR/tls/client.pem   for a program, with client.key; encrypted.key has a passphrase

make_certificates() {
	local tls=$dir/tls fresh=$dir/tls.new
	if [[ -d $tls ]]; then
		cp -- "$tls/good.pem" "$tls/server.pem"
		return 0
	fi
	command -v openssl >/dev/null || die "openssl not found (./dev setup installs it)"
	rm -rf -- "$fresh"
	mkdir -p -- "$fresh"
	{
		authority ca 'relmq test authority'
		authority other-ca 'some other authority'
		request server localhost
		sign server good 3650 'subjectAltName=DNS:localhost'
		sign server expired -1 'subjectAltName=DNS:localhost'
		request client relmq
		sign client client 3650 'extendedKeyUsage=clientAuth'
		cp -- "$fresh/good.pem" "$fresh/server.pem"
		openssl pkey -in "$fresh/client.key" -aes256 -passout pass:secret -out "$fresh/encrypted.key"
	} >"$log/tls.log" 2>&1 || fail_with_log "making certificates failed" "$log/tls.log"
	rm -f -- "$fresh"/*.csr
	mv -- "$fresh" "$tls"
}

# Elliptic curves: RSA keys would take a second each.
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

authority() { # FILE NAME
	openssl req -x509 "${curve[@]}" -keyout "$fresh/$1.key" -out "$fresh/$1.pem" -days 3650 -subj "/CN=$2"
}

request() { # FILE NAME
	openssl req -new "${curve[@]}" -keyout "$fresh/$1.key" -out "$fresh/$1.csr" -subj "/CN=$2"
}

sign() { # REQUEST FILE DAYS EXTENSION
	openssl x509 -req -in "$fresh/$1.csr" -CA "$fresh/ca.pem" -CAkey "$fresh/ca.key" -set_serial "$RANDOM" \
		-days "$3" -extfile <(printf '%s\n' "$4") -out "$fresh/$2.pem"
}
