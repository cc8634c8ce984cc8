// Times single operations, and tells what share of the machine's peaks they reach. docs/performance.md shows how.

#include <iostream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "bench/ops/op_report.h"
#include "bench/program.h"
#include "examples/models/command_line.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::bench;

struct Arguments {
  std::vector<std::string> ops;
  bool all = false, list = false;
  std::string dtype = "f32", copy_size = "256MiB";
  CaseWords words;
  std::int64_t matrix_side = 0;
  int repeats = 15, threads = 0;
  DeviceArguments device;
  std::string json;
};

/// The operations that are named, or all that have what is asked of them.
std::vector<CaseRequest> requests_of(const Arguments& arguments) {
  CaseWords words = arguments.words;
  words.dtype = benched_dtype(arguments.dtype);
  std::vector<CaseRequest> requests;
  for (const std::string& op : arguments.ops) requests.push_back(case_request(op, words));
  if (!arguments.all) return requests;
  SF_CHECK(words.shape.empty() && words.settings.empty(), ArgumentError,
           "--all times every operation with its own shape and settings",
           hint("name the operations by --op to give a shape or settings"));
  for (const BenchedOp& op : benched_ops()) {
    if (words.dtype != Dtype::f32 && !op.takes_bf16) continue;
    CaseWords own = words;
    own.gradient = words.gradient && op.has_gradient;
    requests.push_back(case_request(op.name, own));
  }
  return requests;
}

MeasureOptions measure_options(const Arguments& arguments) {
  const DeviceSpec device = device_of(arguments.device);
  // Large enough that starting and ending a product do not matter; a GPU's takes no longer than a CPU's.
  const std::int64_t usual_side = device.kind == DeviceKind::cuda ? 8192 : 1536;
  MeasureOptions options{.session = {.device = device, .threads = arguments.threads},
                         .peaks = {.copy_bytes = parse_bytes(arguments.copy_size),
                                   .matrix_side = arguments.matrix_side > 0 ? arguments.matrix_side : usual_side},
                         .repeats = arguments.repeats};
  SF_CHECK(options.peaks.copy_bytes >= sizeof(float), ArgumentError, "--copy-size ", arguments.copy_size,
           "; wanted at least 4B");
  return options;
}

int run(const Arguments& arguments) {
  if (arguments.list) {
    std::cout << list_text();
    return 0;
  }
  SF_CHECK(arguments.all == arguments.ops.empty(), ArgumentError,
           arguments.all ? "--op and --all exclude each other" : "nothing to time",
           hint("take --op NAME or --all; --list shows the names"));
  const MeasureOptions options = measure_options(arguments);
  std::vector<CaseResult> results;
  for (const CaseRequest& request : requests_of(arguments)) {
    if (arguments.all) std::cerr << request.op->name << "\n";
    results.push_back(measure_case(request, options));
  }
  std::cout << report_text(results, options);
  if (!arguments.json.empty()) write_whole_file(arguments.json, report_json(results, options), "--json");
  return 0;
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--op", arguments.ops, "operations, separated by commas; --list shows them")->delimiter(',');
  app.add_flag("--all", arguments.all, "every operation with its own shape and settings");
  app.add_flag("--list", arguments.list, "show the operations with their shapes and settings, and time nothing");
  app.add_option("--shape", arguments.words.shape, "of the first operand, as in 32x56x56x64; others follow from it");
  app.add_option("--dtype", arguments.dtype, "f32 or bf16")->capture_default_str();
  app.add_flag("--gradient", arguments.words.gradient, "time the gradient operations, too");
  for (const SettingKind& kind : setting_kinds()) {
    app.add_option_function<std::string>(
        std::string("--") + kind.name,
        [&arguments, kind](const std::string& text) { arguments.words.settings[kind.name] = text; }, kind.help);
  }
  add_device_arguments(app, arguments.device);
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--repeats", arguments.repeats, "timed rounds")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--copy-size", arguments.copy_size, "bytes that are copied to measure the bandwidth of memory")
      ->check(size_argument())
      ->capture_default_str();
  app.add_option("--matrix-side", arguments.matrix_side,
                 "of the matrices that are multiplied to measure arithmetic; 1536 on a CPU, 8192 on a GPU if absent")
      ->check(CLI::Range(1, 65536));
  app.add_option("--json", arguments.json, "write the results to this file too");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times single operations, and tells what share of the machine's peaks they reach.");
  Arguments arguments;
  add_options(app, arguments);
  return sectionflow::run_program(app, argc, argv, [&] { return run(arguments); });
}
