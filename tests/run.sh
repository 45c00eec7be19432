#!/bin/bash
# Everything that is tested, from nothing: installs, builds with gcc and with clang (sanitizers on),
# and runs every test.
#
#   tests/run.sh [--all] [--seed N] [--fuzz SECONDS] [--at-once N] [--only STEP[,STEP…]] [--list [-v]]
#
#   --all        also torch 2.6 and 2.14 (from Debian trixie and forky, some gigabytes), etcd 3.5, every
#                compiler with and without sanitizers, a fresh seed, a minute of each fuzzer, and a
#                whole release
#   --seed N     the seed of every test that takes one (1; with --all a fresh one, which is printed)
#   --fuzz N     N seconds of each fuzzer from its latest inputs on, not a fixed number of runs
#   --at-once N  so many steps at a time (two more than there are CPUs, at most 5)
#   --only       only those steps; installing and building always come first
#   --list       prints the names of the steps; with -v, also what each of them does
#
# Each step's output is in build-test/logs/. The last line is the sum: `N passed, N failed, N skipped`.
# Exit 0 when nothing failed. Needs root, or sudo, where something is missing.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WORK=$ROOT/build-test
LOGS=$WORK/logs
PYTHON=/usr/bin/python3
ALL=no SEED= FUZZ=0 ONLY= LIST=no VERBOSE=no AT_ONCE=

while [ $# -gt 0 ]; do
    case $1 in
    --all) ALL=yes ;;
    --seed) SEED=${2:?run.sh: --seed needs a number}; shift ;;
    --fuzz) FUZZ=${2:?run.sh: --fuzz needs seconds}; shift ;;
    --at-once) AT_ONCE=${2:?run.sh: --at-once needs a number}; shift ;;
    --only) ONLY=${2:?run.sh: --only needs steps}; shift ;;
    --list) LIST=yes ;;
    -v) VERBOSE=yes ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
RELEASES=
if [ "$ALL" = yes ]; then
    RELEASES=--all
    [ "$FUZZ" != 0 ] || FUZZ=60
    [ -n "$SEED" ] || SEED=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')
fi
SEED=${SEED:-1}

if [ -z "$AT_ONCE" ]; then
    AT_ONCE=$(($(nproc) + 2)) # some of them wait
    [ "$AT_ONCE" -le 5 ] || AT_ONCE=5 # more jobs and daemons want more memory than machines have
fi
. "$ROOT/tests/support/steps.sh"

# build FOLDER COMPILER [OPTION…]
build()
{
    local folder=$WORK/$1 compiler=$2 log=$LOGS/build-$1.log
    shift 2

    [ "$LIST" = no ] || return 0
    echo "run.sh: building $folder with $compiler $*"
    if ! { { [ -e "$folder/build.ninja" ] || CC=$compiler meson setup "$folder" "$ROOT" "$@"; } &&
        ninja -C "$folder"; } >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "run.sh: the build failed; all of it: $log"
        echo "0 passed, 1 failed"
        exit 1
    fi
}

# aside NAME COMMAND…: runs COMMAND in the background; `joined` waits for it and prints its output.
aside()
{
    [ "$LIST" = no ] || return 0
    ASIDE=$LOGS/$1.log
    shift
    "$@" >"$ASIDE" 2>&1 </dev/null &
    ASIDE_PID=$!
    trap wait EXIT # nothing is left half installed
}

joined()
{
    local status=0

    [ "$LIST" = no ] || return 0
    wait "$ASIDE_PID" || status=$?
    cat "$ASIDE"
    [ "$status" -eq 0 ] || { echo "0 passed, 1 failed"; exit 1; }
}

install_more()
{
    install_venv
    install_wheel || echo "run.sh: there are no tools for the wheel, so some of its cases are skipped"
    install_cel || echo "run.sh: there is no evaluator of CEL, so most cases of step manifest-policy are skipped"
    install_slurm || echo "run.sh: there is no Slurm, so step torch-slurm is skipped"
    install_browser || echo "run.sh: there is no browser, so the status page is not looked at"
    [ "$ALL" = no ] || { install_trees && install_etcds && install_scan && install_bench && install_packages; }
}

