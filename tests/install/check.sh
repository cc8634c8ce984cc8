#!/usr/bin/env bash
# What the tests of label `install` do; CMake calls it with the folders.
# Usage: check.sh WHAT BUILD_FOLDER [COMPILER [static|shared]]   WHAT: install, exports, headers, package, pkgconfig, examples, subproject
# Exit status 77: skipped, since a tool is not there.
set -euo pipefail
what=$1 build=$2 compiler=${3:-} kind=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
work=$build/tests/install
prefix=$work/prefix
export OMP_WAIT_POLICY=passive

# Ninja and CMake write what went wrong to their output: it is kept quiet as long as all is well.
quietly() {
  local log
  log=$work/log-$what-$(basename "$compiler")-$kind
  "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "$1 has failed"; }
}
fail() { echo "check.sh $what: $*" >&2; exit 1; }
if [ -n "$compiler" ] && ! command -v "$compiler" >/dev/null; then
  echo "skipped: there is no $compiler"
  exit 77
fi
library() { find "$prefix" -name "libsectionflow.$1" | grep . || fail "no libsectionflow.$1 is installed"; }

# Runs a program that has been linked; its bits must be those of every other way.
run() {
  local bits
  bits=$(LD_LIBRARY_PATH=$(dirname "$(library so)") "$1") || fail "$1 has failed"
  echo "$bits"
  [ "${#bits}" -eq 160 ] || fail "$1 printed no results"
  mkdir -p "$work/bits"
  echo "$bits" >"$work/whole-$BASHPID"
  mv "$work/whole-$BASHPID" "$work/bits/$(basename "$(dirname "$1")")"  # another test may be reading
  [ "$(cat "$work"/bits/* | sort -u | wc -l)" -eq 1 ] || fail "the results differ: $(grep -H . "$work"/bits/*)"
}
# Runs a program that compares: it must find the same bits, and write its page.
compare() {
  LD_LIBRARY_PATH=$(dirname "$(library so)") "$1" "$1-page" >"$1.log" || { cat "$1.log"; fail "$1 has failed"; }
  grep -q 'sections:2' "$1-page/index.html" || fail "$1 has written no page"
}
# Not grep -q, which would end before ldd has written all and have it fail.
links_shared() { ldd "$1" | grep libsectionflow >/dev/null; }
check_kind() {
  if [ "$kind" = shared ]; then links_shared "$1" || fail "$1 holds no shared library"
  elif links_shared "$1"; then fail "$1 is linked to the shared library"; fi
}

