#include "tests/support/shrink_program.h"

#include "base/error.h"
#include "tests/support/shrink_spec.h"

namespace sectionflow::testing {
namespace {

template <class Item>
void without_items(const ProgramSpec& spec, std::vector<Item> ProgramSpec::*items, std::vector<ProgramSpec>& result) {
  const std::size_t count = (spec.*items).size();
  for (std::size_t length = (count + 1) / 2; length >= 1; length /= 2) {
    for (std::size_t first = 0; first + length <= count; first += length) {
      ProgramSpec simpler = spec;
      const auto begin = (simpler.*items).begin() + static_cast<std::ptrdiff_t>(first);
      (simpler.*items).erase(begin, begin + static_cast<std::ptrdiff_t>(length));
      result.push_back(std::move(simpler));
    }
  }
}

template <class Field>
void with_field(const ProgramSpec& spec, Field ProgramSpec::*field, Field plain, std::vector<ProgramSpec>& result) {
  if (spec.*field == plain) return;
  ProgramSpec simpler = spec;
  simpler.*field = plain;
  result.push_back(std::move(simpler));
}

void with_simpler_calls(const ProgramSpec& spec, std::vector<ProgramSpec>& result) {
  for (std::size_t i = 0; i < spec.calls.size(); ++i) {
    for (int CallSpec::*field : {&CallSpec::session, &CallSpec::fetches, &CallSpec::option}) {
      if (spec.calls[i].*field == 0) continue;
      ProgramSpec simpler = spec;
      simpler.calls[i].*field = 0;
      result.push_back(std::move(simpler));
    }
  }
}

}  // namespace

std::vector<ProgramSpec> simpler_programs(const ProgramSpec& spec) {
  std::vector<ProgramSpec> result;
  without_items(spec, &ProgramSpec::calls, result);
  without_items(spec, &ProgramSpec::extras, result);
  with_field(spec, &ProgramSpec::poison, false, result);
  with_field(spec, &ProgramSpec::forgets_programs, false, result);
  with_field(spec, &ProgramSpec::random_delays, false, result);
  with_field(spec, &ProgramSpec::swap_variables, false, result);
  for (TrainingSpec& model : simpler_specs(spec.model)) {
    result.push_back(spec);
    result.back().model = std::move(model);
  }
  with_simpler_calls(spec, result);
  return result;
}

std::string ProgramReport::text() const {
  return text_of(failure.text, "\n", listing(original), "shrunk in ", tried, " trials to\n", listing(shrunk),
                 shrunk_failure.text, "\nto run it: random_programs --spec '", text_of_spec(shrunk), "'\n");
}

std::optional<ProgramReport> examine(const ProgramSpec& spec, const ProgramHooks& hooks, int most_tries,
                                     const std::function<void(const ProgramSpec&)>& before_try) {
  const auto find = [&](const ProgramSpec& tried) {
    if (before_try) before_try(tried);
    return find_failure(tried, hooks);
  };
  const auto failure = find(spec);
  if (!failure) return std::nullopt;
  ProgramReport report{.original = spec, .shrunk = spec, .failure = *failure, .shrunk_failure = *failure};
  for (bool simplified = true; simplified;) {
    simplified = false;
    for (ProgramSpec& simpler : simpler_programs(report.shrunk)) {
      if (report.tried == most_tries) return report;
      ++report.tried;
      const auto found = find(simpler);
      // Another kind of failure is another fault.
      if (!found || found->kind != failure->kind || found->mark != failure->mark) continue;
      report.shrunk = std::move(simpler);
      report.shrunk_failure = *found;
      simplified = true;
      break;
    }
  }
  return report;
}

}  // namespace sectionflow::testing
