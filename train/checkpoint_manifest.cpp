#include "train/checkpoint_manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "data/safetensors_header.h"

namespace sectionflow {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int kMostDepth = 8;
constexpr std::size_t kHashDigits = 16;

// The end of a manifest: what stands before it has the hash.
constexpr std::string_view kBeforeHash = ",\n \"xxh3\": \"";
constexpr std::string_view kBehindHash = "\"\n}\n";

const std::vector<std::string>& members() {
  static const std::vector<std::string> names = {
      "format",   "version", "step",  "sequence", "completed_cycles", "seed", "data_position", "metrics", "optimizers",
      "strategy", "device",  "tiers", "profile",  "algorithms",       "kept", "file",          "xxh3"};
  return names;
}

// JSON has no NaN and no infinity.
ordered_json json_of(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "infinity" : "-infinity";
}

ordered_json json_of(const TierFigures& tier) {
  return {{"budget_bytes", tier.budget_bytes}, {"planned_peak_bytes", tier.planned_peak_bytes}};
}

/// Reads what somebody else wrote; what is asked of it is there, or it throws.
class ManifestReader {
 public:
  ManifestReader(const json& value, std::string path, const std::string& where)
      : value_(value), path_(std::move(path)), where_(where) {}

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw DataError(error_text_of(where_, path_, " is ", value_.type_name(), "; wanted ", wanted,
                                  hint("take another checkpoint of the folder")),
                    ErrorCode::checkpoint_damaged);
  }
  bool has(const char* name) const {
    if (!value_.is_object()) refuse("an object");
    return value_.contains(name);
  }
  ManifestReader member(const char* name) const {
    if (!has(name)) refuse(text_of("one with '", name, "'"));
    return {*value_.find(name), path_ + "." + name, where_};
  }
  std::uint64_t count() const {
    if (!value_.is_number_unsigned()) refuse("a whole number of 0 or more");
    return value_.get<std::uint64_t>();
  }
  std::int64_t step() const {
    const std::uint64_t number = count();
    if (!std::in_range<std::int64_t>(number)) refuse("a number of 63 bits");
    return static_cast<std::int64_t>(number);
  }
  const std::string& text() const {
    if (!value_.is_string()) refuse("a text");
    return value_.get_ref<const std::string&>();
  }
  double number() const {
    if (value_.is_number()) return value_.get<double>();
    const std::string& name = text();
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (name == "infinity") return std::numeric_limits<double>::infinity();
    if (name == "-infinity") return -std::numeric_limits<double>::infinity();
    refuse("a number");
  }
  /// Calls `take(name, reader)` for each member of an object, or `take(number, reader)` for each element of an array.
  template <class Take>
  void each_member(const Take& take) const {
    if (!value_.is_object()) refuse("an object");
    for (const auto& [name, value] : value_.items())
      take(name, ManifestReader(value, path_ + "." + shown_name(name), where_));
  }
  template <class Take>
  void each_element(const Take& take) const {
    if (!value_.is_array()) refuse("an array");
    for (const json& value : value_) take(ManifestReader(value, path_ + "[]", where_));
  }

 private:
  const json& value_;
  std::string path_;
  const std::string& where_;
};

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw DataError(error_text_of(where, why, hint("take another checkpoint of the folder")),
                  ErrorCode::checkpoint_damaged);
}

/// The JSON of a text, without depth and without keys that are there twice, of which the library would keep the last.
json checked_json(const std::string& text, const std::string& where) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMostDepth) refuse(where, text_of("is nested deeper than ", kMostDepth, " levels"));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      refuse(where, "has a member twice");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception&) {
    refuse(where, "is no JSON");
  }
}

TierFigures tier_of(const ManifestReader& tiers, const char* name) {
  const ManifestReader tier = tiers.member(name);
  return {tier.member("budget_bytes").count(), tier.member("planned_peak_bytes").count()};
}

/// A name without any way out of the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

