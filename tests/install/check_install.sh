#!/usr/bin/env bash
# check_install.sh BUILD_DIR - install into a folder, and build a small program against it
# by pkg-config and by the CMake package, with the shared and with the static library.
set -euo pipefail
build=$1
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
libdir=$(dirname "$(find "$work/prefix" -name relmq.pc)")
export PKG_CONFIG_PATH=$libdir

flags=$(pkg-config --cflags --libs relmq)
# shellcheck disable=SC2086 # flags are words
cc -std=c11 -Wall -Wextra -Werror "$here/consumer/app.c" $flags -o "$work/app"
LD_LIBRARY_PATH=${libdir%/pkgconfig} "$work/app"

cmake -S "$here/consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/cmake" >/dev/null
"$work/cmake/app_shared"
"$work/cmake/app_static"
for program in relmq relmq-publisher relmq-consumer relmq-dlx; do
	"$work/prefix/bin/$program" --version
done
