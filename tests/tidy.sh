#!/bin/bash
# Holds the tree to its own rules: layout, include arrows, circles, headers, first lines, blanks, format, plain
# sentences, and no traces of how or where the text was written. Prints each violation as PATH:LINE: TEXT; exits
# with 1 if there are violations.
#
#   tests/tidy.sh                 all checks
#   tests/tidy.sh CHECK...        these
#   tests/tidy.sh --list          their names
#   tests/tidy.sh --self-test     proves that each of them fails: plants violations in a copy
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

CHECKS=(layout arrows circles headers compile first-lines blanks built format itself prose)
CC=${CC:-cc}
violations=$(mktemp) && scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$violations" "$scratch"' EXIT

# What belongs to the tree: in a checkout what git knows, whoever owns it; elsewhere every file.
files() {
    if [ -e .git ]; then
        git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard
    else
        find . -type f -printf '%P\n'
    fi | LC_ALL=C sort -u | while IFS= read -r file; do
        if [ -f "$file" ]; then echo "$file"; fi # not one that is just being removed
    done
}

c_files() {
    files | grep -E '\.[ch]$'
}

# Text that people read and write; what fuzzers read is any bytes.
text_files() {
    files | grep -v '^tests/fuzz/corpus/'
}

violation() { # PATH LINE TEXT
    printf '%s:%s: %s\n' "$1" "$2" "$3" >>"$violations"
}

# `grep -n` over many files, each hit a violation.
forbid() { # TEXT GREP-ARGUMENT... < file names
    local text=$1 hit
    shift
    while IFS= read -r hit; do
        printf '%s: %s\n' "$(cut -d: -f1,2 <<<"$hit")" "$text" >>"$violations"
    done < <(xargs -d '\n' grep -nIH "$@" -- /dev/null)
}

# --- The checks. ---

check_layout() {
    local wanted='README.md client deploy meson.build meson_options.txt proto pyproject.toml rdzv store tests'
    local found name
    found=$(files | grep -v '^\.' | cut -d/ -f1 | LC_ALL=C sort -u)
    for name in $found; do
        if [[ " $wanted " != *" $name "* ]]; then
            violation "$name" 1 "the top level is for: $wanted, and names that begin with a dot"
        fi
    done
    for name in $wanted; do
        if ! grep -qxF "$name" <<<"$found"; then
            violation "$name" 1 "is missing from the top level"
        fi
    done
}

# Who may include whom, by the first folder of the path; and of which library a header is.
declare -A FOLDERS=(
    [proto]='proto' [store]='proto store' [rdzv]='proto store rdzv' [client]='proto client'
    [deploy]='proto deploy' [tests]='proto store rdzv client deploy tests'
)
# The same one level deeper: FOLDER/SUB -> the subfolders that it may include. A FOLDER none of whose
# subfolders is here is held to nothing; of one that is, each has to be. Files that stand in FOLDER
# itself put its subfolders together: they include any, and no subfolder includes them.
declare -A SUBFOLDERS=(
    [deploy/yaml]='yaml' [deploy/template]='yaml template' [deploy/kube]='yaml kube'
    [deploy/emit]='yaml template kube emit' [deploy/check]='yaml template kube check'
    [deploy/import]='yaml template kube emit import'
    [deploy/rewrite]='yaml template kube emit check rewrite'
    [store/memory]='memory' [store/change]='memory change' [store/disk]='memory change disk'
    [store/keymap]='memory change disk keymap' [store/session]='memory change disk keymap session'
    [store/tree]='memory change disk tree'
    [rdzv/engine]='engine' [rdzv/config]='engine config' [rdzv/net]='engine config net'
    [rdzv/etcd3]='engine config net etcd3' [rdzv/c10d]='engine config net c10d' [rdzv/http]='engine config net http'
    [rdzv/relay]='engine config net c10d http relay'
    [rdzv/rendezvous]='engine config net c10d http rendezvous'
    [rdzv/etcd_runs]='engine config net http rendezvous etcd_runs'
    [rdzv/etcd]='engine config net http etcd'
    [rdzv/admin]='engine config net c10d http etcd rendezvous etcd_runs relay etcd3 admin'
)
# What a folder may not include, whatever stands above.
declare -A NEVER=([store]='proto/torch/')
# Headers of FOLDER itself that its subfolders may include: they implement what stands there.
OPEN_HEADERS='deploy/verbs.h deploy/rule_calls.h store/record_table.h store/change_kinds.h rdzv/metric_table.h'
declare -A LIBRARIES=(
    [proto]='protobuf-c openssl' [store]='' [rdzv]='libevent cJSON libyaml nghttp2 openssl' [client]='cJSON libcurl librdzv openssl'
    [deploy]='libyaml' [tests]='protobuf-c libevent cJSON libyaml libcurl nghttp2 openssl cmocka'
)

