#!/usr/bin/env bash
# scripts/gpu/carry_packages.sh has a line for each package that CMake requires for the library, its tests and its bench
# programs, and no line more.
# Usage: check_carried.sh SOURCE_DIR
set -uo pipefail

cd "$1" || exit
# LibUring is not required, but the library that is packed elsewhere has it.
required=$(cat CMakeLists.txt tests/CMakeLists.txt bench/CMakeLists.txt |
  sed -n 's/^ *find_package(\([A-Za-z0-9_]*\).*REQUIRED.*/\1/p; s/^ *find_package(\(LibUring\)).*/\1/p' |
  grep -vxE 'Threads|OpenMP' | sort -u)
carried=$(sed -n '/^readonly table=/,/"$/p' scripts/gpu/carry_packages.sh | grep -v '^readonly' | cut -d ' ' -f 1 | sort)
[ "$(wc -l <<<"$carried")" -ge 10 ] || { echo "the table of scripts/gpu/carry_packages.sh is not found"; exit 1; }
diff <(echo "$required") <(echo "$carried") || { echo "< is required by CMake, > is in scripts/gpu/carry_packages.sh"; exit 1; }
