#!/usr/bin/env bash
# All that wants a GPU, in one call of under nine minutes on 16 cores, without a network: builds, tests on the GPU,
# sanitizers, strategies, and steps against PyTorch where python3 has it. On a machine without a GPU it builds, and
# says of each other stage in one line that it is skipped.
# Usage: scripts/gpu_check.sh [--build-dir DIR] [--results DIR] [--minutes N] [--jobs N] [--no-benches]
#   --build-dir DIR  where it builds (default: build-gpu)
#   --results DIR    where results are written (default: bench/results)
#   --minutes N      how long it may take in all (default: 8.7)
#   --jobs N         how many compilers and tests run side by side (default: one a core)
#   --no-benches     no steps against PyTorch
# Writes DATE_gpu_DEVICE.json and .md into the folder of results (bench/results), where there is a GPU.
# Exit status 0: all that ran has passed.
# A folder .gpu-deps/ with an unpack.sh that prints CMake arguments is used if there is one. See docs/cuda.md.
set -uo pipefail

build=build-gpu results=bench/results minutes=8.7 jobs=$(nproc) benches=1
fail() { echo "gpu_check.sh: $*; wanted --build-dir DIR, --results DIR, --minutes N, --jobs N, --no-benches or --help" >&2; exit 2; }
while [ "$#" -gt 0 ]; do
  case "$1" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build-dir | --results | --minutes | --jobs)
      [ "$#" -gt 1 ] || fail "$1 wants a value"
      case "$1" in
        --build-dir) build=$2 ;;
        --results) results=$2 ;;
        --minutes) minutes=$2 ;;
        --jobs) jobs=$2 ;;
      esac
      shift ;;
    --no-benches) benches=0 ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done
cd "$(dirname "$0")/.." || exit
mkdir -p "$build" "$results"
build=$(cd "$build" && pwd)
work=$build/gpu_check
rm -rf "$work"
mkdir -p "$work"
export OMP_WAIT_POLICY=passive
deadline=$(($(date +%s) + $(awk "BEGIN {print int(60 * $minutes)}")))

# What each stage did, one line each: name, "passed", "failed" or "skipped", seconds, a word about it.
note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$work/stages.tsv"; printf '%-28s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"; }

# stage NAME SECONDS COMMAND...: runs a command in what is left of the time, at most SECONDS; its output goes to a file.
stage() {
  local name=$1 limit=$2 status=0 begin left log
  shift 2
  begin=$(date +%s)
  left=$((deadline - begin))
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -lt 5 ]; then note "$name" failed 0 "no time was left"; return 1; fi
  log=$work/$name.log
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  local took=$(($(date +%s) - begin))
  case "$status" in
    0) note "$name" passed "$took" ""; return 0 ;;
    77) note "$name" skipped "$took" "$(tail -n 1 "$log" | cut -c 1-200)"; return 0 ;;
    124 | 137) note "$name" failed "$took" "stopped after $limit s" ;;
    *) note "$name" failed "$took" "status $status" ;;
  esac
  tail -n 25 "$log" | cut -c 1-300 | sed 's/^/    /'
  return 1
}
# Like stage, for what cannot be done where `$missing` names something.
stage_unless() {
  local missing=$1
  shift
  if [ -n "$missing" ]; then note "$1" skipped 0 "$missing"; else stage "$@"; fi
}

# ---- The machine.

gpu="" architecture=90 no_gpu="there is no GPU"
if command -v nvidia-smi >/dev/null && line=$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null | head -n 1) &&
  [[ "$line" =~ ^(.+),\ *([0-9]+)\.([0-9]+)$ ]]; then
  gpu=${BASH_REMATCH[1]} architecture=${BASH_REMATCH[2]}${BASH_REMATCH[3]} no_gpu=""
fi
device=${gpu:-none}
echo "gpu_check.sh: GPU '$device', architecture $architecture, $jobs jobs, $minutes minutes"

# ---- Build. The architecture is the machine's alone, so that compiling is quick.