set_library() { # HEADER; into $library
    case $1 in
    event2/*) library=libevent ;;
    nghttp2/*) library=nghttp2 ;;
    openssl/*) library=openssl ;;
    cjson/*) library=cJSON ;;
    curl/*) library=libcurl ;;
    rdzv_client.h) library=librdzv ;; # by its installed name
    yaml.h) library=libyaml ;;
    protobuf-c/*) library=protobuf-c ;;
    cmocka.h) library=cmocka ;;
    sys/*.h | arpa/*.h | net/*.h | netinet/*.h | linux/*.h) library=libc ;;
    assert.h | ctype.h | dirent.h | dlfcn.h | endian.h | err.h | errno.h | fcntl.h | fnmatch.h | fts.h | ftw.h | getopt.h | \
        glob.h | inttypes.h | libgen.h | limits.h | locale.h | malloc.h | math.h | netdb.h | poll.h | pthread.h | \
        pwd.h | regex.h | sched.h | semaphore.h | setjmp.h | search.h | signal.h | spawn.h | stdarg.h | stdatomic.h | stdbool.h | stddef.h | \
        stdint.h | stdio.h | stdlib.h | string.h | strings.h | termios.h | time.h | ucontext.h | \
        unistd.h)
        library=libc ;;
    *) library=unknown ;;
    esac
}

check_subfolders() { # PATH LINE TARGET: both in one folder
    local folder=${1%%/*} from=${1%/*} to=${3%/*} sub

    [[ " ${!SUBFOLDERS[*]}" == *" $folder/"* ]] || return 0
    for sub in "$from" "$to"; do
        if [ "$sub" != "$folder" ] && [ -z "${SUBFOLDERS[$sub]-}" ]; then
            violation "$1" "$2" "$sub/ has no row in SUBFOLDERS of tests/tidy.sh"
            return
        fi
    done
    if [ "$from" = "$folder" ] || [[ " $OPEN_HEADERS " == *" $3 "* ]]; then
        return 0
    elif [ "$to" = "$folder" ]; then
        violation "$1" "$2" "$from/ may not include what stands in $folder/ itself"
    elif [[ " ${SUBFOLDERS[$from]} " != *" ${to#"$folder"/} "* ]]; then
        violation "$1" "$2" "$from/ may not include $to/"
    fi
}

check_arrows() {
    local path line include folder target library own
    while IFS=: read -r path line include; do
        folder=${path%%/*}
        [[ $include =~ [\<\"]([^\>\"]*)[\>\"] ]] || continue
        target=${BASH_REMATCH[1]}
        if [[ $include == *'"'* ]]; then
            if [ ! -f "$target" ] && [[ $target != @(client/ctl_run|deploy/rule_calls|store/@(record_table|change_kinds)|rdzv/metric_table|proto/@(record|relay|etcd3).pb-c).h ]]; then
                violation "$path" "$line" "\"$target\": no such file, as seen from the root"
            elif [[ " ${FOLDERS[$folder]-} " != *" ${target%%/*} "* ]]; then
                violation "$path" "$line" "$folder/ may not include ${target%%/*}/"
            elif [ -n "${NEVER[$folder]-}" ] && [[ $target == "${NEVER[$folder]}"* ]]; then
                violation "$path" "$line" "$folder/ may not include ${NEVER[$folder]}"
            elif [ "$folder" = "${target%%/*}" ]; then
                check_subfolders "$path" "$line" "$target"
            fi
            continue
        fi
        set_library "$target"
        if [ $library = unknown ]; then
            violation "$path" "$line" "<$target>: of which library? tests/tidy.sh does not know"
        elif [ $library != libc ] && [[ " ${LIBRARIES[$folder]-} " != *" $library "* ]]; then
            violation "$path" "$line" "$folder/ may not use $library"
        fi
    done < <(c_files | xargs -d '\n' grep -nHE '^[[:space:]]*#[[:space:]]*include' -- /dev/null)

    while IFS= read -r path; do # own header first
        own=${path%.c}.h
        if [ -f "$own" ] && ! grep -m1 '^#include' "$path" | grep -qxF "#include \"$own\""; then
            violation "$path" 1 "its first include is to be \"$own\""
        fi
    done < <(c_files | grep '\.c$')
}

# A file and its header are one module. A reader must read the modules of a circle together, so a circle of includes or
# of symbols has at most so many modules.
CIRCLE_MAX=6
# These folders must have no circle of includes.
ONE_WAY=' store/memory store/change store/session rdzv/engine rdzv/config rdzv/net rdzv/c10d rdzv/http rdzv/etcd rdzv/rendezvous rdzv/etcd_runs rdzv/relay rdzv/admin '

# "MODULE MODULE": the first one includes the second one, in the same folder.
included_modules() {
    c_files | grep -E '^(proto|store|rdzv|client|deploy)/' |
        xargs -d '\n' grep -oHE '^#include "[a-z0-9_/]+/[a-z0-9_]+\.h' -- /dev/null |
        sed -E 's/\.[ch]:#include "/ /; s/\.h$//'
}

# The same of symbols, from the objects of a build: those of sources that are in the tree.
linked_modules() { # BUILD
    perl -0777 -ne '
        while (/"file":\s*"(?:\.\.\/)+([^"]*\.c)",\s*"output":\s*"([^"]*)"/g) {
            my ($source, $object) = ($1, $2);
            print "$source $object\n"
                if -f $source && $source =~ m,^(proto|store|rdzv|client|deploy)/, && !$seen{$source}++;
        }' "$1/compile_commands.json" >"$scratch/objects"
    (cd "$1" && cut -d' ' -f2 "$scratch/objects" | xargs -d '\n' nm -A -P --) 2>"$scratch/errors" | perl -e '
        open(my $objects, "<", $ARGV[0]) or exit 2;
        while (<$objects>) { my ($source, $object) = split; $module{$object} = $source =~ s/\.c$//r; }
        while (<STDIN>) {
            my ($object, $symbol, $type) = /^(.*): (\S+) (\S)/ or next;
            if ($type eq "U") { push @needed, [$module{$object}, $symbol]; }
            elsif ($type =~ /[TDBRCVW]/) { $owner{$symbol} = $module{$object}; }
        }
        for (@needed) { print "$_->[0] $owner{$_->[1]}\n" if defined $owner{$_->[1]}; }
    ' "$scratch/objects"
}

# "FOLDER MODULE…" for each circle of more than one, from lines "MODULE MODULE".
circles_of() {
    perl -e '
        while (<STDIN>) {
            my ($from, $to) = split;
            my ($folder) = $from =~ m,(.*)/,;
            $next{$from}{$to} = 1 if $from ne $to && $to =~ m,^\Q$folder\E/[^/]+$,;
        }
        for my $start (sort keys %next) {
            my @todo = ($start);
            while (defined(my $at = pop @todo)) {
                push @todo, grep { !$reached{$start}{$_}++ } keys %{$next{$at}};
            }
        }
        for my $start (sort keys %next) {
            my @circle = grep { $reached{$start}{$_} && $reached{$_}{$start} } sort keys %next;
            my ($folder) = $start =~ m,(.*)/,;
            print "$folder @circle\n" if @circle > 1 && !grep { $done{$_}++ } @circle;
        }'
}

complain_of_circles() { # KIND < lines of circles_of()
    local kind=$1 folder most circle
    local -a modules
    while read -r folder circle; do
        read -r -a modules <<<"$circle"
        most=$CIRCLE_MAX
        [ "$kind" = includes ] && [[ $ONE_WAY == *" $folder "* ]] && most=1
        if [ ${#modules[@]} -gt "$most" ]; then
            violation "${modules[0]}.c" 1 "is in a circle of $kind within $folder/: ${modules[*]##*/}"
        fi
    done
}

