#!/usr/bin/env bash
# What every program of ours promises of its arguments: --help is answered and nothing else is done; what is not
# understood is refused with status 2, and so is what bench_compare could only have found out after training.
# Usage: check_programs.sh PROGRAM...
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit
wrong=0
complain() { echo "$*"; wrong=1; }
# refuse PART COMMAND...: the command ends with status 2 within a minute, and says PART.
refuse() {
  local part=$1 status output
  shift
  output=$(timeout 60 "$@" 2>&1 </dev/null)
  status=$?
  [ "$status" -eq 2 ] || complain "$(basename "$1") ${*:2}: exit status $status"
  grep -q -e "$part" <<<"$output" || complain "$(basename "$1") ${*:2}: does not say '$part', but: $output"
}
for program in "$@"; do
  name=$(basename "$program")
  output=$(timeout 60 "$program" --help 2>&1 </dev/null) || complain "$name --help: exit status $?"
  grep -q -e --help <<<"$output" || complain "$name --help: $output"
  refuse "nosuch" "$program" --nosuch
  case "$name" in
    bench_compare)
      refuse "did you mean 1MiB or 1GiB" "$program" --link 1
      refuse "a share is written as in 50%" "$program" --device-memory 45
      refuse "whose images have a side" "$program" --device-memory 64MiB --max-side
      : >file
      refuse "^SF-E400.*--report: " "$program" --report file/pages
      refuse "^SF-E400.*--json: " "$program" --json file/results
      ;;
    bench_swap_steps) refuse "did you mean 2MiB or 2GiB" "$program" --link 2 ;;
    bench_plan)
      refuse "wanted --instance FILE, --model NAME, or --generate" "$program"
      refuse "wanted --out FILE" "$program" --generate gpt
      refuse "^SF-E400.*read_instance" "$program" --instance missing
      refuse "wanted a rate as in 50GB/s" "$program" --instance missing --link 5mph
      ;;
    gradient_checks)
      refuse "there is no such subject; there are .*softmax" "$program" --only nosuch
      refuse "there is no such operation; there are .*softmax" "$program" --faults --only nosuch
      ;;
  esac
done
[ "$(find . -type f)" = "" ] || [ "$(find . -type f)" = "./file" ] || complain "files are left: $(find . -type f)"
exit "$wrong"
