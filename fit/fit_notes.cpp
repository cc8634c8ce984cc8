#include "fit/fit_notes.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/bytes.h"
#include "base/error.h"
#include "swap/swap_notes.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostLines = 8;
/// Smaller values are not worth a line: replays keep them anyway (OpDef::kept_outputs).
constexpr std::int64_t kPage = 4096;

/// A value that is dropped and made again, and for how many executions it is not there.
struct Absent {
  int value = 0, maker = 0;
  int last_user = 0, next_user = 0;  // operations
  std::size_t idle = 0;              // executions
};

std::string percent(double part, double whole) {
  return text_of(whole > 0 ? std::round(part / whole * 1000) / 10 : 0.0, " %");
}

std::string bytes_of(std::int64_t bytes) {
  return bytes_text(static_cast<std::size_t>(bytes));
}

/// Where values are not there between two of their uses, in the order of executions.
std::vector<Absent> absent_values(const planning::Problem& problem, std::span<const int> order) {
  struct Use {
    std::size_t last = 0, written = 0;  // executions
    bool is_there = false, is_again = false;
  };
  std::vector<Use> uses(problem.values.size());
  std::vector<Absent> absent;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const planning::Operation& operation = problem.operations[static_cast<std::size_t>(order[place])];
    for (const int input : operation.inputs) {
      Use& use = uses[static_cast<std::size_t>(input)];
      if (use.is_again && problem.values[static_cast<std::size_t>(input)].bytes >= kPage)
        absent.push_back({input, order[use.written], order[use.last], order[place], use.written - use.last});
      use.is_again = false;
      use.last = place;
    }
    for (const int output : operation.outputs) {
      Use& use = uses[static_cast<std::size_t>(output)];
      use.is_again = use.is_there && place > use.last + 1;
      if (!use.is_again) use.last = place;
      use.is_there = true;
      use.written = place;
    }
  }
  return absent;
}

std::string line(const planning::Problem& problem, const Absent& absent, const std::string& who) {
  const auto name = [&](int operation) { return problem.operations[static_cast<std::size_t>(operation)].name; };
  const planning::PlannedValue& value = problem.values[static_cast<std::size_t>(absent.value)];
  const double seconds = planning::seconds_again(problem.operations[static_cast<std::size_t>(absent.maker)]);
  return text_of(who, ": '", value.name, "' (", bytes_of(value.bytes), ") is dropped behind '", name(absent.last_user),
                 "' and computed again for '", name(absent.next_user), "', in ", milliseconds(seconds),
                 ": not there for ", absent.idle, " steps");
}

/// "16.9 MiB more would save 0.4 %", of the time that the plan takes, as MemoryPrice::text counts.
std::string beside(const planning::Frontier& frontier, int rung, double now) {
  const planning::Frontier::Rung& here = *frontier.known(rung);
  std::string text;
  if (const planning::Frontier::Rung* above = frontier.known(rung + 1); above != nullptr) {
    text += text_of(bytes_of(above->budget - here.budget), " more would save ",
                    percent(here.evaluation.cost - above->evaluation.cost, now));
  }
  if (const planning::Frontier::Rung* below = frontier.known(rung - 1); below != nullptr && below->plan) {
    text += text_of(text.empty() ? "" : ", ", bytes_of(here.budget - below->budget), " less would cost ",
                    percent(below->evaluation.cost - here.evaluation.cost, now));
  }
  return text;
}

/// One line each of the largest, and one of how many more.
void add_largest_absent(const planning::Problem& problem, std::span<const int> order, const std::string& name,
                        std::vector<std::string>& notes) {
  std::vector<Absent> largest = absent_values(problem, order);
  const auto bytes = [&](const Absent& absent) { return problem.values[static_cast<std::size_t>(absent.value)].bytes; };
  std::stable_sort(largest.begin(), largest.end(),
                   [&](const Absent& a, const Absent& b) { return bytes(a) > bytes(b); });
  std::int64_t others = 0;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    if (i < kMostLines) {
      notes.push_back(line(problem, largest[i], name));
    } else {
      others += bytes(largest[i]);
    }
  }
  if (largest.size() > kMostLines) {
    notes.push_back(text_of(name, ": and ", largest.size() - kMostLines, " more, ", bytes_of(others)));
  }
}

}  // namespace

std::vector<std::string> fit_notes(const planning::Problem& problem, const planning::Frontier& frontier, int rung,
                                   std::span<const int> order, const std::string& name) {
  const double once = planning::default_cost(problem);
  const double cost = planning::cost_of(problem, order);
  if (order.size() == problem.operations.size()) {
    return {name + (std::ranges::is_sorted(order) ? ": nothing is computed again"
                                                  : ": nothing is computed again, operations run in another order")};
  }
  std::vector<std::string> notes = {
      text_of(name, ": computing again takes ", percent(cost - once, once), " more time than everything once")};
  const std::string prices = rung < 0 ? "" : beside(frontier, rung, cost);
  if (!prices.empty()) notes.push_back(name + ": by computing again alone " + prices);
  add_largest_absent(problem, order, name, notes);
  return notes;
}

std::vector<std::string> joint_notes(const planning::Problem& problem, const planning::Plan& plan,
                                     const planning::Evaluation& evaluation, const std::string& name) {
  std::vector<int> order, left;  // operations; values, each once
  for (const planning::PlanStep& step : plan.steps) {
    if (step.kind == planning::PlanStep::Kind::compute) order.push_back(step.id);
    if (step.kind == planning::PlanStep::Kind::out) left.push_back(step.id);
  }
  const double once = planning::default_cost(problem);
  const std::size_t again = order.size() - problem.operations.size();
  std::vector<std::string> notes = {
      text_of(name, ": ", again > 0 ? "some is computed again, " : "nothing is computed again, ", left.size(),
              left.size() == 1 ? " value is offloaded, " : " values are offloaded, ", bytes_of(evaluation.bytes_out),
              " out and ", bytes_of(evaluation.bytes_in), " back: ", percent(evaluation.seconds - once, once),
              " more time than everything once without copies, of which ", percent(evaluation.stall_seconds, once),
              " waits for copies")};
  add_largest_absent(problem, order, name, notes);
  const auto value = [&](int id) -> const planning::PlannedValue& {
    return problem.values[static_cast<std::size_t>(id)];
  };
  std::ranges::stable_sort(left, std::greater{}, [&](int id) { return value(id).bytes; });
  for (std::size_t i = 0; i < std::min(left.size(), kMostLines); ++i)
    notes.push_back(text_of(name, ": '", value(left[i]).name, "' (", bytes_of(value(left[i]).bytes), ") is offloaded"));
  if (left.size() > kMostLines) notes.push_back(text_of(name, ": and ", left.size() - kMostLines, " more"));
  return notes;
}

}  // namespace sectionflow