# on_its_own COMMAND...: on a loopback of its own, where that may be made. Torch's programs choose a free port, but
# another program may take this port first, and then they write their keys there.
on_its_own()
{
    if unshare --net true 2>/dev/null; then
        unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
    else
        "$@"
    fi
}

# meson_tests FOLDER [TEST…]: the named tests, or all except tidy, which is a step
meson_tests()
{
    local status=0 report folder=$1
    shift

    report=$(meson test -C "$folder" --no-suite tidy --print-errorlogs --no-rebuild --timeout-multiplier 8 "$@" 2>&1) || status=$?
    echo "$report"
    sed -nE 's/^Ok: +([0-9]+).*/\1/p' <<<"$report" >"$folder/ok"
    echo "$(cat "$folder/ok") passed, $(sed -nE 's/^Fail: +([0-9]+).*/\1/p' <<<"$report") failed," \
        "$(sed -nE 's/^Skipped: +([0-9]+).*/\1/p' <<<"$report") skipped"
    return "$status"
}

# A default run gives each fuzzer some seconds: a number of runs, on sorted inputs, without the two
# heuristics that look at addresses and at times, so that the runs are the same on every machine.
declare -A FUZZ_RUNS=([c10d]=150000 [check]=7000 [config]=4000 [http]=75000 [journal]=10000 [manifest]=2000
    [relay]=1500 [replica]=4000 [rewrite]=7000 [torch_state]=50000)

# fuzz_one NAME
fuzz_one()
{
    local target=$WORK/asan/tests/fuzz/fuzz_$1 inputs=tests/fuzz/corpus/$1
    local dict=tests/fuzz/$1.dict found=$WORK/corpus/fuzz_$1 args=()

    args=(-seed="$SEED" -print_final_stats=1 -artifact_prefix="$LOGS/fuzz_$1-")
    [ ! -e "$dict" ] || args+=(-dict="$dict")
    if [ "$FUZZ" = 0 ]; then
        args+=(-runs="${FUZZ_RUNS[$1]:-4000}" -use_cmp=0 -entropic=0
            -seed_inputs="$(printf "%s\n" "$inputs"/* | LC_ALL=C sort | paste -sd,)")
    else
        mkdir -p "$found"
        args+=(-max_total_time="$FUZZ" "$found" "$inputs")
    fi
    "$target" "${args[@]}"
}

