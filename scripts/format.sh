#!/usr/bin/env bash
# Formats every C++ and CUDA file of ours.
# Usage: scripts/format.sh [--check]
#   --check  changes nothing: says which files are not formatted, and fails if any is not
set -euo pipefail

check=0
for argument in "$@"; do
  case "$argument" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --check) check=1 ;;
    *) echo "format.sh: unknown argument '$argument'; wanted --check, --help or nothing" >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cu')
if [ "$check" -eq 1 ]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
