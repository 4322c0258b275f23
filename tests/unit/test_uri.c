/* test_uri.c - addresses, and the mistakes people make in them (cases K01 to K03). */
#include <criterion/criterion.h>
#include <string.h>

#include "base/uri.h"

static const struct {
	const char *uri, *user, *password, *host;
	int64_t port;
	const char *vhost;
} good[] = {
	/* what is left out keeps its default; no path and "/" mean the vhost "/" */
	{ "amqp://", "relmq", "", "127.0.0.1", 5672, "/" },
	{ "amqp://h", "relmq", "", "h", 5672, "/" },
	{ "amqp://h/", "relmq", "", "h", 5672, "/" },
	{ "amqp://h/%2F", "relmq", "", "h", 5672, "/" },
	{ "amqp://h/%2f", "relmq", "", "h", 5672, "/" },
	{ "amqp://h/a%2Fb", "relmq", "", "h", 5672, "a/b" },
	{ "amqp://:5673/x", "relmq", "", "127.0.0.1", 5673, "x" },
	{ "AMQP://u@h:1", "u", "", "h", 1, "/" },
	{ "amqp://u:@h:65535", "u", "", "h", 65535, "/" },
	{ "amqp://u:p@h:5673/v", "u", "p", "h", 5673, "v" },
	{ "amqp://u:p:q@h", "u", "p:q", "h", 5672, "/" },
	{ "amqp://u:p%40ss%2Fw%23rd%25%3A$%201@h", "u", "p@ss/w#rd%:$ 1", "h", 5672, "/" },
	{ "amqp://%C3%A9:%ff%01@%68/%e2%82%ac", "\xc3\xa9", "\xff\x01", "h", 5672, "\xe2\x82\xac" },
	{ "amqp://u:p@[::1]:5673/%2F", "u", "p", "::1", 5673, "/" },
	{ "amqp://[::1]", "relmq", "", "::1", 5672, "/" },
	{ "amqp://[fe80::1:2]/v", "relmq", "", "fe80::1:2", 5672, "v" },
	{ "amqp://[::ffff:10.0.0.1]:99", "relmq", "", "::ffff:10.0.0.1", 99, "/" },
};

static relmq__settings defaults(void)
{
	relmq__settings s;
	cr_assert_eq(relmq__settings_default(&s, NULL), RELMQ_OK);
	free(s.rabbitmq.password);
	free(s.mysql.password);
	s.rabbitmq.password = strdup("");
	s.mysql.password = strdup("");
	return s;
}

Test(uri, rabbitmq)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		relmq__settings s = defaults();
		relmq_error err = RELMQ_ERROR_INIT;
		cr_expect_eq(relmq__uri_rabbitmq(good[i].uri, &s.rabbitmq, &err), RELMQ_OK,
		    "%s: %s", good[i].uri, err.text);
		cr_expect_str_eq(s.rabbitmq.user, good[i].user, "%s", good[i].uri);
		cr_expect_str_eq(s.rabbitmq.password, good[i].password, "%s", good[i].uri);
		cr_expect_str_eq(s.rabbitmq.host, good[i].host, "%s", good[i].uri);
		cr_expect_eq(s.rabbitmq.port, good[i].port, "%s", good[i].uri);
		cr_expect_str_eq(s.rabbitmq.vhost, good[i].vhost, "%s", good[i].uri);
		relmq__settings_free(&s);
	}
}

Test(uri, mysql)
{
	relmq__settings s = defaults();
	cr_assert_eq(relmq__uri_mysql("mysql://u:p%40@[::1]:3307/d%2F1", &s.mysql, NULL), RELMQ_OK);
	cr_expect_str_eq(s.mysql.user, "u");
	cr_expect_str_eq(s.mysql.password, "p@");
	cr_expect_str_eq(s.mysql.host, "::1");
	cr_expect_eq(s.mysql.port, 3307);
	cr_expect_str_eq(s.mysql.database, "d/1");
	cr_assert_eq(relmq__uri_mysql("mysql://h2/", &s.mysql, NULL), RELMQ_OK);
	cr_expect_str_eq(s.mysql.host, "h2");
	cr_expect_str_eq(s.mysql.database, "d/1", "no path: the database stays");
	cr_expect_str_eq(s.mysql.user, "u");
	relmq__settings_free(&s);
}

