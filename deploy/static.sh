#!/bin/bash
# Builds rdzvd, rdzvctl, rdzv-manifest and rdzv-bench without shared libraries, from this checkout and Debian's packages:
#
#   deploy/static.sh ARCHITECTURE FOLDER      amd64 or arm64; FOLDER gets the four programs
#
# All libraries, also glibc, come from the running Debian release, built for ARCHITECTURE. The script unpacks them into
# a separate folder instead of installing them, so it needs no root. Seven are compiled from their source packages:
# cJSON, which has no static library there; libevent, libnghttp2, libprotobuf-c and libyaml, of which rdzvd then has only
# the functions that it calls; OpenSSL without old protocols, ciphers and curves, which takes a third off the image; and
# libcurl, which speaks only HTTP for rdzvctl.
# What was unpacked and compiled is kept in $RDZV_CACHE, else $XDG_CACHE_HOME/rdzv, else ~/.cache/rdzv; FOLDER/packages
# lists it, for an SBOM.
#
# A mirror may lack the source of the newest version, and then this ends: what was fixed in it would be missing.
# With RDZV_OLDER_SOURCES=yes the newest source that is there is taken; FOLDER/packages has its version.
#
# Needs the compiler for ARCHITECTURE (gcc-aarch64-linux-gnu), meson, protobuf-c-compiler, dpkg-dev, perl,
# autoconf, automake, libtool.
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
PROGRAMS="rdzv/rdzvd client/rdzvctl deploy/rdzv-manifest tests/bench/rdzv-bench"
PACKAGES="libc6-dev libcjson-dev libevent-dev libnghttp2-dev libprotobuf-c-dev libyaml-dev linux-libc-dev"
LIBRARY_FLAGS="-fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fstack-protector-strong"
LIBRARY_FLAGS="$LIBRARY_FLAGS -D_FORTIFY_SOURCE=2"

# What rdzvd's TLS does without. It keeps the assembly, and the words of errors, which rdzvd prints.
TLS_WITHOUT="shared tests module dso engine legacy deprecated autoload-config ui-console secure-memory async filenames
    cms cmp ts ocsp ct srp psk srtp nextprotoneg comp rfc3779 dgram dtls tls1 tls1_1 ssl-trace
    dh dsa ec2m gost sm2 sm3 sm4 aria bf blake2 camellia cast des idea md4 mdc2 rc2 rc4 rmd160 seed whirlpool
    cmac multiblock ocb scrypt siphash siv"

# What rdzvctl's libcurl does without.
CURL_WITHOUT="--without-zlib --without-brotli --without-zstd --without-libpsl --without-libidn2 --without-nghttp2
    --without-librtmp --without-libssh2 --without-libgsasl $(printf -- '--disable-%s ' shared dependency-tracking ftp file \
    ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt manual ntlm ntlm-wb kerberos-auth negotiate-auth \
    digest-auth aws alt-svc hsts cookies doh netrc dateparse mime progress-meter libcurl-option tls-srp)"

# apt-get or apt-cache with an apt of its own: lists, cache and state are below $2, and the machine's stay as
# they are.
private() # PROGRAM APT WORD...
{
    local program=$1 apt=$2
    shift 2

    "$program" -q=2 -o APT::Architecture="$ARCH" -o APT::Architectures="$ARCH" -o APT::Sandbox::User= \
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

# Unpacks it here.
get_source() # APT SOURCE
{
    local version

    private apt-get "$1" source --only-source "$2" >/dev/null && return
    [ "${RDZV_OLDER_SOURCES:-}" = yes ] ||
        { echo "static.sh: no source of the newest $2; RDZV_OLDER_SOURCES=yes takes an older one" >&2; exit 1; }
    for version in $(private apt-cache "$1" showsrc --only-source "$2" | sed -n 's/^Version: //p'); do
        private apt-get "$1" source --only-source "$2=$version" >/dev/null 2>&1 || continue
        echo "static.sh: $2 is of version $version, which is not the newest" >&2
        return
    done
    echo "static.sh: no source of $2" >&2
    exit 1
}

make_sysroot()
{
    local apt=$1/apt source

    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$1/packages" "$1/source"
    : >"$apt/status"
    list_sources >"$apt/sources.list"
    private apt-get "$apt" update
    (cd "$1/packages" && private apt-get "$apt" download $PACKAGES)
    for source in "$1/packages/"*.deb; do
        dpkg-deb -x "$source" "$1"
        dpkg-deb -W --showformat '${Package} ${Version} ${source:Package}\n' "$source"
    done >"$1/list"
    for source in cjson libevent nghttp2 protobuf-c libyaml openssl curl; do
        (cd "$1/source" && get_source "$apt" "$source")
    done
    compile_cjson "$1" "$(echo "$1"/source/cjson-*/)"
    compile "$1" libevent . libevent_core -O2 --disable-openssl
    compile "$1" nghttp2 lib libnghttp2 -O2 --enable-lib-only
    compile "$1" protobuf-c . protobuf-c/libprotobuf-c -O2 --disable-protoc
    compile "$1" libyaml src libyaml -Os
    trim_openssl "$(echo "$1"/source/openssl-*/)"
    compile_openssl "$1" "$(echo "$1"/source/openssl-*/)"
    compile_curl "$1" "$(echo "$1"/source/curl-*/)"
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
            cp "$(dirname "$folder/$library")/.libs/${library##*/}.a" "$sysroot/usr/lib/$TRIPLET/" &&
            sed -i -E "s/^(\S+) \S+ $source\$/\1 $(dpkg-parsechangelog -S Version) $source/" "$sysroot/list"
    ) >"$sysroot/log" 2>&1 || { tail -n 60 "$sysroot/log"; exit 1; }
}

