#include "bench/program.h"

#include <iostream>

#include "base/error.h"
#include "base/log.h"
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
