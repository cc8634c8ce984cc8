#include "transform/ranges_text.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/json_elements.h"
#include "graph/json_item.h"

namespace sectionflow {
namespace {

constexpr const char* kRanges = "ranges";
const std::array<std::string, 3> kRangeMembers = {"tensor", "minimum", "maximum"};
/// A name with the number of an output.
constexpr std::size_t kMostTensorNameBytes = kMostNameBytes + 16;

float bound_of(const JsonItem& item) {
  const double number = item.number();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(std::abs(number) <= kMost)) item.refuse_kind("a finite number of f32");
  return static_cast<float>(number);
}

}  // namespace

std::string ranges_text(const ValueRanges& ranges) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [tensor, range] : ranges) {
    nlohmann::ordered_json one = nlohmann::ordered_json::object();
    one[kRangeMembers[0]] = tensor;
    one[kRangeMembers[1]] = json_of_number(static_cast<double>(range.minimum));
    one[kRangeMembers[2]] = json_of_number(static_cast<double>(range.maximum));
    all.push_back(std::move(one));
  }
  return nlohmann::ordered_json{{kRanges, std::move(all)}}.dump();
}

ValueRanges ranges_of_text(std::string_view text) {
  ValueRanges ranges;
  bool has_any = false;
  const auto begin = [&](const std::string& member) {
    has_any = true;
    if (member != kRanges) refuse_at("", text_of("got the member '", member, "'; wanted '", kRanges, "'"));
  };
  const auto take = [&](const std::string&, std::optional<std::size_t> index, const JsonItem& element) {
    if (!index) element.refuse_kind("an array");
    element.check_members(kRangeMembers);
    const std::string& tensor = element.member(kRangeMembers[0].c_str()).text(kMostTensorNameBytes);
    if (ranges.of(tensor)) element.refuse(text_of("has the range of '", tensor, "' twice"));
    const ValueRange range{.minimum = bound_of(element.member(kRangeMembers[1].c_str())),
                           .maximum = bound_of(element.member(kRangeMembers[2].c_str()))};
    if (range.minimum > range.maximum) element.refuse("has a maximum below its minimum");
    ranges.set(tensor, range);
  };
  read_json_elements(text, {.begin = begin, .take = take});
  if (!has_any) refuse_at("", text_of("has no '", kRanges, "'"));
  return ranges;
}

}  // namespace sectionflow
