#!/bin/bash
# Makes all that a release consists of, from this checkout:
#
#   deploy/release.sh FOLDER [PART...]      parts: static wheel image debian chart source; without one, all
#
#   static   rdzvd and rdzv-manifest without shared libraries, for amd64 and arm64, with an SBOM each
#   wheel    rdzvd, rdzvctl, rdzv-manifest and rdzv-bench as a Python package, for amd64 and arm64, with an SBOM in each
#   image    OCI images of rdzvd, and of rdzv-manifest as a KRM function, as archives for `skopeo copy` or `podman load`
#   debian   Debian packages for this machine
#   chart    the Helm chart, as `helm package` makes it
#   source   the sources
#
# And FOLDER/SHA256SUMS. Two runs on the same sources and packages give the same bytes, wherever the
# checkout and FOLDER are: times are $SOURCE_DATE_EPOCH, else that of the last commit. What it needs:
# tests/support/install.sh packages.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${1:?release.sh: name a folder}
shift
[ $# -gt 0 ] || set -- static wheel image debian chart source
mkdir -p "$OUT"
OUT=$(realpath "$OUT")
LICENSE=$("$ROOT/deploy/license.sh")
VERSION=$(sed -nE "s/^ +version: '([^']*)'.*/\1/p;T;q" "$ROOT/meson.build")
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$ROOT" -c safe.directory="$ROOT" log -1 --format=%ct 2>/dev/null ||
        date --date="$(sed -nE 's/^ -- .*>  //p' "$ROOT/deploy/debian/changelog" | head -n 1)" +%s)
fi
export SOURCE_DATE_EPOCH
WORK=$(mktemp -d "${TMPDIR:-/tmp}/rdzv-release.XXXXXX")
trap 'rm -rf "$WORK"' EXIT

# archive FILE FOLDER...: archives folders of the current folder, the same bytes on every machine and day
archive()
{
    local file=$1
    shift
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
        "$@" | gzip --no-name -9 >"$file"
}

make_static()
{
    local arch name

    for arch in amd64 arm64; do
        name=rdzv-$VERSION-linux-$arch
        mkdir -p "$WORK/static/$name"
        build_static "$arch"
        cp "$WORK/$arch/rdzvd" "$WORK/$arch/rdzv-manifest" "$WORK/static/$name"
        "$ROOT/deploy/sbom.py" "$name" "$VERSION" "$LICENSE" "$WORK/$arch/packages" \
            "$WORK/$arch/rdzvd" "$WORK/$arch/rdzv-manifest" >"$OUT/$name.spdx.json"
        (cd "$WORK/static" && archive "$OUT/$name.tar.gz" "$name")
    done
}

# build_static ARCHITECTURE: once for all parts, into $WORK
build_static()
{
    [ -e "$WORK/$1/rdzvd" ] || "$ROOT/deploy/static.sh" "$1" "$WORK/$1"
}

make_wheel()
{
    local arch

    for arch in amd64 arm64; do
        build_static "$arch"
        "$ROOT/deploy/sbom.py" "rdzvd-$VERSION-linux-$arch" "$VERSION" "$LICENSE" "$WORK/$arch/packages" \
            "$WORK/$arch"/rdzv{d,ctl,-manifest,-bench} >"$WORK/$arch/wheel.spdx.json"
        "$ROOT/deploy/wheel.py" "$OUT" "$VERSION" "$LICENSE" "$WORK/$arch" "$WORK/$arch/wheel.spdx.json"
    done
}

make_image()
{
    local arch name

    for arch in amd64 arm64; do
        build_static "$arch"
    done
    for name in rdzvd rdzv-manifest; do
        "$ROOT/deploy/image.py" "$WORK/image/$name" "$VERSION" "$LICENSE" \
            "amd64=$WORK/amd64/$name" "arm64=$WORK/arm64/$name"
        (cd "$WORK/image/$name" && tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
            --numeric-owner --mode=u=rwX,go=rX --format=ustar --file="$OUT/$name-$VERSION.oci.tar" -- *)
    done
}

make_debian()
{
    "$ROOT/deploy/debian/build.sh" "$OUT"
}

make_chart()
{
    sed -n "s/^\(version\|appVersion\): //p" "$ROOT"/deploy/helm/*/*.yaml | grep -vqxF "$VERSION" &&
        { echo "release.sh: the chart or the plugin of helm is not of version $VERSION" >&2; exit 1; }
    mkdir "$WORK/chart"
    cp -r "$ROOT/deploy/helm/rdzv" "$WORK/chart"
    printf 'annotations:\n  artifacthub.io/license: "%s"\n' "$LICENSE" >>"$WORK/chart/rdzv/Chart.yaml"
    (cd "$WORK/chart" && archive "$OUT/rdzv-chart-$VERSION.tgz" rdzv)
}

make_source()
{
    mkdir -p "$WORK/source/rdzv-$VERSION"
    "$ROOT/deploy/source.sh" "$WORK/source/rdzv-$VERSION"
    (cd "$WORK/source" && archive "$OUT/rdzv-$VERSION.tar.gz" "rdzv-$VERSION")
}

for part in "$@"; do
    case $part in
    static | wheel | image | debian | chart | source) "make_$part" ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
done
cd "$OUT"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS
