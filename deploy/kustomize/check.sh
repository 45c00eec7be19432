#!/bin/sh
# The program of the KRM function in check.yaml: returns its input, and fails if check has findings. rdzv-manifest has to
# be in the PATH.
set -e
input=$(cat)
printf '%s\n' "$input" | rdzv-manifest check --severity=warning - >&2
printf '%s\n' "$input"
