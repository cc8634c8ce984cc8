#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/program.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "examples/models/command_line.h"
#include "tools/command.h"
#include "tools/converted_parts.h"
#include "tools/labelled_source.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ConvertArguments {
  std::string from, to, json;
  std::string shard_size = "100MiB", tensor, validation, on_error = "fail";
  std::uint64_t seed = 0;
  bool gzip = false, decode = false, overwrite = false;
};

std::vector<std::string> kinds_to_read() {
  std::vector<std::string> kinds = labelled_kinds();
  kinds.insert(kinds.end(), {"npy", "safetensors"});
  return kinds;
}

const std::vector<std::string>& kinds_to_write() {
  static const std::vector<std::string> kinds = {"tfrecord", "lmdb", "npy", "safetensors"};
  return kinds;
}

Converted npy_to_safetensors(const ConvertArguments& arguments, const fs::path& from, const fs::path& to) {
  std::vector<NamedTensor> tensors;
  const std::string name = arguments.tensor.empty() ? from.stem().string() : arguments.tensor;
  tensors.push_back({name, read_npy(from)});
  write_safetensors(to, views_of(tensors));
  return {.written = {to}};
}

Converted safetensors_to_npy(const ConvertArguments& arguments, const fs::path& from, const fs::path& to) {
  const SafetensorsFile file = read_safetensors(from);
  std::vector<std::string> names;
  for (const NamedTensor& each : file.tensors) names.push_back(each.name);
  std::string name = arguments.tensor;
  if (name.empty()) {
    SF_CHECK(names.size() == 1, ArgumentError, "'", from.string(), "' has ", names.size(),
             " tensors, an npy file has one", hint("say which by --tensor NAME; 'sectionflow inspect' lists them"));
    name = names.front();
  }
  for (const NamedTensor& each : file.tensors) {
    if (each.name != name) continue;
    write_npy(to, each.tensor);
    return {.written = {to}};
  }
  throw ArgumentError(error_text_of("--tensor: '", from.string(), "' has no '", name, "'", did_you_mean(name, names)));
}

const std::vector<std::string>& policies() {
  static const std::vector<std::string> names = {"fail", "skip_record"};
  return names;
}

/// What was left out of all parts, and why the last was.
struct Skipped {
  std::int64_t count = 0;
  std::string last{};
};

Converted convert(const ConvertArguments& arguments, Skipped& skipped) {
  const DataArgument from = data_argument(arguments.from, kinds_to_read(), "FROM");
  const bool is_tensor = from.kind == "npy" || from.kind == "safetensors";
  SF_CHECK(!arguments.to.empty(), ArgumentError, "TO is missing: what is ", arguments.from, " to become?",
           hint(is_tensor ? "add npy:FILE or safetensors:FILE" : "add tfrecord:FOLDER or lmdb:FOLDER"));
  const DataArgument to = data_argument(arguments.to, kinds_to_write(), "TO");
  SF_CHECK(!to.path.empty(), ArgumentError, "TO: ", to.kind, " is written to a file or folder; got none",
           hint("write ", to.kind, ":PATH"));
  std::vector<NamedPath> written = places_of_data("TO", to);
  written.push_back({"--json", arguments.json});
  check_apart(places_of_data("FROM", from), written);
  const bool becomes_tensor = to.kind == "npy" || to.kind == "safetensors";
  SF_CHECK(is_tensor == becomes_tensor && from.kind != to.kind, ArgumentError, from.kind, " cannot become ", to.kind,
           hint("mnist, cifar10, cifar100 and images become tfrecord or lmdb; npy and safetensors each other"));
  SF_CHECK(arguments.tensor.empty() || is_tensor, ArgumentError, "--tensor is for npy and safetensors");
  SF_CHECK(arguments.validation.empty() || !is_tensor, ArgumentError, "--validation is for pictures with classes");
  check_known(arguments.on_error, policies(), "--on-error: '" + arguments.on_error + "' is no policy");
  const bool skips = arguments.on_error != "fail";
  SF_CHECK(!skips || !is_tensor, ArgumentError, "--on-error is for pictures with classes");
  SF_CHECK(!arguments.gzip || to.kind == "tfrecord", ArgumentError, "--gzip is for tfrecord");
  SF_CHECK(!arguments.decode || from.kind == "images", ArgumentError, "--decode is for images");
  if (is_tensor) check_free(to.path, arguments.overwrite);
  if (from.kind == "npy") return npy_to_safetensors(arguments, from.path, to.path);
  if (from.kind == "safetensors") return safetensors_to_npy(arguments, from.path, to.path);
  // Files stay as they are unless pictures are wanted, so that nothing is lost.
  std::vector<LabelledPart> parts = labelled_parts(from, arguments.decode ? 3 : 0);
  for (LabelledPart& part : parts) {
    if (!skips) break;
    ReadablePart readable = readable_part(part);
    part = std::move(readable.part);
    skipped.count += readable.skipped;
    if (readable.skipped > 0) skipped.last = std::move(readable.last_skipped);
  }
  if (!arguments.validation.empty()) {
    const bool has_own =
        std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.name == "validation"; });
    SF_CHECK(!has_own, ArgumentError, "--validation: the data have a part for it already",
             hint("leave --validation out"));
    std::vector<LabelledPart> split = split_part(parts.front(), share_named(arguments.validation), arguments.seed);
    // A part for tests stays beside them.
    split.insert(split.end(), std::next(parts.begin()), parts.end());
    parts = std::move(split);
  }
  if (to.kind == "lmdb") return write_database_parts(to.path, parts, arguments.overwrite);
  return write_record_parts(to.path, parts,
                            {.shard_bytes = parse_bytes(arguments.shard_size),
                             .compression = arguments.gzip ? Compression::gzip : Compression::none,
                             .overwrite = arguments.overwrite});
}

