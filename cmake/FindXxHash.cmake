# Finds xxHash's header: all of it is inlined where it is used, so that nothing is linked. Defines XxHash::XxHash.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(XXHASH_INCLUDE_DIR)
  file(STRINGS ${XXHASH_INCLUDE_DIR}/xxhash.h xxhash_version_lines REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*RELEASE +([0-9]+).*" "\\1.\\2.\\3" XxHash_VERSION "${xxhash_version_lines}")
endif()
include(FindPackageHandleStandardArgs)
# XXH3's values are those of all later versions from 0.8 on.
find_package_handle_standard_args(XxHash REQUIRED_VARS XXHASH_INCLUDE_DIR VERSION_VAR XxHash_VERSION)
if(XxHash_FOUND AND NOT TARGET XxHash::XxHash)
  add_library(XxHash::XxHash INTERFACE IMPORTED)
  set_target_properties(XxHash::XxHash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${XXHASH_INCLUDE_DIR})
endif()
mark_as_advanced(XXHASH_INCLUDE_DIR)
