#!/bin/bash
# Builds rdzvd for release and measures it beside every peer that is there; see README.md.
#
#   run.sh [OPTION OF run.py]...      as --quick, or --only scale,direct --rounds 5
#
# The figures go to figures.json of the build folder, and the plots beside it if matplotlib is there.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build-release}
torch=${RDZV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdzv}/torch-2.13.0/bin/python3
args=(--build "$build" --json "$build/figures.json")

[ -e "$build/build.ninja" ] || meson setup "$build" "$here/../.." --buildtype=release >/dev/null
ninja -C "$build" rdzv/rdzvd tests/bench/rdzv-bench tests/bench/libresolver.so >/dev/null
ulimit -n "$(ulimit -Hn)"
[ ! -x "$torch" ] || args+=(--torch-python "$torch")
! /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || args+=(--plots "$build/plots")
exec /usr/bin/python3 "$here/run.py" "${args[@]}" "$@"