arguments=(-G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "-DSECTIONFLOW_CUDA=$([ -n "$no_gpu" ] && echo AUTO || echo ON)")
# An existing build folder keeps what it was configured for.
[ -f "$build/CMakeCache.txt" ] || arguments+=("-DCMAKE_CUDA_ARCHITECTURES=$architecture-real")
if [ -f .gpu-deps/unpack.sh ]; then
  if unpacked=$(bash .gpu-deps/unpack.sh "$build/deps"); then
    read -r -a unpacked <<<"$unpacked"
    arguments+=("${unpacked[@]}")
    # A program's run path does not lead its libraries to theirs.
    for argument in "${unpacked[@]}"; do
      case "$argument" in
        -DCMAKE_BUILD_RPATH=*) export LD_LIBRARY_PATH=${argument#*=}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
      esac
    done
    note unpack passed 0 ""
  else
    note unpack failed 0 ".gpu-deps/unpack.sh has failed"
  fi
fi
# cuDNN may lie beside a Python that brings its own.
cudnn=$(python3 -c 'import importlib.util as u; print(list(u.find_spec("nvidia.cudnn").submodule_search_locations)[0])' 2>/dev/null)
[ -n "$cudnn" ] && arguments+=("-DCUDNN_ROOT=$cudnn")
# And CUPTI, which a test wants.
cupti=$(python3 -c '
import importlib.util as u, os
for name in ("nvidia.cu13", "nvidia.cuda_cupti"):
    spec = u.find_spec(name)
    for folder in (spec.submodule_search_locations if spec else []):
        if os.path.exists(os.path.join(folder, "include", "cupti.h")): print(folder); raise SystemExit' 2>/dev/null)
[ -n "$cupti" ] && arguments+=("-DCUPTI_ROOT=$cupti")

programs=(test_ops test_cuda test_cuda_calls test_sections test_bench compare bench_train_steps)
stage configure 60 cmake "${arguments[@]}"
configured=$?
if [ "$configured" -eq 0 ]; then
  if grep -q '^build [^:]*libsectionflow_cuda\.so' "$build/build.ninja"; then programs+=(sectionflow_cuda)
  else note cuda skipped 0 "there is no CUDA toolkit"; fi
  # Without a GPU nothing else needs the time.
  stage build "$([ -n "$no_gpu" ] && echo 3600 || echo 260)" ninja -C "$build" -j "$jobs" "${programs[@]}"
fi
built=""
for program in tests/test_ops tests/test_cuda tests/test_cuda_calls tests/test_sections tests/test_bench bench/bench_compare bench/bench_train_steps; do
  [ -x "$build/$program" ] || built="$program is not built"
done
missing=${no_gpu:-$built}

# ---- Tests. The suites of operations and strategies are among those of the label.

# A test that is skipped here has found no GPU: that is a failure where there is one. The one that watches the calls of
# CUDA may have been built without CUPTI; it is a stage of its own, which says so.
# shellcheck disable=SC2016
stage_unless "$missing" ctest_gpu 120 bash -c 'ctest "$@" -E "^gpu/calls" && ! grep -l Skipped "$0"' "$work/ctest_gpu.log" \
  --test-dir "$build" -L '^gpu$' -j "$((jobs < 8 ? jobs : 8))" --output-on-failure
stage_unless "$missing" runtime_calls 40 env SECTIONFLOW_TEST_DEVICE=cuda "$build/tests/test_cuda_calls"
steps=("$build/bench/bench_train_steps" --device cuda --model mnist_resnet --batch 4 --cut 4 --steps 2 --device-memory 64MiB)
no_sanitizer=$missing
command -v compute-sanitizer >/dev/null || [ -n "$no_sanitizer" ] || no_sanitizer="there is no compute-sanitizer"
for tool in memcheck racecheck; do
  stage_unless "$no_sanitizer" "$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 86 --print-limit 10 "${steps[@]}"
done
stage_unless "$missing" strategies_mnist 40 "$build/bench/bench_compare" --device cuda --model mnist_resnet --batch 250 --steps 50 \
  --strategies whole,sections:2,sections:4,sections:blocks --json "$work/strategies_mnist.json"
stage_unless "$missing" strategies_resnet50 60 "$build/bench/bench_compare" --device cuda --model resnet50 --batch 64 --steps 12 \
  --device-memory 50% --strategies sections:blocks,sections+swap:blocks,swap --json "$work/strategies_resnet50.json"

# ---- Against PyTorch: the same weights and batches, steps in turn. TF32 is off unless a peer says so.

no_bench=$missing
[ "$benches" -eq 1 ] || no_bench=${no_bench:-"--no-benches"}
if [ -z "$no_bench" ] && ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  no_bench="python3 has no PyTorch that finds the GPU"
fi
speed=(python3 bench/peers/compare_speed.py --program "$build/bench/bench_train_steps" --device cuda --pause-ms 2 --threads 4 --warm-up 4)
images=python3:channels_last:fused
stage_unless "$no_bench" speed_mnist 60 "${speed[@]}" --model mnist_resnet --batch 250 --device-memory 4GiB --steps 15 --burst 5 \
  --ours whole --ours whole:tf32 --ours whole:tf32:autotune \
  --peer $images --peer $images:compile --peer $images:compile:tf32 --json "$work/speed_mnist.json"
stage_unless "$no_bench" speed_resnet50 100 "${speed[@]}" --model resnet50 --batch 64 --device-memory 12GiB --steps 12 --burst 2 \
  --ours whole --ours whole:tf32 --ours whole:tf32:autotune --ours whole:bf16 \
  --peer $images --peer $images:compile --peer $images:compile:tf32 --peer $images:compile:bf16 --json "$work/speed_resnet50.json"
stage_unless "$no_bench" speed_gpt 100 "${speed[@]}" --model gpt --batch 8 --device-memory 24GiB --steps 8 \
  --ours whole --ours whole:bf16 \
  --peer python3:fused --peer python3:fused:compile --peer python3:fused:compile:bf16 --json "$work/speed_gpt.json"

# ---- The results.

if [ -z "$no_gpu" ]; then
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  python3 bench/gpu_report.py --work "$work" --results "$results" --device "$device" --commit "$commit" || note report failed 0 ""
fi
if cut -f 2 "$work/stages.tsv" | grep -qx failed; then
  echo "gpu_check.sh: some stages have failed; their output is in $work"
  exit 1
fi
