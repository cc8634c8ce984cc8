#!/usr/bin/env bash
# From a fresh Debian/Ubuntu machine to the main job: trains a residual network on Fashion-MNIST, section by section.
# Installs what is missing, builds in build-demo, and runs examples/03_mnist_sections there.
# Usage: scripts/demo.sh [options of that program]
set -euo pipefail

# The program knows its options, but it is not built yet: its source tells them.
program=$(dirname "$0")/../examples/03_mnist_sections.cpp
options_of() { tr -s '\n ' ' ' <"$program" | grep -oE "app\.$1\( ?\"--[a-z-]+" | grep -oE -e '--[a-z-]+'; }
mapfile -t with_value < <(options_of add_option)
mapfile -t flags < <(options_of add_flag)
is_in() { printf '%s\n' "${@:2}" | grep -qxF -e "$1"; }
refuse() { echo "demo.sh: $1; options are: ${with_value[*]} ${flags[*]} --help" >&2; exit 2; }

arguments=("$@")
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h)
      sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
      echo "Options, which the program's own --help explains: ${with_value[*]} ${flags[*]}"
      exit 0 ;;
    --*=*) is_in "${1%%=*}" "${with_value[@]}" || refuse "unknown argument '$1'" ;;
    *)
      if is_in "$1" "${with_value[@]}"; then
        [ $# -gt 1 ] || refuse "$1 wants a value"
        shift
      else
        is_in "$1" "${flags[@]}" || refuse "unknown argument '$1'"
      fi ;;
  esac
  shift
done
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake -S . -B build-demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 \
  -DSECTIONFLOW_BUILD_TESTS=OFF -DSECTIONFLOW_BUILD_BENCH=OFF >/dev/null
cmake --build build-demo --target 03_mnist_sections
exec build-demo/examples/03_mnist_sections "${arguments[@]}"
