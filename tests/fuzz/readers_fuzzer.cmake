# The program `readers_fuzzer` and a minute of it for each reader, with a compiler that has libFuzzer. What reads is compiled
# anew for it, with its marks and the sanitizers; nothing else of the project is built.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_cxx_source_compiles("#include <cstddef>
#include <cstdint>
extern \"C\" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }" SECTIONFLOW_HAS_FUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT SECTIONFLOW_HAS_FUZZER OR SECTIONFLOW_SANITIZE)
  add_test(NAME fuzz/readers_fuzzer COMMAND ${CMAKE_COMMAND} -E echo
           "skipped: libFuzzer comes with clang and its run time; configure the preset `clang`")
  set_tests_properties(fuzz/readers_fuzzer PROPERTIES LABELS "fuzz;long" SKIP_REGULAR_EXPRESSION "^skipped")
  return()
endif()

# Messages of its own, for those of the libraries are made when these are built.
set(message_root ${CMAKE_CURRENT_BINARY_DIR}/messages)
foreach(stem IN ITEMS data/example sources/datum train/event)
  get_filename_component(folder ${stem} DIRECTORY)
  file(MAKE_DIRECTORY ${message_root}/${folder})
  add_custom_command(OUTPUT ${message_root}/${stem}.pb.cc ${message_root}/${stem}.pb.h
                     DEPENDS ${PROJECT_SOURCE_DIR}/${stem}.proto VERBATIM
                     COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${message_root} ${stem}.proto)
  list(APPEND messages ${message_root}/${stem}.pb.cc ${message_root}/${stem}.pb.h)
endforeach()
set_source_files_properties(${messages} PROPERTIES COMPILE_OPTIONS -w SKIP_UNITY_BUILD_INCLUSION ON)

add_library(fuzzed INTERFACE)
target_compile_features(fuzzed INTERFACE cxx_std_20)
target_compile_options(fuzzed INTERFACE -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined
                                        -fno-sanitize-recover=all)
target_include_directories(fuzzed INTERFACE ${PROJECT_SOURCE_DIR})
target_include_directories(fuzzed SYSTEM INTERFACE ${message_root})
target_compile_definitions(fuzzed INTERFACE $<TARGET_PROPERTY:sf_sources,COMPILE_DEFINITIONS>)
target_link_libraries(fuzzed INTERFACE protobuf::libprotobuf-lite glog::glog ZLIB::ZLIB Boost::headers Threads::Threads
                                       nlohmann_json::nlohmann_json XxHash::XxHash)
foreach(package IN LISTS SF_SOURCES_PACKAGES)
  target_link_libraries(fuzzed INTERFACE ${package}::${package})
endforeach()
add_library(fuzzed_messages OBJECT EXCLUDE_FROM_ALL ${messages})
target_link_libraries(fuzzed_messages PRIVATE fuzzed)
add_executable(readers_fuzzer EXCLUDE_FROM_ALL fuzz/readers_fuzzer.cpp ${sf_reader_sources})
target_link_options(readers_fuzzer PRIVATE -fsanitize=fuzzer,address,undefined)
target_link_libraries(readers_fuzzer PRIVATE fuzzed fuzzed_messages)
add_dependencies(readers_fuzzer fuzzed_messages)

# Each folder by itself: units join sources of one folder.
set(train_parts checkpoint_manifest event_file memory_share saved_numbers training_progress)
set(swap_parts profile)
set(device_parts algorithm_choices)
set(planning_parts instance problem)
set(fit_parts plan_file)
set(transform_parts ranges ranges_text)
foreach(folder IN ITEMS base graph data sources train swap device planning fit transform)
  file(GLOB_RECURSE read_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  if(DEFINED ${folder}_parts)
    list(TRANSFORM ${folder}_parts REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/${folder}/\\1.cpp" OUTPUT_VARIABLE read_sources)
  endif()
  add_library(fuzzed_${folder} OBJECT EXCLUDE_FROM_ALL ${read_sources})
  target_link_libraries(fuzzed_${folder} PRIVATE fuzzed)
  add_dependencies(fuzzed_${folder} fuzzed_messages)
  target_link_libraries(readers_fuzzer PRIVATE fuzzed_${folder})
endforeach()

add_test(NAME fuzz/readers_fuzzer_is_built COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target readers_fuzzer)
set_tests_properties(fuzz/readers_fuzzer_is_built PROPERTIES LABELS "fuzz;long" TIMEOUT 3600 FIXTURES_SETUP readers_fuzzer)
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/reader_names.inc lines REGEX "^SF_READER\\(")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^SF_READER\\(([a-z_0-9]+)\\).*" "\\1" reader "${line}")
  set(found ${CMAKE_CURRENT_BINARY_DIR}/corpus/${reader})
  file(MAKE_DIRECTORY ${found})
  # The first folder takes what is found. A second of the processor is the limit of fuzz/readers.cpp; what waits is killed.
  add_test(NAME fuzz/reader_${reader}
           COMMAND readers_fuzzer -max_total_time=60 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=256 -max_len=65536
                   ${found} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${reader})
  set_tests_properties(fuzz/reader_${reader} PROPERTIES LABELS "fuzz;long" TIMEOUT 300 FIXTURES_REQUIRED readers_fuzzer
                       ENVIRONMENT "SECTIONFLOW_FUZZ_READER=${reader}")
endforeach()
