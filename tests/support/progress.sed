# progress.sed - of ctest's verbose output, what a person wants to see pass by: one
# line a test, all that a failed assertion says, and one line a program. For sed -unE:
# awk would hold lines back until a block is full.

/^[0-9]+: \[----\] Criterion v[0-9]/d
s/^[0-9]+: (\[(PASS|FAIL|SKIP|----)\] .*)/    \1/p
s/^ +Start +[0-9]+: (.*)/\1 .../p
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /p
/^No tests were found/p
