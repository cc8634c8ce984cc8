#include "tests/support/program_spec.h"

#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"

namespace sectionflow::testing {
namespace {

using Json = nlohmann::json;

// The fields of a spec, in one place for writing and reading.

template <class Visit>
void visit_fields(SectionOptions& spec, Visit& visit) {
  visit("borders", spec.borders);
  visit("interior", spec.interior);
  visit("prefetch", spec.prefetch);
}

template <class Visit>
void visit_fields(LayerSpec& spec, Visit& visit) {
  visit("id", spec.id);
  visit("kind", spec.kind);
  visit("place", spec.place);
  visit("size", spec.size);
  visit("side", spec.side);
  visit("stride", spec.stride);
  visit("bias", spec.bias);
  visit("shared", spec.shared);
  visit("source", spec.source);
  visit("option", spec.option);
}

template <class Visit>
void visit_fields(TrainingSpec& spec, Visit& visit) {
  visit("seed", spec.seed);
  visit("side", spec.side);
  visit("channels", spec.channels);
  visit("batch", spec.batch);
  visit("smaller_last_batch", spec.smaller_last_batch);
  visit("steps", spec.steps);
  visit("threads", spec.threads);
  visit("optimizer", spec.optimizer);
  visit("gradients", spec.gradients);
  visit("feeds_rate", spec.feeds_rate);
  visit("counts_steps", spec.counts_steps);
  visit("micro_batches", spec.micro_batches);
  visit("evaluates", spec.evaluates);
  visit("masks_loss", spec.masks_loss);
  visit("ties_head", spec.ties_head);
  visit("prepares_images", spec.prepares_images);
  visit("sections", spec.sections);
  visit("sections_differ", spec.sections_differ);
  visit("has_disk", spec.has_disk);
  visit("copy_threads", spec.copy_threads);
  visit("slow_link", spec.slow_link);
  visit("budget", spec.budget);
  visit("layers", spec.layers);
  visit("head", spec.head);
}

template <class Visit>
void visit_fields(ExtraSpec& spec, Visit& visit) {
  visit("kind", spec.kind);
  visit("source", spec.source);
  visit("other", spec.other);
  visit("trains", spec.trains);
}

template <class Visit>
void visit_fields(CallSpec& spec, Visit& visit) {
  visit("kind", spec.kind);
  visit("session", spec.session);
  visit("fetches", spec.fetches);
  visit("option", spec.option);
}

template <class Visit>
void visit_fields(ProgramSpec& spec, Visit& visit) {
  visit("model", spec.model);
  visit("extras", spec.extras);
  visit("calls", spec.calls);
  visit("swap_variables", spec.swap_variables);
  visit("random_delays", spec.random_delays);
  visit("poison", spec.poison);
  visit("forgets_programs", spec.forgets_programs);
}

template <class Field>
constexpr bool is_plain = std::is_arithmetic_v<Field> || std::is_same_v<Field, std::string>;

template <class Spec>
Json json_of(Spec spec);

template <class Field>
Json json_of_field(const Field& field) {
  if constexpr (std::is_same_v<Field, CallKind> || std::is_same_v<Field, ExtraKind>) {
    return name_of(field);
  } else if constexpr (std::is_enum_v<Field>) {
    return static_cast<int>(field);
  } else if constexpr (is_plain<Field>) {
    return field;
  } else {
    return json_of(field);
  }
}

template <class Item>
Json json_of_field(const std::vector<Item>& items) {
  Json all = Json::array();
  for (const Item& item : items) all.push_back(json_of(item));
  return all;
}

/// What differs from a plain spec.
template <class Spec>
Json json_of(Spec spec) {
  Json all = Json::object(), plain = Json::object();
  Spec plain_spec;
  auto write = [&](const char* name, const auto& field) { all[name] = json_of_field(field); };
  visit_fields(spec, write);
  auto write_plain = [&](const char* name, const auto& field) { plain[name] = json_of_field(field); };
  visit_fields(plain_spec, write_plain);
  for (const auto& [name, value] : plain.items()) {
    if (all[name] == value) all.erase(name);
  }
  return all;
}

template <class Kind>
Kind kind_of(const std::string& name, int num_kinds) {
  for (int kind = 0; kind < num_kinds; ++kind) {
    if (name == name_of(static_cast<Kind>(kind))) return static_cast<Kind>(kind);
  }
  throw ArgumentError("'" + name + "' is no kind of call or addition");
}

template <class Spec>
void read(Spec& spec, const Json& json);

template <class Field>
void read_field(Field& field, const Json& json) {
  if constexpr (std::is_same_v<Field, CallKind>) {
    field = kind_of<CallKind>(json.get<std::string>(), kNumCallKinds);
  } else if constexpr (std::is_same_v<Field, ExtraKind>) {
    field = kind_of<ExtraKind>(json.get<std::string>(), kNumExtraKinds);
  } else if constexpr (std::is_enum_v<Field>) {
    field = static_cast<Field>(json.get<int>());
  } else if constexpr (is_plain<Field>) {
    field = json.get<Field>();
  } else {
    read(field, json);
  }
}

template <class Item>
void read_field(std::vector<Item>& items, const Json& json) {
  for (const Json& item : json) read(items.emplace_back(), item);
}

template <class Spec>
void read(Spec& spec, const Json& json) {
  std::size_t known = 0;
  auto read_one = [&](const char* name, auto& field) {
    if (!json.contains(name)) return;
    read_field(field, json[name]);
    ++known;
  };
  visit_fields(spec, read_one);
  SF_CHECK(known == json.size(), ArgumentError, "a spec has no such fields: ", json.dump());
}

}  // namespace

const char* name_of(CallKind kind) {
  constexpr std::array<const char*, kNumCallKinds> names = {
      "whole",  "cycle",     "forward", "backward",   "discard", "evaluate", "compute",
      "add",    "roll_back", "prepare", "initialize", "write",   "save",     "load",
      "reload", "lms",       "swap",    "options",    "hold",    "smallest"};
  return names.at(static_cast<std::size_t>(kind));
}

const char* name_of(ExtraKind kind) {
  constexpr std::array<const char*, kNumExtraKinds> names = {"average", "count", "collect", "copy",
                                                             "follow",  "wait",  "mix"};
  return names.at(static_cast<std::size_t>(kind));
}

RolledBackUse rolled_back_use(const CallSpec& call) {
  return static_cast<RolledBackUse>(call.option / 2 % 4);
}

std::string listing(const ProgramSpec& spec) {
  std::string text = listing(spec.model);
  if (spec.swap_variables || spec.random_delays || spec.poison || spec.forgets_programs) {
    text += text_of("  sessions:", spec.swap_variables ? " variables in host memory" : "",
                    spec.random_delays ? " delays" : "", spec.poison ? " poison" : "",
                    spec.forgets_programs ? " programs forgotten" : "", "\n");
  }
  for (const ExtraSpec& extra : spec.extras) {
    text += text_of("  with ", name_of(extra.kind), " (", extra.source, ", ", extra.other, ")",
                    extra.trains ? ", trains" : "", "\n");
  }
  for (std::size_t i = 0; i < spec.calls.size(); ++i) {
    const CallSpec& call = spec.calls[i];
    text += text_of("  call ", i, ": ", name_of(call.kind), " in session ", call.session, ", fetches ", call.fetches,
                    ", option ", call.option, "\n");
  }
  return text;
}

std::string text_of_spec(const ProgramSpec& spec) {
  return json_of(spec).dump();
}

ProgramSpec spec_of_text(const std::string& text) {
  ProgramSpec spec;
  try {
    read(spec, Json::parse(text));
  } catch (const Json::exception& error) {
    throw ArgumentError(text_of("no text of a spec: ", error.what()));
  }
  return spec;
}

}  // namespace sectionflow::testing
