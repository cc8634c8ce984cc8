// What is saved of a training: tensors, checkpoints, and the speeds of a machine.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/text_table.h"
#include "data/safetensors.h"
#include "graph/nodes/quantize.h"
#include "graph/op_def.h"
#include "swap/profile.h"
#include "tools/command.h"
#include "tools/inspection.h"
#include "tools/resumed_training.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoints.h"
#include "transform/graph_copy.h"
#include "transform/inference_graph.h"

namespace sectionflow {
namespace {

/// A table of all tensors, and what they take together.
void add_tensors(const std::vector<NamedTensor>& tensors, Inspection& inspection) {
  TextTable table({"tensor", "type", "bytes"});
  Json rows = Json::array();
  std::size_t bytes = 0;
  for (const NamedTensor& each : tensors) {
    table.add_row({printable(each.name), each.tensor.type().text(), bytes_text(each.tensor.num_bytes())});
    rows.push_back({{"name", each.name},
                    {"dtype", dtype_name(each.tensor.dtype())},
                    {"shape", each.tensor.shape().dims()},
                    {"bytes", each.tensor.num_bytes()}});
    bytes += each.tensor.num_bytes();
  }
  if (!tensors.empty()) inspection.text += table.text();
  inspection.text += counted(tensors.size(), "tensor") + ", " + bytes_text(bytes) + "\n";
  inspection.json["tensors"] = rows;
  inspection.json["tensor_bytes"] = bytes;
}

/// "0.1234", or of what that would not show "3.6e-05".
std::string metric_text(double value) {
  constexpr double kSmallest = 0.01, kLargest = 1e9;
  const double size = std::abs(value);
  if (value == 0 || (size >= kSmallest && size < kLargest) || !std::isfinite(value)) return decimal_text(value, 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += (text.empty() ? "" : "  ") + printable(name) + " " + metric_text(value);
  }
  return text;
}

/// The options of `sectionflow train` that a checkpoint is bound to, and its rate, where it has written it.
std::string noted_command(const std::string& position, Json& json) {
  std::map<std::string, std::string> options = noted_options(position);
  if (options.empty()) return {};
  const std::string rate = noted_rate(position);
  if (!rate.empty()) options["--learning-rate"] = rate;
  json["command"] = options;
  return "sectionflow train " + printable(command_text(options));
}

/// What the session has kept besides variables; empty: nothing.
std::string kept_text(const CheckpointManifest& manifest, Json& json) {
  std::vector<std::string> names;
  for (const auto& [name, text] : manifest.kept) names.push_back(name);
  if (manifest.profile) names.emplace_back("profile");
  json["kept"] = names;
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text;
}

/// What a checkpoint holds, as its manifest tells.
void add_latest(const CheckpointInfo& latest, const CheckpointManifest& manifest, Inspection& inspection) {
  std::string updates;
  for (const std::string& optimizer : latest.optimizers)
    updates += (updates.empty() ? "" : ", ") + printable(optimizer);
  std::string& text = inspection.text;
  text += "step-" + std::to_string(latest.step) + " holds " + counted(manifest.hashes.size(), "tensor") + ", " +
          std::to_string(latest.completed_cycles) + " cycles, seed " + std::to_string(latest.seed);
  if (!updates.empty()) text += ", updates by " + updates;
  if (!latest.strategy.empty()) text += ", trained by " + printable(latest.strategy);
  text += std::string(", ") + (latest.data_position.empty() ? "no" : "a") + " position of the data\n";
  inspection.json["latest_holds"] = {{"tensors", manifest.hashes.size()},
                                     {"completed_cycles", latest.completed_cycles},
                                     {"seed", latest.seed},
                                     {"optimizers", latest.optimizers},
                                     {"strategy", latest.strategy},
                                     {"has_data_position", !latest.data_position.empty()}};
  const std::string kept = kept_text(manifest, inspection.json["latest_holds"]);
  if (!kept.empty()) text += "kept besides: " + kept + "\n";
  const std::string command = noted_command(latest.data_position, inspection.json["latest_holds"]);
  if (!command.empty()) text += "trained as by: " + command + "\n";
}

/// A checkpoint of a folder, all of it read.
struct CheckedCheckpoint {
  CheckpointInfo info;
  CheckpointManifest manifest;
};

/// Reads the tensors of those whose manifests are sound, and says what is wrong with them. Those that another process,
/// which trains now, has removed meanwhile are left out.
std::vector<CheckedCheckpoint> checked(const CheckpointFolder& folder, std::vector<CheckpointInfo> infos) {
  std::vector<CheckedCheckpoint> checkpoints;
  for (CheckpointInfo& info : infos) {
    CheckedCheckpoint checkpoint{std::move(info), {}};
    if (checkpoint.info.problem.empty()) {
      try {
        auto content = folder.read_while_there(checkpoint.info.step, read_checkpoint);
        if (!content) continue;
        checkpoint.manifest = std::move(content->manifest);
      } catch (const DataError& error) {
        checkpoint.info.problem = error.message();
      }
    }
    checkpoints.push_back(std::move(checkpoint));
  }
  return checkpoints;
}

/// The best checkpoints by each metric, of which nobody here knows whether it is to rise or to fall.
void add_best(const std::vector<CheckedCheckpoint>& checkpoints, Inspection& inspection) {
  std::map<std::string, std::pair<const CheckpointInfo*, const CheckpointInfo*>> best;
  for (const auto& [each, manifest] : checkpoints) {
    if (!each.problem.empty()) continue;
    for (const auto& [name, value] : each.metrics) {
      if (std::isnan(value)) continue;  // neither above nor below another
      auto& [lowest, highest] = best.try_emplace(name, &each, &each).first->second;
      if (value < lowest->metrics.at(name)) lowest = &each;
      if (value > highest->metrics.at(name)) highest = &each;
    }
  }
  Json json = Json::object();
  for (const auto& [name, ends] : best) {
    const auto& [lowest, highest] = ends;
    inspection.text += printable(name) + ": lowest " + metric_text(lowest->metrics.at(name)) + " at step-" +
                       std::to_string(lowest->step) + ", highest " + metric_text(highest->metrics.at(name)) +
                       " at step-" + std::to_string(highest->step) + "\n";
    json[name] = {{"lowest_step", lowest->step}, {"highest_step", highest->step}};
  }
  inspection.json["best"] = json;
}

/// A folder of checkpoints at one moment.
struct FolderContent {
  std::vector<CheckedCheckpoint> checkpoints;
  std::optional<std::int64_t> latest;
  std::string problem{};  ///< of `latest`

