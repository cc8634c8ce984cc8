// Which programs execute a cycle: found by what has been chosen, compiled from it where they are new.

#include "schedule/program_key.h"
#include "sections/section_policies.h"
#include "sections/section_trainer.h"

namespace sectionflow {

/// What a cycle executes, in whatever run.
RunRequest SectionTrainer::executed(const std::vector<CycleFetch>& fetches, const std::vector<Operation>& training) {
  RunRequest request{.fetches = {}, .targets = training};
  for (const CycleFetch& fetch : fetches) request.fetches.push_back(fetch.value);
  return request;
}

/// The beginning of a key of this manager's, whose sections a group and a number tell: another manager, before it or
/// after, has other groups in the same generation of the graph.
ProgramKey SectionTrainer::key_of(const char* kind) const {
  ProgramKey key(kind);
  key.add(" g", static_cast<std::uint64_t>(sections_.front()->group())).add(" n", sections_.size());
  return key.add(held_key()).add(" c", static_cast<std::uint64_t>(num_choices_));
}

HeldValues SectionTrainer::held_values() const {
  HeldValues held;
  for (const auto& section : sections_) {
    const auto& feed = section->feed_.current();
    const auto& cache = section->cache_.current();
    held.until_backward.insert(held.until_backward.end(), feed.begin(), feed.end());
    held.until_end.insert(held.until_end.end(), cache.begin(), cache.end());
  }
  return held;
}

const std::string& SectionTrainer::held_key() const {
  if (!held_key_) {
    const HeldValues held = held_values();
    ProgramKey key("");
    for (const Value& value : held.until_backward) key.add(" b", value);
    for (const Value& value : held.until_end) key.add(" e", value);
    held_key_ = key.text();
  }
  return *held_key_;
}

void SectionTrainer::note_held_choice() const {
  held_key_.reset();
  may_have_next_ = true;
}

void SectionTrainer::forget_next_cycle_choices() {
  if (!may_have_next_) return;
  for (const auto& section : sections_) {
    section->feed_.has_next = section->cache_.has_next = false;
  }
  held_key_.reset();
  may_have_next_ = false;
}

/// What sections hold by choice is held as far as it is computed under the signature of `graph`.
CycleRequest SectionTrainer::request_for(const ConcreteGraph& graph, const std::vector<CycleFetch>& fetches,
                                         const std::vector<Operation>& training) const {
  CycleRequest request{.groups = {}, .training = training, .fetches = fetches, .held = held_values()};
  for (const auto& section : sections_) request.groups.push_back(section->group());
  for (std::vector<Value>* held : {&request.held.until_backward, &request.held.until_end}) {
    std::erase_if(*held, [&](const Value& value) { return !graph.is_taken(value.node().id()); });
  }
  return request;
}

Executable& SectionTrainer::cycle_program(Engine& engine, const std::vector<CycleFetch>& fetches,
                                          const Signature& fed) {
  return engine.micro_batch_program(
      fed, [&](const Signature& signature) -> Executable& { return compiled_cycle(engine, fetches, signature); });
}

/// The same to plan by: of all micro-batches of an update that of the one that takes the most device memory.
Engine::PlannedProgram SectionTrainer::fullest_cycle(Engine& engine, const std::vector<CycleFetch>& fetches,
                                                     const Signature& fed) {
  return engine.fullest_program(
      fed, [&](const Signature& signature) -> Executable& { return compiled_cycle(engine, fetches, signature); });
}

Executable& SectionTrainer::compiled_cycle(Engine& engine, const std::vector<CycleFetch>& fetches,
                                           const Signature& signature) {
  ProgramKey key = key_of("cycle");
  for (const CycleFetch& fetch : fetches) {
    key.add(" @", static_cast<std::uint64_t>(fetch.run + 1)).add(" ", fetch.value);
  }
  key.add(" | ").add(signature.text());
  // What grows with the graph and with what has been chosen is looked at where a program is compiled, and only there.
  return engine.program(
      key.text(), signature, [&] { return executed(fetches, training_.list()); },
      [&](PlanningTools& tools) {
        check_disk(engine, "the cycle");
        // Policies go by the map, for which a cycle without fetches has not asked.
        map_graph();
        return write_cycle(tools, request_for(tools.graph(), fetches, training_.list()), policies());
      });
}

}  // namespace sectionflow
