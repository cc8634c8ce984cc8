#include "planning/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "planning/anneal.h"
#include "planning/evict.h"
#include "planning/lane_clock.h"
#include "planning/lower_bound.h"
#include "planning/offload.h"
#include "planning/sequence.h"
#include "planning/shares.h"
#include "planning/starts.h"

namespace sectionflow::planning {
namespace {

/// What a move takes after which copies are timed, in moves without.
constexpr std::int64_t kMovesOfTimed = 16;

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), flat_(problem), limits_{options.budget, options.link} {
    for (int v = 0; v < flat_.num_operations(); ++v) given_.push_back(v);
    const bool has_link = options.link.bytes_per_second > 0;
    effort_ = options.effort > 0 ? options.effort : default_effort(problem, has_link);
  }

  SearchResult search() {
    if (!prove_impossible()) {
      offer(given_, "given order");
      for (std::size_t i = 0; i < options_.starts.size(); ++i) {
        if (options_.order_fixed && !is_in_order(options_.starts[i])) continue;
        offer(options_.starts[i], text_of("start ", i));
        std::vector<int> order = order_of(options_.starts[i]);
        if (!order.empty()) offer(std::move(order), text_of("start ", i));
      }
      const bool has_link = options_.link.bytes_per_second > 0;
      if (!is_done()) start();
      // What comes before copies does not depend on the effort, so that a greater one begins with all of a smaller.
      if (!is_done()) improve(has_link ? std::min(effort_, 35 * least_moves()) : effort_);
      if (!is_done() && has_link) improve_with_link();
      if (!result_.plan) result_.reason = not_found();
    }
    return std::move(result_);
  }

 private:
  bool prove_impossible() {
    const WorkingSet largest = largest_working_set(problem_, options_.link);
    result_.working_set = largest.bytes;
    if (largest.bytes <= options_.budget) return false;
    result_.too_large = largest.operation;
    const std::string whose = largest.operation < 0
                                  ? "what is given, or what the end needs, takes "
                                  : text_of("operation ", largest.operation, " '",
                                            problem_.operations[pos(largest.operation)].name, "' needs ");
    result_.reason = text_of(whose, largest.bytes, " bytes at once, the budget is ", options_.budget);
    return true;
  }

  std::string not_found() const {
    return text_of("no plan was found within ", options_.budget, " bytes; the best one needs ", best_.peak,
                   ", and nothing alone more than ", result_.working_set);
  }

  /// Nothing is left to gain: every operation is executed once and nothing waits.
  bool is_done() const { return result_.plan && result_.evaluation.seconds <= default_cost(problem_) * (1 + 1e-12); }

  /// Whether operations are executed for the first time in the order in which they stand.
  static bool is_in_order(const Plan& plan) {
    int next = 0;
    for (const PlanStep& step : plan.steps) {
      if (step.kind != PlanStep::Kind::compute) continue;
      if (step.id > next) return false;
      if (step.id == next) ++next;
    }
    return true;
  }

  /// The executions of a plan, where another one of them as an order is one.
  std::vector<int> order_of(const Plan& plan) const {
    if (!evaluate(problem_, plan, {.link = options_.link}).ok) return {};
    std::vector<int> order;
    for (const PlanStep& step : plan.steps) {
      if (step.kind == PlanStep::Kind::compute) order.push_back(step.id);
    }
    return order;
  }

  void offer(const Plan& plan, const std::string& start) {
    Evaluation evaluation = evaluate(problem_, plan, limits_);
    if (!evaluation.ok || (result_.plan && evaluation.seconds >= result_.evaluation.seconds)) return;
    result_.plan = plan;
    result_.evaluation = std::move(evaluation);
    result_.start = start;
  }

  /// Considers an order; true where it is the best so far.
  bool offer(std::vector<int> order, const std::string& start) {
    Sequence sequence(flat_, order);
    return offer(FoundOrder{std::move(order), sequence.cost(), sequence.peak(), {}}, start);
  }
  bool offer(FoundOrder found, const std::string& start) {
    if (!best_.order.empty() && !is_better(found, best_, options_.budget)) return false;
    best_ = std::move(found);
    best_start_ = start;
    if (best_.peak <= options_.budget) offer(plan_of(flat_, best_.order), start);
    return true;
  }

