#!/bin/bash
# From a fresh Debian machine to an elastic training job that loses an agent and continues:
#
#   deploy/quickstart.sh [--torch 2.13.0|1.13.1] [--keep]
#
# The script installs what is missing and builds rdzvd. With torch 2.13.0, it first types the lines at the
# top of README.md: pip installs the wheel, and torchrun uses its backend. Then the script starts rdzvd on a
# free loopback port, and unmodified torchrun uses it twice on this port: first as torch's TCPStore (c10d), then as an etcd
# (etcd-v2). Each time two agents with two workers each train a small model. The script kills one
# agent with its workers and starts a new one, and the job continues from its checkpoint to its end.
# Then a job comes to its store through relays, and the script kills the store with kill -9 and
# starts it again, twenty times: no agent and no worker notices.
#
# The script ends only processes that it started. It keeps the logs with --keep, or if a step
# fails. $BUILD names another build folder than build/. To install packages it needs root or sudo.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BUILD:-$ROOT/build}
TORCH=2.13.0
KEEP=no
STEP="reading the arguments"
LOGS=
RDZVD_PID=
DRIVER_PID=

step()
{
    STEP=$1
    echo
    echo "quickstart: $1"
}

# Runs however the script ends; $? is its exit status.
finish()
{
    local status=$?

    trap - EXIT INT TERM
    if [ -n "$DRIVER_PID" ]; then
        kill "$DRIVER_PID" 2>/dev/null && wait "$DRIVER_PID" || true
    fi
    if [ -n "$RDZVD_PID" ]; then
        kill "$RDZVD_PID" 2>/dev/null && wait "$RDZVD_PID" || true
    fi
    echo
    if [ "$status" -eq 0 ]; then
        if [ "$KEEP" = yes ]; then
            echo "quickstart: logs: $LOGS"
        else
            rm -rf "$LOGS"
        fi
        echo "quickstart: PASS: torch $TORCH lost an agent and trained to the end, over c10d and etcd-v2, and none noticed that its store was killed"
    else
        echo "quickstart: FAIL in the step: $STEP (status $status)${LOGS:+; logs: $LOGS}"
    fi
    exit "$status"
}

while [ $# -gt 0 ]; do
    case $1 in
    --torch) TORCH=${2:?quickstart: --torch needs a release}; shift ;;
    --torch=*) TORCH=${1#*=} ;;
    --keep) KEEP=yes ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done

. "$ROOT/tests/support/install.sh"

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/rdzv-quickstart.XXXXXX")

step "installing what the build and torch $TORCH need"
install_build
case $TORCH in
1.13.1) apt_install $RUN_PACKAGES python3-torch python3-etcd ;;
2.13.0) install_venv ;;
*) echo "quickstart: torch 2.13.0 or 1.13.1, not $TORCH"; exit 2 ;;
esac

step "building rdzvd in $BUILD (output: $LOGS/build.log)"
{
    [ -e "$BUILD/build.ninja" ] || meson setup "$BUILD" "$ROOT"
    ninja -C "$BUILD" rdzv/rdzvd client/rdzvctl deploy/rdzv-manifest tests/bench/rdzv-bench
} >"$LOGS/build.log" 2>&1 || { tail -20 "$LOGS/build.log"; exit 1; }

if [ "$TORCH" = 2.13.0 ]; then
    step "the lines at the top of README.md: pip, rdzvd, torchrun, rdzvctl"
    RDZVD=$BUILD/rdzv/rdzvd /usr/bin/python3 "$ROOT/tests/torch/first_steps.py" &
    DRIVER_PID=$!
    wait "$DRIVER_PID"
    DRIVER_PID=
fi

step "starting $BUILD/rdzv/rdzvd on loopback (log: $LOGS/rdzvd.log)"
mkfifo "$LOGS/rdzvd.fifo"
"$BUILD/rdzv/rdzvd" --listen 127.0.0.1:0 2>"$LOGS/rdzvd.fifo" &
RDZVD_PID=$!
exec 3<"$LOGS/rdzvd.fifo"
PORT=
while [ -z "$PORT" ] && read -r -t 30 -u 3 line; do
    echo "$line" >>"$LOGS/rdzvd.log"
    if [[ $line =~ event=listening\ address=[^\ ]*:([0-9]+) ]]; then
        PORT=${BASH_REMATCH[1]}
    fi
done
[ -n "$PORT" ] || { tail -20 "$LOGS/rdzvd.log"; echo "quickstart: rdzvd does not listen"; exit 1; }
cat <&3 >>"$LOGS/rdzvd.log" & # the rest of the log, until rdzvd ends
exec 3<&-
echo "quickstart: rdzvd (pid $RDZVD_PID) listens on 127.0.0.1:$PORT"

for backend in c10d etcd-v2; do
    step "an elastic job over $backend: 2 agents with 2 workers each; one agent is killed, a new one joins"
    # In the background, so that the script handles a signal at once.
    /usr/bin/python3 "$ROOT/tests/torch/elastic.py" --torch "$TORCH" --backend "$backend" \
        --scenario agent-death --port "$PORT" --tell --logs "$LOGS/$backend" &
    DRIVER_PID=$!
    wait "$DRIVER_PID"
    DRIVER_PID=
done

step "a job whose store is killed with kill -9 twenty times, behind a relay for each agent"
RDZVD=$BUILD/rdzv/rdzvd /usr/bin/python3 "$ROOT/tests/torch/kills.py" --torch "$TORCH" --way relay --tell &
DRIVER_PID=$!
wait "$DRIVER_PID"
DRIVER_PID=

step "stopping rdzvd"
kill "$RDZVD_PID"
wait "$RDZVD_PID" # rdzvd exits with 0 after SIGTERM; anything else fails this script
RDZVD_PID=
