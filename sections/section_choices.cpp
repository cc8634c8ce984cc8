// What the user says about where tensors are kept: checked, and brought together.

#include <glog/logging.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/ops/basic.h"
#include "sections/section_policies.h"
#include "sections/section_trainer.h"

namespace sectionflow {

void SectionTrainer::check_options(const std::string& call, const SectionOptions& options) const {
  SF_CHECK(options.prefetch >= 0, ArgumentError, call, ": SectionOptions::prefetch is ", options.prefetch,
           "; wanted a number of runs, 0 or more");
  // Enumerations may hold none of their values, where a number was cast to one.
  const auto check_border = [&](const std::string& field, BorderPolicy policy) {
    SF_CHECK(policy >= BorderPolicy::automatic && policy <= BorderPolicy::disk, ArgumentError, call,
             ": SectionOptions::", field, " is ", static_cast<int>(policy),
             ", which is none of its values; wanted automatic, keep, host or disk of BorderPolicy");
  };
  check_border("borders", options.borders);
  for (const auto& [name, policy] : options.tensors) check_border(text_of("tensors of '", name, "'"), policy);
  SF_CHECK(options.interior >= InteriorPolicy::recompute && options.interior <= InteriorPolicy::automatic,
           ArgumentError, call, ": SectionOptions::interior is ", static_cast<int>(options.interior),
           ", which is none of its values; wanted recompute, keep, swap or automatic of InteriorPolicy");
}

/// Every name in SectionOptions::tensors must be that of a tensor that the section makes or reads.
void SectionTrainer::check_tensor_names(const char* call, const SectionOptions& defaults,
                                        const OptionsSource& source) const {
  const auto names_of = [](const std::vector<Value>& values) {
    std::vector<std::string> names;
    for (const Value& value : values) names.push_back(value.name());
    return names;
  };
  const auto check = [call](const SectionOptions& options, const std::vector<std::string>& known,
                            const std::string& whose, Where at) {
    for (const auto& named : options.tensors) {
      if (std::find(known.begin(), known.end(), named.first) != known.end()) continue;
      const auto nearest = nearest_spelling(named.first, known);
      throw ArgumentError(
          error_text_of(call, ": SectionOptions::tensors of ", whose, " names '", named.first,
                        "', which is no tensor of the forward pass that it makes or reads", earlier(at.text()),
                        hint(nearest ? text_of("there is '", *nearest, "'; is that the one that is meant?")
                                     : std::string("take a name of GraphSection::operations() or incoming()"))));
    }
  };
  std::vector<Value> all;
  std::vector<std::vector<Value>> made(sections_.size());
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    if (!map_.is_forward(id) || node.op().is_given()) continue;
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      all.push_back(node.output(output));
      if (map_.section[id] != kOutside) made[static_cast<std::size_t>(map_.section[id])].push_back(node.output(output));
    }
  }
  for (std::size_t k = 0; k < sections_.size(); ++k) {
    if (!sections_[k]->options_) continue;
    made[k].insert(made[k].end(), boundaries_[k].incoming.begin(), boundaries_[k].incoming.end());
    check(*sections_[k]->options_, names_of(made[k]), sections_[k]->place(), {});
  }
  check(defaults, names_of(all), source.name, source.at);
}

void SectionTrainer::check_disk(const Engine& engine, const char* call) const {
  if (engine.options().disk > 0) return;
  const auto check = [&](const SectionOptions& options, const std::string& whose) {
    bool wants_disk = options.borders == BorderPolicy::disk;
    for (const auto& named : options.tensors) wants_disk = wants_disk || named.second == BorderPolicy::disk;
    SF_CHECK(!wants_disk, ArgumentError, call, ": the options of ", whose,
             " offload tensors to disk, and the session has no disk tier",
             hint("give SessionOptions::disk the bytes that it may use, or take BorderPolicy::host"));
  };
  for (const auto& section : sections_) check(section->options(), section->place());
  check(default_options_, default_source_.name);
}

CyclePolicies SectionTrainer::policies() const {
  CyclePolicies policies{.outside = default_options_, .profile = profile_ ? &*profile_ : nullptr};
  std::map<std::string, Value> by_name;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      by_name.emplace(node.output(output).name(), node.output(output));
    }
  }
  // What is said first stands: the maker's word, then the readers', then that for all.
  const auto add = [&](const SectionOptions& options, SectionIndex maker) {
    for (const auto& [name, policy] : options.tensors) {
      const Value value = by_name.at(name);
      const bool is_maker = map_.section[value.node().id()] == maker;
      if (maker == kOutside || is_maker) policies.tensors.emplace(value, policy);
    }
  };
  for (const auto& section : sections_) policies.sections.push_back(section->options());
  for (const auto& section : sections_) add(section->options(), section->index());
  for (const auto& section : sections_) {
    if (section->options_) add(section->options(), kOutside);
  }
  add(default_options_, kOutside);
  return policies;
}

void SectionTrainer::log_policies() const {
  constexpr std::array<const char*, 4> borders = {"automatic", "kept", "in host memory", "on disk"};
  constexpr std::array<const char*, 4> interiors = {"computed again", "kept", "swapped", "automatic"};
  for (const auto& section : sections_) {
    const SectionOptions& options = section->options();
    LOG(INFO) << section->place() << ": borders " << borders.at(static_cast<std::size_t>(options.borders))
              << ", interior " << interiors.at(static_cast<std::size_t>(options.interior)) << ", prefetch "
              << options.prefetch;
  }
}

void SectionTrainer::set_profile(Profile profile) {
  check_profile(profile, "set_profile");
  profile_ = std::move(profile);
  ++num_choices_;
}

void SectionTrainer::set_section_options(SectionOptions options, Where where) {
  user_call(where, [&] {
    check_options("set_section_options", options);
    if (prepared_) {
      map_graph();
      check_tensor_names("set_section_options", options, {.name = "its argument"});
    }
    // They may name tensors of a change that is still open.
    when_rolled_back([this, before = default_options_, source = default_source_]() mutable {
      std::swap(default_options_, before);
      default_source_ = source;
      ++num_choices_;
    });
    default_options_ = std::move(options);
    default_source_ = {.name = "set_section_options", .at = where};
    ++num_choices_;
  });
}

}  // namespace sectionflow
