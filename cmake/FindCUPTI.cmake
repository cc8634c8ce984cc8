# Finds CUPTI by header and library: in the CUDA toolkit, in its extras/CUPTI, or where CUPTI_ROOT says. Defines
# CUPTI::CUPTI. Only a test uses it (tests/cuda_calls).
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUPTI_ROOT} ENV CUPTI_ROOT ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI
          ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES include ../extras/CUPTI/include)
find_library(CUPTI_LIBRARY NAMES cupti libcupti.so.13 libcupti.so.12 HINTS ${CUPTI_ROOT} ENV CUPTI_ROOT
             ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI ${CUDAToolkit_LIBRARY_DIR}
             PATH_SUFFIXES lib64 lib ../extras/CUPTI/lib64 ../extras/CUPTI/lib)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUPTI REQUIRED_VARS CUPTI_LIBRARY CUPTI_INCLUDE_DIR)
if(CUPTI_FOUND AND NOT TARGET CUPTI::CUPTI)
  add_library(CUPTI::CUPTI UNKNOWN IMPORTED)
  set_target_properties(CUPTI::CUPTI PROPERTIES IMPORTED_LOCATION ${CUPTI_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CUPTI_INCLUDE_DIR})
endif()
mark_as_advanced(CUPTI_INCLUDE_DIR CUPTI_LIBRARY)
