#!/usr/bin/env bash
# check_exports.sh LIBRARY - the shared library exports what exports.txt lists, no more, no less.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
diff -u --label exports.txt --label "${1##*/}" <(sort "$here/exports.txt") \
	<(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
