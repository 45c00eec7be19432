#!/bin/bash
# Prints the licence of rdzv: an SPDX expression, or NONE before the owner chooses a licence. It stands in meson.build
# and nowhere else; packages, SBOM, image and chart get it from here.
#
#   deploy/license.sh          the expression
#   deploy/license.sh debian   the paragraph of debian/copyright, with the text of the file LICENSE
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LICENSE=$(sed -nE "s/^ +license: '([^']*)'.*/\1/p" "$ROOT/meson.build")

text()
{
    if [ "$LICENSE" = NONE ]; then
        echo "Its authors have not chosen a licence yet. Until they do, nobody else may"
        echo "distribute this package."
    else
        cat "$ROOT/LICENSE"
    fi
}

case ${1:-} in
'') echo "$LICENSE" ;;
debian)
    echo "License: $LICENSE"
    text | sed -e 's/^$/./' -e 's/^/ /'
    ;;
*) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