  /// Whether each operation that may be executed only once is, and none after what ends it. A walk may have evicted
  /// what it could not do without.
  bool is_allowed(const std::vector<int>& order) const {
    std::vector<std::uint8_t> executed(pos(flat_.num_operations()), 0);
    return std::all_of(order.begin(), order.end(), [&](int operation) {
      const bool again = std::exchange(executed[pos(operation)], std::uint8_t{1}) != 0;
      const std::span<const int> by = flat_.ended_by(operation);
      const bool is_ended = std::any_of(by.begin(), by.end(), [&](int other) { return executed[pos(other)] != 0; });
      return !is_ended && (!again || flat_.repeatable[pos(operation)] != 0);
    });
  }

  /// Considers orders that are made without a search, and notes the best of each way.
  void start() {
    const auto consider = [this](std::vector<int> order, int way, const std::string& how) {
      if (!is_allowed(order)) return;
      const Sequence sequence(flat_, order);
      FoundOrder found{std::move(order), sequence.cost(), sequence.peak(), {}};
      const auto [best, is_new] = best_of_ways_.try_emplace(way, found);
      if (!is_new && is_better(found, best->second, options_.budget)) best->second = found;
      offer(std::move(found), how);
    };
    offer_starts(problem_, flat_, {options_.budget, options_.looks, options_.check}, consider);
  }

  /// Rounds of annealing. Those of a smaller effort are the first ones of a greater, which is therefore never worse. No
  /// one temperature and price is best for all graphs and budgets. Of long ones most begin anew with the best that was
  /// made: what annealing has found may be where no way leads on, and the same once more, by other chances, often comes
  /// to another plan.
  void improve(std::int64_t effort) {
    struct Manner {
      double hot, price;
      bool anew;
    };
    constexpr Manner kShort[] = {
        {0.3, 1, false}, {0.1, 100, false}, {1, 100, false}, {0.03, 1, false}, {0.3, 100, false}};
    constexpr Manner kLong[] = {{0.03, 1, true},  {0.1, 1, true},    {0.3, 1, false}, {0.1, 0.3, true},
                                {0.1, 1, false},  {0.03, 0.3, true}, {0.3, 10, true}, {0.1, 100, false},
                                {0.03, 1, false}, {0.1, 10, true},   {1, 10, true},   {0.3, 100, false},
                                {0.03, 1, true},  {0.3, 1, true}};
    constexpr int kLongRounds = 8;
    const FoundOrder walked = best_;
    const auto go_through = [&](std::span<const Manner> manners, std::int64_t moves) {
      for (const Manner& manner : manners) {
        if (tried_ + moves > effort || is_done()) return false;
        offer(annealed(manner.anew ? walked : best_, options_.budget, moves, manner.hot, manner.price), best_start_);
      }
      return true;
    };
    if (!go_through(kShort, least_moves()) || !compete(effort)) return;
    for (int times = 2; times <= kLongRounds; times *= 2) {
      if (!go_through(kShort, times * least_moves())) return;
    }
    for (std::int64_t moves = kLongRounds * least_moves(); go_through(kLong, moves); moves *= 2) {
    }
  }

  /// Anneals the best order of each way, then the better half of them for twice as long, and so on: from one to another
  /// annealing finds no way. False where the effort is spent, so that a greater one goes on here.
  bool compete(std::int64_t effort) {
    std::vector<FoundOrder> left;
    for (auto& [way, order] : best_of_ways_) left.push_back(std::move(order));
    const auto sort = [&] {
      std::ranges::stable_sort(left, [&](const auto& a, const auto& b) { return is_better(a, b, options_.budget); });
    };
    sort();
    double price = 1;
    for (std::int64_t moves = 2 * least_moves(); left.size() > 1; moves *= 2, price = price == 1 ? 10 : 1) {
      for (FoundOrder& order : left) {
        if (tried_ + moves > effort || is_done()) return false;
        order = annealed(order, options_.budget, moves, 0.3, price);
        offer(order, best_start_);
      }
      sort();
      left.resize(left.size() / 2);
    }
    return true;
  }

  std::int64_t least_moves() const { return round_of_moves(problem_); }

  FoundOrder annealed(const FoundOrder& start, std::int64_t budget, std::int64_t moves, double hot, double price) {
    return annealed(flat_, start, budget, moves, hot, price);
  }
  FoundOrder annealed(const FlatProblem& problem, const FoundOrder& start, std::int64_t budget, std::int64_t moves,
                      double hot, double price) {
    const double mean = std::max(default_cost(problem_) / flat_.num_operations(), 1e-12);
    AnnealOptions anneal_options;
    anneal_options.budget = budget;
    anneal_options.order_fixed = options_.order_fixed;
    anneal_options.moves = moves;
    anneal_options.hot = hot * mean;
    anneal_options.cold = 0.003 * mean;
    anneal_options.price = price;
    anneal_options.seed = options_.seed + ++rounds_;
    anneal_options.link = options_.link;
    anneal_options.check = options_.check;
    FoundOrder found = anneal(problem, start, anneal_options);
    tried_ += (problem.has_copies() ? kMovesOfTimed : 1) * moves;
    report(tried_);
    return found;
  }

