#!/usr/bin/env bash
# Installs what SectionFlow needs on Debian 12 and 13 and Ubuntu 24.04: only what is missing, as root or through sudo.
# Usage: scripts/setup.sh [--checks]
#   --checks  adds clang, clang-format, clang-tidy, the sanitizer runtimes and doxygen
set -euo pipefail

packages=(g++ cmake ninja-build libdnnl-dev libboost-graph-dev libboost-context-dev libgoogle-glog-dev libgtest-dev libgmock-dev libcli11-dev
  nlohmann-json3-dev zlib1g-dev libxxhash-dev liburing-dev libprotobuf-dev protobuf-compiler
  liblmdb-dev libjpeg-dev libpng-dev libhdf5-dev libzip-dev libopenmpi-dev openmpi-bin)
for argument in "$@"; do
  case "$argument" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --checks) packages+=(clang clang-format clang-tidy libclang-rt-dev libomp-dev doxygen pkgconf) ;;
    *) echo "setup.sh: unknown argument '$argument'; wanted --checks, --help or nothing" >&2; exit 2 ;;
  esac
done

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
fi
install_packages() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; }

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
data_missing=0
is_installed dataset-fashion-mnist || data_missing=1
if [ "${#missing[@]}" -eq 0 ] && [ "$data_missing" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
  echo "setup.sh: missing packages: ${missing[*]} dataset-fashion-mnist; run as root or install sudo" >&2
  exit 1
fi

echo "setup.sh: installing: ${missing[*]} $([ "$data_missing" -eq 0 ] || echo dataset-fashion-mnist)"
"${as_root[@]}" apt-get update -qq
if [ "${#missing[@]}" -gt 0 ]; then
  install_packages "${missing[@]}" >/dev/null
fi
# Ubuntu releases without the data set still build and test; the examples then take '--data synthetic'.
if [ "$data_missing" -eq 1 ] && ! install_packages dataset-fashion-mnist >/dev/null; then
  echo "setup.sh: package dataset-fashion-mnist is not to be had here; use '--data DIR' or '--data synthetic'" >&2
fi
