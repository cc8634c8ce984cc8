# Options of the build and the flags that every target of ours gets. As a part of another project SectionFlow is the
# library alone, and changes nothing of that project.
option(SECTIONFLOW_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(SECTIONFLOW_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(SECTIONFLOW_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(SECTIONFLOW_BUILD_TOOLS "Build sectionflow, the program" ${PROJECT_IS_TOP_LEVEL})
option(SECTIONFLOW_INSTALL "Have an install step" ${PROJECT_IS_TOP_LEVEL})
option(SECTIONFLOW_WERROR "Treat warnings as errors" OFF)
set(SECTIONFLOW_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
set(SECTIONFLOW_MARCH "auto" CACHE STRING
    "Instruction set of our own loops, as for -march; auto takes x86-64-v3 where this machine runs it. oneDNN chooses its own at run time")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sf_flags INTERFACE)
# Contraction and fast-math would let the vector body and the scalar tail of one loop round differently, so that
# the bits of an element would depend on where the loop was cut.
target_compile_options(sf_flags INTERFACE -Wall -Wextra -ffp-contract=off)
# Names of files in texts are those of the source tree: nothing of the machine that built a library stays in it.
target_compile_options(sf_flags INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
# From 13 on g++ takes a view that a function returns for the owner of what it shows: `for (const Value& y : {relu(x), exp(x)})`.
target_compile_options(sf_flags INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
if(SECTIONFLOW_WERROR)
  target_compile_options(sf_flags INTERFACE -Werror)
endif()

set(sf_march ${SECTIONFLOW_MARCH})
if(sf_march STREQUAL "auto")
  set(sf_march "")
  include(CheckCXXSourceRuns)
  set(CMAKE_REQUIRED_FLAGS "-march=x86-64-v3")
  check_cxx_source_runs(
    "int main() { __builtin_cpu_init(); return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") ? 0 : 1; }"
    SECTIONFLOW_RUNS_X86_64_V3)
  unset(CMAKE_REQUIRED_FLAGS)
  if(SECTIONFLOW_RUNS_X86_64_V3)
    set(sf_march x86-64-v3)
  endif()
endif()
if(sf_march)
  target_compile_options(sf_flags INTERFACE -march=${sf_march})
endif()

if(SECTIONFLOW_SANITIZE)
  target_compile_options(sf_flags INTERFACE -fsanitize=${SECTIONFLOW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sf_flags INTERFACE -fsanitize=${SECTIONFLOW_SANITIZE})
  # clang says so where an instrumented loop is not vectorised; nobody expects it to be.
  target_compile_options(sf_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
endif()