# The build is that of $BUILD, or where one is mostly found.
check_circles() {
    local build

    complain_of_circles includes < <(included_modules | circles_of)
    for build in ${BUILD:-build build-test/gcc}; do
        if [ -f "$build/compile_commands.json" ]; then
            complain_of_circles symbols < <(linked_modules "$build" | circles_of)
            return
        fi
    done
    echo 'tidy: there is no build here (BUILD=folder), circles of symbols are not checked' >&2
}

check_headers() {
    local path
    while IFS= read -r path; do
        violation "$path" 1 "has no #pragma once"
    done < <(c_files | grep '\.h$' |
        xargs -d '\n' grep -cx '#pragma once' -- /dev/null |
        sed -nE '/^\/dev\/null:/d; /:1$/!s/:[0-9]+$//p')
}

# Each header must compile as the first include of a file.
check_compile() {
    local path flags
    mkdir -p "$scratch/proto" "$scratch/deploy" "$scratch/client" "$scratch/rdzv" "$scratch/store"
    protoc-c --proto_path=proto --c_out="$scratch/proto" proto/record.proto proto/relay.proto proto/etcd3.proto || exit 2
    store/disk/record_table.py proto/record.proto /dev/null "$scratch/store/change_kinds.h" || exit 2
    deploy/embed.py --rules /dev/null "$scratch/deploy/rule_calls.h" deploy/data/rules.yaml || exit 2
    client/ctl/texts.py /dev/null . 0 /dev/null "$scratch/client/ctl_run.h" || exit 2
    rdzv/admin/metric_table.py rdzv/admin/METRICS.md /dev/null "$scratch/rdzv/metric_table.h" || exit 2
    flags=$(pkg-config --cflags libevent_core libprotobuf-c libnghttp2 libcjson libcurl yaml-0.1)
    while IFS= read -r path; do
        # shellcheck disable=SC2086 # several flags
        if ! printf '#include "%s"\n' "$path" |
            "$CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I. -I"$scratch" \
                $flags -x c - 2>"$scratch/errors"; then
            violation "$path" 1 "does not compile alone: $(grep -m1 error "$scratch/errors")"
        fi
    done < <(c_files | grep '\.h$')
}

