/* test_hosts.c - which server comes next, how lists are written (case K03), and that many
 * programs do not come back in lockstep (case P18). */
#include <criterion/criterion.h>
#include <string.h>

#include "base/backoff.h"
#include "base/hosts.h"

static char *const three[] = { "a", "b:2", "[::1]:3" };
static const relmq__servers list = { three, 3, "unused", 5672 };

Test(hosts, a_host_alone_is_what_it_is)
{
	const relmq__servers alone = { NULL, 0, "::1", 5672 };
	relmq__hosts h = { 0 };
	for (int i = 0; i < 3; i++) {
		relmq__hosts_pick(&h, &alone, true);
		cr_expect_str_eq(h.name, "::1");
		cr_expect_eq(h.port, 5672);
		cr_expect_str_eq(h.text, "[::1]:5672");
		relmq__hosts_leave(&h);
	}
}

Test(hosts, the_next_comes_only_when_one_was_left)
{
	static const char *const texts[] = { "a:5672", "b:2", "[::1]:3", "a:5672" };
	relmq__hosts h = { 0 };
	for (int i = 0; i < 4; i++) {
		relmq__hosts_pick(&h, &list, false);
		cr_expect_str_eq(h.text, texts[i]);
		relmq__hosts_pick(&h, &list, false);
		cr_expect_str_eq(h.text, texts[i], "left though it was good");
		relmq__hosts_leave(&h);
		relmq__hosts_leave(&h); /* an error and what follows from it */
	}
	cr_expect_str_eq(h.name, "a");
}

Test(hosts, programs_begin_anywhere_and_each_gets_round)
{
	int first[3] = { 0 };
	for (int program = 0; program < 600; program++) {
		bool seen[3] = { false };
		relmq__hosts h = { 0 };
		for (int i = 0; i < 3; i++) {
			relmq__hosts_pick(&h, &list, true);
			first[h.at] += i == 0;
			seen[h.at] = true;
			relmq__hosts_leave(&h);
		}
		cr_expect(seen[0] && seen[1] && seen[2]);
	}
	for (int i = 0; i < 3; i++)
		cr_expect_gt(first[i], 120, "%d of 600 began with server %d", first[i], i);
}

/* Twenty programs lose their server at once and try for a minute. Lockstep would put all of
 * them into one tenth of a second again and again. */
Test(hosts, a_recovering_server_is_not_hit_in_lockstep)
{
	enum { PROGRAMS = 20, SECONDS = 60, SLOTS = SECONDS * 10 };
	int slot[SLOTS] = { 0 };
	int attempts = 0;
	int most = 0;
	for (int i = 0; i < PROGRAMS; i++) {
		relmq__backoff b = { 100, 5000, 0 };
		for (int64_t at = 0; (at += relmq__backoff_next_ms(&b)) < SECONDS * 1000;) {
			slot[at / 100]++;
			attempts++;
		}
	}
	cr_expect_lt(attempts, PROGRAMS * 30, "the delays do not grow: %d attempts", attempts);
	cr_expect_gt(attempts, PROGRAMS * 12, "the delays are not capped: %d attempts", attempts);
	for (int i = SLOTS / 6; i < SLOTS; i++) /* after ten seconds */
		most = slot[i] > most ? slot[i] : most;
	cr_expect_lt(most, PROGRAMS / 2, "%d of %d in one tenth of a second", most, PROGRAMS);
}

static const struct {
	const char *text, *name;
	int64_t port; /* 0: stays */
} good[] = {
	{ "h", "h", 0 },
	{ "h:1", "h", 1 },
	{ "db.example.com:65535", "db.example.com", 65535 },
	{ "10.0.0.1:5671", "10.0.0.1", 5671 },
	{ "[::1]", "::1", 0 },
	{ "[::1]:5672", "::1", 5672 },
	{ "[fe80::1:2]:7", "fe80::1:2", 7 },
};

static const char *const bad[] = { "", ":", ":1", "h:", "h:0", "h:65536", "h:1x", "h:-1", "h: 1",
	"h:99999999999999999999", "::1", "::1:5672", "[::1", "[]:1", "[h]:1", "[::1]5672",
	"[::1]:", "[::1]:0", "[::1]x" };

Test(hosts, entries_of_a_list)
{
	char name[RELMQ__HOST_SIZE];
	char longest[RELMQ__HOST_SIZE + 1];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t port = 0;
		const char *wrong = relmq__host_parse(good[i].text, name, &port);
		cr_assert_null(wrong, "%s: %s", good[i].text, wrong);
		cr_expect_str_eq(name, good[i].name);
		cr_expect_eq(port, good[i].port, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t port = 0;
		cr_expect_not_null(relmq__host_parse(bad[i], name, &port), "%s", bad[i]);
	}
	memset(longest, 'h', sizeof(longest));
	longest[RELMQ__HOST_SIZE] = '\0';
	int64_t port = 0;
	cr_expect_not_null(relmq__host_parse(longest, name, &port));
	longest[RELMQ__HOST_SIZE - 1] = '\0';
	cr_expect_null(relmq__host_parse(longest, name, &port));
}

Test(hosts, a_name_that_stands_alone)
{
	static const char *const fine[] = { "h", "10.0.0.1", "::1", "fe80::1:2", "::5672",
		"1:2:3:4:5:6:7:3306" };
	static const char *const wrong[] = { "[::1]", "h:3306", "::1:3306", "[::1]:3306", "a:b:c" };
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		cr_expect_null(relmq__host_alone(fine[i], 3306), "%s", fine[i]);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_not_null(relmq__host_alone(wrong[i], 3306), "%s", wrong[i]);
}
