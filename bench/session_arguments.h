#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bench/program.h"
#include "runtime/session.h"

namespace sectionflow {

/// What a command line says of a session: its device, its budgets, how it copies, its threads.
struct SessionArguments {
  DeviceArguments device{};
  std::string device_memory;  ///< a size or a share; empty: all of the device
  std::string host_memory, disk, swap_directory, link;
  bool swap_variables = false, copy_threads = false;
  int threads = 0;
  std::int64_t effort = 0;  ///< of fit_budget's search
};

/// `device_memory` begins the help of --device-memory.
void add_session_arguments(CLI::App& app, SessionArguments& arguments, const std::string& device_memory);

/// All but device_memory, of which a share is to be told from a model first (device_memory_of).
/// Throws: ArgumentError, as device_of.
SessionOptions session_options(const SessionArguments& arguments);

}  // namespace sectionflow
