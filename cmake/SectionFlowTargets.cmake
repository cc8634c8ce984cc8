# sf_add_folder(<folder> [DEPENDS <folder>...] [LIBRARIES <target>...] [APART <folder>])
#
# One static library sf_<folder> of every source below the folder. DEPENDS names the folders it may include
# (docs/architecture.md); LIBRARIES are other people's; APART is a folder below it whose sources are not among these. The
# same objects go into libsectionflow, static and shared (cmake/SectionFlowPackage.cmake).
function(sf_add_folder folder)
  cmake_parse_arguments(arg "" "APART" "DEPENDS;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(arg_APART)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${arg_APART}/")
  endif()
  add_library(sf_${folder} STATIC ${sources})
  set_target_properties(sf_${folder} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
  # Nobody replaces our functions by others of the same name, so that calls among them need no detour.
  target_compile_options(sf_${folder} PRIVATE -fno-semantic-interposition)
  target_include_directories(sf_${folder} PUBLIC ${PROJECT_SOURCE_DIR})
  list(TRANSFORM arg_DEPENDS PREPEND sf_)
  target_link_libraries(sf_${folder} PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES} PRIVATE sf_flags ${arg_PRIVATE_LIBRARIES})
endfunction()

# sf_protobuf(<folder> <file>.proto)
#
# Adds the messages of <folder>/<file>.proto to the folder's library, as protoc writes them when it is built: its sources
# include "<folder>/<file>.pb.h". Messages are of the lite runtime (option optimize_for = LITE_RUNTIME) and of package
# sectionflow.wire, so that no program gets two of one name. No header of ours includes them but inner ones.
function(sf_protobuf folder file)
  string(REGEX REPLACE "\\.proto$" "" stem ${file})
  set(root ${PROJECT_BINARY_DIR}/generated)
  set(made ${root}/${folder}/${stem}.pb.cc ${root}/${folder}/${stem}.pb.h)
  file(MAKE_DIRECTORY ${root}/${folder})
  add_custom_command(OUTPUT ${made} DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${file} VERBATIM
                     COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${root} ${folder}/${file})
  # Others' code: no warnings of ours, and no place in a unit with ours.
  set_source_files_properties(${root}/${folder}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS -w SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(sf_${folder} PRIVATE ${made})
  target_include_directories(sf_${folder} SYSTEM PRIVATE ${root})
  target_link_libraries(sf_${folder} PRIVATE protobuf::libprotobuf-lite)
endfunction()

# sf_check_op_families()
#
# Every family of graph/op_list.inc needs its rooms; configuring stops with the path of the first that is missing.
function(sf_check_op_families)
  file(STRINGS ${PROJECT_SOURCE_DIR}/graph/op_list.inc lines REGEX "^SF_OP_FAMILY\\(")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/graph/op_list.inc)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^SF_OP_FAMILY\\(([a-z0-9_]+)\\).*" "\\1" family "${line}")
    set(rooms graph/ops/${family}.h graph/ops/${family}.cpp autodiff/gradients/${family}.cpp kernels/cpu/${family}.cpp
              kernels/cuda/${family}.cu)
    if(SECTIONFLOW_BUILD_TESTS)
      list(APPEND rooms tests/ops/${family}.cpp)
    endif()
    foreach(room IN LISTS rooms)
      if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${room})
        message(FATAL_ERROR "op family '${family}' of graph/op_list.inc has no room ${room}; see docs/adding_an_op.md")
      endif()
    endforeach()
  endforeach()
endfunction()
