#!/usr/bin/env bash
# Puts the Debian packages that building wants into .gpu-deps/ of the checkout's root, with a script that unpacks them, for
# a machine with CUDA, CMake and a compiler that reaches no registry. gpu_check.sh uses the folder where it is there.
# Usage: scripts/gpu/carry_packages.sh [PACKAGE ...]
#   PACKAGE ...  further packages to carry
set -euo pipefail

for argument in "$@"; do
  case "$argument" in
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "carry_packages.sh: unknown argument '$argument'; wanted packages, --help or nothing" >&2; exit 2 ;;
  esac
done

# What CMake looks for, and the packages that bring it, with what these need.
readonly table="\
Boost libboost1.74-dev libboost-graph1.74-dev libboost-context1.74-dev libboost-context1.74.0
glog libgoogle-glog-dev libgoogle-glog0v6 libgflags-dev libgflags2.2 libunwind-dev libunwind8 liblzma-dev
nlohmann_json nlohmann-json3-dev
ZLIB zlib1g-dev zlib1g
Protobuf libprotobuf-dev libprotobuf-lite32 protobuf-compiler libprotoc32 libprotobuf32
OneDNN libdnnl-dev libdnnl2 ocl-icd-libopencl1
XxHash libxxhash-dev libxxhash0
LibUring liburing-dev liburing2
CLI11 libcli11-dev
GTest libgtest-dev googletest libgmock-dev
JPEG libjpeg-dev libjpeg62-turbo-dev libjpeg62-turbo
PNG libpng-dev libpng16-16"

cd "$(dirname "$0")/../.."
mkdir -p .gpu-deps/debs
if exclude=$(git rev-parse --git-path info/exclude 2>/dev/null); then
  mkdir -p "$(dirname "$exclude")"
  grep -qx '/.gpu-deps/' "$exclude" 2>/dev/null || echo '/.gpu-deps/' >>"$exclude"
fi
packages=$(cut -d ' ' -f 2- <<<"$table")
# shellcheck disable=SC2086
(cd .gpu-deps/debs && apt-get download -qq $packages "$@")
cat >.gpu-deps/unpack.sh <<'UNPACK'
#!/usr/bin/env bash
# Usage: unpack.sh [DIR]: unpacks the carried packages into a folder, and prints the arguments for CMake.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-/opt/sectionflow-deps}
mkdir -p "$root"
for deb in "$here"/debs/*.deb; do dpkg -x "$deb" "$root"; done
lib=$root/usr/lib/x86_64-linux-gnu
echo "-DCMAKE_PREFIX_PATH=$root/usr -DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu -DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,$lib -DCMAKE_BUILD_RPATH=$lib"
UNPACK
chmod +x .gpu-deps/unpack.sh
echo "carry_packages.sh: $(find .gpu-deps/debs -name '*.deb' | wc -l) packages, $(du -sh .gpu-deps | cut -f 1), in .gpu-deps"
