#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/transport.h"

namespace sectionflow {

/// What comm/mpi gives to the others: this process as a rank. It lives in a shared object of its own,
/// libsectionflow_mpi.so, so that programs start where MPI is not, and load none of its libraries unless they ask.
struct MpiModule {
  /// Begins MPI unless the program has. nullptr: `refusal` says why not, and whether ranks have not come by the
  /// deadline (ErrorCode::communication) or something is missing (ErrorCode::no_ranks).
  std::unique_ptr<Transport> (*make_transport)(std::chrono::milliseconds deadline,
                                               CommunicationFailure& refusal) = nullptr;
};

/// The version of MpiModule and of the interfaces behind it; both sides must have been built with the same.
inline constexpr int kMpiModuleVersion = 1;

/// The name, and type, of the one function that the shared object exports: fills `result`.
inline constexpr const char* kMpiModuleEntry = "sectionflow_mpi_module_v1";
using MpiModuleEntry = void (*)(MpiModule& result);

/// The module, loaded at the first call. Throws: CommunicationError (SF-E513) that says what is missing: the shared
/// object, or MPI's library.
const MpiModule& mpi_module();
/// For tests: this module is given from here on instead; nullptr: the real one again.
void set_mpi_module(const MpiModule* module);

}  // namespace sectionflow
