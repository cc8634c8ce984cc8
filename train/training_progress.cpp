#include "train/training_progress.h"

#include <glog/logging.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "train/checkpoint_manifest.h"

namespace sectionflow {
namespace {

using Json = nlohmann::json;

constexpr int kPositionVersion = 1;
/// A shuffle of a stream tells of each example in its buffer; what no checkpoint can keep is no position.
constexpr std::size_t kMostPositionBytes = kMostManifestBytes;
/// Of objects in the object: numbers by name are the deepest.
constexpr int kMostPositionDepth = 2;

[[noreturn]] void fail_position(const std::string& why) {
  throw DataError(error_text_of("the position of a training cannot be read: ", why,
                                hint("give what Trainer::position or TrainerState::position has given")),
                  ErrorCode::training_position);
}

std::string packed(const std::string& text) {
  return base64_text(std::as_bytes(std::span(text.data(), text.size())));
}

const Json& member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) fail_position(text_of("'", name, "' is missing"));
  return *found;
}

std::int64_t read_count(const Json& object, const char* name) {
  const Json& count = member(object, name);
  const bool is_count = count.is_number_unsigned() && count.get<std::uint64_t>() >> 62 == 0;
  if (!is_count) fail_position(text_of("'", name, "' is no count"));
  return count.get<std::int64_t>();
}

std::string unpacked(const Json& text, const char* name) {
  if (!text.is_string()) fail_position(text_of("'", name, "' is no text"));
  const auto& packed_text = text.get_ref<const std::string&>();
  const auto size = base64_bytes(packed_text);
  std::string bytes(size.value_or(0), '\0');
  if (!size || !read_base64(packed_text, std::as_writable_bytes(std::span(bytes.data(), bytes.size())))) {
    fail_position(text_of("'", name, "' is no base64"));
  }
  return bytes;
}

/// Numbers by name, with all their bits.
Json packed(const Logs& numbers) {
  Json by_name = Json::object();
  for (const auto& [name, number] : numbers) by_name[packed(name)] = std::bit_cast<std::uint64_t>(number);
  return by_name;
}

Logs numbers_by_name(const Json& object, const char* name) {
  Logs numbers;
  const Json& by_name = member(object, name);
  if (!by_name.is_object()) fail_position(text_of("'", name, "' is no object"));
  for (const auto& [key, number] : by_name.items()) {
    if (!number.is_number_unsigned()) fail_position(text_of("a number among '", name, "' is none"));
    numbers[unpacked(Json(key), name)] = std::bit_cast<double>(number.get<std::uint64_t>());
  }
  return numbers;
}

}  // namespace

Logs TrainingProgress::means() const {
  Logs means = totals;
  for (auto& [name, total] : means) total /= weight;
  return means;
}

std::string TrainingProgress::text() const {
  Json kept = Json::object();
  for (const auto& [name, saved] : callbacks) kept[packed(name)] = packed(saved);
  std::string text = Json{
      {"sectionflow_training", kPositionVersion},
      {"step", step},
      {"epoch", epoch},
      {"step_in_epoch", step_in_epoch},
      {"data", packed(data.text())},
      {"num_examples", num_examples},
      {"weight", std::bit_cast<std::uint64_t>(weight)},
      {"totals", packed(totals)},
      {"batches_per_pass", batches_per_pass},
      {"added", packed(added)},
      {"is_to_evaluate", is_to_evaluate},
      {"evaluated_step", evaluated_step},
      {"evaluation", packed(evaluation)},
      {"callbacks",
       std::move(kept)}}.dump();
  SF_CHECK_CODE(text.size() <= kMostPositionBytes, ArgumentError, ErrorCode::training_position,
                "the position of the training takes ", text.size(), " bytes, of which its data take ",
                data.text().size(), " before they are packed; a position may take ", kMostPositionBytes,
                hint("give shuffles of data that are read from the start a smaller ShuffleOptions::buffer_bytes: their "
                     "positions tell of each example in the buffer"));
  return text;
}

TrainingProgress TrainingProgress::read(const std::string& text) {
  if (text.size() > kMostPositionBytes) fail_position(text_of("it has ", text.size(), " bytes"));
  const Json json = Json::parse(
      text,
      [](int depth, Json::parse_event_t, Json&) {
        if (depth > kMostPositionDepth)
          fail_position(text_of("it is nested deeper than ", kMostPositionDepth, " levels"));
        return true;
      },
      false);
  if (!json.is_object()) fail_position("it is no JSON object");
  if (read_count(json, "sectionflow_training") != kPositionVersion) fail_position("it is of another version");
  TrainingProgress progress{.step = read_count(json, "step"),
                            .epoch = read_count(json, "epoch"),
                            .step_in_epoch = read_count(json, "step_in_epoch"),
                            .num_examples = read_count(json, "num_examples")};
  progress.data.set(unpacked(member(json, "data"), "data"));
  progress.totals = numbers_by_name(json, "totals");
  // Positions of earlier versions do not tell.
  progress.weight = static_cast<double>(progress.num_examples);
  if (const auto weight = json.find("weight"); weight != json.end()) {
    if (!weight->is_number_unsigned()) fail_position("'weight' is no number");
    progress.weight = std::bit_cast<double>(weight->get<std::uint64_t>());
    if (!std::isfinite(progress.weight) || progress.weight < 0) fail_position("'weight' is below 0, infinite or NaN");
  }
  if (json.contains("batches_per_pass")) progress.batches_per_pass = read_count(json, "batches_per_pass");
  progress.evaluated_step = json.contains("evaluated_step") ? read_count(json, "evaluated_step") : progress.step;
  if (json.contains("added")) progress.added = numbers_by_name(json, "added");
  const Json& is_to_evaluate = member(json, "is_to_evaluate");
  if (!is_to_evaluate.is_boolean()) fail_position("'is_to_evaluate' is neither true nor false");
  progress.is_to_evaluate = is_to_evaluate.get<bool>();
  progress.evaluation = numbers_by_name(json, "evaluation");
  const Json& kept = member(json, "callbacks");
  if (!kept.is_object()) fail_position("'callbacks' is no object");
  for (const auto& [name, saved] : kept.items()) {
    progress.callbacks[unpacked(Json(name), "callbacks")] = unpacked(saved, "callbacks");
  }
  return progress;
}

std::map<std::string, std::string> callback_states(const std::vector<Callback*>& callbacks) {
  std::map<std::string, std::string> saved;
  std::map<std::string, int> seen;
  for (const Callback* callback : callbacks) {
    if (!callback->name().empty()) saved[text_of(callback->name(), " ", seen[callback->name()]++)] = callback->save();
  }
  return saved;
}

void restore_callbacks(const std::vector<Callback*>& callbacks, std::map<std::string, std::string> saved) {
  std::map<std::string, int> seen;
  for (Callback* callback : callbacks) {
    if (callback->name().empty()) continue;
    const auto kept = saved.find(text_of(callback->name(), " ", seen[callback->name()]++));
    if (kept != saved.end()) {
      callback->restore(kept->second);
      saved.erase(kept);
    } else {
      LOG(WARNING) << "fit: callback " << callback->name()
                   << " begins anew: what the training goes on from has kept nothing of it";
    }
  }
  for (const auto& [name, left] : saved) {
    LOG(WARNING) << "fit: what a callback " << name.substr(0, name.rfind(' '))
                 << " has kept is lost: there is none among the callbacks of the training that goes on";
  }
}

}  // namespace sectionflow
