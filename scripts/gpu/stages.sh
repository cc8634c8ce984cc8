# Part of gpu_check.sh: its stages, in the order in which most is learnt soonest. A stage is a function of rows.

# Name, most seconds of all its rows, which their limits add up to at most, and what it does.
readonly stage_table="\
smoke 110 the device opens; small cycles whole, in sections and recorded: the same bytes, the planned peak
choices 130 which algorithm of a library runs each problem of mnist_resnet, resnet50 and gpt in f32, TF32, bf16; a timeline of each
operations 200 every kernel against its reference in double precision
strategies 300 the suites of strategies, launches joined and chained against one by one
exactness 250 50 steps of sections, swapping and both: every byte, peaks, times; by a profile that is measured first
kernels 85 single operations: what share of the GPU's bandwidth and arithmetic each reaches
speed_mnist 90 steps against PyTorch: mnist_resnet, batch 250
speed_resnet50 150 steps against PyTorch: resnet50, batch 64
speed_gpt 120 steps against PyTorch: gpt of 12 layers, batch 8
compiled_resnet50_tf32 70 steps against compiled PyTorch
compiled_resnet50_bf16 70 the same in bf16
compiled_gpt_bf16 70 the same for gpt
compiled_mnist_tf32 70 the same for mnist_resnet
sanitizers 200 memcheck, racecheck and initcheck of a small full cycle
calls 40 what a cycle tells CUDA, watched through CUPTI"

# Of a call, seconds that are no stage's: unpacking, importing PyTorch, writing results after each row.
readonly reserve=45

stage_names() { cut -d ' ' -f 1 <<<"$stage_table"; }
stage_limit() { awk -v name="$1" '$1 == name {print $2}' <<<"$stage_table"; }