Test(uri, amqps_is_tls_on_its_own_port_and_a_query_names_files)
{
	relmq__settings s = defaults();
	relmq_error err = RELMQ_ERROR_INIT;
	cr_expect_not(s.rabbitmq.tls.enabled);
	cr_assert_eq(
	    relmq__uri_rabbitmq("AMQPS://u:p@h", &s.rabbitmq, &err), RELMQ_OK, "%s", err.text);
	cr_expect(s.rabbitmq.tls.enabled);
	cr_expect(s.rabbitmq.tls.verify);
	cr_expect_eq(s.rabbitmq.port, 5671);
	cr_expect_str_eq(s.rabbitmq.vhost, "/");
	cr_assert_eq(
	    relmq__uri_rabbitmq("amqps://[::1]:9/a%2Fb?cacertfile=/dev/null&"
	                        "certfile=%2Fdev%2Fnull&keyfile=/dev/null&verify=verify_none",
	        &s.rabbitmq, &err),
	    RELMQ_OK, "%s", err.text);
	cr_expect_eq(s.rabbitmq.port, 9);
	cr_expect_str_eq(s.rabbitmq.host, "::1");
	cr_expect_str_eq(s.rabbitmq.vhost, "a/b");
	cr_expect_str_eq(s.rabbitmq.tls.ca_file, "/dev/null");
	cr_expect_str_eq(s.rabbitmq.tls.cert_file, "/dev/null");
	cr_expect_str_eq(s.rabbitmq.tls.key_file, "/dev/null");
	cr_expect_not(s.rabbitmq.tls.verify);
	relmq__settings_free(&s);
}

Test(uri, on_top_of_a_configuration)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(relmq__settings_parse(&s,
	                 "{\"rabbitmq\":{\"hosts\":[\"a\",\"b\"],\"port\":5999,"
	                 "\"tls\":{\"enabled\":true}},\"mysql\":{\"hosts\":[\"c\"]}}",
	                 &err),
	    RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__uri_rabbitmq("amqp:///v", &s.rabbitmq, NULL), RELMQ_OK);
	cr_expect_eq(s.rabbitmq.host_count, 2, "no host is named: the list stays");
	cr_assert_eq(relmq__uri_rabbitmq("amqp://h", &s.rabbitmq, NULL), RELMQ_OK);
	cr_expect_eq(s.rabbitmq.host_count, 0);
	cr_expect_str_eq(s.rabbitmq.host, "h");
	cr_expect(s.rabbitmq.tls.enabled, "an address without s made it plain text");
	cr_assert_eq(relmq__uri_rabbitmq("amqps://h", &s.rabbitmq, NULL), RELMQ_OK);
	cr_expect_eq(s.rabbitmq.port, 5999);
	cr_assert_eq(relmq__uri_mysql("mysql://m", &s.mysql, NULL), RELMQ_OK);
	cr_expect_eq(s.mysql.host_count, 0);
	cr_expect_str_eq(s.mysql.host, "m");
	relmq__settings_free(&s);
}

Test(uri, a_query_turns_tls_on_for_mysql)
{
	static const char *const uris[] = { "mysql://h/d?tls=on", "mysql://h/d?verify=verify_peer",
		"mysql://h?cacertfile=/dev/null" };
	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
		relmq__settings s = defaults();
		cr_expect_not(s.mysql.tls.enabled);
		cr_assert_eq(relmq__uri_mysql(uris[i], &s.mysql, NULL), RELMQ_OK, "%s", uris[i]);
		cr_expect(s.mysql.tls.enabled, "%s", uris[i]);
		cr_expect(s.mysql.tls.verify, "%s", uris[i]);
		relmq__settings_free(&s);
	}
}

