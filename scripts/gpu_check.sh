#!/usr/bin/env bash
# All that wants a GPU, in calls of under nine minutes, without a network: tests on the GPU, strategies, sanitizers, and
# steps against PyTorch where python3 has it. Builds first, or takes programs that were built and packed elsewhere. On a
# machine without a GPU it builds, and says of each stage that it is skipped.
# Usage: scripts/gpu_check.sh [--unpack FILE] [--build-dir DIR] [--results DIR] [--minutes N] [--jobs N] [--contexts N] [--stages A,B,...]
#        scripts/gpu_check.sh --pack FILE [--build-dir DIR] [--jobs N]
#        scripts/gpu_check.sh --list
#   --pack FILE      build here for GPUs of kind 90, which needs no GPU, and pack programs and libraries into this .tar.xz
#   --unpack FILE    use the programs of such an archive; nothing is built
#   --build-dir DIR  where it builds, or unpacks to (default: build-gpu)
#   --results DIR    where results are written (default: bench/results)
#   --minutes N      how long it may take in all (default: 8.7)
#   --jobs N         how many compilers run side by side (default: one a core)
#   --contexts N     how many tests have the GPU at a time (default: 2)
#   --stages A,B     these stages alone, in this order; if absent, those of the first call
#   --list           show the stages with their limits and the calls in which they fit, and do nothing
# The limits of a call's stages come to no more than --minutes less 45 s for unpacking and for writing results; what is
# left for other calls is said at the end. Writes
# DATE_gpu_DEVICE.json and .md and, of all that was printed, DATE_gpu_DEVICE_logs.tar.xz into the folder of results, none
# above 1 MB, after each row, where there is a GPU; with --stages, names have the first of them behind DEVICE.
# Exit status 0: all that ran has passed.
# A folder .gpu-deps/ with an unpack.sh that prints CMake arguments is used if there is one. See docs/cuda.md.
set -uo pipefail

build=build-gpu results=bench/results minutes=8.7 jobs=$(nproc) contexts=2 stages="" pack="" unpack="" list=0
fail() {
  echo "gpu_check.sh: $*; wanted --pack FILE, --unpack FILE, --build-dir DIR, --results DIR, --minutes N, --jobs N, --contexts N, --stages A,B, --list or --help" >&2
  exit 2
}
while [ "$#" -gt 0 ]; do
  case "$1" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build-dir | --results | --minutes | --jobs | --contexts | --stages | --pack | --unpack)
      [ "$#" -gt 1 ] || fail "$1 wants a value"
      case "$1" in
        --build-dir) build=$2 ;;
        --results) results=$2 ;;
        --minutes) minutes=$2 ;;
        --jobs) jobs=$2 ;;
        --contexts) contexts=$2 ;;
        --stages) stages=$2 ;;
        --pack) pack=$(realpath -m "$2") ;;
        --unpack) unpack=$(realpath -m "$2") ;;
      esac
      shift ;;
    --list) list=1 ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done
cd "$(dirname "$0")/.." || exit

# Functions of the parts: `build_programs`, `pack_programs`, `unpack_programs`; `stage_NAME` of each stage.
. scripts/gpu/programs.sh
. scripts/gpu/stages.sh

seconds=$(awk "BEGIN {print int(60 * $minutes)}" 2>/dev/null)
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || fail "--minutes $minutes is no time"
if [ "$list" -eq 1 ]; then
  list_stages "$seconds"
  exit 0