case "$what" in
  install)
    rm -rf "$work"
    cmake --install "$build" --prefix "$work/first" >/dev/null
    # Nothing of the installed tree may know where it was installed. The sources' folder is a path of its own there: one
    # that is called /sectionflow is not what ends include/sectionflow.
    mv "$work/first" "$prefix"
    own_path="(^|-[IL]|[^[:alnum:]_./}-])$(printf %s "$source" | sed 's/[][\.*^$+?(){}|]/\\&/g')([^[:alnum:]_-]|$)"
    if grep -rIl -e "$work" "$prefix" || grep -rIlE -e "$own_path" "$prefix"; then fail "these files name folders of the build"; fi
    # Nor what was compiled; debug information does, which a release has none of. The toolkit's libraries may lie anywhere:
    # the GPU's part finds them where they were.
    if grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Release$' "$build/CMakeCache.txt"; then
      if grep -rlaF -e "$source/" -e "$build/" "$prefix/bin" "$(dirname "$(library so)")"; then fail "these binaries name folders of the build"; fi
    fi
    # Where CUDA's rooms were built they lie beside the library, which looks for them there.
    if [ -e "$build/kernels/cuda/libsectionflow_cuda.so" ] && [ ! -e "$(dirname "$(library so)")/libsectionflow_cuda.so" ]; then
      fail "libsectionflow_cuda.so was built and is not installed"
    fi
    if [ -e "$build/comm/mpi/libsectionflow_mpi.so" ] && [ ! -e "$(dirname "$(library so)")/libsectionflow_mpi.so" ]; then
      fail "libsectionflow_mpi.so was built and is not installed"
    fi
    # The program stands alone, wherever the tree is moved.
    if [ -e "$build/tools/sectionflow" ]; then
      "$prefix/bin/sectionflow" plan --model mnist_cnn --batch 2 >/dev/null || fail "bin/sectionflow does not plan"
    fi
    ;;
  exports)
    nm -DC --defined-only "$(library so)" >"$work/symbols"
    grep -q ' T sectionflow::Session::Session(' "$work/symbols" || fail "the session is not exported"
    grep -q ' typeinfo for sectionflow::BudgetError$' "$work/symbols" || fail "an error's type is not exported"
    grep -q ' T sectionflow::register_family(' "$work/symbols" || fail "registering operations is not exported"
    # Functions that are made of templates carry what they return.
    ours='(void )?sectionflow::'
    of_types='(typeinfo|typeinfo name|vtable|VTT|guard variable) for sectionflow::'
    if grep -vE "^[0-9a-f]+ [A-Za-z] ($ours|$of_types|(non-)?virtual thunk to sectionflow::)" "$work/symbols"; then
      fail "these are exported and not ours"
    fi
    if grep -E '_cpu_kernels\(|add_[a-z0-9_]+_gradients\(|OneDnn|CpuDevice|\(anonymous|\{lambda' \
      "$work/symbols"; then
      fail "these are inner and exported"
    fi
    if ldd "$(library so)" | grep 'not found'; then fail "the library lacks these"; fi
    nm -DC --defined-only "$(dirname "$(library so)")/libsectionflow_compare.so" >"$work/compare-symbols"
    grep -q ' T sectionflow::compare_strategies(' "$work/compare-symbols" || fail "comparing is not exported"
    if grep -E 'Contender|Svg::|\(anonymous' "$work/compare-symbols"; then fail "these are inner and exported"; fi
    nm -DC --defined-only "$(dirname "$(library so)")/libsectionflow_op_case.so" >"$work/op-case-symbols"
    grep -q ' T sectionflow::op_cases::failures_of[[(]' "$work/op-case-symbols" || fail "checking operations is not exported"
    if grep -E 'run_kernels|NodeCall|CaseDevice|\(anonymous' "$work/op-case-symbols"; then fail "these are inner and exported"; fi
    cuda=$(dirname "$(library so)")/libsectionflow_cuda.so
    if [ -e "$cuda" ]; then
      # The second is what a test counts kernels by.
      [ "$(nm -DC --defined-only "$cuda" | grep -vE ' A ' | awk '{print $3}' | sort | paste -sd ' ')" = \
        "sectionflow_cuda_module_v3 sectionflow_cuda_num_own_kernels" ] ||
        fail "libsectionflow_cuda.so exports other than its entries: $(nm -DC --defined-only "$cuda")"
      if ldd "$cuda" | grep -E 'libcuda\.so|libsectionflow'; then fail "libsectionflow_cuda.so is linked to these"; fi
      if ldd "$(library so)" | grep -E 'libcu(da|blas|dnn)'; then fail "the library is linked to CUDA"; fi
    fi
    mpi=$(dirname "$(library so)")/libsectionflow_mpi.so
    if [ -e "$mpi" ]; then
      [ "$(nm -DC --defined-only "$mpi" | grep -vE ' A ' | awk '{print $3}')" = sectionflow_mpi_module_v1 ] ||
        fail "libsectionflow_mpi.so exports other than its one entry: $(nm -DC --defined-only "$mpi")"
      if ldd "$mpi" | grep -E 'libsectionflow'; then fail "libsectionflow_mpi.so is linked to these"; fi
      if ldd "$(library so)" | grep -E 'libmpi'; then fail "the library is linked to MPI"; fi
    fi
    ;;
  headers)
    # They need nothing of ours but the installed tree, and bring none of other people's headers but those of C++. Programs
    # that ask for more warnings than we do get none of our headers', of their templates neither.
    cd "$prefix/include/sectionflow"
    strict=(-std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I.)
    find . -name '*.h' | sed 's|^\./|#include "|; s|$|"|' | sort >"$work/all.cpp"
    "$compiler" "${strict[@]}" "$work/all.cpp"
    for program in consumer comparer; do "$compiler" "${strict[@]}" "$here/$program.cpp"; done
    # Ours are named from this folder on: sources/hdf5.h.
    if "$compiler" -std=c++20 -I. -M "$work/all.cpp" | tr ' ' '\n' | grep '^/' | grep -E '/(oneapi|dnnl|nlohmann|boost|glog|gflags|xxhash|liburing|google|lmdb|hdf5|zip|png|jpeglib|mpi)[/.]|/omp\.h'; then
      fail "our headers include those of others"
    fi
    ;;
  package)
    quietly cmake -S "$here" -B "$work/package-$compiler-$kind" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DKIND="$kind" \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix"
    quietly cmake --build "$work/package-$compiler-$kind"
    check_kind "$work/package-$compiler-$kind/consumer"
    run "$work/package-$compiler-$kind/consumer"
    check_kind "$work/package-$compiler-$kind/comparer"
    compare "$work/package-$compiler-$kind/comparer"
    ;;
  pkgconfig)
    if ! command -v pkg-config >/dev/null; then
      echo "skipped: there is no pkg-config (scripts/setup.sh --checks installs it)"
      exit 77
    fi
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sectionflow.pc)")
    export PKG_CONFIG_PATH
    folder=$work/pkgconfig-$kind
    mkdir -p "$folder"
    if [ "$kind" = shared ]; then
      flags=$(pkg-config --cflags --libs sectionflow)
    else
      flags=$(pkg-config --cflags --libs --static sectionflow | sed 's/-lsectionflow/-l:libsectionflow.a/')
    fi
    # shellcheck disable=SC2086
    "$compiler" -std=c++20 -Wall -Wextra -Werror "$here/consumer.cpp" $flags -o "$folder/consumer"
    check_kind "$folder/consumer"
    run "$folder/consumer"
    if [ "$kind" = shared ]; then
      flags=$(pkg-config --cflags --libs sectionflow_compare)
    else
      flags=$(pkg-config --cflags --libs --static sectionflow_compare |
        sed 's/-lsectionflow_compare/-l:libsectionflow_compare.a/; s/-lsectionflow\b/-l:libsectionflow.a/')
    fi
    # shellcheck disable=SC2086
    "$compiler" -std=c++20 -Wall -Wextra -Werror "$here/comparer.cpp" $flags -o "$folder/comparer"
    check_kind "$folder/comparer"
    compare "$folder/comparer"
    ;;
  examples)
    # What is installed to be read can be built where it lies; one of them adds an operation of its own and checks it.
    folder=$work/examples-$(basename "$compiler")-$kind
    quietly cmake -S "$prefix/share/doc/sectionflow/examples" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS="$([ "$kind" = shared ] && echo ON || echo OFF)" \
      -DEXAMPLES_CUDA="$([ "$kind" = shared ] && echo ON || echo OFF)"  # how SectionFlow is linked is nothing to a module's kernels
    programs=(01_linear_regression 06_own_operation 06_own_operation_check 11_own_images)
    quietly cmake --build "$folder" --target "${programs[@]}"
    for program in "${programs[@]}"; do
      check_kind "$folder/$program"
      status=0  # 77: the machine lacks what the program shows
      LD_LIBRARY_PATH=$(dirname "$(library so)") "$folder/$program" >"$folder/$program.log" || status=$?
      [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || { cat "$folder/$program.log" >&2; fail "$program has failed"; }
    done
    # Of those that are not built here, which take minutes, at least what they include is installed.
    examples=$prefix/share/doc/sectionflow
    for header in $(grep -rhoE '^#include "[^"]+"' "$examples/examples" | cut -d'"' -f2 | sort -u); do
      [ -e "$prefix/include/sectionflow/$header" ] || [ -e "$examples/$header" ] || \
        [ -n "$(find "$examples/examples" -name "$header")" ] || fail "an example includes $header, which is not installed"
    done
    [ -e "$prefix/share/doc/sectionflow/docs/adding_an_op.md" ] || fail "the pages are not installed"
    # Links between what is installed lead somewhere.
    for page in "$prefix"/share/doc/sectionflow/*.md "$prefix"/share/doc/sectionflow/docs/*.md; do
      for link in $(awk '/^```/ { code = !code } !code' "$page" | grep -oE '\]\([^)#: ]+[)#]' | sed -E 's/^\]\(|[)#]$//g'); do
        [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link, which is not installed"
      done
    done
    [ -e "$prefix/share/doc/sectionflow/LICENSE" ] || fail "the licence is not installed"
    ;;
  subproject)
    rm -rf "$work"/subproject-*
    for shared in OFF ON; do
      quietly cmake -S "$here/subproject" -B "$work/subproject-$shared" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
        -DSECTIONFLOW_SOURCE="$source" -DBUILD_SHARED_LIBS=$shared
    done
    # Its objects are the same as ours; what it links is seen without building it.
    grep -q '^build parent: .*libsectionflow\.so' "$work/subproject-ON/build.ninja" || fail "the parent links no shared library"
    grep -q '^build parent: .*libsf_sections\.a' "$work/subproject-OFF/build.ninja" || fail "the parent links no folders"
    ;;
  *) fail "unknown; see the head of the file" ;;
esac
