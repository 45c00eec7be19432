#!/bin/bash
# The work of action.yml: installs the wheel $WHEEL, checks $FILES, and shows findings of $SEVERITY beside their lines.
# The outputs are the file of SARIF, and the exit code of check for a later step: the upload comes before the failure.
set -euo pipefail

venv=$RUNNER_TEMP/rdzv-venv sarif=$RUNNER_TEMP/rdzv-manifest.sarif code=0
[ -x "$venv/bin/rdzv-manifest" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$WHEEL"
read -ra files <<<"$FILES"
check=("$venv/bin/rdzv-manifest" check --severity "$SEVERITY" "${files[@]}")

"${check[@]}" -o github || code=$?
[ "$code" -le 1 ] || exit "$code" # the files are no manifests; check has said why
"${check[@]}" -o sarif >"$sarif" 2>/dev/null || [ $? -eq "$code" ]
printf '%s\n' "sarif=$sarif" "code=$code" >>"$GITHUB_OUTPUT"