fi
[ -z "$pack" ] || [ -z "$unpack" ] || fail "--pack and --unpack exclude each other"
[ -z "$unpack" ] || [ -f "$unpack" ] || fail "there is no file '$unpack' for --unpack"
suffix=${stages:+_${stages%%,*}}
readarray -t calls < <(stages_by_calls "$seconds")
others=()
[ -n "$stages" ] || { stages=${calls[0]} others=("${calls[@]:1}"); }
sum=0
for name in ${stages//,/ }; do
  stage_names | grep -Fqx -e "$name" || fail "'$name' in --stages is none of $(stage_names | paste -sd ' ')"
  sum=$((sum + $(stage_limit "$name")))
done
[ "$((sum + reserve))" -le "$seconds" ] || [ "${stages//,/}" = "$stages" ] ||
  fail "the limits of $stages come to $sum s, and $reserve s are for the rest; --minutes $minutes are $seconds; take fewer --stages a call (--list)"

mkdir -p "$build" "$results"
build=$(cd "$build" && pwd) results=$(cd "$results" && pwd)
export OMP_WAIT_POLICY=passive
if [ -n "$pack" ]; then
  pack_programs "$pack"
  exit
fi
work=$build/gpu_check
rm -rf "$work"
mkdir -p "$work"
deadline=$(($(date +%s) + seconds)) stage_deadline=$((1 << 60))

# What each row did, one line each: name, "passed", "failed" or "skipped", seconds, a word about it, the programs' commit.
note() {
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$commit" >>"$work/stages.tsv"
  printf '%-28s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"
  local begin=$SECONDS
  write_results
  stage_deadline=$((stage_deadline + SECONDS - begin))  # a stage's time is its rows'
}

# The results so far; a run that is cut off leaves those of its rows that have ended.
write_results() {
  [ -n "$gpu" ] || return 0
  python3 bench/gpu_report.py --work "$work" --results "$results" --device "$gpu" --suffix "$suffix" >"$work/report.out" 2>&1 ||
    cat "$work/report.out"
  local logs
  logs=$results/$(date +%F)_gpu_$(tr -cs 'A-Za-z0-9\n' '_' <<<"$gpu" | tr 'A-Z' 'a-z' | sed 's/^_*//; s/_*$//')${suffix}_logs.tar.xz
  pack_logs "$logs" || pack_logs "$logs" --exclude='timeline_*' || pack_logs "$logs" --exclude='timeline_*' --exclude='*.logs' ||
    echo "gpu_check.sh: the logs have more than 1 MB, or cannot be packed; they are in $work" >&2
}
# pack_logs FILE ARGUMENT...: into an archive of at most 1 MB, or not at all: an archive that is there stays then.
pack_logs() {
  local file=$1
  shift
  if tar -C "$build" "$@" -c gpu_check | xz -1 >"$file.tmp" && [ "$(stat -c %s "$file.tmp")" -le 1000000 ]; then mv "$file.tmp" "$file"
  else rm -f "$file.tmp"; return 1; fi
}

# row NAME SECONDS COMMAND...: runs a command in what is left of the call's and its stage's time, at most SECONDS; its output
# goes to a file.
row() {
  local name=$1 limit=$2 status=0 begin left log
  shift 2
  if [ -n "$missing" ]; then note "$name" skipped 0 "$missing"; return 0; fi
  begin=$(date +%s)
  left=$(((deadline < stage_deadline ? deadline : stage_deadline) - begin))
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -lt 5 ]; then note "$name" failed 0 "no time was left"; return 1; fi
  log=$work/$name.log
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  local took=$(($(date +%s) - begin))
  case "$status" in
    0) note "$name" passed "$took" "$(awk '/^\[  PASSED/ {n += $4} END {if (n > 0) print n " tests"}' "$log")"; return 0 ;;
    77) note "$name" skipped "$took" "$(tail -n 1 "$log" | cut -c 1-200)"; return 0 ;;
    124 | 137) note "$name" failed "$took" "stopped after $limit s" ;;
    *) note "$name" failed "$took" "status $status" ;;
  esac
  tail -n 15 "$log" | cut -c 1-300 | sed 's/^/    /'
  return 1
}

gpu="" architecture=90 missing="there is no GPU"
if command -v nvidia-smi >/dev/null && line=$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null | head -n 1) &&
  [[ "$line" =~ ^(.+),\ *([0-9]+)\.([0-9]+)$ ]]; then
  gpu=${BASH_REMATCH[1]} architecture=${BASH_REMATCH[2]}${BASH_REMATCH[3]} missing=""
fi
# Without a GPU nothing but building takes time, and one call names all that is skipped.
if [ -z "$gpu" ]; then
  deadline=$(($(date +%s) + 7200)) stages=$stages${others[*]:+,$(IFS=, && echo "${others[*]}")} others=()
fi
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
echo "gpu_check.sh: GPU '${gpu:-none}', architecture $architecture, $jobs jobs, $minutes minutes"

if [ -n "$unpack" ]; then unpack_programs "$unpack"; else build_programs; fi
for program in $(check_programs); do
  [ -n "$missing" ] || [ -x "$programs/$program" ] || missing="$program is not there"
done
case ",$stages" in *,speed_* | *,compiled_*) [ -n "$missing" ] || look_for_torch ;; esac
for name in ${stages//,/ }; do
  stage_deadline=$(($(date +%s) + $(stage_limit "$name")))
  "stage_$name"
done
for names in "${others[@]}"; do echo "gpu_check.sh: for another call: --stages $names"; done

if cut -f 2 "$work/stages.tsv" | grep -qx failed; then
  echo "gpu_check.sh: some rows have failed; their output is in $work"
  exit 1
fi
