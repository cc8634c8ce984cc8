#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace sectionflow {

/// What a command line says of ranks that train together, each with batches of its own.
struct RankArguments {
  std::string ranks;            ///< "4": threads of this process; "mpi": what a launcher has started; empty: none
  std::string link;             ///< bytes a second of the link by which a rank sends; empty: as fast as it is
  std::int64_t latency_us = 0;  ///< what each message takes longer
  std::int64_t deadline_s = 60;
};

void add_rank_arguments(CLI::App& app, RankArguments& arguments);

/// A communicator for each rank of this process: none where no ranks are asked for, one by MPI.
/// Throws: ArgumentError for options of a link without ranks; what mpi_communicator throws.
std::vector<std::shared_ptr<Communicator>> communicators_of(const RankArguments& arguments);

}  // namespace sectionflow