# The first words of a file say its one job.
check_first_lines() {
    local path first second
    while IFS= read -r path; do
        case $path in
        *.c | *.h | *.py | *.sh | .ci/*) ;;
        *) continue ;;
        esac
        first='' second=''
        { IFS= read -r first && IFS= read -r second; } <"$path"
        case $path in
        *.c | *.h)
            [[ $first =~ ^/\*\ [A-Za-z0-9/_\"].{15,} ]] && continue
            ;;
        *.py)
            [[ $first == '#!'* ]] && first=$second
            [[ $first =~ ^r?\"\"\"[A-Za-z0-9].{15,} ]] && continue
            ;;
        *.sh | .ci/*)
            [[ $first == '#!'* ]] && first=$second
            [[ $first =~ ^#\ [A-Za-z0-9].{15,} ]] && continue
            ;;
        esac
        violation "$path" 1 "its first line does not say what it is for"
    done < <(text_files)
}

check_blanks() {
    text_files | forbid 'blanks at the end of the line' -E '[[:blank:]]+$'
    text_files | forbid 'a carriage return' -e $'\r'
    c_files | forbid 'a tab' -e $'\t'
    # shellcheck disable=SC2016 # the dollars are perl's
    text_files | xargs -d '\n' perl -0777 -ne '
        $lines = tr/\n//;
        print "$ARGV:", $lines + 1, ": the last line has no end\n" if !/\n\z/;
        print "$ARGV:$lines: an empty line at the end\n" if /(\n|\A)\n\z/;
    ' >>"$violations"
}

# What stands in the tree is built, and run.
check_built() {
    local path name
    while IFS= read -r path; do
        name=${path##*/}
        case $path in
        tests/unit/test_*.c | tests/loop/test_*.c)
            name=${name#test_}
            grep -q "'${name%.c}'" tests/meson.build && continue
            grep -qF "${path#tests/}'" tests/meson.build && continue
            ;;
        tests/unit/*) continue ;; # no other .c is there: see below
        tests/fuzz/fuzz_*.c)
            name=${name#fuzz_}
            grep -q "'${name%.c}'" tests/fuzz/meson.build && continue
            ;;
        tests/*/*)
            grep -qsF "${path#tests/}'" tests/meson.build && continue
            grep -qsF "'$name'" "${path%/*}/meson.build" && continue
            ;;
        *)
            grep -qsF "'$name'" "${path%/*}/meson.build" && continue
            grep -qsF "'${path#*/}'" "${path%%/*}/meson.build" && continue
            ;;
        esac
        violation "$path" 1 "no meson.build knows of it"
    done < <(c_files | grep '\.c$')
}

