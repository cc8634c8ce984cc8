#include "planning/crossing.h"

#include <algorithm>

#include "planning/evaluate.h"

namespace sectionflow::planning {
namespace {

/// Marks all that is reached from `v`, itself only on a cycle; the others get 0.
void mark_reached(int v, const std::vector<std::vector<int>>& neighbours, std::vector<char>& marks) {
  marks.assign(neighbours.size(), 0);
  std::vector<int> todo = {v};
  while (!todo.empty()) {
    const int from = todo.back();
    todo.pop_back();
    for (const int to : neighbours[at(from)]) {
      if (marks[at(to)] != 0) continue;
      marks[at(to)] = 1;
      todo.push_back(to);
    }
  }
}
}  // namespace

Crossings::Crossings(const Problem& problem)
    : problem_(problem),
      readers_(readers_of_values(problem)),
      before_(problem.operations.size()),
      after_(problem.operations.size()) {
  const auto add = [&](int first, int second) {
    before_[at(second)].push_back(first);
    after_[at(first)].push_back(second);
  };
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    seconds_ += problem.operations[v].seconds;
    for (const int value : problem.operations[v].inputs) {
      const int producer = problem.values[at(value)].producer;
      if (producer >= 0) add(producer, static_cast<int>(v));
    }
  }
  for (const auto& [first, second] : problem.order) add(first, second);
  for (const auto& [first, second] : problem.ends) add(first, second);
}

void Crossings::find(int v, Crossing& crossing) {
  const Operation& operation = problem_.operations[at(v)];
  mark_reached(v, before_, is_before_);
  mark_reached(v, after_, is_after_);
  crossing.operation = v;
  crossing.own.assign(problem_.values.size(), 0);
  crossing.forced = static_cast<double>(operation.workspace);
  for (const auto* list : {&operation.inputs, &operation.outputs}) {
    for (const int value : *list) {
      crossing.own[at(value)] = 1;
      crossing.forced += static_cast<double>(problem_.values[at(value)].bytes);
    }
  }
  crossing.seconds_before = seconds_ - operation.seconds;
  for (std::size_t i = 0; i < is_after_.size(); ++i) {
    if (is_after_[i] != 0) crossing.seconds_before -= problem_.operations[i].seconds;
  }
  crossing.seconds_before = std::max(crossing.seconds_before, 0.0);  // differences are rounded
  crossing.wanted.clear();
  crossing.bytes_of_wanted = 0;
  for (std::size_t i = 0; i < problem_.values.size(); ++i) {
    const PlannedValue& value = problem_.values[i];
    if (crossing.own[i] != 0 || (value.producer >= 0 && is_before_[at(value.producer)] == 0)) continue;
    if (!is_wanted_after(static_cast<int>(i))) continue;
    crossing.wanted.push_back(static_cast<int>(i));
    crossing.bytes_of_wanted += static_cast<double>(value.bytes);
  }
  find_overwritten(operation, crossing);
}

bool Crossings::is_wanted_after(int value) const {
  const std::vector<int>& readers = readers_[at(value)];
  return problem_.values[at(value)].needed_at_end ||
         std::any_of(readers.begin(), readers.end(), [&](int reader) { return is_after_[at(reader)] != 0; });
}

/// What is written over and wanted afterwards has to be made again: where it cannot be, it is not written over.
void Crossings::find_overwritten(const Operation& operation, Crossing& crossing) const {
  crossing.made_again = -1;
  crossing.comes_back.clear();
  const auto bytes = [&](const auto& may_go) {
    return static_cast<double>(most_overwritten(problem_, operation, may_go));
  };
  const double over_done = bytes([&](int value) { return !is_wanted_after(value); });
  const double over_all = bytes([&](int value) { return !is_wanted_after(value) || !must_be_kept(problem_, value); });
  crossing.forced -= over_done;
  crossing.more_overwritten = over_all - over_done;
  for (const auto& [input, output] : operation.overwrites) {
    if (!is_wanted_after(input) || must_be_kept(problem_, input)) continue;
    if (std::ranges::count(crossing.comes_back, input) == 0) crossing.comes_back.push_back(input);
  }
}

Crossing with_overwritten(const Problem& problem, const Crossing& crossing, int value) {
  Crossing over = crossing;
  over.forced -= crossing.more_overwritten;
  over.own[at(value)] = 0;
  over.wanted.push_back(value);
  over.bytes_of_wanted += static_cast<double>(problem.values[at(value)].bytes);
  over.made_again = value;
  return over;
}

bool must_be_kept(const Problem& problem, int value) {
  const int producer = problem.values[at(value)].producer;
  return producer < 0 || !problem.operations[at(producer)].repeatable;
}

Knapsack::Knapsack(const Problem& problem, const Crossing& crossing) {
  std::vector<int> wanted = crossing.wanted;
  std::sort(wanted.begin(), wanted.end(),
            [&](int a, int b) { return problem.values[at(a)].producer < problem.values[at(b)].producer; });
  int last = -1;
  for (const int value : wanted) {
    const auto bytes = static_cast<double>(problem.values[at(value)].bytes);
    if (must_be_kept(problem, value)) {
      must_be_kept_.push_back(bytes);
      continue;
    }
    const int producer = problem.values[at(value)].producer;
    if (producer != last) items_.push_back({seconds_again(problem.operations[at(producer)])});
    last = producer;
    items_.back().bytes += bytes;
  }
  // What takes no bytes is always kept, and has no density by which it could be sorted.
  std::erase_if(items_, [](const Item& item) { return item.bytes == 0; });
  for (Item& item : items_) item.density = item.seconds / item.bytes;
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.density > b.density; });
}

double Knapsack::seconds(double capacity, double most_price) const {
  for (const double bytes : must_be_kept_) capacity -= bytes;
  double seconds = 0;
  if (capacity < 0) {
    seconds = -capacity * most_price;
    capacity = 0;
  }
  for (const Item& item : items_) {
    const double stays = std::min(capacity, item.bytes);
    capacity -= stays;
    if (stays < item.bytes) {
      const double lost = (item.bytes - stays) / item.bytes;
      seconds += std::min(item.seconds * lost, most_price * (item.bytes - stays));
    }
  }
  return seconds;
}

}  // namespace sectionflow::planning