  const CheckedCheckpoint* of(std::int64_t step) const {
    const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                    [&](const CheckedCheckpoint& each) { return each.info.step == step; });
    return found == checkpoints.end() ? nullptr : &*found;
  }
};

/// Looks again where `latest` names another than before: a training writes to the folder.
FolderContent content_of(const std::filesystem::path& path) {
  constexpr int kMostLooks = 20;
  const CheckpointFolder folder(path);
  for (int look = 1;; ++look) {
    FolderContent content;
    content.latest = folder.latest(content.problem);
    content.checkpoints = checked(folder, Checkpoints(path.string()).list());
    std::string ignored;
    const bool is_there = !content.latest || content.of(*content.latest) != nullptr;
    if (is_there || folder.latest(ignored) == content.latest) return content;
    if (look < kMostLooks) continue;
    content.latest.reset();  // which it is changes faster than the folder is read
    return content;
  }
}

}  // namespace

namespace {

/// What is fed to the graph of an inference file, what it gives, and how it computes.
void add_inference(const std::filesystem::path& path, Inspection& inspection) {
  const InferenceGraph model = load_inference_graph(path.string());
  Json fed = Json::array(), given = Json::array();
  const auto add = [&](Json& values, const char* what, const Value& value) {
    inspection.text += what + printable(value.name()) + " " + value.type().text() + "\n";
    values.push_back({{"name", value.name()}, {"type", value.type().text()}});
  };
  int num_integers = 0;
  for (NodeId id = 0; id < model.graph->num_nodes(); ++id) {
    Node& node = model.graph->node(id);
    if (node.op().is_placeholder()) add(fed, "is fed ", node.output());
    const bool reads_integers = !node.inputs().empty() && is_quantized(node.inputs()[0].dtype());
    num_integers += reads_integers && !is_op(node, "dequantize") ? 1 : 0;
  }
  for (const Value& output : model.outputs) add(given, "gives ", output);
  inspection.text += "graph for inference of " + std::to_string(model.graph->num_nodes()) + " operations, " +
                     std::to_string(num_integers) + " of them on integers of 8 bits; ranges of " +
                     std::to_string(model.ranges.size()) + " tensors\n";
  inspection.json["inference"] = {{"fed", fed},
                                  {"gives", given},
                                  {"operations", model.graph->num_nodes()},
                                  {"eight_bits", num_integers},
                                  {"ranges", model.ranges.size()}};
}

}  // namespace

