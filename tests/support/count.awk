# count.awk - add up what a verbose ctest log holds; print what failed without
# saying which test it was, then one line "N passed, N failed, N skipped".
#
# A Criterion program counts as many tests as its synthesis says, any other
# program as one. `fixtures` names the ctest entries that only start and stop
# servers: they count when they fail.

BEGIN {
	count = split(fixtures, names, "\n")
	for (i = 1; i <= count; i++)
		fixture[names[i]] = 1
	passed = failed = skipped = 0
}

# "12: text" is a line of test 12. Tests may run at once: keep them apart.
/^[0-9]+: / {
	test = $1 + 0
	text = substr($0, index($0, ":") + 2)
	lines[test]++
	output[test, lines[test]] = text
	if (text ~ /^\[SKIP\] /)
		skips[test]++
	if (text ~ /^\[====\] Synthesis: Tested: /) {
		synthesis[test]++
		match(text, /Tested: [0-9]+/)
		tested = substr(text, RSTART + 8, RLENGTH - 8)
		match(text, /Passing: [0-9]+/)
		good = substr(text, RSTART + 9, RLENGTH - 9)
		# "Crashing" is part of "Failing", and both of "Tested".
		tests_passed[test] += good
		tests_failed[test] += tested - good
	}
}

# " 3/15 Test  #3: name ......   Passed    0.05 sec"
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
	match($0, /#[0-9]+: /)
	test = substr($0, RSTART + 1, RLENGTH - 3) + 0
	name = substr($0, RSTART + RLENGTH)
	sub(/ +\.\.*.*$/, "", name)
	good = /[ .]Passed +[0-9.]+ sec/
	skip = /\*\*\*Skipped/ || /\*\*\*Not Run \(Disabled\)/

	passed += tests_passed[test]
	failed += tests_failed[test]
	skipped += skips[test]
	if (skip)
		skipped++
	else if (good && !synthesis[test] && !(name in fixture))
		passed++
	else if (!good && !tests_failed[test]) {
		# Died, timed out, leaked, or was not even started.
		failed++
		tell(test, name)
	}
}

function tell(test, name,    i) {
	printf "--- %s failed; its last lines:\n", name
	for (i = lines[test] > 40 ? lines[test] - 39 : 1; i <= lines[test]; i++)
		print "    " output[test, i]
}

END {
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
}
