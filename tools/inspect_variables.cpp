// What is saved of a training: tensors, checkpoints, and the speeds of a machine.

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/text_table.h"
#include "data/safetensors.h"
#include "swap/profile.h"
#include "tools/command.h"
#include "tools/inspection.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoints.h"

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

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += (text.empty() ? "" : "  ") + printable(name) + " " + decimal_text(value, 4);
  }
  return text;
}

/// The best checkpoints by each metric, of which nobody here knows whether it is to rise or to fall.
void add_best(const std::vector<CheckpointInfo>& checkpoints, Inspection& inspection) {
  std::map<std::string, std::pair<const CheckpointInfo*, const CheckpointInfo*>> best;
  for (const CheckpointInfo& each : checkpoints) {
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
    inspection.text += printable(name) + ": lowest " + decimal_text(lowest->metrics.at(name), 4) + " at step-" +
                       std::to_string(lowest->step) + ", highest " + decimal_text(highest->metrics.at(name), 4) +
                       " at step-" + std::to_string(highest->step) + "\n";
    json[name] = {{"lowest_step", lowest->step}, {"highest_step", highest->step}};
  }
  inspection.json["best"] = json;
}

/// What a checkpoint holds, as its manifest tells.
void add_latest(const CheckpointInfo& latest, const std::filesystem::path& path, Inspection& inspection) {
  const CheckpointManifest manifest = read_checkpoint_manifest(path);
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
}

/// What is wrong with the tensors of a checkpoint whose manifest is sound; empty: nothing.
std::string problem_of_tensors(const CheckpointInfo& checkpoint) {
  try {
    (void)read_checkpoint(checkpoint.path);
    return {};
  } catch (const DataError& error) {
    return error.message();
  }
}

}  // namespace

Inspection inspect_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file = read_safetensors(path);
  Inspection inspection;
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
  inspection.json = {{"step", manifest.step},
                     {"completed_cycles", manifest.completed_cycles},
                     {"seed", manifest.seed},
                     {"metrics", manifest.metrics},
                     {"strategy", manifest.strategy},
                     {"device", manifest.device},
                     {"optimizers", manifest.optimizers},
                     {"data_position", manifest.data_position}};
  add_tensors(content.file.tensors, inspection);
  text += "every hash is right\n";
  return inspection;
}

Inspection inspect_checkpoint_folder(const std::filesystem::path& path) {
  Inspection inspection;
  TextTable table({"checkpoint", "bytes", "metrics", "problem"});
  Json rows = Json::array();
  std::vector<CheckpointInfo> checkpoints = Checkpoints(path.string()).list();
  std::vector<std::string> damaged;
  for (CheckpointInfo& each : checkpoints) {
    if (each.problem.empty()) each.problem = problem_of_tensors(each);
    if (!each.problem.empty()) damaged.push_back("step-" + std::to_string(each.step));
    table.add_row({"step-" + std::to_string(each.step), each.problem.empty() ? bytes_text(each.num_bytes) : "",
                   metrics_text(each.metrics), each.problem});
    rows.push_back({{"step", each.step}, {"path", each.path}, {"bytes", each.num_bytes}, {"metrics", each.metrics}});
    if (!each.problem.empty()) rows.back()["problem"] = each.problem;
  }
  if (!checkpoints.empty()) inspection.text += table.text();
  std::string problem;
  const std::optional<std::int64_t> latest = CheckpointFolder(path).latest(problem);
  inspection.text += counted(checkpoints.size(), "checkpoint");
  const auto last = std::find_if(checkpoints.begin(), checkpoints.end(),
                                 [&](const CheckpointInfo& each) { return latest && each.step == *latest; });
  const bool is_sound = last != checkpoints.end() && last->problem.empty();
  if (latest && last == checkpoints.end()) damaged.push_back("step-" + std::to_string(*latest));
  if (latest) inspection.text += ", the latest is step-" + std::to_string(*latest);
  if (latest && !is_sound) inspection.text += last == checkpoints.end() ? ", which is not there" : ", which is damaged";
  inspection.text += problem.empty() ? "\n" : "\nlatest: " + problem + "\n";
  add_best(checkpoints, inspection);
  if (is_sound) add_latest(*last, last->path, inspection);
  const std::size_t num_event_files = event_files_in(path).size();
  if (num_event_files > 0) {
    inspection.text += "beside them " + counted(num_event_files, "event file") + ", which --kind event_files shows\n";
    inspection.json["num_event_files"] = num_event_files;
  }
  inspection.json["checkpoints"] = rows;
  if (latest) inspection.json["latest"] = *latest;
  if (!problem.empty()) inspection.json["problem"] = problem;
  if (!problem.empty()) damaged.push_back("latest");
  inspection.json["damaged"] = damaged;
  if (!damaged.empty()) inspection.problem = "damaged or missing: " + joined(damaged);
  if (damaged.empty() && !checkpoints.empty()) inspection.text += "every hash is right\n";
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
                     decimal_text(profile.launch_seconds * 1e6, 2) + " us\n" +
                     counted(profile.kernel_seconds.size(), "kernel") + "\n";
  inspection.json["flops"] = profile.flops;
  inspection.json["launch_seconds"] = profile.launch_seconds;
  inspection.json["kernels"] = profile.kernel_seconds.size();
  return inspection;
}

}  // namespace sectionflow
