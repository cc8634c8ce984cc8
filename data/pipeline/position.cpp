#include "data/pipeline/position.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/pipeline/cursor_state.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "sectionflow data position";
constexpr std::int64_t kVersion = 1;

std::vector<std::string> without_policies(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("on_error("); });
  return lines;
}

void check_lines(std::vector<std::string> saved, std::vector<std::string> lines) {
  // Before a position at which every error came out nothing was left out: from there on anything may be.
  const bool has_skipped = std::any_of(saved.begin(), saved.end(),
                                       [](const std::string& line) { return line.starts_with("on_error(skip"); });
  if (!has_skipped) {
    saved = without_policies(std::move(saved));
    lines = without_policies(std::move(lines));
  }
  const auto [of_saved, here] = std::mismatch(saved.begin(), saved.end(), lines.begin(), lines.end());
  if (of_saved == saved.end() && here == lines.end()) return;
  const auto shown = [](auto line, auto end) { return line == end ? "its end" : text_of("'", *line, "'"); };
  throw ArgumentError(
      error_text_of("the position is of another data pipeline: operation ", here - lines.begin(), " of this one is ",
                    shown(here, lines.end()), ", of the position's ", shown(of_saved, saved.end()),
                    hint("build the pipeline as it was when the position was taken, or begin without a position")),
      ErrorCode::other_position);
}

/// Throws for what is nested deeper than a position is, before it is built.
Json parse_flat(const std::string& text) {
  constexpr int kDepth = 2;
  const auto shallow = [](int depth, Json::parse_event_t event, Json&) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDepth) throw_damaged_position("it is nested too deep");
    return true;
  };
  Json json = Json::parse(text, shallow, false);
  if (json.is_discarded()) throw_damaged_position("it is no JSON text");
  return json;
}

}  // namespace

std::string position_text(const PipelinePosition& position, const std::vector<std::string>& lines) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["pipeline"] = lines;
  json["epoch"] = position.epoch;
  json["delivered_epoch"] = position.delivered_epoch;
  json["state"] = position.numbers;
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

PipelinePosition parse_position(const std::string& text, const std::vector<std::string>& lines) {
  const Json json = parse_flat(text);
  const auto member = [&](const char* name) -> const Json& {
    if (!json.is_object() || !json.contains(name)) throw_damaged_position(text_of("it lacks '", name, "'").c_str());
    return json[name];
  };
  const Json& format = member("format");
  if (format != kFormat) throw_damaged_position("its format is another");
  if (member("version") != kVersion) throw_damaged_position("its version is another");

  std::vector<std::string> saved;
  for (const Json& line : member("pipeline")) {
    if (!line.is_string()) throw_damaged_position("'pipeline' has something else than lines");
    saved.push_back(line.get<std::string>());
  }
  PipelinePosition position;
  const auto number_of = [](const Json& number) {
    if (!number.is_number_integer()) throw_damaged_position("an epoch or 'state' is something else than numbers");
    // Beyond 2^63 - 1 JSON's numbers are unsigned.
    if (number.is_number_unsigned() &&
        number.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw_damaged_position("a number is out of range");
    }
    return number.get<std::int64_t>();
  };
  position.epoch = number_of(member("epoch"));
  position.delivered_epoch = number_of(member("delivered_epoch"));
  if (position.epoch < 0 || position.delivered_epoch < 0) throw_damaged_position("an epoch is negative");
  for (const Json& number : member("state")) position.numbers.push_back(number_of(number));
  // What was written goes through the same replacement of what is no UTF-8 as what is compared with it.
  std::vector<std::string> here;
  for (const std::string& line : lines) {
    here.push_back(Json::parse(Json(line).dump(-1, ' ', true, Json::error_handler_t::replace)).get<std::string>());
  }
  check_lines(std::move(saved), std::move(here));
  return position;
}

}  // namespace sectionflow