# Removes algorithms and curves that TLS 1.2 and 1.3 do not use from OpenSSL's tables: each entry links its code.
# Keys are read and never written, so no encoder stays. A session of TLS 1.3 is resumed with a key of HMAC. Curve448
# has no table of its own; since its keys cannot be read, its remaining functions are never called.
trim_openssl() # SOURCE
{
    local keep='SHA1|SHA2_(224|256|384|512)|AES_(128|256)_(ECB|CBC|CTR|GCM)|ChaCha20(_Poly1305)?|HMAC|HKDF|TLS1_3_KDF|TLS1_PRF'
    keep="$keep|ECDH|ECDSA|EC|X25519|ED25519|RSA|RSA_PSS|CTR_DRBG|SEED_SRC"

    KEEP=$keep perl -0777 -i -pe '
        s{^    (?:\{|ALGC?\() ?PROV_NAMES_(\w+),.*?(?:\}|\)),\n(?=    |\{|\#|$)}{
            my ($entry, $name) = ($&, $1);
            $name =~ /^(?:$ENV{KEEP})$/ && $entry !~ /cmac_legacy|_asym_|kdf_keymgmt|kdf_\w+_keyexch/ ? $entry : ""
        }gmse' "$1/providers/defltprov.c"
    perl -0777 -i -pe 's{^ENCODER\w*\(.*?\),\n}{}gms' "$1/providers/encoders.inc"
    sed -i -E '/^DECODER.*(msblob|pvk|448)/d' "$1/providers/decoders.inc"
    sed -i -E '/^ *EVP_add_/d' "$1/crypto/evp/c_allc.c"
    sed -i -E '/EVP_add_.*(md5|sha3|shake|sha512_2)/d' "$1/crypto/evp/c_alld.c"
    perl -0777 -i -pe 's/^    \{ NID_(?!X9_62_prime256v1|secp384r1|secp521r1)\w+, &_EC_.*?\},\n//gms' "$1/crypto/ec/ec_curve.c"
    cat >"$1/crypto/ec/curve448/curve448.c" <<'END'
#include "crypto/ecx.h"

int ossl_x448(uint8_t out_shared_key[56], const uint8_t private_key[56],
    const uint8_t peer_public_value[56])
{
    return 0;
}

void ossl_x448_public_from_private(uint8_t out_public_value[56], const uint8_t private_key[56])
{
}
END
    cat >"$1/crypto/ec/curve448/eddsa.c" <<'END'
#include "crypto/ecx.h"

int ossl_ed448_public_from_private(OSSL_LIB_CTX *ctx, uint8_t out_public_key[57],
    const uint8_t private_key[57], const char *propq)
{
    return 0;
}

int ossl_ed448_sign(OSSL_LIB_CTX *ctx, uint8_t *out_sig, const uint8_t *message,
    size_t message_len, const uint8_t public_key[57], const uint8_t private_key[57],
    const uint8_t *context, size_t context_len, const char *propq)
{
    return 0;
}

int ossl_ed448_verify(OSSL_LIB_CTX *ctx, const uint8_t *message, size_t message_len,
    const uint8_t signature[114], const uint8_t public_key[57], const uint8_t *context,
    size_t context_len, const char *propq)
{
    return 0;
}
END
}

# With the CAs where each distribution has them, or a link to them.
compile_openssl() # SYSROOT SOURCE
{
    (
        cd "$2" &&
            ./Configure "linux-$CPU" --prefix=/usr --libdir="lib/$TRIPLET" --openssldir=/etc/ssl \
                enable-ec_nistp_64_gcc_128 $(printf 'no-%s ' $TLS_WITHOUT) \
                CC="$TRIPLET-gcc --sysroot=$1" AR="$TRIPLET-gcc-ar" RANLIB="$TRIPLET-gcc-ranlib" \
                CFLAGS="-O2 $LIBRARY_FLAGS -ffile-prefix-map=$2=openssl/ -ffile-prefix-map=$1=" &&
            make -j"$(nproc)" build_libs && make install_dev DESTDIR="$1"
    ) >"$1/log" 2>&1 || { tail -n 60 "$1/log"; exit 1; }
    echo "libssl-dev $(dpkg-parsechangelog -l "$2/debian/changelog" -S Version) openssl" >>"$1/list"
}

# After OpenSSL, which it calls. Debian's last patch names the library after its third TLS library, NSS.
compile_curl() # SYSROOT SOURCE
{
    (
        cd "$2" &&
            find . -name Makefile.am -exec sed -i -E 's/libcurl(u?)[-_]nss/libcurl\1/g' {} + &&
            autoreconf --force --install &&
            ./configure --host="$TRIPLET" --prefix=/usr --libdir="/usr/lib/$TRIPLET" --with-openssl --with-ca-fallback \
                --without-ca-bundle --without-ca-path $CURL_WITHOUT PKG_CONFIG=false CC="$TRIPLET-gcc --sysroot=$1" LDFLAGS=-static \
                CFLAGS="-Os $LIBRARY_FLAGS -ffile-prefix-map=$2=curl/ -ffile-prefix-map=$1=" &&
            make -C lib -j"$(nproc)" libcurl.la &&
            make -C lib install DESTDIR="$1" && make -C include install DESTDIR="$1" &&
            make install-pkgconfigDATA DESTDIR="$1"
    ) >"$1/log" 2>&1 || { tail -n 60 "$1/log"; exit 1; }
    rm "$1/usr/lib/$TRIPLET/libcurl.la"
    echo "libcurl4-openssl-dev $(dpkg-parsechangelog -l "$2/debian/changelog" -S Version) curl" >>"$1/list"
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

RECIPE=$(declare -f make_sysroot compile_cjson compile trim_openssl compile_openssl compile_curl
    echo "$PACKAGES $LIBRARY_FLAGS" $TLS_WITHOUT $CURL_WITHOUT)
mkdir -p "$(dirname "$SYSROOT")"
exec {LOCK}>"$SYSROOT.lock" # one at a time
flock "$LOCK"
if ! diff -q <(echo "$RECIPE") "$SYSROOT/.complete" >/dev/null 2>&1; then
    rm -rf "$SYSROOT.new"
    mkdir -p "$SYSROOT.new"
    make_sysroot "$SYSROOT.new"
    echo "$RECIPE" >"$SYSROOT.new/.complete"
    rm -rf "$SYSROOT"
    mv "$SYSROOT.new" "$SYSROOT"
fi
exec {LOCK}>&-

TREE=$(mktemp -d "${TMPDIR:-/tmp}/rdzv-static.XXXXXX")
trap 'rm -rf "$TREE"' EXIT
"$ROOT/deploy/source.sh" "$TREE"
cross_file "$TREE" >"$TREE/cross.ini"
{
    meson setup "$TREE/build" "$TREE" --cross-file "$TREE/cross.ini" --buildtype=release \
        -Doptimization=2 -Db_lto=true -Dstatic=true -Dtests=disabled &&
    ninja -C "$TREE/build" $PROGRAMS
} >"$TREE/log" 2>&1 || { tail -n 60 "$TREE/log"; exit 1; }

mkdir -p "$OUT"
for program in $PROGRAMS; do
    "$TRIPLET-strip" -o "$OUT/${program##*/}" "$TREE/build/$program"
done
cp "$SYSROOT/list" "$OUT/packages"
