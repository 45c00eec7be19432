#!/bin/bash
# Builds rdzvd and rdzv-manifest without shared libraries, from this checkout and Debian's packages:
#
#   deploy/static.sh ARCHITECTURE FOLDER      amd64 or arm64; FOLDER/rdzvd and FOLDER/rdzv-manifest
#
# All libraries, glibc too, are those of the Debian that it runs on, for ARCHITECTURE: they are unpacked
# into a folder of their own and not installed, so no root is needed. Four are compiled from their source
# packages: cJSON, which has no static library there; and libxcrypt, libevent and libyaml, of which rdzvd then
# has only the functions that it calls, and one password hash: 260 kB less. What was unpacked and compiled
# is kept in $RDZV_CACHE, else $XDG_CACHE_HOME/rdzv, else ~/.cache/rdzv; FOLDER/packages lists it, for an SBOM.
#
# Needs the compiler for ARCHITECTURE (gcc-aarch64-linux-gnu), meson, protobuf-c-compiler, dpkg-dev, autoconf,
# automake, libtool.
# The result depends on nothing but the sources and those packages: not on folders, not on the time.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ARCH=${1:?static.sh: name an architecture, amd64 or arm64}
OUT=$(realpath "${2:?static.sh: name a folder}")
case $ARCH in
amd64) TRIPLET=x86_64-linux-gnu CPU=x86_64 ;;
arm64) TRIPLET=aarch64-linux-gnu CPU=aarch64 ;;
*) echo "static.sh: amd64 or arm64, not $ARCH" >&2; exit 2 ;;
esac
SYSROOT=${RDZV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdzv}/static-$ARCH
PACKAGES="libc6-dev libcjson-dev libcrypt-dev libevent-dev libnghttp2-dev libprotobuf-c-dev libssl-dev libyaml-dev linux-libc-dev"
LIBRARY_FLAGS="-fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fstack-protector-strong"
LIBRARY_FLAGS="$LIBRARY_FLAGS -D_FORTIFY_SOURCE=2"

# An apt of its own: lists, cache and state are below $1, and the machine's stay as they are.
private_apt()
{
    local apt=$1
    shift

    apt-get -qq -o APT::Architecture="$ARCH" -o APT::Architectures="$ARCH" -o APT::Sandbox::User= \
        -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" \
        -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null "$@"
}

# The machine's own Debian, with its sources.
list_sources()
{
    local codename uri release kind

    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sort -u | sed -nE "s/^(.*) ($codename(-updates|-security)?) main$/\1 \2/p" |
        while read -r uri release; do
            for kind in deb deb-src; do
                echo "$kind $uri $release main"
            done
        done
}

make_sysroot()
{
    local apt=$1/apt source

    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$1/packages" "$1/source"
    : >"$apt/status"
    list_sources >"$apt/sources.list"
    private_apt "$apt" update
    (cd "$1/packages" && private_apt "$apt" download $PACKAGES)
    for source in "$1/packages/"*.deb; do
        dpkg-deb -x "$source" "$1"
        dpkg-deb -W --showformat '${Package} ${Version} ${source:Package}\n' "$source"
    done >"$1/list"
    (cd "$1/source" && private_apt "$apt" source --only-source cjson libxcrypt libevent libyaml >/dev/null)
    compile_cjson "$1" "$(echo "$1"/source/cjson-*/)"
    compile "$1" libxcrypt . libcrypt -Os --enable-hashes=sha512crypt --enable-obsolete-api=no
    compile "$1" libevent . libevent_core -O2 --disable-openssl
    compile "$1" libyaml src libyaml -Os
    rm -rf "$apt" "$1/packages" "$1/source" "$1/log"
}

compile_cjson() # SYSROOT SOURCE
{
    local object=$1/cJSON.o

    "$TRIPLET-gcc" --sysroot="$1" -Os $LIBRARY_FLAGS -ffile-prefix-map="$2"=cjson/ -c "$2/cJSON.c" -o "$object"
    "$TRIPLET-gcc-ar" rcsD "$1/usr/lib/$TRIPLET/libcjson.a" "$object"
    rm "$object"
}

# In place of the library that the package of $PACKAGES has.
compile() # SYSROOT SOURCE FOLDER LIBRARY OPTIMIZATION [OPTION OF ./configure...]
{
    local sysroot=$1 source=$2 folder=$3 library=$4 optimization=$5
    shift 5

    (
        cd "$sysroot/source/$source"-*/ &&
            autoreconf --force --install &&
            ./configure --host="$TRIPLET" --disable-shared --enable-static --disable-dependency-tracking "$@" \
                CC="$TRIPLET-gcc --sysroot=$sysroot" LDFLAGS=-static \
                CFLAGS="$optimization $LIBRARY_FLAGS -ffile-prefix-map=$PWD=$source -ffile-prefix-map=$sysroot=" &&
            make -C "$folder" "$library.la" &&
            cp "$folder/.libs/$library.a" "$sysroot/usr/lib/$TRIPLET/"
    ) >"$sysroot/log" 2>&1 || { tail -n 60 "$sysroot/log"; exit 1; }
}

cross_file() # TREE
{
    cat <<END
[binaries]
c = '$TRIPLET-gcc'
ar = '$TRIPLET-gcc-ar'
strip = '$TRIPLET-strip'
pkgconfig = 'pkg-config'
[properties]
sys_root = '$SYSROOT'
pkg_config_libdir = '$SYSROOT/usr/lib/$TRIPLET/pkgconfig'
[built-in options]
c_link_args = ['--sysroot=$SYSROOT']
c_args = ['--sysroot=$SYSROOT', '-ffile-prefix-map=$1=.', '-ffile-prefix-map=$SYSROOT=', '-fstack-protector-strong',
    '-D_FORTIFY_SOURCE=2']
[host_machine]
system = 'linux'
cpu_family = '$CPU'
cpu = '$CPU'
endian = 'little'
END
}

RECIPE=$(declare -f make_sysroot compile_cjson compile; echo "$PACKAGES $LIBRARY_FLAGS")
if ! diff -q <(echo "$RECIPE") "$SYSROOT/.complete" >/dev/null 2>&1; then
    rm -rf "$SYSROOT.new"
    mkdir -p "$SYSROOT.new"
    make_sysroot "$SYSROOT.new"
    echo "$RECIPE" >"$SYSROOT.new/.complete"
    rm -rf "$SYSROOT"
    mv "$SYSROOT.new" "$SYSROOT"
fi

TREE=$(mktemp -d "${TMPDIR:-/tmp}/rdzv-static.XXXXXX")
trap 'rm -rf "$TREE"' EXIT
"$ROOT/deploy/source.sh" "$TREE"
cross_file "$TREE" >"$TREE/cross.ini"
{
    meson setup "$TREE/build" "$TREE" --cross-file "$TREE/cross.ini" --buildtype=release \
        -Doptimization=2 -Db_lto=true -Dstatic=true -Dtests=disabled -Drdzvctl=disabled &&
    ninja -C "$TREE/build" rdzv/rdzvd deploy/rdzv-manifest
} >"$TREE/log" 2>&1 || { tail -n 60 "$TREE/log"; exit 1; }

mkdir -p "$OUT"
for program in rdzv/rdzvd deploy/rdzv-manifest; do
    "$TRIPLET-strip" -o "$OUT/${program#*/}" "$TREE/build/$program"
done
cp "$SYSROOT/list" "$OUT/packages"
