#include "train/update_settings.h"

#include <algorithm>
#include <any>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "graph/json_members.h"
#include "graph/nodes/reduce.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "schedule/micro_batches.h"

namespace sectionflow {
namespace {

/// With all that decides its bits.
std::string number_text(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<float>(number)).ptr};
}

/// " beta1 0.9 beta2 0.999"; empty without options.
std::string options_text(const Node& node) {
  const OptionsDescription& described = node.op().options;
  if (!described.write) return {};
  JsonMembers fields;
  OptionWriter writer(fields);
  described.write(node.any_options(), writer);
  std::string text;
  for (const auto& [name, value] : fields.members.items()) {
    text += text_of(" ", name, " ",
                    value.is_number_float() ? number_text(value.get<double>())
                    : value.is_string()     ? value.get<std::string>()
                                            : value.dump());
  }
  return text;
}

/// Of a decay d the gradient is a sum of two, of which one is made of the variable and the constant d.
std::string decay_text(const Node& update) {
  const Value variable = update.inputs()[0];
  for (const Value& input : update.inputs()) {
    if (input.node().op().is_given() || input.node().inputs().size() != 2) continue;
    for (const Value& term : input.node().inputs()) {
      const auto& factors = term.node().inputs();
      const HostTensor* const decay =
          factors.size() == 2 && factors[0] == variable ? constant_content(factors[1]) : nullptr;
      if (decay == nullptr || decay->dtype() != Dtype::f32 || decay->num_elements() != 1) continue;
      return text_of(" weight_decay ", number_text(decay->item<float>()));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> update_settings(const Graph& graph) {
  std::vector<std::string> settings;
  for (const MicroBatches& each : micro_batches_of(graph)) {
    settings.push_back(text_of("updates of ", each.count, " micro-batches"));
  }
  std::set<std::string> clipped;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (std::any_cast<ClipScaleOptions>(&node.any_options()) != nullptr) {
      clipped.insert(node.op().name + options_text(node));
    }
  }
  settings.insert(settings.end(), clipped.begin(), clipped.end());
  std::map<std::string, int> kinds;
  for (Operation operation : graph.operations(kTrainingOperations)) {
    const Node& node = operation.node();
    // Others count steps.
    if (node.op().inputs.least > 2) ++kinds[node.op().name + options_text(node) + decay_text(node)];
  }
  for (const auto& [kind, count] : kinds) {
    settings.push_back(text_of(kind, ", of ", count, count == 1 ? " variable" : " variables"));
  }
  return settings;
}

std::string update_settings_text(const std::vector<std::string>& settings) {
  return nlohmann::json(settings).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> read_update_settings(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> settings;
  if (!list.is_array()) return settings;
  for (const auto& each : list) {
    if (!each.is_string()) return {};
    settings.push_back(each.get<std::string>());
  }
  return settings;
}

std::string differences_of_settings(const std::vector<std::string>& then, const std::vector<std::string>& now) {
  if (then.empty() || now.empty()) return {};
  const auto only_in = [](const std::vector<std::string>& these, const std::vector<std::string>& others) {
    std::string text;
    for (const std::string& each : these) {
      if (std::find(others.begin(), others.end(), each) == others.end()) text += (text.empty() ? "" : "; ") + each;
    }
    return text.empty() ? std::string("nothing besides") : text;
  };
  const std::string before = only_in(then, now), after = only_in(now, then);
  return before == after ? "" : "then: " + before + "; now: " + after;
}

}  // namespace sectionflow
