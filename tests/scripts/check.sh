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
grep -q '^smoke ' <<<"$output" || complain "gpu_check.sh --list: $output"
[ "$(awk '{sum[$5] += $2} $2 > 0 && sum[$5] > 522 {print $5}' <<<"$output")" = "" ] || complain "gpu_check.sh --list: a call of more than 522 s: $output"
grep -q ' s  call 2 ' <<<"$output" || complain "gpu_check.sh --list: no calls in $output"
for line in "--stages smoke,nosuch" "--stages strategies,exactness" "--minutes x --list" "--unpack /no/such/file" "--pack a --unpack b"; do
  # shellcheck disable=SC2086
  call gpu_check.sh $line
  [ "$status" -eq 2 ] || complain "gpu_check.sh $line: exit status $status"
done
call demo.sh --help
for option in $(grep -oE '"--[a-z-]+"' "$folder/tree/examples/03_mnist_sections.cpp" | sort -u | tr -d '"'); do
  grep -q -e " $option\b" <<<"$output" || complain "demo.sh --help does not know $option"
done

[ ! -e "$folder/called" ] || complain "called: $(cat "$folder/called")"
[ "$before" = "$(cd "$folder/tree" && find . -type f -exec cksum {} + | sort)" ] || complain "files have changed"
exit "$wrong"
