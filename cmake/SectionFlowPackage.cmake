# libsectionflow for other people's builds, static and shared, and what `cmake --install` puts beside it: the headers that
# sectionflow.h reaches, a CMake package, a pkg-config file. Both libraries are made of the objects of the folders.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(sf_default_static ON)
set(sf_default_shared ON)
if(DEFINED BUILD_SHARED_LIBS)
  set(sf_default_shared ${BUILD_SHARED_LIBS})
  if(BUILD_SHARED_LIBS)
    set(sf_default_static OFF)
  endif()
endif()
# A shared library carries no sanitizer of its own: the program must bring it.
if(SECTIONFLOW_SANITIZE)
  set(sf_default_shared OFF)
endif()
option(SECTIONFLOW_STATIC "Make libsectionflow.a" ${sf_default_static})
option(SECTIONFLOW_SHARED "Make libsectionflow.so" ${sf_default_shared})

set(sf_objects ${SECTIONFLOW_FOLDERS})
list(TRANSFORM sf_objects REPLACE "(.+)" "$<TARGET_OBJECTS:sf_\\1>")

# sf_add_library(<kind>): sectionflow_static or sectionflow_shared, both with libsectionflow as file name.
function(sf_add_library kind)
  string(TOUPPER ${kind} type)
  set(target sectionflow_${kind})
  add_library(${target} ${type} ${sf_objects})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/sectionflow>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  # Before 1.0 any minor version may change the binary interface.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME sectionflow LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(NOT SECTIONFLOW_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  install(TARGETS ${target} EXPORT ${target}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT ${target} NAMESPACE sectionflow:: DESTINATION ${sf_package_folder} COMPONENT development)
endfunction()

set(sf_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sectionflow)
# The OpenMP runtime by name, as the compiler of the library finds it: programs that link the library need no OpenMP of
# their own, and with another compiler they must not get another runtime.
set(sf_openmp ${OpenMP_CXX_LIB_NAMES})
set(SF_HAS_URING FALSE)
set(sf_uring "")
if(TARGET LibUring::LibUring)
  set(SF_HAS_URING TRUE)
  set(sf_uring LibUring::LibUring)
endif()
if(SECTIONFLOW_STATIC)
  sf_add_library(static)
  target_link_libraries(sectionflow_static INTERFACE $<LINK_ONLY:OneDNN::OneDNN> $<LINK_ONLY:glog::glog>
                        $<LINK_ONLY:ZLIB::ZLIB> $<LINK_ONLY:Threads::Threads> ${sf_openmp})
  if(sf_uring)
    target_link_libraries(sectionflow_static INTERFACE $<LINK_ONLY:${sf_uring}>)
  endif()
endif()
if(SECTIONFLOW_SHARED)
  sf_add_library(shared)
  target_link_libraries(sectionflow_shared PRIVATE OpenMP::OpenMP_CXX sf_flags $<BUILD_INTERFACE:OneDNN::OneDNN>
                        $<BUILD_INTERFACE:glog::glog> $<BUILD_INTERFACE:${sf_uring}> ZLIB::ZLIB Threads::Threads)
  # Instances of standard templates are visible whatever the compiler is told; the linker keeps them inside.
  set(sf_exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  target_link_options(sectionflow_shared PRIVATE LINKER:--version-script=${sf_exports} LINKER:--as-needed)
  if(NOT SECTIONFLOW_SANITIZE)
    target_link_options(sectionflow_shared PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(sectionflow_shared PROPERTIES LINK_DEPENDS ${sf_exports})
endif()

# What a parent project links: the shared library if it builds shared ones, otherwise the folders as they are.
if(BUILD_SHARED_LIBS AND SECTIONFLOW_SHARED)
  add_library(sectionflow::sectionflow ALIAS sectionflow_shared)
else()
  add_library(sectionflow::sectionflow ALIAS sectionflow)
endif()

# sf_public_headers(<variable>): sectionflow.h and every header of ours that it includes, directly or not.
function(sf_public_headers variable)
  set(found sectionflow.h)
  set(todo sectionflow.h)
  while(todo)
    list(POP_FRONT todo header)
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST found)
        list(APPEND found ${included})
        list(APPEND todo ${included})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  # An include that comes or goes changes what is installed.
  list(TRANSFORM found PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE watched)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${watched})
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
sf_public_headers(SECTIONFLOW_PUBLIC_HEADERS)

if(NOT SECTIONFLOW_INSTALL)
  return()
endif()

foreach(header IN LISTS SECTIONFLOW_PUBLIC_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sectionflow/${folder}
          COMPONENT development)
endforeach()

# The static library is linked to the oneDNN that it was compiled for, or a later one of that major version.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" SF_ONEDNN_VERSION "${OneDNN_VERSION}")
set(sf_generated ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sectionflowConfig.cmake.in
                              ${sf_generated}/sectionflowConfig.cmake INSTALL_DESTINATION ${sf_package_folder})
write_basic_package_version_file(${sf_generated}/sectionflowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${sf_generated}/sectionflowConfig.cmake ${sf_generated}/sectionflowConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake ${PROJECT_SOURCE_DIR}/cmake/FindLibUring.cmake
        DESTINATION ${sf_package_folder} COMPONENT development)

# The prefix is said from where the file lies, so that an installed tree may be moved. An absolute folder, which
# distributions may ask for, stays as it is.
set(sf_pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(sf_private_libraries dnnl glog z ${sf_openmp})
if(SF_HAS_URING)
  list(APPEND sf_private_libraries uring)
endif()
list(REMOVE_DUPLICATES sf_private_libraries)
list(TRANSFORM sf_private_libraries PREPEND -l)
list(JOIN sf_private_libraries " " SF_PC_PRIVATE)
set(SF_PC_PUBLIC "")
if(NOT SECTIONFLOW_SHARED)
  set(SF_PC_PUBLIC " ${SF_PC_PRIVATE}")
endif()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(SF_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH sf_up /prefix/${sf_pkgconfig_folder} /prefix)
  string(REGEX REPLACE "/$" "" sf_up ${sf_up})
  set(SF_PC_PREFIX "\${pcfiledir}/${sf_up}")
endif()
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  set(SF_PC_${folder} ${CMAKE_INSTALL_${folder}})
  if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
    string(PREPEND SF_PC_${folder} "\${prefix}/")
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/sectionflow.pc.in ${sf_generated}/sectionflow.pc @ONLY)
install(FILES ${sf_generated}/sectionflow.pc DESTINATION ${sf_pkgconfig_folder} COMPONENT development)

if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
endif()
