#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/program.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "examples/models/command_line.h"
#include "sources/convert.h"
#include "sources/lmdb.h"
#include "tools/command.h"
#include "tools/labelled_source.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ConvertArguments {
  std::string from, to, json;
  std::string shard_size = "100MiB", tensor;
  bool gzip = false, decode = false;
};

/// What has been written.
struct Converted {
  std::vector<fs::path> written;
  std::int64_t examples = 0;
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

Converted write_tfrecords(const ConvertArguments& arguments, const std::vector<LabelledPart>& parts,
                          const fs::path& folder) {
  const TfrecordWriterOptions options{.shard_bytes = parse_bytes(arguments.shard_size),
                                      .compression = arguments.gzip ? Compression::gzip : Compression::none};
  Converted converted;
  for (const LabelledPart& part : parts) {
    for (const fs::path& file : write_image_tfrecords(folder, part.name, *part.source, options)) {
      converted.written.push_back(file);
    }
    converted.examples += part.source->size();
  }
  return converted;
}

/// A database a part: of a data set in one part in the folder itself.
Converted write_databases(const std::vector<LabelledPart>& parts, const fs::path& folder) {
  Converted converted;
  if (parts.size() > 1) {
    std::error_code error;
    // Looked at before anything is written: no part is left behind where another cannot be.
    for (const LabelledPart& part : parts) {
      const fs::path path = folder / part.name;
      SF_CHECK(fs::symlink_status(path, error).type() == fs::file_type::not_found, DataError, "convert: '",
               path.string(), "' is there already, or cannot be looked at",
               hint("choose another folder, or remove it; nothing has been written"));
    }
    fs::create_directories(folder, error);
    SF_CHECK(!error, DataError, "convert: the folder '", folder.string(), "' cannot be made (", error.message(), ")",
             hint("is a part of the path a file, or not writable?"));
  }
  for (const LabelledPart& part : parts) {
    const fs::path path = parts.size() > 1 ? folder / part.name : folder;
    converted.examples += write_lmdb(path, *part.source);
    converted.written.push_back(path);
  }
  return converted;
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

Converted convert(const ConvertArguments& arguments) {
  const DataArgument from = data_argument(arguments.from, kinds_to_read(), "FROM");
  const DataArgument to = data_argument(arguments.to, kinds_to_write(), "TO");
  SF_CHECK(!to.path.empty(), ArgumentError, "TO: ", to.kind, " is written to a file or folder; got none",
           hint("write ", to.kind, ":PATH"));
  const bool is_tensor = from.kind == "npy" || from.kind == "safetensors";
  const bool becomes_tensor = to.kind == "npy" || to.kind == "safetensors";
  SF_CHECK(is_tensor == becomes_tensor && from.kind != to.kind, ArgumentError, from.kind, " cannot become ", to.kind,
           hint("mnist, cifar10, cifar100 and images become tfrecord or lmdb; npy and safetensors each other"));
  SF_CHECK(arguments.tensor.empty() || is_tensor, ArgumentError, "--tensor is for npy and safetensors");
  SF_CHECK(!arguments.gzip || to.kind == "tfrecord", ArgumentError, "--gzip is for tfrecord");
  SF_CHECK(!arguments.decode || from.kind == "images", ArgumentError, "--decode is for images");
  if (from.kind == "npy") return npy_to_safetensors(arguments, from.path, to.path);
  if (from.kind == "safetensors") return safetensors_to_npy(arguments, from.path, to.path);
  // Files stay as they are unless pictures are wanted, so that nothing is lost.
  const std::vector<LabelledPart> parts = labelled_parts(from, arguments.decode ? 3 : 0);
  return to.kind == "lmdb" ? write_databases(parts, to.path) : write_tfrecords(arguments, parts, to.path);
}

int run_convert(const ConvertArguments& arguments) {
  check_json(arguments.json);
  const Converted converted = convert(arguments);
  Json files = Json::array();
  for (const fs::path& path : converted.written) {
    files.push_back(path.string());
    if (!is_standard_output(arguments.json)) std::cout << path.string() << "\n";
  }
  Json json = {{"written", files}};
  if (converted.examples > 0) json["examples"] = converted.examples;
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
  app->add_option("to", arguments->to, "KIND:PATH of what is to be; kinds: " + joined(kinds_to_write()))->required();
  app->add_option("--shard-size", arguments->shard_size, "of tfrecord: bytes of records in a file")
      ->check(size_argument())
      ->capture_default_str();
  app->add_flag("--gzip", arguments->gzip, "of tfrecord: compressed");
  app->add_flag("--decode", arguments->decode, "of images: pictures instead of the JPEG and PNG files as they are");
  app->add_option("--tensor", arguments->tensor, "of npy and safetensors: the tensor's name");
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_convert(*arguments); }; });
}

}  // namespace sectionflow
