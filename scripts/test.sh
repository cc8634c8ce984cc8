#!/usr/bin/env bash
# From a fresh Debian/Ubuntu machine to a green test run.
# Usage: scripts/test.sh [release|clang|asan|tsan ...]   (presets of CMakePresets.json; release if none is named)
set -euo pipefail
cd "$(dirname "$0")/.."

presets=("$@")
[ "${#presets[@]}" -gt 0 ] || presets=(release)
for preset in "${presets[@]}"; do
  case "$preset" in
    release | clang | asan | tsan) ;;
    *) echo "test.sh: unknown preset '$preset'; wanted release, clang, asan or tsan" >&2; exit 2 ;;
  esac
done

if [ "${presets[*]}" = release ]; then scripts/setup.sh; else scripts/setup.sh --checks; fi
for preset in "${presets[@]}"; do
  echo "== $preset =="
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
  ctest --preset "$preset" --output-on-failure
done