void read_file_member(const ManifestReader& file, CheckpointManifest& manifest, const std::string& where) {
  manifest.file = file.member("name").text();
  if (!is_plain_name(manifest.file))
    refuse(where, text_of("names the file ", shown_name(manifest.file), "; wanted a name in its own folder"));
  manifest.file_bytes = file.member("bytes").count();
  file.member("tensors").each_member([&](const std::string& name, const ManifestReader& hash) {
    if (hash.text().size() != kHashDigits) hash.refuse(text_of(kHashDigits, " digits"));
    manifest.hashes[name] = hash.text();
  });
}

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) {
  ordered_json metrics = ordered_json::object(), hashes = ordered_json::object();
  for (const auto& [name, value] : manifest.metrics) metrics[name] = json_of(value);
  for (const auto& [name, hash] : manifest.hashes) hashes[name] = hash;
  ordered_json content = {{"format", kManifestFormat},
                          {"version", kVersion},
                          {"step", static_cast<std::uint64_t>(manifest.step)},
                          {"sequence", manifest.sequence},
                          {"completed_cycles", manifest.completed_cycles},
                          {"seed", manifest.seed},
                          {"data_position", manifest.data_position},
                          {"metrics", std::move(metrics)},
                          {"optimizers", manifest.optimizers},
                          {"strategy", manifest.strategy},
                          {"device", manifest.device},
                          {"tiers",
                           {{"device_memory", json_of(manifest.device_memory)},
                            {"host_memory", json_of(manifest.host_memory)},
                            {"disk", json_of(manifest.disk)}}}};
  if (manifest.profile) content["profile"] = manifest.profile->json();
  if (!manifest.algorithms.algorithms.empty()) content["algorithms"] = manifest.algorithms.json();
  if (!manifest.kept.empty()) content["kept"] = manifest.kept;
  content["file"] = {{"name", manifest.file}, {"bytes", manifest.file_bytes}, {"tensors", std::move(hashes)}};
  std::string text;
  try {
    text = content.dump(1);
  } catch (const json::type_error&) {
    throw ArgumentError(
        error_text_of("Checkpoints::save: a name or text of the checkpoint is not UTF-8",
                      hint("variables' names, data positions, metrics and the strategy are texts in UTF-8")));
  }
  text.resize(text.size() - 2);  // the line end and the brace
  const std::string hash = text_hash(text);
  text += kBeforeHash;
  text += hash;
  text += kBehindHash;
  SF_CHECK(text.size() <= kMostManifestBytes, ArgumentError, "Checkpoints::save: the manifest takes ", text.size(),
           " bytes; a checkpoint may have ", kMostManifestBytes,
           hint("save a shorter data position: give shuffles a smaller buffer_bytes"));
  return text;
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& where) {
  const std::size_t end_bytes = kBeforeHash.size() + kHashDigits + kBehindHash.size();
  if (text.size() < end_bytes) refuse(where, "is too short for a manifest");
  const std::string_view all = text, body = all.substr(0, all.size() - end_bytes), end = all.substr(body.size());
  const bool has_end = end.starts_with(kBeforeHash) && end.ends_with(kBehindHash);
  if (!has_end || end.substr(kBeforeHash.size(), kHashDigits) != text_hash(body))
    refuse(where, "is damaged: it does not have the hash that was saved with it");
  const json content = checked_json(text, where);
  const ManifestReader top(content, "the manifest", where);
  if (top.member("format").text() != kManifestFormat) refuse(where, "is no manifest of a checkpoint");
  const std::uint64_t version = top.member("version").count();
  if (version != kVersion) {
    refuse(where, text_of("has version ", version, "; this SectionFlow reads version ", kVersion,
                          version > kVersion ? "; try a newer one" : ""));
  }
  top.each_member([&](const std::string& name, const ManifestReader&) {
    if (std::find(members().begin(), members().end(), name) == members().end())
      refuse(where, text_of("has the unknown member ", shown_name(name)));
  });
  CheckpointManifest manifest;
  manifest.step = top.member("step").step();
  manifest.sequence = static_cast<std::uint64_t>(top.member("sequence").step());
  manifest.completed_cycles = top.member("completed_cycles").count();
  manifest.seed = top.member("seed").count();
  manifest.data_position = top.member("data_position").text();
  top.member("metrics").each_member(
      [&](const std::string& name, const ManifestReader& value) { manifest.metrics[name] = value.number(); });
  top.member("optimizers").each_element([&](const ManifestReader& name) {
    manifest.optimizers.push_back(name.text());
  });
  manifest.strategy = top.member("strategy").text();
  manifest.device = top.member("device").text();
  const ManifestReader tiers = top.member("tiers");
  manifest.device_memory = tier_of(tiers, "device_memory");
  manifest.host_memory = tier_of(tiers, "host_memory");
  manifest.disk = tier_of(tiers, "disk");
  if (top.has("profile")) manifest.profile = Profile::from_json(top.member("profile").text(), where + "the profile: ");
  if (top.has("algorithms"))
    manifest.algorithms = AlgorithmChoices::from_json(top.member("algorithms").text(), where + "the algorithms: ");
  if (top.has("kept")) {
    top.member("kept").each_member(
        [&](const std::string& name, const ManifestReader& text) { manifest.kept[name] = text.text(); });
  }
  read_file_member(top.member("file"), manifest, where);
  return manifest;
}

}  // namespace sectionflow
