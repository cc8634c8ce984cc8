# Target docs: the pages of the public headers, in docs/html of the build folder. Absent where doxygen is.
find_program(SECTIONFLOW_DOXYGEN doxygen)
mark_as_advanced(SECTIONFLOW_DOXYGEN)
set(SF_DOXYGEN_OUTPUT ${PROJECT_BINARY_DIR}/docs)
list(JOIN SECTIONFLOW_PUBLIC_HEADERS " " SF_DOXYGEN_INPUT)
list(JOIN SECTIONFLOW_COMPARE_HEADERS " " sf_compare_input)
list(JOIN SECTIONFLOW_OP_CASE_HEADERS " " sf_op_case_input)
list(JOIN SECTIONFLOW_SOURCES_HEADERS " " sf_sources_input)
string(APPEND SF_DOXYGEN_INPUT " ${sf_compare_input} ${sf_op_case_input} ${sf_sources_input}")
configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${SF_DOXYGEN_OUTPUT}/Doxyfile @ONLY)
if(SECTIONFLOW_DOXYGEN AND PROJECT_IS_TOP_LEVEL)
  add_custom_target(docs COMMAND ${SECTIONFLOW_DOXYGEN} ${SF_DOXYGEN_OUTPUT}/Doxyfile
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
endif()