/* The password in them is always "pwsecret" or a part of it, which no text may show. */
static const struct {
	const char *uri, *text; /* the text begins so */
} bad[] = {
	{ "", "amqp address: scheme: " },
	{ "amqp", "amqp address: scheme: " },
	{ "amqp:/h", "amqp address: scheme: " },
	{ "amqpsx://u:pwsecret@h", "amqp address: scheme: " },
	{ "amqps:/u:pwsecret@h", "amqps address: scheme: " },
	{ "amqps://u:pw@secret@h", "amqps address: password: " },
	{ "mysql://u:pwsecret@h", "amqp address: scheme: " },
	{ "amqp://u:pw@secret@h", "amqp address: password: " },
	{ "amqp://u:pw/secret@h", "amqp address: password: " },
	{ "amqp://u:pw#secret@h", "amqp address: password: " },
	{ "amqp://u:pw?secret@h", "amqp address: password: " },
	{ "amqp://u:pw secret@h", "amqp address: password: " },
	{ "amqp://u:pw%secret@h", "amqp address: password: " },
	{ "amqp://u:pwsecret%2@h", "amqp address: password: " },
	{ "amqp://u:pwsecret%@h", "amqp address: password: " },
	{ "amqp://u:pw%00secret@h", "amqp address: password: " },
	{ "amqp://u:pw\nsecret@h", "amqp address: password: " },
	{ "amqp://u:p@ss/wsecret#rd%:$ 1@h/", "amqp address: password: " },
	{ "amqp://u/x:pwsecret@h", "amqp address: user: " },
	{ "amqp://:pwsecret@h", "amqp address: user: " },
	{ "amqp://@h", "amqp address: user: " },
	{ "amqp://u:pwsecret@::1:5672", "amqp address: host: " },
	{ "amqp://u:pwsecret@::1", "amqp address: host: " },
	{ "amqp://u:pwsecret@[::1", "amqp address: host: " },
	{ "amqp://u:pwsecret@[h]", "amqp address: host: " },
	{ "amqp://u:pwsecret@[]", "amqp address: host: " },
	{ "amqp://u:pwsecret@[::1]5672", "amqp address: host: " },
	{ "amqp://u:pwsecret@h]", "amqp address: host: " },
	{ "amqp://u:pwsecret@h:", "amqp address: port: " },
	{ "amqp://u:pwsecret@h:0", "amqp address: port: " },
	{ "amqp://u:pwsecret@h:65536", "amqp address: port: " },
	{ "amqp://u:pwsecret@h:18446744073709551617", "amqp address: port: " },
	{ "amqp://u:pwsecret@h:-1", "amqp address: port: " },
	{ "amqp://u:pwsecret@[::1]:x", "amqp address: port: " },
	{ "amqp://u:pwsecret", "amqp address: port: " },
	{ "amqp://u:pwsecret@h/a/b", "amqp address: vhost: " },
	{ "amqp://u:pwsecret@h//", "amqp address: vhost: " },
	{ "amqp://u:pwsecret@h/%", "amqp address: vhost: " },
	{ "amqp://u:pwsecret@h/v?heartbeat=1", "amqp address: query: " },
	{ "amqp://u:pwsecret@h/v#x", "amqp address: fragment: " },
	{ "amqp://u:pwsecret@h?heartbeat=1", "amqp address: query: " },
	{ "amqp://u:pwsecret@h#x", "amqp address: fragment: " },
	{ "amqp://u:pwsecret@h?", "amqp address: query: " },
	{ "amqp://u:pwsecret@h?verify=verify_peer", "amqp address: query: is about TLS" },
	{ "amqp://u:pwsecret@h?tls=on", "amqp address: query: is about TLS" },
	{ "amqps://u:pwsecret@h?verify=no", "amqps address: verify: " },
	{ "amqps://u:pwsecret@h?verify", "amqps address: query: " },
	{ "amqps://u:pwsecret@h?verify=verify_none&", "amqps address: query: " },
	{ "amqps://u:pwsecret@h?tls=off", "amqps address: tls: " },
	{ "amqps://u:pwsecret@h?cacertfile=%zz", "amqps address: cacertfile: " },
	{ "amqps://u:pwsecret@h?cacertfile=/no/such", "amqps address: query: ca_file: " },
	{ "amqps://u:pwsecret@h?certfile=/dev/null", "amqps address: query: key_file: is missing" },
};

Test(uri, a_refusal_names_the_part_shows_no_password_and_changes_nothing)
{
	relmq__settings s = defaults();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		relmq_error err = RELMQ_ERROR_INIT;
		cr_expect_eq(relmq__uri_rabbitmq(bad[i].uri, &s.rabbitmq, &err), RELMQ_ECONFIG,
		    "%s", bad[i].uri);
		cr_expect_eq(strncmp(err.text, bad[i].text, strlen(bad[i].text)), 0, "%s: %s",
		    bad[i].uri, err.text);
		cr_expect_null(strstr(err.text, "secret"), "%s: %s", bad[i].uri, err.text);
		cr_expect_str_eq(s.rabbitmq.host, "127.0.0.1");
		cr_expect_str_eq(s.rabbitmq.user, "relmq");
		cr_expect_str_empty(s.rabbitmq.password);
		cr_expect_not(s.rabbitmq.tls.enabled, "%s", bad[i].uri);
		cr_expect(s.rabbitmq.tls.verify, "%s", bad[i].uri);
	}
	relmq__settings_free(&s);
}

Test(uri, a_part_has_at_most_255_bytes)
{
	char uri[300] = "amqp://h/";
	relmq__settings s = defaults();
	memset(uri + 9, 'v', 255);
	cr_expect_eq(relmq__uri_rabbitmq(uri, &s.rabbitmq, NULL), RELMQ_OK);
	memset(uri + 9, 'v', 256);
	cr_expect_eq(relmq__uri_rabbitmq(uri, &s.rabbitmq, NULL), RELMQ_ECONFIG);
	relmq__settings_free(&s);
}
