#include "sections/noted_options.h"

#include <algorithm>
#include <any>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "graph/ops/basic.h"
#include "sections/section_trainer.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

// In the order of the enumerations.
constexpr std::array kBorderNames = {"automatic", "keep", "host", "disk"};
constexpr std::array kInteriorNames = {"recompute", "keep", "swap", "automatic"};

template <class Policy, std::size_t Count>
const char* name_of(Policy policy, const std::array<const char*, Count>& names) {
  return names.at(static_cast<std::size_t>(policy));
}

/// Throws: Json::exception for what is no name of a policy.
template <class Policy, std::size_t Count>
Policy policy_of(const Json& json, const std::array<const char*, Count>& names) {
  const auto found = std::find(names.begin(), names.end(), json.get<std::string_view>());
  if (found == names.end()) throw Json::other_error::create(500, "an unknown policy", nullptr);
  return static_cast<Policy>(found - names.begin());
}

std::string text_of_options(const SectionOptions& options) {
  Json json = {{"borders", name_of(options.borders, kBorderNames)},
               {"interior", name_of(options.interior, kInteriorNames)},
               {"prefetch", options.prefetch}};
  for (const auto& [tensor, policy] : options.tensors) json["tensors"][tensor] = name_of(policy, kBorderNames);
  // Names that are not UTF-8 are refused where the graph is written; here they are only to fit no tensor.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Throws: Json::exception.
SectionOptions options_of_text(std::string_view text) {
  const Json json = Json::parse(text);
  SectionOptions options{.borders = policy_of<BorderPolicy>(json.at("borders"), kBorderNames),
                         .interior = policy_of<InteriorPolicy>(json.at("interior"), kInteriorNames)};
  const auto prefetch = json.at("prefetch").get<std::int64_t>();
  if (!json.at("prefetch").is_number_integer() || prefetch < 0 || prefetch > INT32_MAX) {
    throw Json::other_error::create(500, "a prefetch out of range", nullptr);
  }
  options.prefetch = static_cast<int>(prefetch);
  if (json.contains("tensors")) {
    for (const auto& [tensor, policy] : json.at("tensors").items()) {
      options.tensors[tensor] = policy_of<BorderPolicy>(policy, kBorderNames);
    }
  }
  return options;
}

}  // namespace

void note_options(Graph& graph, GroupId group, const SectionOptions& options) {
  const std::string text = text_of_options(options);
  HostTensor bytes(Dtype::u8, {static_cast<std::int64_t>(text.size())});
  std::memcpy(bytes.bytes(), text.data(), text.size());
  Value noted;
  {
    const GraphScope outside = graph.enter_group(kNoGroup);
    noted = constant(graph, std::move(bytes), "/section_options");
  }
  const GraphScope entered = graph.enter_group(group);
  graph.add_to_collection(kSectionOptions, noted);
}

std::optional<SectionOptions> noted_options(const Graph& graph, GroupId group) {
  const std::vector<Value> noted = graph.values(kSectionOptions, group);
  if (noted.empty()) return std::nullopt;
  const Node& node = noted.back().node();
  const auto refuse = [&](const std::string& why) {
    throw DataError(error_text_of("restore_sections: ", node.label(), " of '", kSectionOptions,
                                  "' has no options of a section: ", why,
                                  hint("save the graph once more, or say own_options = false")),
                    ErrorCode::graph_file);
  };
  const auto* constant = std::any_cast<ConstantOptions>(&node.any_options());
  if (constant == nullptr || noted.back().dtype() != Dtype::u8) refuse("it is no constant of bytes");
  const HostTensor& bytes = *constant->content;
  try {
    return options_of_text({reinterpret_cast<const char*>(bytes.bytes()), bytes.num_bytes()});
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  return std::nullopt;
}

}  // namespace sectionflow
