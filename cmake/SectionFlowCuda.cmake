# The CUDA folders: one shared object that programs load on demand (device/cuda_module.h).
#
# SECTIONFLOW_CUDA  AUTO: built where a CUDA compiler is found; ON: it must be; OFF: never.
# CMAKE_CUDA_ARCHITECTURES, or CUDAARCHS in the environment of the first configuration, decides for which GPUs; the
# default is 80, 90 and code that newer ones translate.
# SECTIONFLOW_CUDA_OPTIMIZE  OFF: kernels are compiled in less time, for a machine that cannot run them.
set(SECTIONFLOW_CUDA AUTO CACHE STRING "Build the CUDA folders: AUTO, ON or OFF")
set_property(CACHE SECTIONFLOW_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT SECTIONFLOW_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SECTIONFLOW_CUDA is '${SECTIONFLOW_CUDA}'; wanted AUTO, ON or OFF")
endif()

option(SECTIONFLOW_CUDA_OPTIMIZE "Optimise CUDA kernels" ON)
set(SECTIONFLOW_HAS_CUDA FALSE)
# A shared object carries no sanitizer of its own; the same kernels run on the host in the tests.
if(NOT SECTIONFLOW_CUDA STREQUAL "OFF" AND NOT SECTIONFLOW_SANITIZE)
  include(CheckLanguage)
  # check_language looks at CUDACXX and PATH alone; the toolkit is looked for where it is installed, too.
  find_package(CUDAToolkit 12.0 QUIET)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  # nvcc must take the compiler of everything else: both see the same headers.
  if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX} AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPUs to build for")
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0 QUIET)
    set(SECTIONFLOW_HAS_CUDA ${CUDAToolkit_FOUND})
  endif()
  if(NOT SECTIONFLOW_HAS_CUDA AND SECTIONFLOW_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SECTIONFLOW_CUDA is ON, but no CUDA toolkit of version 12.0 or newer was found; put nvcc on the PATH, set CUDACXX or CMAKE_CUDA_COMPILER, or take SECTIONFLOW_CUDA=AUTO")
  endif()
endif()
if(NOT SECTIONFLOW_HAS_CUDA)
  message(STATUS "SectionFlow: without CUDA")
  return()
endif()
find_package(CuDNN 9)
message(STATUS "SectionFlow: with CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, cuDNN ${CuDNN_VERSION}")
if(NOT SECTIONFLOW_CUDA_OPTIMIZE AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
  message(STATUS "SectionFlow: CUDA kernels are not optimised (SECTIONFLOW_CUDA_OPTIMIZE is OFF): build anew for a GPU")
  # By "max" recursion stays in kernels, whose stack ptxas then cannot tell.
  set(CMAKE_CUDA_FLAGS_RELEASE "-Ofc mid -DNDEBUG")
endif()
