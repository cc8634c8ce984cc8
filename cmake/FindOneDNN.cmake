# Finds oneDNN 2.x by header and library: Debian's own package configuration demands OpenCL, which a CPU engine never uses.
# Defines OneDNN::OneDNN.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(ONEDNN_LIBRARY dnnl)
if(ONEDNN_INCLUDE_DIR AND EXISTS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn_version_lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*PATCH +([0-9]+).*" "\\1.\\2.\\3" OneDNN_VERSION "${onednn_version_lines}")
endif()
# The kernels are written for the operation descriptors of 2.x, which 3.0 removed.
set(onednn_is_2 FALSE)
if(OneDNN_VERSION VERSION_GREATER_EQUAL 2.6 AND OneDNN_VERSION VERSION_LESS 3)
  set(onednn_is_2 TRUE)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR onednn_is_2 VERSION_VAR OneDNN_VERSION
  REASON_FAILURE_MESSAGE "oneDNN 2.6 or a later 2.x is wanted, as in Debian 12: found ${OneDNN_VERSION}")
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
endif()
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
