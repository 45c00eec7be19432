#!/bin/sh
# in_tree.sh TREE COMMAND [ARG...]: runs a command inside a folder that is a whole Debian (made by
# tests/support/install.sh trees), with this checkout and the temporary folder at their usual
# paths. The command replaces this process: it keeps the pid, so the caller can end it, and all mounts vanish with it.
# Needs no root where user namespaces are open.
set -eu

if [ "${IN_TREE:-}" != "$1" ]; then
    if [ "$(id -u)" -eq 0 ]; then
        IN_TREE=$1 exec unshare --mount --propagation private "$0" "$@"
    else
        IN_TREE=$1 exec unshare --map-root-user --mount --propagation private "$0" "$@"
    fi
fi

unset IN_TREE
tree=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(realpath "${TMPDIR:-/tmp}")
mount --rbind "$tmp" "$tree$tmp"
mount --rbind "$root" "$tree$root"
mount --rbind /dev "$tree/dev"
mount --rbind /proc "$tree/proc"
# Names mean inside what they mean outside, which may be a pod of a test's.
for file in /etc/hosts /etc/resolv.conf; do
    if [ -e "$file" ] && [ -e "$tree$file" ]; then
        mount --bind "$file" "$tree$file"
    fi
done
# The working folder may exist outside only.
if [ -d "$tree$PWD" ]; then
    exec chroot "$tree" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$PWD" "$@"
fi
exec chroot "$tree" "$@"
