#include "bench/program.h"

#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "examples/models/command_line.h"
#include "examples/models/device_named.h"

namespace sectionflow {

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run) {
  start_logging(argv[0]);
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  try {
    return run();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("its name is empty; leave it out, or give one") : "";
      },
      "");
}

void check_output(const std::filesystem::path& file, const std::string& option) {
  // The first folder that would have to be made; where all are there, the file itself.
  std::filesystem::path probe = file;
  std::error_code failed;
  for (std::filesystem::path holder = probe.parent_path(); !holder.empty() && !std::filesystem::exists(holder, failed);
       holder = probe.parent_path()) {
    probe = holder;
  }
  check_writable(probe, option);
}

void make_folder_of(const std::filesystem::path& file, const std::string& option) {
  make_folder(file.parent_path(), option);
}

OnPlanning tell_planning() {
  return [](const PlanningProgress& progress) {
    std::cerr << "planning: " << progress.what << ": " << progress.done << " of at most " << progress.of << ", "
              << static_cast<int>(progress.seconds) << " s\n";
  };
}

void add_json_argument(CLI::App& app, std::string& json) {
  app.add_option("--json", json, "write the results to this file too, or, instead of the text, to standard output: -")
      ->check(not_empty());
}

bool is_standard_output(const std::string& json) {
  return json == "-";
}

void check_json(const std::string& json) {
  if (!json.empty() && !is_standard_output(json)) check_output(json, "--json");
}

void write_json(const std::string& json, const std::string& text) {
  const std::string lines = text.ends_with('\n') ? text : text + "\n";
  if (is_standard_output(json)) {
    std::cout << lines << std::flush;
  } else if (!json.empty()) {
    make_folder_of(json, "--json");
    write_whole_file(json, lines, "--json");
  }
}

void add_device_arguments(CLI::App& app, DeviceArguments& arguments) {
  app.add_option("--device", arguments.name, kDeviceHelp)->capture_default_str();
  app.add_flag("--tf32", arguments.allow_tf32, "on a GPU: f32 products and convolutions may round to TF32");
  app.add_flag("--autotune", arguments.autotune, "on a GPU: libraries' algorithms are chosen by timing them");
}

DeviceSpec device_of(const DeviceArguments& arguments) {
  DeviceSpec device = device_named(arguments.name);
  SF_CHECK(device.kind == DeviceKind::cuda || !(arguments.allow_tf32 || arguments.autotune), ArgumentError,
           arguments.allow_tf32 ? "--tf32" : "--autotune", ": the device is the CPU, which knows nothing of the kind",
           hint("add --device cuda, or leave it out"));
  device.allow_tf32 = arguments.allow_tf32;
  device.autotune = arguments.autotune;
  return device;
}

}  // namespace sectionflow
