#!/bin/bash
# Builds the Debian packages of a checkout, with the tools of the Debian that it runs on:
#
#   deploy/debian/build.sh FOLDER      the .deb files go there
#
# Needs debhelper and what debian/control names; the names and versions of the packages come from
# deploy/debian. $SOURCE_DATE_EPOCH sets the times in them; without it, the changelog does.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
OUT=$(realpath "${1:?build.sh: name a folder}")
TREE=$(mktemp -d "${TMPDIR:-/tmp}/rdzv-debian.XXXXXX")
trap 'rm -rf "$TREE"' EXIT

mkdir "$TREE/rdzv"
"$ROOT/deploy/source.sh" "$TREE/rdzv"
cp -r "$TREE/rdzv/deploy/debian" "$TREE/rdzv/debian"
rm "$TREE/rdzv/debian/build.sh"
"$ROOT/deploy/license.sh" debian >>"$TREE/rdzv/debian/copyright"
cd "$TREE/rdzv"
dpkg-buildpackage --build=binary --no-sign >"$TREE/log" 2>&1 || { tail -n 60 "$TREE/log"; exit 1; }
mv "$TREE"/*.deb "$OUT"