# Formats differ between versions of clang-format; ours is that of Debian bookworm.
clang_format() {
    local tool
    tool=$(command -v clang-format-14 || command -v clang-format) &&
        "$tool" --version | grep -q 'version 14\.' && echo "$tool"
}

check_format() {
    local tool
    if ! tool=$(clang_format); then
        echo 'tidy: there is no clang-format 14 here, the format is not checked' >&2
        return
    fi
    c_files | xargs -d '\n' -n 50 "$tool" --dry-run -Werror 2>&1 |
        sed -nE 's/^([^:]+):([0-9]+):[0-9]+: error: .*/\1:\2: is not as clang-format has it/p' |
        LC_ALL=C sort -t: -u -k1,1 >>"$violations"
}

# No file may name paths of the author's machine, package mirrors, or the way the text was written. (The brackets keep
# these patterns from matching this script.)
check_itself() {
    text_files | forbid 'a path of somebody'\''s machine' \
        -P '(^|[^[:alnum:]_./-])/(wor[k]|hom[e](?!/(kubernetes/bin/|data$))|roo[t]|Use[r]s)/[[:alnum:]_.]'
    text_files | forbid 'a path of somebody'\''s machine' -E '/tmp/(brie[f]|buil[d]|bash_job[s])'
    text_files | forbid 'a host that packages come from' \
        -iE '(deb\.debia[n]|pyp[i]|pythonhoste[d]|download\.pytorc[h])\.(org|net|io)'
    text_files | forbid 'speaks of how it was written' \
        -iE '(language mode[l]|\bA[I]-generated|as an A[I]\b|co-authored-b[y]|\bissues? sho[w]\b)'
}

