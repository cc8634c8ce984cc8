#!/usr/bin/env bash
# Which versions of oneDNN cmake/FindOneDNN.cmake takes, and what it says of others.
# Usage: check.sh SOURCE_FOLDER WORK_FOLDER
set -euo pipefail
source=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$work"
mkdir -p "$work/oneapi/dnnl"
touch "$work/oneapi/dnnl/dnnl.hpp" "$work/libdnnl.so"
num_wrong=0
# VERSION WANTED ANSWER; WANTED: what find_package asks for; ANSWER: "taken", or words of the refusal.
while read -r version wanted answer; do
  IFS=. read -r major minor patch <<<"$version"
  printf '#define DNNL_VERSION_%s %s\n' MAJOR "$major" MINOR "$minor" PATCH "$patch" >"$work/oneapi/dnnl/dnnl_version.h"
  rm -rf "$work/build"
  if cmake -G Ninja -S "$here" -B "$work/build" -DSECTIONFLOW_SOURCE="$source" -DWANTED="${wanted#any}" \
    -DONEDNN_INCLUDE_DIR="$work" -DONEDNN_LIBRARY="$work/libdnnl.so" >"$work/log" 2>&1; then
    found=taken
  else
    found=$(tr -s ' \n' ' ' <"$work/log")
  fi
  if [[ $found != *"$answer"* ]] || { [ "$answer" = taken ] && [ "$found" != taken ]; }; then
    echo "oneDNN $version where $wanted is asked for: wanted '$answer', got '$found'"
    num_wrong=$((num_wrong + 1))
  fi
done <<'END'
2.5.4 any oneDNN 2.6 or a later 2.x, or 3.1 or a later 3.x is wanted: found 2.5.4
2.6.0 any taken
2.7.5 any taken
2.7.5 2.6.3 taken
2.6.0 2.6.3 required is at least "2.6.3"
3.0.1 any oneDNN 2.6 or a later 2.x, or 3.1 or a later 3.x is wanted: found 3.0.1
3.1.0 any taken
3.10.2 any taken
3.7.2 3.1.1 taken
3.7.2 2.6.3 oneDNN 2.6.3 or a later 2.x is wanted: found 3.7.2
2.6.3 3.7.2 oneDNN 3.7.2 or a later 3.x is wanted: found 2.6.3
4.0.0 any found 4.0.0, a newer major version, whose interface device/onednn.cpp does not know
END
rm -r "$work/oneapi/dnnl/dnnl_version.h" "$work/build"
if cmake -G Ninja -S "$here" -B "$work/build" -DSECTIONFLOW_SOURCE="$source" -DONEDNN_INCLUDE_DIR="$work" \
  -DONEDNN_LIBRARY="$work/libdnnl.so" >"$work/log" 2>&1 || ! grep -q 'found none' "$work/log"; then
  echo "headers that say no version: $(cat "$work/log")"
  num_wrong=$((num_wrong + 1))
fi
[ "$num_wrong" -eq 0 ]
