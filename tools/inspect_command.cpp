#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"
#include "bench/named_paths.h"
#include "bench/program.h"
#include "graph/graph_file.h"
#include "graph/op_def.h"
#include "tools/command.h"
#include "tools/inspection.h"
#include "train/summary.h"

namespace sectionflow {
namespace {

struct InspectArguments {
  std::string file, kind, json;
};

/// What of a path is looked at.
Extent extent_of(FileKind kind, const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return Extent::file;
  if (kind == FileKind::checkpoint_folder) return Extent::checkpoints;
  const bool is_flat = kind == FileKind::tfrecord_files || kind == FileKind::lmdb;
  return is_flat ? Extent::files : Extent::everything;
}

int run_inspect(const InspectArguments& arguments) {
  check_json(arguments.json);
  const FileKind kind = arguments.kind.empty() ? kind_of(arguments.file) : kind_named(arguments.kind);
  check_apart({{"FILE", arguments.file, extent_of(kind, arguments.file)}}, {{"--json", arguments.json}});
  Inspection inspection = inspect(kind, arguments.file);
  Json json = {{"file", arguments.file}, {"kind", kind_name(kind)}};
  json.update(inspection.json);
  if (!is_standard_output(arguments.json)) {
    const bool is_line = inspection.text.find('\n') + 1 >= inspection.text.size();
    std::cout << kind_name(kind) << (is_line ? ": " : "\n") << inspection.text << std::flush;
  }
  // Names in files need not be UTF-8.
  write_json(arguments.json, json.dump(2, ' ', false, Json::error_handler_t::replace));
  if (inspection.problem.empty()) return 0;
  std::cerr << "inspect: '" << arguments.file << "': " << inspection.problem << "\n";
  return 2;
}

}  // namespace

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string printable(const std::string& name) {
  std::string shown = valid_utf8(name);
  for (char& letter : shown) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  // U+0080 to U+009F steer some terminals, too.
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {
    const auto second = static_cast<unsigned char>(shown[i + 1]);
    if (shown[i] == '\xC2' && second >= 0x80 && second < 0xA0) shown.replace(i, 2, "?");
  }
  return shown;
}

void ClassCounts::add(std::int64_t label, const std::string& name) {
  ++counts_[label];
  if (!name.empty()) names_.emplace(label, name);
}

std::string ClassCounts::text() const {
  constexpr std::size_t kShownClasses = 20;
  if (counts_.empty()) return {};
  std::string text = counts_.size() == 1 ? "1 class:\n" : std::to_string(counts_.size()) + " classes:\n";
  std::size_t shown = 0;
  for (const auto& [label, count] : counts_) {
    if (++shown > kShownClasses) return text + "  ...\n";
    const auto name = names_.find(label);
    text += "  " + std::to_string(label) + (name == names_.end() ? "" : " " + printable(name->second)) + ": " +
            counted(static_cast<std::size_t>(count), what_) + "\n";
  }
  return text;
}

Json ClassCounts::json() const {
  Json classes = Json::array();
  for (const auto& [label, count] : counts_) {
    classes.push_back({{"label", label}, {what_ + "s", count}});
    const auto name = names_.find(label);
    if (name != names_.end()) classes.back()["name"] = name->second;
  }
  return classes;
}

Inspection inspect_graph(const std::filesystem::path& path) {
  Graph graph;
  load_graph(graph, path.string());
  GraphSummary made = summary(graph);
  for (SummaryRow& row : made.rows) {
    row.layer = printable(row.layer);
    row.section = printable(row.section);
  }
  Inspection inspection{.text = made.text()};
  Json placeholders = Json::array(), sections = Json::array();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!node.op().is_placeholder()) continue;
    inspection.text += "fed: " + printable(node.name()) + " " + node.output().type().text() + "\n";
    placeholders.push_back({{"name", node.name()}, {"type", node.output().type().text()}});
  }
  for (GroupId group = 0; group < graph.num_groups(); ++group) sections.push_back(graph.group_name(group));
  const std::size_t training = graph.operations(kTrainingOperations).size();
  inspection.text += counted(static_cast<std::size_t>(graph.num_nodes()), "operation") + ", " +
                     counted(sections.size(), "section") + ", " + counted(training, "training operation") + "\n";
  inspection.json = {{"operations", graph.num_nodes()}, {"training_operations", training},
                     {"parameters", made.parameters},   {"variable_bytes", made.variable_bytes},
                     {"placeholders", placeholders},    {"sections", sections}};
  return inspection;
}

Inspection inspect(FileKind kind, const std::filesystem::path& path) {
  switch (kind) {
    case FileKind::checkpoint:
      return inspect_checkpoint(path);
    case FileKind::checkpoint_folder:
      return inspect_checkpoint_folder(path);
    case FileKind::safetensors:
      return inspect_safetensors(path);
    case FileKind::graph:
      return inspect_graph(path);
    case FileKind::profile:
      return inspect_profile(path);
    case FileKind::plan:
      return inspect_plan(path);
    case FileKind::events:
      return inspect_events(path);
    case FileKind::tfrecord:
      return inspect_tfrecord(path);
    case FileKind::npy:
      return inspect_npy(path);
    case FileKind::idx:
      return inspect_idx(path);
    case FileKind::npz:
      return inspect_npz(path);
    case FileKind::hdf5:
      return inspect_hdf5(path);
    case FileKind::lmdb:
      return inspect_lmdb(path);
    case FileKind::lmdb_parts:
      return inspect_lmdb_parts(path);
    case FileKind::event_files:
      return inspect_event_files(path);
    case FileKind::tfrecord_files:
      return inspect_tfrecord_files(path);
    case FileKind::images:
      return inspect_images(path);
  }
  throw InternalError("inspect: a kind of file that nobody shows");
}

void add_inspect_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand(
      "inspect", "Tells by its content what kind a file is, checks all of it, and shows what it holds.");
  const auto arguments = std::make_shared<InspectArguments>();
  app->add_option(
         "file", arguments->file,
         "a file, or a folder: of checkpoints, of one of them, of event files, of records, of an LMDB database, of "
         "those of a data set's parts, or of pictures by class")
      ->required()
      ->check(not_empty());
  const std::vector<std::string> kinds = kind_names();
  app->add_option("--kind", arguments->kind,
                  "what it is meant to be, where the content is not to decide: " + joined(kinds))
      ->check(not_empty());
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_inspect(*arguments); }; });
}

}  // namespace sectionflow