  /// An order with copies that bring it to `target` bytes or near, and its plan considered.
  FoundOrder with_offloads(FoundOrder order, std::int64_t target, const std::string& start, bool may_wait = false) {
    check();
    Offloads offloads = choose_offloads(flat_, order.order, target, options_.link, may_wait);
    order.absences = std::move(offloads.absences);
    order.peak = offloads.peak;
    if (order.peak <= options_.budget) offer(plan_of(flat_, order.order, order.absences), start);
    return order;
  }

  /// An order whose memory copies cannot bring down far enough: with executions that make up for it. They move what
  /// copies have their times from, so that these are chosen anew until both agree.
  FoundOrder fitted(FoundOrder order, std::int64_t moves) {
    constexpr int kTurns = 4;
    for (int turn = 0; turn < kTurns; ++turn) {
      order = with_offloads(std::move(order), options_.budget, "offloads");
      if (order.peak <= options_.budget || tried_ + moves > effort_) return order;
      if (turn == 0) with_offloads(order, options_.budget, "offloads", true);
      order = annealed(order, options_.budget, moves / kTurns, 0.1 / (turn + 1), 3);
      if (order.peak <= options_.budget) offer(plan_of(flat_, order.order, order.absences), "offloads");
    }
    return with_offloads(std::move(order), options_.budget, "offloads");
  }

  /// Orders for greater budgets, of which copies take what is too much; and the best of them annealed beside its
  /// copies.
  void improve_with_link() {
    FoundOrder least = {given_, default_cost(problem_), default_peak(problem_), {}};
    with_offloads(least, options_.budget, "given order", true);
    with_offloads(best_, options_.budget, best_start_, true);
    least = with_offloads(std::move(least), options_.budget, "given order");
    bool goes_on = true;
    for (int cycle = 0; goes_on; ++cycle) {
      const std::int64_t moves = least_moves() * (2 + cycle / 2);
      goes_on = join(cycle) && try_levels(least, moves, cycle) && refine(least, moves) && refine(least, moves);
    }
  }

  /// False where the effort is spent or nothing is left to gain.
  bool try_levels(FoundOrder& least, std::int64_t moves, int cycle) {
    constexpr int kLevels = 12;
    constexpr double kHot[] = {0.1, 0.3, 0.03};
    const std::int64_t peak = default_peak(problem_);
    for (int level = 0; level < kLevels; ++level) {
      if (tried_ + 5 * moves > effort_ || is_done()) return false;
      const std::int64_t budget = options_.budget + (peak - options_.budget) / kLevels * level;
      FoundOrder found = level == 0 ? best_ : evicted(budget);
      if (found.order.empty()) continue;  // no walk may do what it would have to
      if (level > 0) found = annealed(found, budget, moves, kHot[cycle % 3], 1);
      found = fitted(std::move(found), 4 * moves);
      if (is_better(found, least, options_.budget)) least = std::move(found);
    }
    return true;
  }

  /// Short rounds, in which copies are chosen anew; some for a greater budget, so that copies may stand in for
  /// executions. An order may be a little slower than the one before.
  bool refine(FoundOrder& least, std::int64_t moves) {
    struct Manner {
      double target, budget, hot;  // shares of the budget, of the mean execution
    };
    constexpr Manner kManners[] = {{0.9, 1, 0.1}, {1, 1.15, 0.1}, {0.95, 1, 0.3}, {1, 1.4, 0.1}, {0.8, 1, 0.03}};
    const double little = 0.002 * default_cost(problem_);
    const auto share = [&](double of_budget) {
      return static_cast<std::int64_t>(of_budget * static_cast<double>(options_.budget));
    };
    FoundOrder current = least;
    for (const Manner& manner : kManners) {
      if (tried_ + 3 * moves > effort_ || is_done()) return false;
      FoundOrder next = with_offloads(current, share(manner.target), "offloads");
      next = annealed(next, share(manner.budget), moves, manner.hot, 1);
      if (next.peak <= options_.budget) offer(plan_of(flat_, next.order, next.absences), "offloads");
      next = fitted(std::move(next), 2 * moves);
      if (is_better(next, least, options_.budget)) least = next;
      if (next.peak <= options_.budget && next.cost <= least.cost + little) current = std::move(next);
    }
    return true;
  }