int run_convert(const ConvertArguments& arguments) {
  check_json(arguments.json);
  Skipped skipped;
  const Converted converted = convert(arguments, skipped);
  Json files = Json::array();
  for (const fs::path& path : converted.written) {
    files.push_back(path.string());
    if (!is_standard_output(arguments.json)) std::cout << path.string() << "\n";
  }
  Json json = {{"written", files}};
  if (converted.examples > 0) json["examples"] = converted.examples;
  if (skipped.count > 0) {
    json["skipped"] = {{"records", skipped.count}, {"last", skipped.last}};
    if (!is_standard_output(arguments.json)) {
      std::cout << "left out " << skipped.count << (skipped.count == 1 ? " damaged record" : " damaged records")
                << "; the last: " << skipped.last.substr(0, skipped.last.find('\n')) << "\n";
    }
  }
  if (converted.examples > 0 && !is_standard_output(arguments.json)) std::cout << converted.examples << " examples\n";
  write_json(arguments.json, json.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace

void add_convert_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand("convert", "Writes data as files of another format.");
  const auto arguments = std::make_shared<ConvertArguments>();
  app->add_option(
         "from", arguments->from,
         "KIND:PATH of what there is; kinds: " + joined(kinds_to_read()) + "; images: a folder with one folder a class")
      ->required();
  app->add_option("to", arguments->to, "KIND:PATH of what is to be; kinds: " + joined(kinds_to_write()));
  app->add_option("--shard-size", arguments->shard_size, "of tfrecord: bytes of records in a file")
      ->check(size_argument())
      ->capture_default_str();
  app->add_flag("--gzip", arguments->gzip, "of tfrecord: compressed");
  app->add_flag("--decode", arguments->decode, "of images: pictures instead of the JPEG and PNG files as they are");
  app->add_option("--validation", arguments->validation,
                  "a share, as in 10%, of the pictures to train on becomes a part of its own, validation");
  app->add_option("--seed", arguments->seed, "of --validation: which pictures they are")
      ->check(number_argument<std::uint64_t>(0))
      ->capture_default_str();
  app->add_option("--on-error", arguments->on_error,
                  "what becomes of a damaged picture: " + joined(policies()) + "; how many is told")
      ->capture_default_str();
  app->add_flag("--overwrite", arguments->overwrite, "replace what is there already");
  app->add_option("--tensor", arguments->tensor, "of npy and safetensors: the tensor's name");
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_convert(*arguments); }; });
}

}  // namespace sectionflow