# Sentences that name nothing, see prose.py. Its limits may only fall: a limit must not be higher than in the last
# two commits that changed the script.
check_prose() {
    local commit
    local -a older=()
    for commit in $(git -c safe.directory="$PWD" rev-list -n 2 HEAD -- tests/prose.py 2>/dev/null); do
        git -c safe.directory="$PWD" show "$commit:tests/prose.py" >"$scratch/$commit.py" 2>/dev/null &&
            older+=(--older "$scratch/$commit.py")
    done
    text_files | grep -E '\.(c|h|py|sh|md)$' | python3 tests/prose.py "${older[@]}" >>"$violations"
}

# --- Proof that they can fail. ---

# Plants one violation in the current folder, a copy of the tree, and prints the text that the check must report.
plant() {
    case $1 in
    layout) mkdir src && echo '/* A folder that nobody asked for. */' >src/a.c && echo 'src:1: the top' ;;
    layout-file) echo 'text' >NOTES.md && echo 'NOTES.md:1: the top level' ;;
    layout-missing) rm README.md && echo 'README.md:1: is missing' ;;
    arrows-up) include proto/json.c '"store/store.h"' && echo 'proto/ may not include store/' ;;
    arrows-up-header) include store/memory/table.h '"rdzv/net/conn.h"' && echo 'store/ may not include rdzv/' ;;
    arrows-side) include rdzv/engine/log.c '"tests/unit/exact.h"' && echo 'rdzv/ may not include tests/' ;;
    arrows-never) include store/store.h '"proto/torch/torch_state.h"' && echo 'store/ may not include proto/torch/' ;;
    arrows-engine) include rdzv/engine/engine.h '"rdzv/net/net.h"' && echo 'rdzv/engine/ may not include rdzv/net/' ;;
    arrows-net) include rdzv/net/conn.c '"rdzv/server.h"' && echo 'rdzv/net/ may not include what stands in rdzv/ itself' ;;
    arrows-sub) include deploy/yaml/arena.h '"deploy/kube/kube_view.h"' && echo 'deploy/yaml/ may not include deploy/kube/' ;;
    arrows-sub-side) include deploy/emit/emit.c '"deploy/check/check.h"' && echo 'deploy/emit/ may not include deploy/check/' ;;
    arrows-room) include store/memory/table.h '"store/keymap/keymap.h"' && echo 'store/memory/ may not include store/keymap/' ;;
    arrows-sub-new) mkdir deploy/new && echo '#include "deploy/yaml/arena.h"' >deploy/new/a.c && echo 'deploy/new/ has no row' ;;
    arrows-spaced) include proto/url.c '"rdzv/server.h"' ' # ' && echo 'proto/ may not include rdzv/' ;;
    arrows-library) include store/memory/table.h '<event2/event.h>' && echo 'store/ may not use libevent' ;;
    arrows-library-proto) include proto/json.h '<cjson/cJSON.h>' && echo 'proto/ may not use cJSON' ;;
    arrows-library-client) include client/client.h '<event2/event.h>' && echo 'client/ may not use libevent' ;;
    arrows-client) include client/client.h '"store/store.h"' && echo 'client/ may not include store/' ;;
    arrows-unknown) include rdzv/config/config_file.h '<gtk/gtk.h>' && echo '<gtk/gtk.h>: of which library?' ;;
    arrows-relative) include proto/json.h '"bytes.h"' && echo '"bytes.h": no such file' ;;
    arrows-own) sed -i '0,/#include/s//#include <stdio.h>\n&/' proto/c10d.c && echo 'its first include' ;;
    circles) include rdzv/net/net.h '"rdzv/net/conn.h"' && echo 'is in a circle of includes within rdzv/net/' ;;
    circles-large) plant_knot 7 && echo 'is in a circle of includes within proto/: knot1 knot2 knot3 knot4 knot5 knot6 knot7' ;;
    circles-linked) plant_build 7 && echo 'is in a circle of symbols within proto/: knot1 knot2 knot3 knot4 knot5 knot6 knot7' ;;
    headers) sed -i '/#pragma once/d' proto/json.h && echo 'proto/json.h:1: has no #pragma once' ;;
    compile) sed -i '/#include/d' proto/json.h && echo 'proto/json.h:1: does not compile alone' ;;
    first-lines-c) sed -i '1s/.*/#include <stdio.h>/' proto/json.c && echo 'proto/json.c:1: its first' ;;
    first-lines-short) sed -i '1s/.*/\/* JSON. *\//' proto/json.h && echo 'proto/json.h:1: its first' ;;
    first-lines-py) sed -i '1i import os' tests/support/servers.py && echo 'servers.py:1: its first line' ;;
    first-lines-sh) sed -i '2s/.*/set -u/' tests/support/install.sh && echo 'install.sh:1: its first line' ;;
    blanks-end) sed -i '5s/$/ /' README.md && echo 'README.md:5: blanks at the end' ;;
    blanks-tab) sed -i 's/^    return/\treturn/' proto/url.c && echo 'a tab' ;;
    blanks-cr) sed -i '3s/$/\r/' proto/record.proto && echo 'record.proto:3: a carriage return' ;;
    blanks-last) printf 'x' >>README.md && echo 'the last line has no end' ;;
    blanks-empty) echo >>proto/json.h && echo 'an empty line at the end' ;;
    built) echo '/* A module that nobody builds. */' >store/orphan.c && echo 'store/orphan.c:1: no' ;;
    built-test) echo '/* A test that nobody runs. */' >tests/unit/test_no.c && echo 'test_no.c:1: no' ;;
    built-fuzzer) echo '/* A fuzzer nobody runs. */' >tests/fuzz/fuzz_no.c && echo 'fuzz_no.c:1: no' ;;
    built-sim) echo '/* A simulation nobody runs. */' >tests/sim/no.c && echo 'tests/sim/no.c:1: no' ;;
    format) sed -i 's/^    return/   return/' proto/url.c && echo 'is not as clang-format has it' ;;
    itself-path) echo "see /wor""k/main/notes" >>README.md && echo "a path of somebody's machine" ;;
    itself-home) echo "see /hom""e/me/notes" >>README.md && echo "a path of somebody's machine" ;;
    itself-host) echo "from https://pyp""i.org/simple" >>README.md && echo 'a host that packages' ;;
    itself-writer) echo "Co-Authored-B""y: somebody" >>README.md && echo 'speaks of how' ;;
    prose-c) echo "/* $(riddle) */" >>client/examples/hello.c && echo "hello.c:$(lines client/examples/hello.c): a riddle" ;;
    prose-h) for _ in {1..20}; do printf '// %s\n\n' "$(riddle)"; done >>client/rdzv_client.h && echo 'client/ has' ;;
    prose-py) riddle | sed 's/.*/"""&"""/' >client/examples/a.py && echo 'client/examples/a.py:1: a riddle' ;;
    prose-sh) mkdir client/new && riddle | sed 's/^/# /' >client/new/a.sh && echo 'client/new/ has 1000 per 1,000' ;;
    prose-md) riddle >>deploy/helm/rdzv/README.md && echo "rdzv/README.md:$(lines deploy/helm/rdzv/README.md): a riddle" ;;
    prose-table) echo "| \`key\` | $(riddle) |" >>deploy/helm/rdzv/README.md && echo "rdzv/README.md:$(lines deploy/helm/rdzv/README.md): a riddle" ;;
    prose-tree) sed -i 's/^TREE_LIMIT = .*/TREE_LIMIT = 0/' tests/prose.py && echo 'the tree has' ;;
    prose-raised) raise_limit && echo 'the limit of FOLDER_LIMIT was 20 and is 21 now' ;;
    *) return 1 ;;
    esac
}

