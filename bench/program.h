#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "device/device.h"
#include "fit/fit_budget.h"

namespace sectionflow {

// What the programs of this folder have in common.

/// The device that a command line asks for.
struct DeviceArguments {
  std::string name = "cpu";
  bool allow_tf32 = false, autotune = false;
};
void add_device_arguments(CLI::App& app, DeviceArguments& arguments);
/// Throws: ArgumentError for a name that is none, and where options of a GPU are asked of the CPU.
DeviceSpec device_of(const DeviceArguments& arguments);

/// Checks an option of a command line: a name that is there. A variable of a shell that is not set gives an empty one,
/// which would count as an option that is absent.
CLI::Validator not_empty();

/// Fails at once where a file of that name could not be written later, its folders made with it. Nothing is left.
/// Throws: DataError, which `option` begins.
void check_output(const std::filesystem::path& file, const std::string& option);
/// Makes the folders that a file's path names and that are not there. Throws: DataError, which `option` begins.
void make_folder_of(const std::filesystem::path& file, const std::string& option);

/// --json: a file that gets the results too, or "-" for standard output, which then gets nothing else.
void add_json_argument(CLI::App& app, std::string& json);
bool is_standard_output(const std::string& json);
/// Nothing where --json is absent. Throws: DataError where the file cannot be written; writing it makes its folder.
void check_json(const std::string& json);
void write_json(const std::string& json, const std::string& text);

/// Tells on the error stream how far planning is, where it takes longer than a second.
OnPlanning tell_planning();

/// Reads the command line and runs. What the command line has wrong, and an error of ours, go to the error stream, with
/// exit status 2.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run);

}  // namespace sectionflow