  /// Orders in which copies are moves like executions, timed lane by lane: from the best plan so far, from walks for
  /// greater budgets of which copies take what is too much, however long executions wait for them; and the best of
  /// those further on. False where the effort is spent or nothing is left to gain.
  bool join(int cycle) {
    constexpr int kStarts = 5, kLevels = 12;
    constexpr double kHot[] = {0.3, 1, 0.1};
    constexpr double kPrices[] = {1, 10};
    if (!with_copies_) with_copies_.emplace(problem_, true);
    const std::int64_t moves = (round_of_moves(problem_) / 2) << std::min(cycle, 20), peak = default_peak(problem_);
    const auto round = [&](FoundOrder start, int manner) {
      if (tried_ + kMovesOfTimed * moves > effort_ || is_done()) return false;
      FoundOrder found = annealed(*with_copies_, start, options_.budget, moves, kHot[manner % 3], kPrices[manner % 2]);
      if (found.peak <= options_.budget) offer(plan_with_copies(*with_copies_, found.order), "copies in turns");
      if (joined_.order.empty() || is_better(found, joined_, options_.budget)) joined_ = std::move(found);
      return true;
    };
    if (result_.plan && !round(with_copies(*result_.plan), cycle)) return false;
    for (int start = 0; start < kStarts; ++start) {
      const int level = (kStarts * cycle + 7 * start) % kLevels;
      const FoundOrder base = evicted(options_.budget + (peak - options_.budget) / kLevels * level);
      if (base.order.empty()) continue;
      const Offloads offloads = choose_offloads(flat_, base.order, options_.budget, options_.link, true);
      if (!round(with_copies(plan_of(flat_, base.order, offloads.absences)), cycle + start)) return false;
    }
    return joined_.order.empty() || (round(joined_, 3 * cycle) && round(joined_, 3 * cycle + 1));
  }

  /// A plan as an order of executions and copies. REQUIRES: with_copies_.
  FoundOrder with_copies(const Plan& plan) const {
    FoundOrder found;
    found.order = order_with_copies(*with_copies_, plan);
    Sequence sequence(*with_copies_, found.order);
    found.peak = sequence.peak();
    found.cost = LaneClock(*with_copies_, options_.link)
                     .seconds(found.order, std::max(found.peak, options_.budget), sequence.cost());
    return found;
  }

  /// The best of some walks.
  FoundOrder evicted(std::int64_t budget) const {
    constexpr std::size_t kVariants = 12;
    FoundOrder best;
    const std::vector<EvictWeights> variants = evict_variants();
    for (std::size_t i = 0; i < kVariants; ++i) {
      check();
      const std::optional<std::vector<int>> order = evict_order(flat_, budget, variants[i]);
      if (!order || !is_allowed(*order)) continue;
      const Sequence sequence(flat_, *order);
      FoundOrder found{*order, sequence.cost(), sequence.peak(), {}};
      if (best.order.empty() || is_better(found, best, budget)) best = std::move(found);
    }
    return best;
  }

  void check() const {
    if (options_.check) options_.check();
  }
  void report(std::int64_t moves) const {
    if (!options_.progress) return;
    const double seconds = result_.plan ? result_.evaluation.seconds : std::numeric_limits<double>::infinity();
    options_.progress({moves, effort_, seconds});
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const FlatProblem flat_;
  const Limits limits_;
  std::int64_t effort_ = 0, tried_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<int> given_;
  FoundOrder best_;
  std::string best_start_;
  std::map<int, FoundOrder> best_of_ways_;
  std::optional<FlatProblem> with_copies_;
  FoundOrder joined_;  // the best of with_copies_
  SearchResult result_;
};

}  // namespace

SearchResult search_plan(const Problem& problem, const SearchOptions& options) {
  check_problem(problem);
  check_link(options.link);
  SF_CHECK(options.budget >= 0, ArgumentError, "a budget of ", options.budget, " bytes, wanted at least 0");
  SF_CHECK(options.effort >= 0, ArgumentError, "an effort of ", options.effort, " moves, wanted at least 0",
           hint("0 is the default"));
  SF_CHECK(!options.never_slower || options.starts.empty(), ArgumentError, "never_slower beside ",
           options.starts.size(), " starts, wanted none", hint("what is given would not be there for other budgets"));
  return options.never_slower ? search_shares(problem, options) : Search(problem, options).search();
}

}  // namespace sectionflow::planning
