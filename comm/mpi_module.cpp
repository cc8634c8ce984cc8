#include "comm/mpi_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "base/shared_object.h"
#include "comm/call.h"
#include "comm/communicator.h"

namespace sectionflow {
namespace {

constexpr const char* kLibrary = "libsectionflow_mpi.so";

std::atomic<const MpiModule*> replaced_mpi_module{nullptr};
std::atomic<bool> has_communicator{false};

MpiModule load_mpi_module() {
  std::string tried;
  void* const library = open_shared_object(kLibrary, "SECTIONFLOW_MPI_LIBRARY", tried);
  SF_CHECK_CODE(library != nullptr, CommunicationError, ErrorCode::no_ranks,
                "mpi: the part of the library for MPI cannot be loaded:", tried,
                hint("install Open MPI (libopenmpi-dev), build with -DSECTIONFLOW_MPI=ON, or name the file in "
                     "SECTIONFLOW_MPI_LIBRARY; in_process_communicators needs none of it"));
  const auto entry = reinterpret_cast<MpiModuleEntry>(dlsym(library, kMpiModuleEntry));
  SF_CHECK_CODE(entry != nullptr, CommunicationError, ErrorCode::no_ranks, "mpi: ", kLibrary,
                " is of another version: it has no ", kMpiModuleEntry, "; build both from the same source");
  MpiModule module;
  entry(module);
  return module;
}

/// Whether a launcher has started this process: without one MPI would take it for the only rank of all, or end it.
bool has_launcher() {
  // Open MPI 4, what manages its ranks from 5 on, and MPICH's.
  static constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  return std::any_of(kVariables.begin(), kVariables.end(),
                     [](const char* variable) { return std::getenv(variable) != nullptr; });
}

std::shared_ptr<Communicator> make_communicator(const CommunicatorOptions& options) {
  const MpiModule& module = mpi_module();
  SF_CHECK_CODE(replaced_mpi_module.load() != nullptr || has_launcher(), CommunicationError, ErrorCode::no_ranks,
                "mpi: no launcher has started this process as a rank", hint("start it by `mpirun -n 2 program`"));
  CommunicationFailure refusal{0, ErrorCode::no_ranks, {}};
  std::unique_ptr<Transport> transport = module.make_transport(options.deadline, refusal);
  if (transport == nullptr) throw CommunicationError(error_text_of("mpi: ", refusal.text), refusal.code);
  return {new Communicator(std::move(transport), options), [](const Communicator* communicator) {
            delete communicator;
            has_communicator = false;
          }};
}

}  // namespace

const MpiModule& mpi_module() {
  if (const MpiModule* replaced = replaced_mpi_module.load()) return *replaced;
  // A load that threw is tried again by the next call.
  static const MpiModule module = load_mpi_module();
  return module;
}

void set_mpi_module(const MpiModule* module) {
  replaced_mpi_module.store(module);
}

std::shared_ptr<Communicator> mpi_communicator(const CommunicatorOptions& options) {
  check_communicator_options(options);
  SF_CHECK(!has_communicator.exchange(true), ArgumentError, "this process is a rank by MPI already",
           hint("hand on the communicator that there is; a process has one"));
  try {
    return make_communicator(options);
  } catch (...) {
    has_communicator = false;
    throw;
  }
}

}  // namespace sectionflow