# So many modules of proto/, each of which includes and calls the next one.
plant_knot() { # COUNT
    local i next
    for ((i = 1; i <= $1; i++)); do
        next=$((i % $1 + 1))
        echo "int knot$i(void);" >proto/knot$i.h
        printf '#include "proto/knot%d.h"\n\n#include "proto/knot%d.h"\n\nint knot%d(void)\n{\n    return knot%d();\n}\n' \
            "$i" "$next" "$i" "$next" >proto/knot$i.c
    done
}

# The same, and a build of them.
plant_build() { # COUNT
    local i
    plant_knot "$1" && mkdir -p build || return
    for ((i = 1; i <= $1; i++)); do
        "$CC" -I. -c proto/knot$i.c -o build/knot$i.o || return
        printf '"file": "../proto/knot%d.c",\n"output": "knot%d.o"\n' "$i" "$i"
    done >build/compile_commands.json
}

riddle() {
    echo 'What is more than some of it is not read until then.'
}

lines() { # FILE
    wc -l <"$1"
}

# A commit of the script as it is, and a higher limit in the file.
raise_limit() {
    git init -q && git add tests/prose.py && git -c user.name=tidy -c user.email=tidy commit -q -m limits &&
        sed -i 's/^FOLDER_LIMIT = 20/FOLDER_LIMIT = 21/' tests/prose.py
} >/dev/null 2>&1