Inspection inspect_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file = read_safetensors(path);
  Inspection inspection;
  if (file.metadata.contains(std::string(kInferenceGraphKey))) {
    // Tensors whose hashes are right are shown whatever the graph is: of a later version, or of operations that the
    // program which wrote it has from outside.
    try {
      add_inference(path, inspection);
    } catch (const DataError& error) {
      inspection.problem = text_of("its graph cannot be read: ", error.message());
    }
  }
  add_tensors(file.tensors, inspection);
  // Profiles and algorithms stand there as JSON of any length.
  constexpr std::size_t kLongestShown = 60;
  for (const auto& [key, value] : file.metadata) {
    const bool is_long = value.size() > kLongestShown;
    inspection.text += "metadata " + printable(key) + ": " +
                       (is_long ? bytes_text(value.size()) + " of text" : printable(value)) + "\n";
  }
  inspection.json["metadata"] = file.metadata;
  return inspection;
}

Inspection inspect_checkpoint(const std::filesystem::path& path) {
  const CheckpointContent content = read_checkpoint(path);
  const CheckpointManifest& manifest = content.manifest;
  Inspection inspection;
  std::string& text = inspection.text;
  text += "step " + std::to_string(manifest.step) + ", " + std::to_string(manifest.completed_cycles) +
          " cycles, seed " + std::to_string(manifest.seed) + "\n";
  if (!manifest.metrics.empty()) text += "metrics: " + metrics_text(manifest.metrics) + "\n";
  if (!manifest.strategy.empty()) text += "trained by " + printable(manifest.strategy) + "\n";
  if (!manifest.device.empty()) text += "on " + printable(manifest.device) + "\n";
  for (const std::string& optimizer : manifest.optimizers) text += "updates: " + printable(optimizer) + "\n";
  text += "position of the data: " + std::string(manifest.data_position.empty() ? "none" : "known") + "\n";
  Json command = Json::object();
  const std::string command_line = noted_command(manifest.data_position, command);
  if (!command_line.empty()) text += "trained as by: " + command_line + "\n";
  inspection.json = {{"step", manifest.step},
                     {"completed_cycles", manifest.completed_cycles},
                     {"seed", manifest.seed},
                     {"metrics", manifest.metrics},
                     {"strategy", manifest.strategy},
                     {"device", manifest.device},
                     {"optimizers", manifest.optimizers},
                     {"data_position", manifest.data_position}};
  inspection.json.update(command);
  const std::string kept = kept_text(manifest, inspection.json);
  if (!kept.empty()) text += "kept besides: " + kept + "\n";
  add_tensors(content.file.tensors, inspection);
  text += "every hash is right\n";
  return inspection;
}

