# Part of gpu_check.sh: where its programs come from. Sets `programs`, the folder that they lie in, and what they need
# in the environment.

# What the stages run, below the folder of a build.
check_programs() {
  printf '%s\n' tests/test_ops tests/test_cuda tests/test_cuda_calls tests/test_sections tests/test_bench tests/test_kernels \
    bench/bench_compare bench/bench_train_steps bench/bench_ops
}
readonly cuda_library=kernels/cuda/libsectionflow_cuda.so

# A folder below that of a Python package that holds some file, such as lib/libcudnn.so.9; nothing where there is none.
python_folder_with() {
  python3 - "$@" <<'PYTHON' 2>/dev/null
import importlib.util, os, sys
file, *names = sys.argv[1:]
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        continue
    for folder in spec.submodule_search_locations if spec else []:
        if os.path.exists(os.path.join(folder, file)):
            print(folder)
            raise SystemExit
PYTHON
}

# CUDA's libraries may lie beside a Python that brings its own. Peers load those, so ours do, too.
use_libraries_of_python() {
  local folder
  for wanted in "lib/libcudnn.so.9 nvidia.cudnn" "lib/libcublasLt.so.13 nvidia.cu13 nvidia.cublas" "lib/libcupti.so.13 nvidia.cu13 nvidia.cuda_cupti"; do
    # shellcheck disable=SC2086
    folder=$(python_folder_with $wanted)
    [ -z "$folder" ] || export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
}

configure_arguments() {
  local folder
  printf '%s\n' -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release
  folder=$(python_folder_with include/cudnn.h nvidia.cudnn)
  [ -z "$folder" ] || echo "-DCUDNN_ROOT=$folder"
  folder=$(python_folder_with include/cupti.h nvidia.cu13 nvidia.cuda_cupti)
  [ -z "$folder" ] || echo "-DCUPTI_ROOT=$folder"
  # An existing build folder keeps what it was configured for.
  [ -f "$build/CMakeCache.txt" ] || echo "-DCMAKE_CUDA_ARCHITECTURES=$architecture-real"
}

# Builds for the machine's kind of GPU alone, so that compiling is quick; what smoke needs first.
build_programs() {
  programs=$build
  local arguments=() unpacked has_gpu=$missing targets=(test_cuda bench_compare)
  readarray -t arguments < <(configure_arguments)
  arguments+=("-DSECTIONFLOW_CUDA=$([ -n "$gpu" ] && echo ON || echo AUTO)")
  if [ -f .gpu-deps/unpack.sh ]; then
    if unpacked=$(bash .gpu-deps/unpack.sh "$build/deps"); then
      read -r -a unpacked <<<"$unpacked"
      arguments+=("${unpacked[@]}")
      # A program's run path does not lead its libraries to theirs.
      for argument in "${unpacked[@]}"; do
        case "$argument" in
          -DCMAKE_BUILD_RPATH=*) export LD_LIBRARY_PATH=${argument#*=}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
        esac
      done
      note unpack passed 0 ""
    else
      note unpack failed 0 ".gpu-deps/unpack.sh has failed"
    fi
  fi
  missing=""
  if row configure 60 cmake "${arguments[@]}"; then
    if grep -q '^build [^:]*libsectionflow_cuda\.so' "$build/build.ninja"; then targets+=(sectionflow_cuda)
    else note cuda skipped 0 "there is no CUDA toolkit"; fi
    # Compiling takes what it takes: the stages have what is left of the time.
    local limit=600
    [ -n "$gpu" ] || limit=3600
    row build_first "$limit" ninja -C "$build" -j "$jobs" "${targets[@]}"
    # shellcheck disable=SC2046
    row build "$limit" ninja -C "$build" -j "$jobs" $(check_programs | xargs -n 1 basename)
  fi
  missing=$has_gpu
  use_libraries_of_python
}

# What a target machine with CUDA and a C++ compiler lacks: all that programs load but libc's, GCC's and CUDA's.
libraries_to_pack() {
  local file
  for file in $(check_programs) "$cuda_library"; do ldd "$programs/$file"; done |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+|libgomp)\.so' |
    grep -vE '/lib(cu|nv|nccl)[A-Za-z]*\.so'
}

# pack_programs FILE: builds and packs; the archive is checked by reading it once more.
pack_programs() {
  local file=$1 folder bytes
  architecture=90 programs=$build gpu=packed missing="" commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  local arguments=()
  readarray -t arguments < <(configure_arguments)
  cmake "${arguments[@]}" -DSECTIONFLOW_CUDA=ON >"$build/pack.log" 2>&1 || { tail -n 20 "$build/pack.log"; return 1; }
  # shellcheck disable=SC2046
  ninja -C "$build" -j "$jobs" sectionflow_cuda $(check_programs | xargs -n 1 basename) || return 1
  folder=$(mktemp -d)
  local program
  for program in $(check_programs) "$cuda_library"; do
    mkdir -p "$folder/$(dirname "$program")"
    strip -o "$folder/$program" "$build/$program" || { rm -rf "$folder"; return 1; }
  done
  mkdir -p "$folder/lib"
  libraries_to_pack | xargs -I '{}' cp -L '{}' "$folder/lib/"
  echo "$commit" >"$folder/commit"
  mkdir -p "$(dirname "$file")"
  # shellcheck disable=SC2035
  (cd "$folder" && tar -c *) | xz -T 0 -6 >"$file.tmp"
  rm -rf "$folder"
  xz --test "$file.tmp" && mv "$file.tmp" "$file" || return 1
  bytes=$(stat -c %s "$file")
  echo "gpu_check.sh: packed $(tar -tf "$file" | grep -vc '/$') files into $file, $((bytes / 1048576)) MiB"
  if [ "$bytes" -gt $((60 * 1048576)) ]; then
    echo "gpu_check.sh: the archive has more than 60 MiB, which is what is carried; build in a folder of its own with one kind of GPU" >&2
    return 1
  fi
}

unpack_programs() {
  programs=$build
  if ! tar -C "$build" -xf "$1"; then
    note unpack failed 0 "the archive cannot be read"
    missing="there are no programs"
    return
  fi
  commit=$(cat "$build/commit")
  # What the machine has is its own; what it lacks is ours.
  local library
  for library in "$build"/lib/*; do
    if ldconfig -p | grep -q "^[[:space:]]*$(basename "$library") "; then rm "$library"; fi
  done
  export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SECTIONFLOW_CUDA_LIBRARY=$build/$cuda_library
  use_libraries_of_python
  note unpack passed 0 "$(find "$build/lib" -name '*.so*' | wc -l) libraries are ours"
}