# Stages in their order as the calls in which they fit: a line a call, of names with commas, whose limits come to no more
# than the seconds of a call less the reserve, with one compiled peer at most. A stage that takes more by itself has a call
# to itself.
stages_by_calls() { # SECONDS
  awk -v most="$(($1 - reserve))" '
    { compiles = $1 ~ /^compiled_/
      if (NR > 1 && (sum + $2 > most || (compiles && compiled))) { printf "\n"; sum = compiled = 0 } else if (NR > 1) printf ","
      printf "%s", $1; sum += $2; compiled += compiles }
    END { print "" }' <<<"$stage_table"
}
list_stages() { # SECONDS
  local call=0 names name
  while read -r names; do
    call=$((call + 1))
    for name in ${names//,/ }; do
      printf '%-23s %4d s  call %d  %s\n' "$name" "$(stage_limit "$name")" "$call" \
        "$(awk -v name="$name" '$1 == name {$1 = $2 = ""; sub(/^ */, ""); print}' <<<"$stage_table")"
    done
  done < <(stages_by_calls "$1")
}

# tests PROGRAM FILTER SHARDS LOGS: tests on the GPU, --contexts processes at a time; the names of what failed are at the
# end. What is skipped on a machine with a GPU was not shown, and is named. LOGS: a folder for what each process says,
# which is there when the row is cut off, too.
tests() {
  local program=$1 filter=$2 shards=$3 logs=$4
  mkdir -p "$logs"
  seq 0 $((shards - 1)) | xargs -P "$contexts" -I '{}' env SECTIONFLOW_TEST_DEVICE=cuda GTEST_TOTAL_SHARDS="$shards" GTEST_SHARD_INDEX='{}' \
    OMP_NUM_THREADS=$((1 + jobs / contexts)) bash -c '"$0" "--gtest_filter=$1" --gtest_brief=1 >"$2" 2>&1' "$programs/$program" "$filter" "$logs/{}"
  local status=$?
  cat "$logs"/*
  grep -h '^\[  FAILED  \].*ms)$' "$logs"/* | sed 's/ (.*//' | sort -u
  grep -h '^\[  SKIPPED \].*[a-z]$' "$logs"/* | sort -u
  return "$status"
}
# For the children of `timeout`, which run commands and no functions.
tests_row() { # NAME SECONDS PROGRAM FILTER SHARDS
  row "$1" "$2" bash -c "jobs=$jobs contexts=$contexts programs=$programs; $(declare -f tests); tests \"\$@\"" tests "$3" "$4" "$5" "$work/$1.logs"
}
train() { echo "$programs/bench/bench_train_steps --device cuda --threads 4"; }
compare() { echo "$programs/bench/bench_compare --device cuda"; }

# shellcheck disable=SC2046
stage_smoke() {
  row smoke_machine 20 nvidia-smi
  row smoke_mnist 30 $(compare) --model mnist_resnet --batch 8 --steps 3 --strategies whole,sections:2,sections+swap:2 --device-memory 256MiB \
    --json "$work/smoke_mnist.json"
  local of_mnist=$?
  tests_row smoke_cycles 60 tests/test_cuda 'CudaModule.*:Cycles.*' 1
  local of_cycles=$?
  # Where nothing runs at all, what is left of the time is better kept.
  [ "$of_mnist" -eq 0 ] || [ "$of_cycles" -eq 0 ] || missing="nothing of smoke has passed"
}

# shellcheck disable=SC2046,SC2086
stage_choices() {
  local precision flag
  for precision in f32 tf32 bf16; do
    flag=--$precision
    [ "$precision" != f32 ] || flag=""
    row "choices_mnist_$precision" 12 $(train) --model mnist_resnet --batch 250 --device-memory 4GiB --steps 3 $flag \
      --choices "$work/choices_mnist_$precision.json" --timeline "$work/timeline_mnist_$precision.json"
    row "choices_resnet50_$precision" 15 $(train) --model resnet50 --batch 64 --device-memory 24GiB --steps 3 $flag \
      --choices "$work/choices_resnet50_$precision.json" --timeline "$work/timeline_resnet50_$precision.json"
    row "choices_gpt_$precision" 15 $(train) --model gpt --batch 8 --device-memory 32GiB --steps 3 $flag \
      --choices "$work/choices_gpt_$precision.json" --timeline "$work/timeline_gpt_$precision.json"
  done
}

stage_operations() {
  tests_row operations 170 tests/test_ops '*' 8
  tests_row native_bf16 30 tests/test_kernels '*NativeBf16.*' 1
}

stage_strategies() {
  tests_row launches 40 tests/test_cuda 'JointUpdates.*:Chains.*' 1
  tests_row strategies 240 tests/test_sections 'Exactness.*:ExactNetworks.*' 24
  tests_row measured_cases 20 tests/test_bench 'MeasureCase.*' 1
}

# Planning is the host's work and takes longer than the steps, so that one budget is planned for by search.
# shellcheck disable=SC2046
stage_exactness() {
  row exactness_mnist 40 $(compare) --model mnist_resnet --batch 250 --steps 50 --device-memory 4GiB \
    --strategies whole,sections:2,sections:4,sections:blocks --json "$work/exactness_mnist.json"
  local training=($(compare) --model resnet50 --batch 64 --tf32 --steps 12 --profile "$work/profile_resnet50.json")
  row exactness_resnet50_50 60 "${training[@]}" --device-memory 50% --strategies sections:blocks,sections+swap:blocks,swap \
    --json "$work/exactness_resnet50_50.json"
  row exactness_resnet50_25 60 "${training[@]}" --device-memory 25% --strategies sections+swap:blocks \
    --json "$work/exactness_resnet50_25.json"
  row exactness_resnet50_auto 90 "${training[@]}" --device-memory 50% --strategies auto,auto:recompute \
    --json "$work/exactness_resnet50_auto.json"
}

# shellcheck disable=SC2046
stage_kernels() {
  row kernels_f32 45 "$programs/bench/bench_ops" --device cuda --all --gradient --json "$work/kernels_f32.json"
  row kernels_bf16 40 "$programs/bench/bench_ops" --device cuda --all --gradient --dtype bf16 --json "$work/kernels_bf16.json"
}

# Looked for once, before the first stage: importing PyTorch takes seconds that no stage has to spare.
without_torch=""
look_for_torch() {
  python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || without_torch="python3 has no PyTorch that finds the GPU"
}
# speed NAME SECONDS ARGUMENT...: the same weights and batches, steps in turn. TF32 is off unless a peer says so.
speed() {
  local name=$1 limit=$2
  shift 2
  local kept=$missing
  missing=${missing:-$without_torch}
  row "$name" "$limit" python3 bench/peers/compare_speed.py --program "$programs/bench/bench_train_steps" --device cuda \
    --pause-ms 2 --threads 4 --warm-up 4 --rounds "$work/$name.rounds" --json "$work/$name.json" "$@"
  missing=$kept
}
readonly mnist=(--model mnist_resnet --batch 250 --device-memory 4GiB --steps 15 --burst 5)
readonly resnet50=(--model resnet50 --batch 64 --device-memory 7GiB --steps 10 --burst 3)
readonly gpt=(--model gpt --batch 8 --device-memory 10GiB --steps 8 --burst 2)
readonly images=python3:channels_last:fused

stage_speed_mnist() {
  speed speed_mnist 90 "${mnist[@]}" --ours whole --ours whole:tf32 --ours whole:tf32:autotune --peer $images --peer $images:tf32
}
stage_speed_resnet50() {
  speed speed_resnet50 150 "${resnet50[@]}" --ours whole --ours whole:tf32:autotune --ours whole:bf16:autotune \
    --peer $images --peer $images:tf32 --peer $images:bf16
}
stage_speed_gpt() {
  speed speed_gpt 120 "${gpt[@]}" --ours whole --ours whole:tf32:autotune --ours whole:bf16:autotune \
    --peer python3:fused --peer python3:fused:tf32 --peer python3:fused:bf16
}
# Compiling takes a peer most of a minute.
stage_compiled_resnet50_tf32() { speed compiled_resnet50_tf32 70 "${resnet50[@]}" --ours whole:tf32:autotune --peer $images:compile:tf32; }
stage_compiled_resnet50_bf16() { speed compiled_resnet50_bf16 70 "${resnet50[@]}" --ours whole:bf16:autotune --peer $images:compile:bf16; }
stage_compiled_gpt_bf16() { speed compiled_gpt_bf16 70 "${gpt[@]}" --ours whole:bf16:autotune --peer python3:fused:compile:bf16; }
stage_compiled_mnist_tf32() { speed compiled_mnist_tf32 70 "${mnist[@]}" --ours whole:tf32:autotune --peer $images:compile:tf32; }

# Errors that the libraries' own calls of CUDA return are theirs to handle; races are looked for in our kernels alone,
# whose names lie in our name space.
# shellcheck disable=SC2046
stage_sanitizers() {
  local kept=$missing
  command -v compute-sanitizer >/dev/null || [ -n "$missing" ] || missing="there is no compute-sanitizer"
  local steps=($(train) --model mnist_resnet --batch 4 --cut 4 --steps 1 --device-memory 256MiB)
  local check=(compute-sanitizer --error-exitcode 86 --print-limit 10)
  row memcheck 70 "${check[@]}" --tool memcheck --report-api-errors no "${steps[@]}"
  row racecheck 70 "${check[@]}" --tool racecheck --kernel-name regex:sectionflow "${steps[@]}"
  row initcheck 60 "${check[@]}" --tool initcheck --kernel-name regex:sectionflow "${steps[@]}"
  missing=$kept
}

stage_calls() { row calls 40 env SECTIONFLOW_TEST_DEVICE=cuda "$programs/tests/test_cuda_calls"; }
