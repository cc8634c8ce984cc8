# The MPI folder: one shared object that programs load on demand (comm/mpi_module.h).
#
# SECTIONFLOW_MPI  AUTO: built where MPI is found; ON: it must be; OFF: never.
set(SECTIONFLOW_MPI AUTO CACHE STRING "Build the MPI folder: AUTO, ON or OFF")
set_property(CACHE SECTIONFLOW_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT SECTIONFLOW_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SECTIONFLOW_MPI is '${SECTIONFLOW_MPI}'; wanted AUTO, ON or OFF")
endif()

set(SECTIONFLOW_HAS_MPI FALSE)
# A shared object carries no sanitizer of its own; ranks that are threads run under them.
if(NOT SECTIONFLOW_MPI STREQUAL "OFF" AND NOT SECTIONFLOW_SANITIZE)
  # The interface for C, by the compiler of C++: there is no other here.
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
  set(SECTIONFLOW_HAS_MPI ${MPI_CXX_FOUND})
  if(NOT SECTIONFLOW_HAS_MPI AND SECTIONFLOW_MPI STREQUAL "ON")
    message(FATAL_ERROR "SECTIONFLOW_MPI is ON, but no MPI of standard 3.0 or newer was found; install Open MPI (libopenmpi-dev), set MPI_HOME, or take SECTIONFLOW_MPI=AUTO")
  endif()
endif()
if(SECTIONFLOW_HAS_MPI)
  message(STATUS "SectionFlow: with MPI (standard ${MPI_CXX_VERSION})")
else()
  message(STATUS "SectionFlow: without MPI")
endif()
