#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over sources of ours: those that differ from a commit, those that are named, or all.
# Usage: scripts/tidy.sh [--build FOLDER] [--since COMMIT | --all | FILE...]
#   --build FOLDER  a configured build folder, for the flags of each file (default: build)
#   --since COMMIT  what differs from this commit, uncommitted changes included (default: HEAD)
# CUDA's files and those that the build folder does not know are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build since=HEAD all=0 files=()
fail() { echo "tidy.sh: $*; wanted --build FOLDER, --since COMMIT, --all, --help or files" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --build | --since)
      [ $# -gt 1 ] || fail "$1 wants a value"
      if [ "$1" = --build ]; then build=$2; else since=$2; fi
      shift 2 ;;
    --all) all=1; shift ;;
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) fail "unknown argument '$1'" ;;
    *)
      [ -f "$1" ] || fail "there is no file '$1'"
      files+=("$1"); shift ;;
  esac
done
command -v clang-tidy >/dev/null || { echo "tidy.sh: there is no clang-tidy (scripts/setup.sh --checks)" >&2; exit 1; }
commands=$build/compile_commands.json
[ -f "$commands" ] || { echo "tidy.sh: there is no $commands; configure $build first" >&2; exit 1; }
if [ "$all" -eq 1 ]; then
  mapfile -t files < <(git ls-files '*.cpp')
elif [ "${#files[@]}" -eq 0 ]; then
  mapfile -t files < <(git diff --name-only --diff-filter=ACMR "$since" -- '*.cpp')
fi
known=()
for file in "${files[@]}"; do
  if grep -qF "$PWD/$file\"" "$commands"; then known+=("$file"); else echo "left out: $file"; fi
done
[ "${#known[@]}" -gt 0 ] || { echo "tidy.sh: nothing to do"; exit 0; }
printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "${SF_TIDY_JOBS:-$(nproc)}" clang-tidy -p "$build" --quiet 2> >(grep -vE '^[0-9]+ warnings? (generated|treated)' >&2)
echo "clang-tidy: ${#known[@]} files, no complaints"