include() { # FILE WHAT [HASH]: one more, behind its last one
    sed -i "$(grep -n '#include' "$1" | tail -n 1 | cut -d: -f1)a ${3:-#}include $2" "$1"
}

# Plants all violations of a check in one copy of the tree, and runs the check there: its output must contain the text
# of every planted violation.
self_test() {
    local self=$PWD/tests/tidy.sh copy="$scratch/copy" failed=0 check planted output
    local plants wanted text
    plants=$(sed -n '/^plant() {/,/^}/s/^    \([a-z-]*\)) .*/\1/p' "$self")
    command -v git >/dev/null || plants=$(grep -vx prose-raised <<<"$plants")

    for check in "${CHECKS[@]}"; do
        if [ "$check" = format ] && ! clang_format >/dev/null; then
            continue
        fi
        if ! "$self" "$check"; then
            echo "tidy: self-test: $check is violated before anything is planted"
            failed=1
            continue
        fi
        rm -rf "$copy"
        mkdir "$copy"
        text_files | grep -v '^tests/manifest/' | tar -cf - -T - | tar -xf - -C "$copy"
        wanted=''
        for planted in $(grep "^$check" <<<"$plants"); do
            wanted+="$planted $(cd "$copy" && plant "$planted")"$'\n' || exit 2
        done
        output=$(BUILD='' "$copy/tests/tidy.sh" "$check" 2>&1) && output="nothing: it passes"
        while read -r planted text; do
            if [ -z "$text" ] || ! grep -qF -- "$text" <<<"$output"; then
                echo "tidy: self-test: ${planted:-$check}: expected '$text', was told: $output"
                failed=1
            fi
        done <<<"${wanted%$'\n'}"
    done
    [ $failed = 0 ] && echo "tidy: self-test: each of $(wc -w <<<"$plants") violations was found"
}

# --- What is asked for. ---

if [ -e .git ] && ! git -c safe.directory="$PWD" ls-files >/dev/null; then
    echo 'tidy: this is a checkout, and git cannot say what belongs to it: install git' >&2
    exit 2
fi
case ${1:-} in
--self-test)
    self_test
    exit
    ;;
--list)
    printf '%s\n' "${CHECKS[@]}"
    exit
    ;;
esac
for check in "${@:-${CHECKS[@]}}"; do
    if [[ " ${CHECKS[*]} " != *" $check "* ]]; then
        echo "tidy: no such check: $check; they are: ${CHECKS[*]}" >&2
        exit 2
    fi
    "check_${check//-/_}"
done
LC_ALL=C sort -u "$violations"
[ ! -s "$violations" ]