Inspection inspect_checkpoint_folder(const std::filesystem::path& path) {
  Inspection inspection;
  TextTable table({"checkpoint", "bytes", "metrics", "problem"});
  Json rows = Json::array();
  const FolderContent content = content_of(path);
  std::vector<std::string> damaged;
  for (const auto& [info, manifest] : content.checkpoints) {
    const std::string name = "step-" + std::to_string(info.step);
    if (!info.problem.empty()) damaged.push_back(name);
    table.add_row(
        {name, info.problem.empty() ? bytes_text(info.num_bytes) : "", metrics_text(info.metrics), info.problem});
    rows.push_back({{"step", info.step}, {"path", info.path}, {"bytes", info.num_bytes}, {"metrics", info.metrics}});
    if (!info.problem.empty()) rows.back()["problem"] = info.problem;
  }
  if (!content.checkpoints.empty()) inspection.text += table.text();
  inspection.text += counted(content.checkpoints.size(), "checkpoint");
  const CheckedCheckpoint* const last = content.latest ? content.of(*content.latest) : nullptr;
  const bool is_sound = last != nullptr && last->info.problem.empty();
  if (content.latest) {
    const std::string name = "step-" + std::to_string(*content.latest);
    if (last == nullptr) damaged.push_back(name);
    inspection.text += ", the latest is " + name;
    if (!is_sound) inspection.text += last == nullptr ? ", which is not there" : ", which is damaged";
    inspection.json["latest"] = *content.latest;
  }
  inspection.text += content.problem.empty() ? "\n" : "\nlatest: " + content.problem + "\n";
  add_best(content.checkpoints, inspection);
  if (is_sound) add_latest(last->info, last->manifest, inspection);
  const std::size_t num_event_files = event_files_in(path).size();
  if (num_event_files > 0) {
    inspection.text += "beside them " + counted(num_event_files, "event file") + ", which --kind event_files shows\n";
    inspection.json["num_event_files"] = num_event_files;
  }
  inspection.json["checkpoints"] = rows;
  if (!content.problem.empty()) inspection.json["problem"] = content.problem;
  if (!content.problem.empty()) damaged.push_back("latest");
  inspection.json["damaged"] = damaged;
  if (!damaged.empty()) inspection.problem = "damaged or missing: " + joined(damaged);
  if (damaged.empty() && !content.checkpoints.empty()) inspection.text += "every hash is right\n";
  return inspection;
}

Inspection inspect_profile(const std::filesystem::path& path) {
  const Profile profile = Profile::load(path.string());
  Inspection inspection;
  const std::pair<const char*, double> speeds[] = {{"memory_bandwidth", profile.memory_bandwidth},
                                                   {"link_out", profile.link_out},
                                                   {"link_in", profile.link_in},
                                                   {"disk_out", profile.disk_out},
                                                   {"disk_in", profile.disk_in}};
  for (const auto& [name, value] : speeds) {
    inspection.text += std::string(name) + " " + decimal_text(value / 1e9, 2) + " GB/s\n";
    inspection.json[name] = value;
  }
  inspection.text += "flops " + decimal_text(profile.flops / 1e9, 1) + " GFLOP/s\n" + "launch_seconds " +
                     decimal_text(profile.launch_seconds * 1e6, 2) + " us\n" + "copy_drag " +
                     decimal_text(profile.copy_drag * 1e12, 1) + " ps a byte\n" +
                     counted(profile.kernel_seconds.size(), "kernel") + "\n";
  inspection.json["flops"] = profile.flops;
  inspection.json["launch_seconds"] = profile.launch_seconds;
  inspection.json["copy_drag"] = profile.copy_drag;
  inspection.json["kernels"] = profile.kernel_seconds.size();
  return inspection;
}

}  // namespace sectionflow
