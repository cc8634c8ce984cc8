// What a session asks of the one who plans its programs, and tells it.

#include <utility>

#include "runtime/engine.h"

namespace sectionflow {

void Engine::set_instruction_editor(std::string key, InstructionEditor editor) {
  editor_key_ = key.empty() ? std::string() : " | " + key;
  edit_instructions_ = std::move(editor);
  planner_ = nullptr;
}

void Engine::set_planner(const std::string& key, std::shared_ptr<ProgramPlanner> planner) {
  editor_key_ = " | " + key;
  edit_instructions_ = {};
  planner_ = &planners_[key];
  if (planner_->planner != planner) *planner_ = {.planner = std::move(planner)};
  if (std::exchange(planner_->told, num_given_back_) != num_given_back_) planner_->planner->take(given_, given_from_);
}

std::shared_ptr<ProgramPlanner> Engine::earlier_planner(const std::string& key) const {
  const auto known = planners_.find(key);
  return known == planners_.end() ? nullptr : known->second.planner;
}

KeptTexts Engine::kept_texts() const {
  return planner_ != nullptr ? planner_->planner->kept() : KeptTexts();
}

void Engine::give_back(KeptTexts texts, std::string from) {
  given_ = std::move(texts);
  given_from_ = std::move(from);
  ++num_given_back_;
  if (planner_ == nullptr) return;
  planner_->told = num_given_back_;
  planner_->planner->take(given_, given_from_);
}

/// Of a whole program that is executed now; nothing where nobody wants to know, or where what else looks at the
/// execution takes time of its own.
std::optional<ExecutionTimes> Engine::times_wanted(Executable& program) const {
  const bool is_looked_at = trace_ != nullptr || measuring_ || value_checks_.any();
  if (planner_ == nullptr || is_looked_at || options_.poison || options_.random_delays != 0) return std::nullopt;
  const TimesWanted wanted = planner_->planner->times_wanted(program);
  if (wanted == TimesWanted::none) return std::nullopt;
  ExecutionTimes times;
  if (wanted == TimesWanted::steps) times.steps.assign(program.schedule.steps.size(), 0);
  return times;
}

void Engine::tell_times(Executable& program, std::optional<ExecutionTimes> times) {
  if (!times || planner_ == nullptr) return;
  if (edit_times_) edit_times_(program, *times);
  planner_->planner->note_times(program, *times);
}

}  // namespace sectionflow
