# libsectionflow, libsectionflow_compare, libsectionflow_op_case and libsectionflow_sources for other people's builds,
# static and shared, and what `cmake --install` puts beside them: the headers that sectionflow.h, sectionflow_ops.h,
# compare/compare.h, op_case/op_case.h and sources/sources.h reach, a CMake package, files of pkg-config, pages and
# examples. The libraries are made of the objects of the folders. What belongs to comparing alone is install component
# sectionflow_compare, to op cases alone sectionflow_op_case, to sources with other people's libraries sectionflow_sources.
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

# sf_add_library(<name> <kind> FOLDERS <folder>... [NEEDS <name>])
#
# Target <name>_<kind> of the folders' objects; kind is static or shared, and lib<name> the file's name. NEEDS names another
# library of ours that it is linked to.
function(sf_add_library name kind)
  cmake_parse_arguments(arg "" "NEEDS" "FOLDERS" ${ARGN})
  string(TOUPPER ${kind} type)
  set(target ${name}_${kind})
  set(component development)
  if(arg_NEEDS)
    set(component ${name})
  endif()
  list(TRANSFORM arg_FOLDERS REPLACE "(.+)" "$<TARGET_OBJECTS:sf_\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} ${type} ${objects})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/sectionflow>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  if(arg_NEEDS)
    target_link_libraries(${target} PUBLIC ${arg_NEEDS}_${kind})
  endif()
  # Before 1.0 any minor version may change the binary interface.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(kind STREQUAL shared)
    # Instances of standard templates are visible whatever the compiler is told; the linker keeps them inside.
    set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${exports} LINKER:--as-needed)
    if(NOT SECTIONFLOW_SANITIZE)
      target_link_options(${target} PRIVATE LINKER:-z,defs)
    endif()
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports} INSTALL_RPATH "$ORIGIN")
    set_target_properties(${target} PROPERTIES BUILD_RPATH "${SECTIONFLOW_LOADED_FOLDERS}")
  endif()
  if(NOT SECTIONFLOW_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set(library_component runtime)
  if(arg_NEEDS)
    set(library_component ${name})
  endif()
  install(TARGETS ${target} EXPORT ${target}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${library_component} NAMELINK_COMPONENT ${component}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
  install(EXPORT ${target} NAMESPACE sectionflow:: DESTINATION ${sf_package_folder} COMPONENT ${component})
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
  sf_add_library(sectionflow static FOLDERS ${SECTIONFLOW_FOLDERS})
  target_link_libraries(sectionflow_static INTERFACE $<LINK_ONLY:OneDNN::OneDNN> $<LINK_ONLY:glog::glog>
                        $<LINK_ONLY:ZLIB::ZLIB> $<LINK_ONLY:protobuf::libprotobuf-lite> $<LINK_ONLY:Threads::Threads> ${sf_openmp})
  if(sf_uring)
    target_link_libraries(sectionflow_static INTERFACE $<LINK_ONLY:${sf_uring}>)
  endif()
endif()
if(SECTIONFLOW_SHARED)
  sf_add_library(sectionflow shared FOLDERS ${SECTIONFLOW_FOLDERS})
  target_link_libraries(sectionflow_shared PRIVATE OpenMP::OpenMP_CXX sf_flags $<BUILD_INTERFACE:OneDNN::OneDNN>
                        $<BUILD_INTERFACE:glog::glog> $<BUILD_INTERFACE:${sf_uring}> $<BUILD_INTERFACE:protobuf::libprotobuf-lite> ZLIB::ZLIB
                        Threads::Threads)
endif()
foreach(kind IN ITEMS static shared)
  if(TARGET sectionflow_${kind})
    sf_add_library(sectionflow_compare ${kind} FOLDERS compare NEEDS sectionflow)
    sf_add_library(sectionflow_op_case ${kind} FOLDERS op_case NEEDS sectionflow)
    sf_add_library(sectionflow_sources ${kind} FOLDERS sources NEEDS sectionflow)
  endif()
endforeach()

# What sources/ reads by other people's libraries, of which each may be absent (sources/CMakeLists.txt).
set(sf_pc_lmdb -llmdb)
get_filename_component(sf_hdf5_name "${HDF5C_LIBRARY}" NAME_WE)  # libhdf5_serial, or libhdf5
string(REGEX REPLACE "^lib" "-l" sf_pc_hdf5c "${sf_hdf5_name}")
set(sf_pc_libzip -lzip)
set(sf_pc_jpeg -ljpeg)
set(sf_pc_png -lpng)
set(sf_sources_private -lprotobuf-lite)
foreach(package IN LISTS SF_SOURCES_PACKAGES)
  string(TOLOWER ${package} name)
  list(APPEND sf_sources_private ${sf_pc_${name}})
  if(SECTIONFLOW_STATIC)
    target_link_libraries(sectionflow_sources_static INTERFACE $<LINK_ONLY:${package}::${package}>)
  endif()
  if(SECTIONFLOW_SHARED)
    target_link_libraries(sectionflow_sources_shared PRIVATE $<BUILD_INTERFACE:${package}::${package}>)
  endif()
endforeach()
if(SECTIONFLOW_STATIC)
  target_link_libraries(sectionflow_sources_static INTERFACE $<LINK_ONLY:protobuf::libprotobuf-lite>)
endif()
if(SECTIONFLOW_SHARED)
  target_link_libraries(sectionflow_sources_shared PRIVATE $<BUILD_INTERFACE:protobuf::libprotobuf-lite>)
endif()
list(JOIN sf_sources_private " " SF_PC_SOURCES_PRIVATE)
list(JOIN SF_SOURCES_PACKAGES " " SF_SOURCES_PACKAGES_TEXT)

# What a parent project links: the shared library if it builds shared ones, otherwise the folders as they are.
if(BUILD_SHARED_LIBS AND SECTIONFLOW_SHARED)
  add_library(sectionflow::sectionflow ALIAS sectionflow_shared)
  add_library(sectionflow::compare ALIAS sectionflow_compare_shared)
  add_library(sectionflow::op_case ALIAS sectionflow_op_case_shared)
  add_library(sectionflow::sources ALIAS sectionflow_sources_shared)
else()
  add_library(sectionflow::sectionflow ALIAS sectionflow)
  add_library(sectionflow::compare ALIAS sectionflow_compare)
  add_library(sectionflow::op_case ALIAS sectionflow_op_case)
  add_library(sectionflow::sources ALIAS sectionflow_sources)
endif()

# sf_public_headers(<variable> <header>...): they and every header of ours that they include, directly or not.
function(sf_public_headers variable)
  set(found ${ARGN})
  set(todo ${ARGN})
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
sf_public_headers(SECTIONFLOW_PUBLIC_HEADERS sectionflow.h sectionflow_ops.h)
# With what its results are written by.
sf_public_headers(SECTIONFLOW_COMPARE_HEADERS compare/compare.h base/whole_file.h)
sf_public_headers(SECTIONFLOW_OP_CASE_HEADERS op_case/op_case.h)
sf_public_headers(SECTIONFLOW_SOURCES_HEADERS sources/sources.h)
list(REMOVE_ITEM SECTIONFLOW_COMPARE_HEADERS ${SECTIONFLOW_PUBLIC_HEADERS})
list(REMOVE_ITEM SECTIONFLOW_OP_CASE_HEADERS ${SECTIONFLOW_PUBLIC_HEADERS})
list(REMOVE_ITEM SECTIONFLOW_SOURCES_HEADERS ${SECTIONFLOW_PUBLIC_HEADERS})

if(NOT SECTIONFLOW_INSTALL)
  return()
endif()

# sf_install_headers(<component> <header>...)
function(sf_install_headers component)
  foreach(header IN LISTS ARGN)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sectionflow/${folder}
            COMPONENT ${component})
  endforeach()
endfunction()
sf_install_headers(development ${SECTIONFLOW_PUBLIC_HEADERS})
sf_install_headers(sectionflow_compare ${SECTIONFLOW_COMPARE_HEADERS})
sf_install_headers(sectionflow_op_case ${SECTIONFLOW_OP_CASE_HEADERS})
sf_install_headers(sectionflow_sources ${SECTIONFLOW_SOURCES_HEADERS})

# The static library is linked to the oneDNN that it was compiled for, or a later one of that major version.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" SF_ONEDNN_VERSION "${OneDNN_VERSION}")
set(sf_generated ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sectionflowConfig.cmake.in
                              ${sf_generated}/sectionflowConfig.cmake INSTALL_DESTINATION ${sf_package_folder})
write_basic_package_version_file(${sf_generated}/sectionflowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${sf_generated}/sectionflowConfig.cmake ${sf_generated}/sectionflowConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake ${PROJECT_SOURCE_DIR}/cmake/FindLibUring.cmake
        DESTINATION ${sf_package_folder} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindLMDB.cmake ${PROJECT_SOURCE_DIR}/cmake/FindHDF5C.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindLibZip.cmake
        DESTINATION ${sf_package_folder} COMPONENT sectionflow_sources)

# The prefix is said from where the file lies, so that an installed tree may be moved. An absolute folder, which
# distributions may ask for, stays as it is.
set(sf_pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(sf_private_libraries dnnl glog protobuf-lite z ${sf_openmp})
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
foreach(part IN ITEMS compare op_case sources)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/sectionflow_${part}.pc.in ${sf_generated}/sectionflow_${part}.pc @ONLY)
  install(FILES ${sf_generated}/sectionflow_${part}.pc DESTINATION ${sf_pkgconfig_folder}
          COMPONENT sectionflow_${part})
endforeach()

# Pages and programs to read, beside each other as they are in the sources, so that links lead somewhere. The examples
# have a project of their own for the package.
set(sf_doc_folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/sectionflow)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${sf_doc_folder} COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${sf_doc_folder} COMPONENT documentation)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${sf_doc_folder}/docs COMPONENT documentation
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${sf_doc_folder}
        COMPONENT documentation PATTERN "03_mnist_sections.cpp" EXCLUDE)
