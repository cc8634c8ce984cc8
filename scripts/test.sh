#!/usr/bin/env bash
# From a fresh Debian/Ubuntu machine to a green test run.
# Usage: scripts/test.sh [--all] [release|clang|cuda|asan|tsan ...]
# Presets are those of CMakePresets.json; release if none is named. Tests of the label `long`, random programs and fine
# grids that take hours, are left out; --all runs them too.
# Where nvcc is found the CUDA folders are built too, for one kind of GPU, or those that CUDAARCHS names; where there is
# no GPU to run them, without optimising kernels (configure with -DSECTIONFLOW_CUDA_OPTIMIZE=ON before installing).
# At the end of a preset stands how long it was built and tested, with the tests that took longest.
set -euo pipefail

presets=()
chosen=(--label-exclude '^long$')
for argument in "$@"; do
  case "$argument" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --all) chosen=() ;;
    *) presets+=("$argument") ;;
  esac
done
[ "${#presets[@]}" -gt 0 ] || presets=(release)
for preset in "${presets[@]}"; do
  case "$preset" in
    release | clang | cuda | asan | tsan) ;;
    *) echo "test.sh: unknown argument '$preset'; wanted --all, --help, or presets: release, clang, cuda, asan, tsan" >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."

# The tests that took longest, and all, of what ctest has written.
show_longest() {
  sed -nE 's/.*<testcase name="([^"]*)".* time="([0-9.e+-]+)".*/\2 \1/p' "$1" | sort -rg |
    awk '{ all += $1 } NR <= 10 { printf "%7.1f s  %s\n", $1, $2 } END { printf "%7.1f s  %d tests, if one by one\n", all, NR }'
}

# Where there is no GPU, kernels are compiled and not run.
if nvidia-smi -L >/dev/null 2>&1; then optimize=ON; else optimize=OFF; fi
export CUDAARCHS=${CUDAARCHS:-90-real}
# Many tests run on one thread: two at a time use two cores better than one by one.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-2}
if [ "${presets[*]}" = release ]; then scripts/setup.sh; else scripts/setup.sh --checks; fi
for preset in "${presets[@]}"; do
  echo "== $preset =="
  begin=$SECONDS
  cmake --preset "$preset" -DSECTIONFLOW_CUDA_OPTIMIZE="$optimize" >/dev/null
  cmake --build --preset "$preset"
  built=$SECONDS times=$(mktemp)
  if ! ctest --preset "$preset" --output-on-failure --output-junit "$times" "${chosen[@]}"; then
    echo "== $preset: those that failed, once more, so that what they say stands last ==" >&2
    ctest --preset "$preset" --output-on-failure --rerun-failed || true
    exit 1
  fi
  show_longest "$times"
  rm "$times"
  echo "$preset: built in $((built - begin)) s, tested in $((SECONDS - built)) s"
done
