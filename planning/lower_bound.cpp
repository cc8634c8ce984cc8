#include "planning/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "planning/crossing.h"
#include "planning/evaluate.h"
#include "planning/min_cut.h"
#include "planning/whole_copies.h"

namespace sectionflow::planning {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A selection of what is kept and what is executed again: seconds + price x bytes is what it costs.
struct Selection {
  double seconds = 0, bytes = 0;
  std::vector<int> kept, repeated;
};

/// What a selection costs as a function of the price.
struct Line {
  double seconds = 0, bytes = 0;
  double at_price(double price) const { return seconds + price * bytes; }
};

/// The cheapest selection at a crossing for a price of a byte: a smallest cut. A node of the network stands for each
/// operation that may be executed again, and one for each value. On the sink's side an operation is repeated, and a
/// value is there after the crossing: because its producer is repeated, or because it is kept.
class SelectionNetwork {
 public:
  SelectionNetwork(const Problem& problem, const Crossing& crossing, MinCut& cut)
      : problem_(problem),
        cut_(cut),
        made_again_(crossing.made_again),
        node_of_value_(problem.values.size(), -1),
        node_of_operation_(problem.operations.size(), -1) {
    // What repeating wants, from the wanted values back.
    for (const int value : crossing.wanted) add_value(value);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const int value = values_[i];
      if (must_be_kept(problem, value)) continue;
      const int producer = problem.values[at(value)].producer;
      if (node_of_operation_[at(producer)] >= 0) continue;
      node_of_operation_[at(producer)] = num_nodes_++;
      operations_.push_back(producer);
      for (const int input : problem.operations[at(producer)].inputs) {
        if (crossing.own[at(input)] == 0) add_value(input);
      }
    }
    cut.reset(num_nodes_);
    for (const int operation : operations_) {
      repeat_arcs_.push_back(cut.add_arc(MinCut::kSource, node_of_operation_[at(operation)], 0));
      for (const int input : problem.operations[at(operation)].inputs) {
        if (node_of_value_[at(input)] >= 0) {
          cut.add_arc(node_of_value_[at(input)], node_of_operation_[at(operation)], kInfinity);
        }
      }
    }
    for (const int value : values_) {
      const int from =
          must_be_kept(problem, value) ? MinCut::kSource : node_of_operation_[at(problem.values[at(value)].producer)];
      keep_arcs_.push_back(cut.add_arc(from, node_of_value_[at(value)], 0));
    }
    for (const int value : crossing.wanted) cut.add_arc(node_of_value_[at(value)], MinCut::kSink, kInfinity);
  }

  /// The least of seconds + price x bytes over all selections; `with_seconds` false: of price x bytes.
  double solve(double price, bool with_seconds = true) {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      cut_.set_capacity(repeat_arcs_[i], with_seconds ? seconds_again(problem_.operations[at(operations_[i])]) : 0);
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double bytes = price * static_cast<double>(problem_.values[at(values_[i])].bytes);
      cut_.set_capacity(keep_arcs_[i], values_[i] == made_again_ ? kInfinity : bytes);
    }
    return cut_.solve();
  }
  /// The selection that keeps the fewest bytes, or another of as few.
  Line cheapest_in_bytes() {
    const bool all_repeated =
        std::none_of(values_.begin(), values_.end(), [&](int value) { return must_be_kept(problem_, value); });
    if (!all_repeated) {
      solve(1, false);
      const Selection found = selection();
      return {found.seconds, found.bytes};
    }
    Line line;
    for (const int operation : operations_) line.seconds += seconds_again(problem_.operations[at(operation)]);
    return line;
  }
  /// The selection of the last `solve`.
  Selection selection() const {
    Selection found;
    for (const int operation : operations_) {
      if (!cut_.on_sink_side(node_of_operation_[at(operation)])) continue;
      found.repeated.push_back(operation);
      found.seconds += seconds_again(problem_.operations[at(operation)]);
    }
    for (const int value : values_) {
      const bool made = !must_be_kept(problem_, value) &&
                        cut_.on_sink_side(node_of_operation_[at(problem_.values[at(value)].producer)]);
      if (made || !cut_.on_sink_side(node_of_value_[at(value)])) continue;
      found.kept.push_back(value);
      found.bytes += static_cast<double>(problem_.values[at(value)].bytes);
    }
    return found;
  }

 private:
  void add_value(int value) {
    if (node_of_value_[at(value)] >= 0) return;
    node_of_value_[at(value)] = num_nodes_++;
    values_.push_back(value);
  }
  const Problem& problem_;
  MinCut& cut_;
  const int made_again_;
  int num_nodes_ = 2;
  std::vector<int> node_of_value_, node_of_operation_, values_, operations_, keep_arcs_, repeat_arcs_;
};

