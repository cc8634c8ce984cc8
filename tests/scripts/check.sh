#!/usr/bin/env bash
# What every script of ours promises of its arguments. In a copy of scripts/ beside nothing but what they read, with all
# that they could call replaced by programs that leave a note.
# Usage: check.sh SOURCE_DIR
set -uo pipefail

source_dir=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/tree/examples" "$folder/bin"
cp -r "$source_dir/scripts" "$folder/tree/scripts"
cp "$source_dir/examples/03_mnist_sections.cpp" "$folder/tree/examples"
for program in apt-get clang-format cmake ctest debootstrap dpkg-query git ninja nvidia-smi python3 sudo; do
  printf '#!/bin/sh\necho "%s $*" >>"%s"\nexit 1\n' "$program" "$folder/called" >"$folder/bin/$program"
  chmod +x "$folder/bin/$program"
done

wrong=0
complain() { echo "$*"; wrong=1; }
# call SCRIPT ARGUMENT...: its output in $output, its exit status in $status.
call() {
  local script=$1
  shift
  output=$(cd / && PATH="$folder/bin:$PATH" timeout 20 "$folder/tree/scripts/$script" "$@" 2>&1 </dev/null)
  status=$?
}
before=$(cd "$folder/tree" && find . -type f -exec cksum {} + | sort)
num_scripts=0
for path in "$folder"/tree/scripts/*.sh; do
  script=$(basename "$path")
  num_scripts=$((num_scripts + 1))
  for help in --help -h; do
    call "$script" "$help"
    [ "$status" -eq 0 ] || complain "$script $help: exit status $status"
    grep -q "scripts/$script" <<<"$output" || complain "$script $help: no usage, but: $output"
  done
  for argument in --nosuch nosuch; do
    call "$script" "$argument"
    [ "$status" -eq 2 ] || complain "$script $argument: exit status $status"
    grep -q "^$script: .*'$argument'.* --" <<<"$output" || complain "$script $argument: does not say what it takes, but: $output"
  done
done
[ "$num_scripts" -ge 6 ] || complain "there are $num_scripts scripts"

# An option is missing its value; every option of the demo's program is known before the program is built.
for line in "demo.sh --steps" "gpu_check.sh --jobs" "check_distributions.sh --work" "tidy.sh --build"; do
  read -r script option <<<"$line"
  call "$script" "$option"
  [ "$status" -eq 2 ] || complain "$line: exit status $status"
  grep -q -e "$option wants a value" <<<"$output" || complain "$line: $output"
done
# Stages of the GPU's check: their names are known before anything is built.
call gpu_check.sh --list
[ "$status" -eq 0 ] || complain "gpu_check.sh --list: exit status $status"
listed=$output
grep -q '^smoke ' <<<"$output" || complain "gpu_check.sh --list: $output"
[ "$(awk '{sum[$5] += $2} $2 > 0 && sum[$5] + 45 > 522 {print $5}' <<<"$output")" = "" ] || complain "gpu_check.sh --list: a call of more than 522 s: $output"
grep -q ' s  call 2 ' <<<"$output" || complain "gpu_check.sh --list: no calls in $output"
for line in "--stages smoke,nosuch" "--stages smok." "--stages -x" "--stages strategies,exactness" "--minutes x --list" "--unpack /no/such/file" "--pack a --unpack b"; do
  # shellcheck disable=SC2086
  call gpu_check.sh $line
  [ "$status" -eq 2 ] || complain "gpu_check.sh $line: exit status $status"
done
# The limits of a stage's rows come to no more than the stage's.
limits=$(
  cd "$folder/tree" && . scripts/gpu/stages.sh && programs="" work="" jobs=1 contexts=1 missing=""
  row() { sum=$((sum + $2)); }
  for name in $(stage_names); do
    sum=0
    "stage_$name"
    echo "$name $sum $(stage_limit "$name")"
  done
)
[ "$(awk 'NF == 3 && $2 > 0 && $2 <= $3' <<<"$limits" | wc -l)" -eq "$(grep -c ' call ' <<<"$listed")" ] ||
  complain "stages, limits of their rows together, and their own: $limits"
# An archive of logs that is there outlives one that cannot be made.
packed=$(
  eval "$(sed -n '/^pack_logs()/,/^}/p' "$folder/tree/scripts/gpu_check.sh")"
  build=$folder/logs && mkdir -p "$build/gpu_check" && echo log >"$build/gpu_check/a.log"
  pack_logs "$folder/logs.tar.xz" && tar -tf "$folder/logs.tar.xz"
  for failing in tar xz; do
    (eval "$failing() { cat >/dev/null </dev/null; return 2; }" && pack_logs "$folder/logs.tar.xz") && echo "$failing has failed and that is not told"
  done
  tar -tf "$folder/logs.tar.xz"
  head -c 1100000 /dev/urandom >"$build/gpu_check/b.log"
  pack_logs "$folder/logs.tar.xz" && echo "more than 1 MB"
  tar -tf "$folder/logs.tar.xz"
)
[ "$(grep -c '^gpu_check/a.log$' <<<"$packed")" -eq 3 ] && [ "$(wc -l <<<"$packed")" -eq 6 ] || complain "archives of logs: $packed"
call demo.sh --help
for option in $(grep -oE '"--[a-z-]+"' "$folder/tree/examples/03_mnist_sections.cpp" | sort -u | tr -d '"'); do
  grep -q -e " $option\b" <<<"$output" || complain "demo.sh --help does not know $option"
done

[ ! -e "$folder/called" ] || complain "called: $(cat "$folder/called")"
[ "$before" = "$(cd "$folder/tree" && find . -type f -exec cksum {} + | sort)" ] || complain "files have changed"
exit "$wrong"
