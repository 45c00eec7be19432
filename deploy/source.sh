#!/bin/bash
# Copies the sources of a checkout, and nothing else that is there: deploy/source.sh FOLDER
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=$(realpath "${1:?source.sh: name a folder}")

cd "$ROOT"
if [ -e .git ]; then
    git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard
else
    find . -type f -not -path './build*' -printf '%P\0'
fi | while IFS= read -r -d '' file; do
    [ ! -f "$file" ] || printf '%s\0' "$file"
done | tar --create --null --files-from=- | tar --extract --directory="$OUT"