struct Peak {
  double price = 0, value = 0;
};

/// Where the least of the lines, less price x capacity, is largest, for prices up to `most`.
Peak highest(const std::vector<Line>& lines, double capacity, double most) {
  const auto least_at = [&](double price) {
    return *std::min_element(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
      const bool end = price == kInfinity;
      const double left = end ? a.bytes : a.at_price(price), right = end ? b.bytes : b.at_price(price);
      return left != right ? left < right : end ? a.seconds < b.seconds : a.bytes < b.bytes;
    });
  };
  Line rising = least_at(0), falling = least_at(most);
  if (rising.bytes <= capacity) return {0, rising.seconds};
  if (falling.bytes > capacity) return {most, most == kInfinity ? most : falling.at_price(most) - most * capacity};
  // Where the two meet some other line may be lower: it takes the place of one of them.
  for (std::size_t i = 0;; ++i) {
    const double price = (falling.seconds - rising.seconds) / (rising.bytes - falling.bytes);
    const double here = rising.at_price(price);
    const Line least = least_at(price);
    if (i > 2 * lines.size() || least.at_price(price) >= here * (1 - 1e-13)) return {price, here - price * capacity};
    (least.bytes > capacity ? rising : falling) = least;
  }
}

/// Bytes that a crossing leaves for values beside those of its operation, and bytes that may have left over the link by
/// then. Time that a plan takes beyond all operations once lets more leave: a byte's price is no higher than its
/// copy's.
struct Capacity {
  double bytes = 0, most_price = kInfinity;
  Capacity(double of_bytes, double price) : bytes(of_bytes), most_price(price) {}
  Capacity(const Crossing& crossing, std::int64_t budget, const Link& link)
      : bytes(static_cast<double>(budget) - crossing.forced) {
    if (link.bytes_per_second <= 0) return;
    // All there are do; a fast link may have carried more than a number can tell.
    bytes = std::min(bytes + link.bytes_per_second * crossing.seconds_before, 4.0 * kMostProblemBytes);
    most_price = 1 / link.bytes_per_second;
  }
};

/// A bound at one crossing for every budget, better and better as prices are tried.
class CrossingBound {
 public:
  CrossingBound(const Problem& problem, const Crossing& crossing, MinCut& cut)
      : network_(problem, crossing, cut), lines_{{0, crossing.bytes_of_wanted}, network_.cheapest_in_bytes()} {}

  /// Raises `best` to the bound of this crossing where that is higher. `hint`: a price that is likely to show that it
  /// is not.
  void raise(const Capacity& capacity, int operation, LowerBound& best) {
    for (int tries = 0; tries < 100; ++tries) {
      const Peak peak = highest(lines_, capacity.bytes, capacity.most_price);
      if (peak.value <= best.extra_seconds * (1 + 1e-9)) return;
      if (peak.value == kInfinity) {
        best = {kInfinity, 0, operation, {}, {}};
        return;
      }
      // Before this crossing is looked at closely: at the price of another one it may turn out to matter less.
      const double price =
          tries == 0 && best.operation >= 0 ? std::min(best.seconds_per_byte, capacity.most_price) : peak.price;
      const double value = network_.solve(price) - price * capacity.bytes;
      if (value > best.extra_seconds) best = {value, price, operation, {}, {}};
      const Selection found = network_.selection();
      lines_.push_back({found.seconds, found.bytes});
      if (price == peak.price && value >= peak.value * (1 - 1e-9)) return;
    }
  }
  /// The selection for a price just above that of a bound, so that it fits.
  Selection selection_above(double price) {
    network_.solve(price * (1 + 1e-6));
    return network_.selection();
  }