fuzz_all()
{
    local folder failed=0 count=0

    for folder in tests/fuzz/corpus/*/; do
        count=$((count + 1))
        fuzz_one "$(basename "$folder")" || failed=$((failed + 1))
    done
    echo "$((count - failed)) passed, $failed failed"
    [ "$failed" -eq 0 ]
}

cd "$ROOT"
if [ "$LIST" = no ]; then
    echo "run.sh: seed $SEED"
    mkdir -p "$LOGS"
    . "$ROOT/tests/support/install.sh"
    install_build
    aside install-test install_test
fi

# -g1 has the lines for backtraces, and makes compiling a fifth shorter than -g.
SAN="-Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-g1"
# A release build, as packages have it: at -O3 gcc warns of more.
build gcc gcc --buildtype=release -Dc_args=-g1
joined
aside install-more install_more
# With the counters that lead the fuzzers, so that these need no build of their own; at -O1, since compiling takes longer
# than the tests gain from -O2.
build asan clang $SAN -Dfuzzers=true -Doptimization=1
if [ "$ALL" = yes ]; then
    build clang clang
    build gcc-asan gcc $SAN -Dwerror=false # it warns of the code that its sanitizers add
    build tsan clang -Db_sanitize=thread -Db_lundef=false
fi
joined

# A report of a sanitizer ends the daemon with a code of its own, which every test takes for a failure.
export ASAN_OPTIONS=abort_on_error=0:exitcode=86:detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:exitcode=86:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:exitcode=86:second_deadlock_stack=1
PLAIN=$WORK/gcc/rdzv/rdzvd
CHECKED=$WORK/asan/rdzv/rdzvd
export RDZVD=$CHECKED # what is not said otherwise runs with sanitizers
export RDZV_MANIFEST=$WORK/asan/deploy/rdzv-manifest

# First those that wait most of their time, and so run beside others.
step monitoring env RDZVD="$PLAIN" $PYTHON tests/monitoring/run.py
step torch-slurm env RDZVD="$PLAIN" $PYTHON tests/torch/slurm.py
step tidy env BUILD="$WORK/gcc" tests/tidy.sh --self-test
step unit-gcc meson_tests "$WORK/gcc"
step unit-asan meson_tests "$WORK/asan"
if [ "$ALL" = yes ]; then
    step unit-clang meson_tests "$WORK/clang"
    step unit-gcc-asan meson_tests "$WORK/gcc-asan"
    step sim "$WORK/asan/tests/sim_store" --seed "$SEED" --steps 40000
    step sim-relay "$WORK/gcc/tests/sim_relay" --seed "$SEED" --count 100000
    step sim-relay-every "$WORK/gcc/tests/sim_relay" --seed "$SEED" --count 200 --every
    step sim-planted $PYTHON tests/sim/planted_relay.py
    step threads-unit meson_tests "$WORK/tsan" journal_writer resolve loop budget_loop link_loop restore_loop
fi
step fuzz fuzz_all
step wire on_its_own $PYTHON tests/wire/run.py
step wire-valgrind on_its_own env RDZVD="$PLAIN" $PYTHON tests/wire/run.py \
    --wrapper "valgrind --error-exitcode=86 --leak-check=full --errors-for-leak-kinds=definite -q"
step bad-input $PYTHON tests/wire/bad_input.py --seed "$SEED"
if [ "$ALL" = yes ]; then
    step adversary $PYTHON tests/wire/adversary.py --seed "$SEED" --seeds 30 --seconds 10
    step mutator $PYTHON tests/wire/adversary.py --seed "$SEED" --only mutated --clients 48 --seconds 120
else
    step adversary $PYTHON tests/wire/adversary.py --seed "$SEED" --seeds 4 --seconds 2
fi
step process $PYTHON tests/process/run.py
step tls $PYTHON tests/process/tls.py
[ "$ALL" = no ] || step tls-scan env RDZVD="$PLAIN" $PYTHON tests/process/tls_scan.py
step access $PYTHON tests/process/access.py
step observe $PYTHON tests/process/observe.py
if [ "$ALL" = yes ]; then
    step no-memory env RDZVD="$PLAIN" $PYTHON tests/process/no_memory.py --deep
else
    step no-memory env RDZVD="$PLAIN" $PYTHON tests/process/no_memory.py
fi
step no-memory-relay env RDZVD="$PLAIN" $PYTHON tests/process/no_memory.py --deep --relay
step little-memory env RDZVD="$PLAIN" $PYTHON tests/process/little_memory.py
step durable env RDZV_SEED="$SEED" $PYTHON tests/process/durable.py
step replicas env RDZV_SEED="$SEED" $PYTHON tests/process/replicas.py $RELEASES
step followers $PYTHON tests/process/followers.py
step replicas-etcd env RDZVD="$PLAIN" $PYTHON tests/process/replicas_etcd.py
if [ "$ALL" = yes ]; then
    for suite in trixie forky; do
        step replicas-$suite env ETCD=$suite RDZV_SEED="$SEED" $PYTHON tests/process/replicas.py --all
        step followers-$suite env ETCD=$suite $PYTHON tests/process/followers.py
        step replicas-etcd-$suite env ETCD=$suite $PYTHON tests/process/replicas_etcd.py
    done
fi
step relay env RDZV_SEED="$SEED" $PYTHON tests/process/relay.py
step relay-http env RDZV_SEED="$SEED" $PYTHON tests/process/relay_http.py
if [ "$ALL" = yes ]; then
    step threads-wire env RDZVD="$WORK/tsan/rdzv/rdzvd" $PYTHON tests/wire/run.py
    step threads-durable env RDZVD="$WORK/tsan/rdzv/rdzvd" RDZV_SEED="$SEED" $PYTHON tests/process/durable.py
    step threads-relay env RDZVD="$WORK/tsan/rdzv/rdzvd" RDZV_SEED="$SEED" $PYTHON tests/process/relay.py
fi
step client-library $PYTHON tests/client/library.py
step client-install env RDZVD="$PLAIN" $PYTHON tests/client/library.py installed
step client-ctl $PYTHON tests/client/ctl.py
step client-kubectl env RDZVD="$PLAIN" $PYTHON tests/client/kubectl.py
step client-tls $PYTHON tests/client/tls.py
step page $PYTHON tests/page/run.py
step packages-install env RDZVD="$PLAIN" $PYTHON tests/packages/install.py
step wheel env RDZVD="$PLAIN" $PYTHON tests/packages/wheel.py
step hooks env RDZVD="$PLAIN" $PYTHON tests/packages/hooks.py
step packages-chart env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/packages/chart.py
[ "$ALL" = no ] || step bench env BUILD="$WORK/release" tests/bench/run.sh --quick
[ "$ALL" = no ] || step packages-booted env RDZVD="$PLAIN" $PYTHON tests/packages/booted.py
[ "$ALL" = no ] || step packages-release $PYTHON tests/packages/release.py
[ "$ALL" = no ] || job_step packages-newcomer $PYTHON tests/packages/newcomer.py
step linear-checker $PYTHON tests/linear/checker_cases.py
if [ "$ALL" = yes ]; then
    step linear env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --runs 200 --seed "$SEED" --keep "$LOGS"
    step linear-relayed env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --relayed --http --runs 200 --seed "$SEED" --keep "$LOGS"
    step linear-etcd env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --mode etcd --seconds 12 --runs 20 --seed "$SEED" --keep "$LOGS"
    step linear-followers env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --followers --seconds 12 --runs 20 --seed "$SEED" --keep "$LOGS"
    step linear-planted $PYTHON tests/linear/run.py --planted --runs 50 --seed "$SEED"
else
    step linear env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --runs 6 --seed "$SEED" --keep "$LOGS"
    step linear-relayed env RDZVD="$PLAIN" $PYTHON tests/linear/run.py --relayed --http --runs 4 --seed "$SEED" --keep "$LOGS"
fi
step documents $PYTHON tests/process/documents.py
step elastic $PYTHON tests/elastic/run.py --seed "$SEED"
step etcd-cases $PYTHON tests/etcd/run_cases.py --server rdzvd
step etcd-compare $PYTHON tests/etcd/compare_cases.py
step etcd-differential $PYTHON tests/etcd/differential.py --requests 12000 --seed "$SEED"
step etcd-relay $PYTHON tests/etcd/differential.py --requests 5000 --seed "$SEED" --b relay
step python-etcd $PYTHON tests/etcd/python_etcd.py
step etcdctl $PYTHON tests/etcd/etcdctl.py
step manifest $PYTHON tests/manifest/run_emit.py golden examples readme bad_input own_files restarts hooks litgpt mlbatch
step manifest-many env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" RDZV_SEED="$SEED" RDZV_WALK="${RELEASES:+20000}" \
    $PYTHON tests/manifest/run_emit.py values store_pod walk matrix # thousands of starts of the tool: without sanitizers
step manifest-check $PYTHON tests/manifest/check.py
step manifest-workflows env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/manifest/workflows.py
if [ "$ALL" = yes ]; then
    step manifest-many-asan $PYTHON tests/manifest/run_emit.py values store_pod
    step manifest-cost env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/manifest/check.py cost_grows_with_the_file
    step manifest-workflows-asan $PYTHON tests/manifest/workflows.py
fi
step manifest-rewrite $PYTHON tests/manifest/rewrite.py --seed "$SEED"
step manifest-corpus env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/manifest/corpus.py
step manifest-agree env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/manifest/agree.py
step manifest-kinds $PYTHON tests/manifest/kinds.py
step manifest-launches env RDZV_MANIFEST="$WORK/gcc/deploy/rdzv-manifest" $PYTHON tests/manifest/launches.py
step manifest-policy $PYTHON tests/manifest/policy.py
job_step manifest-run $PYTHON tests/manifest/run_real.py --jobs 3 ${RELEASES:+--all}
step torch-store $PYTHON tests/torch/run_store_api.py $RELEASES
step torch-state $PYTHON tests/torch/run_state.py --tool "$WORK/asan/tests/state_tool" --seed "$SEED" $RELEASES
job_step torch-elastic $PYTHON tests/torch/elastic.py --at_once 3 ${RELEASES:---usual}
job_step torch-status $PYTHON tests/torch/status.py --torch 2.13.0 $([ "$ALL" = no ] || echo --torch 1.13.1 --torch 2.6 --torch 2.14)
job_step torch-hangs $PYTHON tests/torch/hangs.py $RELEASES
job_step torch-orders env RDZVD="$PLAIN" $PYTHON tests/torch/orders.py $RELEASES
job_step torch-why env RDZVD="$PLAIN" $PYTHON tests/torch/why.py $RELEASES
job_step torch-drain env RDZVD="$PLAIN" $PYTHON tests/torch/drain.py $RELEASES
step drain-notice $PYTHON tests/process/drain_notice.py
job_step troubleshooting env RDZVD="$PLAIN" $PYTHON tests/process/troubleshooting.py
job_step torch-kills $PYTHON tests/torch/kills.py $([ "$ALL" = yes ] || echo --torch 2.13.0) --seed "$SEED"
job_step torch-replicas $PYTHON tests/torch/replicas.py --torch 2.13.0 --seed "$SEED" $([ "$ALL" = yes ] && echo --faults 30 || echo --lease 2 --pause 4)
job_step torch-followers $PYTHON tests/torch/replicas.py --followers --torch 2.13.0 --seed "$SEED" $([ "$ALL" = yes ] && echo --faults 10 || echo --only leader-killed --only leader-ended --lease 2)
job_step torch-tls $PYTHON tests/torch/elastic.py --tls --torch 2.13.0 --backend etcd-v2 $([ "$ALL" = yes ] && echo --backend etcd || echo --scenario plain)
job_step torch-backend env RDZVD="$PLAIN" $PYTHON tests/torch/backend.py $RELEASES
job_step first-steps env RDZVD="$PLAIN" $PYTHON tests/torch/first_steps.py
job_step torch-own-store $PYTHON tests/torch/elastic.py --own_store --torch 2.13.0 --backend c10d --scenario scale-up
if [ "$ALL" = yes ]; then
    job_step torch-repair $PYTHON tests/torch/repair.py --all --seed "$SEED" --jobs 4
else
    job_step torch-repair $PYTHON tests/torch/repair.py --case scale-up --case agent-last --case ended --torch 1.13.1 --seed "$SEED" --jobs 2
    job_step torch-ended $PYTHON tests/torch/repair.py --case ended --torch 2.13.0 --seed "$SEED"
fi
job_step torch-together $PYTHON tests/torch/together.py --jobs 3 --seed "$SEED" ${RELEASES:---usual}
if [ "$ALL" = yes ]; then
    job_step torch-volcano $PYTHON tests/torch/volcano.py --torch 2.13.0 --torch 2.14 --seed "$SEED" --jobs 4
else
    job_step torch-volcano $PYTHON tests/torch/volcano.py --case pod-0 --case scale-up --seed "$SEED" --jobs 2
fi
if [ "$ALL" = yes ]; then
    job_step torch-chaos $PYTHON tests/torch/chaos.py --torch 1.13.1 --torch 2.13.0 --seed "$SEED" --count 10 --jobs 4
else # one that is short
    job_step torch-chaos $PYTHON tests/torch/chaos.py --torch 1.13.1 --torch 2.13.0 --seed 60109 --jobs 2
fi
if [ "$ALL" = yes ]; then
    job_step torch-chaos-orders $PYTHON tests/torch/chaos.py --orders --torch 1.13.1 --torch 2.6 --torch 2.13.0 --torch 2.14 --seed "$SEED" --count 5 --jobs 4
else
    job_step torch-chaos-orders $PYTHON tests/torch/chaos.py --orders --torch 2.13.0 --seed 2 --jobs 1
fi
[ "$ALL" = no ] || job_step torch-chaos-relays $PYTHON tests/torch/chaos.py --relays --torch 1.13.1 --torch 2.13.0 --seed "$SEED" --count 10 --jobs 4
[ "$LIST" = no ] || exit 0

run_steps || true
echo
if [ "$failed" -eq 0 ]; then
    echo "run.sh: PASS: everything held ($((SECONDS / 60)) min)"
else
    for name in "${broken[@]}"; do # the reasons once more, since logs of an agent or a server came behind them
        grep -hE -A10 "^(FAIL|failed) " "$LOGS/$name.log" | cut -c1-400 | head -n 40 | sed "s/^/$name: /" || true
    done
    echo "run.sh: FAIL: ${broken[*]} (logs in $LOGS; one step again: tests/run.sh${RELEASES:+ --all} --seed $SEED --only STEP)"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
