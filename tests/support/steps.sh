# Runs the steps of a test run, several in parallel, each with its own log, and prints a summary. For run.sh to source.
#
#   step NAME COMMAND…       a step; the command may be a function
#   job_step NAME COMMAND…   the same, of those that start elastic jobs, a dozen processes with torch
#                            in each: one at a time, beside other steps
#   run_steps                runs what has been named, in that order; 0 when nothing failed
#
# Before: LOGS, a folder; ONLY, names with commas between, or empty for all; LIST, `yes` to only print the
# names, and with VERBOSE also the line of support/steps.txt; AT_ONCE, how many run at a time. After it: passed, failed,
# skipped; broken, the names of those that failed.

passed=0 failed=0 skipped=0 broken=()
ORDINARY=() JOBS=()
declare -A COMMANDS=() BEGAN=() RUNNING=() # by name, by name, and names by pid
job_runs=

wanted() { [ -z "$ONLY" ] || case ",$ONLY," in *",$1,"*) true ;; *) false ;; esac; }

# queue LIST NAME COMMAND…
queue()
{
    local -n list=$1
    local name=$2
    shift 2

    if [ "$LIST" = yes ] && [ "$VERBOSE" = yes ]; then
        awk -F'\t' -v name="$name" '$1 == name { printf "%-24s %s\n", $1, $2 }' "$ROOT/tests/support/steps.txt"
    elif [ "$LIST" = yes ]; then
        echo "$name"
    elif wanted "$name"; then
        list+=("$name")
        COMMANDS[$name]=$(printf '%q ' "$@")
    fi
}

step() { queue ORDINARY "$@"; }
job_step() { queue JOBS "$@"; }

# In a process group of its own, so that end_steps reaches all of it.
start()
{
    local name=$1

    echo "run.sh: $name: ${COMMANDS[$name]% }"
    BEGAN[$name]=$SECONDS
    set -m
    (
        set +e
        TIMEFORMAT='%U %S'
        { time eval "${COMMANDS[$name]}" >"$LOGS/$name.log" 2>&1 </dev/null; } 2>"$LOGS/$name.cpu"
    ) &
    set +m
    RUNNING[$!]=$name
}

# The next one that may run now; false: there is none.
start_next()
{
    local name

    [ ${#RUNNING[@]} -lt "$AT_ONCE" ] || return 1
    if [ -z "$job_runs" ] && [ ${#JOBS[@]} -gt 0 ]; then
        name=${JOBS[0]} job_runs=${JOBS[0]} JOBS=("${JOBS[@]:1}")
    elif [ ${#ORDINARY[@]} -gt 0 ]; then
        name=${ORDINARY[0]} ORDINARY=("${ORDINARY[@]:1}")
    else
        return 1
    fi
    start "$name"
}

# finish NAME STATUS: adds up what the last `N passed, N failed` line of its log says; a command
# without such a line counts as one. A failure shows the end of its output, and the rest goes on.
finish()
{
    local name=$1 status=$2 log=$LOGS/$1.log counts p f s cpu

    [ "$job_runs" != "$name" ] || job_runs=
    counts=$(grep -E '^([a-z]+: )?[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 || true)
    p=$(sed -nE 's/.*\b([0-9]+) passed.*/\1/p' <<<"$counts")
    f=$(sed -nE 's/.*\b([0-9]+) failed.*/\1/p' <<<"$counts")
    s=$(sed -nE 's/.*\b([0-9]+) skipped.*/\1/p' <<<"$counts")
    if [ -z "$counts" ]; then
        p=$((status == 0)) f=$((status != 0))
    elif [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1 # it ended badly after it had counted
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
    cpu=$(awk '{ printf "%.0f", $1 + $2 }' "$LOGS/$name.cpu")
    echo "run.sh: $name: $p passed, $f failed, ${s:-0} skipped ($((SECONDS - BEGAN[$name])) s, ${cpu:-?} s of CPU)"
    grep -iE '^ *skip' "$log" | sed 's/^/    /' | head -n 20 || true
    if [ "$f" -ne 0 ]; then
        broken+=("$name")
        echo "---- the end of $log"
        tail -n 60 "$log"
        echo "----"
    fi
}

# When the run is interrupted, sends SIGINT to all running steps and their children.
end_steps()
{
    local pid

    for pid in "${!RUNNING[@]}"; do
        kill -INT -- "-$pid" 2>/dev/null || true
    done
    wait
}

run_steps()
{
    local pid status

    trap end_steps EXIT
    while :; do
        while start_next; do :; done
        [ ${#RUNNING[@]} -gt 0 ] || break
        status=0
        wait -n -p pid "${!RUNNING[@]}" || status=$?
        finish "${RUNNING[$pid]}" "$status"
        unset "RUNNING[$pid]"
    done
    [ "$failed" -eq 0 ]
}