 private:
  SelectionNetwork network_;
  std::vector<Line> lines_;
};

std::vector<int> from_high_to_low(const std::vector<double>& values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[at(a)] > values[at(b)]; });
  return order;
}

int num_variants(const Crossing& crossing) {
  return 1 + static_cast<int>(crossing.comes_back.size());
}

/// How a plan may execute the operation of a crossing: 0 writes over nothing that has to come back.
Crossing variant_of(const Problem& problem, const Crossing& crossing, int variant) {
  if (variant == 0) return crossing;
  return with_overwritten(problem, crossing, crossing.comes_back[at(variant - 1)]);
}

/// A plan takes one of the variants: the least of their bounds is one. Of the budgets that are `open`.
void raise_by_least(const Problem& problem, const Crossing& crossing, const std::vector<std::int64_t>& budgets,
                    const Link& link, MinCut& cut, const std::vector<std::size_t>& open,
                    std::vector<LowerBound>& bounds, std::vector<int>& variants) {
  std::vector<LowerBound> least(budgets.size());
  std::vector<int> least_variants(budgets.size(), 0);
  std::vector<std::size_t> rising = open;
  for (int variant = 0; variant < num_variants(crossing) && !rising.empty(); ++variant) {
    const Crossing crossed = variant_of(problem, crossing, variant);
    CrossingBound bound(problem, crossed, cut);
    std::vector<std::size_t> still;
    for (const std::size_t i : rising) {
      LowerBound raised = bounds[i];
      bound.raise(Capacity(crossed, budgets[i], link), crossing.operation, raised);
      if (raised.extra_seconds <= bounds[i].extra_seconds) continue;
      if (variant == 0 || raised.extra_seconds < least[i].extra_seconds) {
        least[i] = std::move(raised);
        least_variants[i] = variant;
      }
      still.push_back(i);
    }
    rising = std::move(still);
  }
  for (const std::size_t i : rising) {
    bounds[i] = std::move(least[i]);
    variants[i] = least_variants[i];
  }
}

/// The bound at a crossing as copies take whole values: nothing more than `capacity` leaves, or at least a unit more
/// does.
double bound_of_whole(const Problem& late, Crossing crossing, const WholeCopies::Capacity& capacity, const Link& link,
                      MinCut& cut) {
  crossing.bytes_of_wanted = 0;
  for (const int value : crossing.wanted) crossing.bytes_of_wanted += static_cast<double>(late.values[at(value)].bytes);
  CrossingBound bound(late, crossing, cut);
  LowerBound in_time, later;
  bound.raise(Capacity(capacity.bytes, kInfinity), crossing.operation, in_time);
  bound.raise(Capacity(capacity.bytes + capacity.unit, 1 / link.bytes_per_second), crossing.operation, later);
  return std::min(in_time.extra_seconds, later.extra_seconds + capacity.seconds_of_unit);
}

/// Raises bounds at the crossings that they are of.
void raise_by_whole_copies(const Problem& problem, const std::vector<std::int64_t>& budgets,
                           const BoundOptions& options, MinCut& cut, const std::vector<std::size_t>& open,
                           std::vector<LowerBound>& bounds) {
  const Link& link = options.link;
  const WholeCopies copies(problem, link);
  Crossings crossings(problem);
  Crossing crossing;
  for (const double moment : copies.moments()) {
    const Problem late = copies.without_earlier(moment);
    for (const std::size_t i : open) {
      if (options.check) options.check();
      LowerBound& best = bounds[i];
      if (best.operation < 0 || best.extra_seconds == kInfinity) continue;
      crossings.find(best.operation, crossing);
      double least = kInfinity;
      for (int variant = 0; variant < num_variants(crossing) && least > best.extra_seconds; ++variant) {
        const Crossing crossed = variant_of(problem, crossing, variant);
        least = std::min(least, bound_of_whole(late, crossed, copies.capacity(crossed, budgets[i], moment), link, cut));
      }
      best.extra_seconds = std::max(best.extra_seconds, least);
    }
  }
}

