#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "data/tensor_hashes.h"

// Plans in the hands of somebody who can seal them anew.
namespace sectionflow::testing {

using PlanJson = nlohmann::ordered_json;

/// All of a plan but its hash, with the hash that belongs to that.
inline std::string sealed(const std::string& body) {
  return body + ",\n \"xxh3\": \"" + text_hash(body) + "\"\n}\n";
}

/// The plan with its members changed, sealed.
inline std::string edited(const std::string& text, const std::function<void(PlanJson& plan)>& edit) {
  PlanJson plan = PlanJson::parse(text);
  plan.erase("xxh3");
  edit(plan);
  std::string body = plan.dump();
  body.pop_back();
  return sealed(body);
}

/// The program of the training step.
inline PlanJson& step_of(PlanJson& plan) {
  for (PlanJson& program : plan["programs"]) {
    if (program["updates"] > 0 && !program["fetches"].empty()) return program;
  }
  throw std::runtime_error("no training step in the plan");
}

/// Changes one instruction at random: its place, how often it is there, or one of its numbers.
inline void edit_instruction_at_random(PlanJson& list, std::mt19937_64& random) {
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const std::size_t at = below(list.size()), other = below(list.size());
  const PlanJson copy = list[at];
  switch (below(5)) {
    case 0:
      list.erase(at);
      break;
    case 1:
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(other), copy);
      break;
    case 2:
      std::swap(list[at], list[other]);
      break;
    case 3:
      std::swap(list[at], list[std::min(at + 1, list.size() - 1)]);
      break;
    default: {
      const std::size_t name = copy[0].is_string() ? 1 : 0;
      PlanJson& number = list[at][name + below(copy.size() - name)];
      number = std::max(0, number.get<int>() + static_cast<int>(below(5)) - 2);
    }
  }
}

}  // namespace sectionflow::testing
