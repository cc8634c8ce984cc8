#!/usr/bin/env bash
# From a fresh Debian/Ubuntu machine to the main job: trains a residual network on Fashion-MNIST, section by section.
# Usage: scripts/demo.sh [options of examples/03_mnist_sections, as --help tells]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake -S . -B build-demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 \
  -DSECTIONFLOW_BUILD_TESTS=OFF -DSECTIONFLOW_BUILD_BENCH=OFF >/dev/null
cmake --build build-demo --target 03_mnist_sections
exec build-demo/examples/03_mnist_sections "$@"