/// Where nothing can be done: an operation, or the end, that needs more than the budget by itself.
bool is_too_large(const WorkingSet& largest, std::int64_t budget) {
  return largest.bytes > budget;
}

}  // namespace

WorkingSet largest_working_set(const Problem& problem, const Link& link) {
  std::int64_t at_start = 0, at_end = 0;
  for (const PlannedValue& value : problem.values) {
    at_start += value.producer < 0 ? value.bytes : 0;
    at_end += value.needed_at_end ? value.bytes : 0;
  }
  WorkingSet largest{.bytes = std::max(at_start, at_end)};
  const std::vector<int> always = always_there(problem, link);
  for (int v = 0; v < static_cast<int>(problem.operations.size()); ++v) {
    const std::int64_t bytes = working_set(problem, v, always);
    if (bytes > largest.bytes) largest = {bytes, v};
  }
  return largest;
}

double knapsack_bound(const Problem& problem, std::int64_t budget, const Link& link) {
  check_problem(problem);
  check_link(link);
  if (is_too_large(largest_working_set(problem, link), budget)) return kInfinity;
  Crossings crossings(problem);
  Crossing crossing;
  double largest = 0;
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    crossings.find(static_cast<int>(v), crossing);
    const Capacity capacity(crossing, budget, link);
    largest = std::max(
        largest, Knapsack(problem, crossing).seconds(capacity.bytes + crossing.more_overwritten, capacity.most_price));
  }
  return largest;
}

std::vector<LowerBound> lower_bounds(const Problem& problem, const std::vector<std::int64_t>& budgets,
                                     const BoundOptions& options) {
  check_problem(problem);
  check_link(options.link);
  const WorkingSet largest = largest_working_set(problem, options.link);
  std::vector<LowerBound> bounds(budgets.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (is_too_large(largest, budgets[i])) {
      bounds[i] = {kInfinity, 0, largest.operation, {}, {}};
    } else {
      open.push_back(i);
    }
  }
  if (open.empty()) return bounds;
  Crossings crossings(problem);
  Crossing crossing;
  std::vector<double> promise(problem.operations.size(), 0);
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    crossings.find(static_cast<int>(v), crossing);
    const Knapsack knapsack(problem, crossing);
    for (const std::size_t i : open) {
      const Capacity capacity(crossing, budgets[i], options.link);
      promise[v] =
          std::max(promise[v], knapsack.seconds(capacity.bytes + crossing.more_overwritten, capacity.most_price));
    }
  }
  MinCut cut;
  std::vector<int> variants(budgets.size(), 0);  // at the best crossing: which is the least bounded
  for (const int v : from_high_to_low(promise)) {
    if (options.check) options.check();
    if (cut.looks() > options.effort) break;
    crossings.find(v, crossing);
    raise_by_least(problem, crossing, budgets, options.link, cut, open, bounds, variants);
  }
  for (const std::size_t i : open) {
    LowerBound& best = bounds[i];
    if (best.operation < 0 || best.extra_seconds == kInfinity) continue;
    crossings.find(best.operation, crossing);
    const Crossing variant = variant_of(problem, crossing, variants[i]);
    CrossingBound bound(problem, variant, cut);
    Selection selection = bound.selection_above(best.seconds_per_byte);
    best.kept = std::move(selection.kept);
    best.repeated = std::move(selection.repeated);
    std::sort(best.kept.begin(), best.kept.end());
    std::sort(best.repeated.begin(), best.repeated.end());
  }
  if (options.link.bytes_per_second > 0) {
    raise_by_whole_copies(problem, budgets, options, cut, open, bounds);
  }
  return bounds;
}

LowerBound lower_bound(const Problem& problem, std::int64_t budget, const BoundOptions& options) {
  return lower_bounds(problem, {budget}, options).front();
}

}  // namespace sectionflow::planning
