#include "compare/largest_size.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "compare/contender.h"

namespace sectionflow {
namespace {

FeedTypes types_at(const Contender& contender, const LargestOptions& options, std::int64_t size) {
  if (!options.is_batch) return types_of(contender.model().feeds(options.batch(size)));
  return types_of_size(contender.model(), options.batch, size);
}

/// One strategy at one size; no contender where already its making says that it does not fit.
struct Trial {
  std::unique_ptr<Contender> contender;
  ProgramReport report;
  std::string misfit;
};

Trial try_size(const LargestOptions& options, std::size_t strategy, std::int64_t size) {
  Trial trial;
  try {
    trial.contender = std::make_unique<Contender>(options.strategies(size).at(strategy), options.session,
                                                  options.is_batch ? size : options.batch(size).images.shape()[0]);
    trial.report = trial.contender->plan(types_at(*trial.contender, options, size));
    trial.misfit = misfit_of(trial.report);
  } catch (const Error& error) {
    if (!is_misfit(error)) throw;
    trial.misfit = first_line(error);
  }
  return trial;
}

bool is_finite(const HostTensor& loss) {
  const auto values = loss.values<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// Plans the size that was found once more, and trains one step of it, if it is to. Throws: BudgetError where the
/// machine has not what the budgets promise.
void prove(const LargestOptions& options, std::size_t strategy, LargestSize& found) {
  const Trial trial = try_size(options, strategy, found.size);
  found.planned_peak_bytes = trial.report.planned_peak_bytes;
  if (!options.train) return;
  Session& session = trial.contender->session();
  session.initialize();
  const Batch batch = options.batch(found.size);
  // A session keeps the plans that it makes once it is initialised: the step is timed, not its planning.
  trial.contender->plan(types_of(trial.contender->model().feeds(batch)));
  session.set_measuring(true);
  const auto start = std::chrono::steady_clock::now();
  const HostTensor loss = trial.contender->step(batch);
  found.step_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  found.measured_peak_bytes = session.statistics().measured_peak_bytes;
  found.proved = found.measured_peak_bytes == found.planned_peak_bytes && is_finite(loss);
}

}  // namespace

std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits, std::int64_t start, std::int64_t limit,
                               std::int64_t unit, std::int64_t least) {
  SF_CHECK(1 <= unit && unit <= start && 1 <= least && least <= start && start <= limit, ArgumentError,
           "largest_that_fits: from ", start, " to ", limit, " by ", unit, ", ", least,
           " at least; wanted 1 <= unit, least <= start <= limit");
  // In units from here on; everything from `fewest` to `good` fits, nothing from `bad` on does.
  const std::int64_t most = limit / unit, fewest = (least + unit - 1) / unit;
  std::int64_t good = fewest - 1, bad = most + 1, next = std::max(start / unit, fewest);
  while (good < next && next < bad) {
    if (fits(next * unit)) {
      good = next;
      next = std::min(2 * next, most);
    } else {
      bad = next;
      next = std::max(next / 2, fewest);
    }
    if (good >= fewest && bad <= most) break;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle * unit) ? good : bad) = middle;
  }
  return good < fewest ? 0 : good * unit;
}

LargestSizes find_largest_sizes(const LargestOptions& options) {
  SF_CHECK(options.session.device_memory.is_limited(), ArgumentError, "the largest ", options.what,
           " is looked for within a budget", hint("say how much device memory there is"));
  LargestSizes sizes{.what = options.what, .strategies = {}};
  const std::size_t num_strategies = options.strategies(options.start).size();
  for (std::size_t i = 0; i < num_strategies; ++i) {
    LargestSize found{.name = options.strategies(options.start)[i].name, .next_misfit = {}};
    std::int64_t smallest_misfit = options.limit + 1;
    const auto fits = [&](std::int64_t size) {
      const std::string misfit = try_size(options, i, size).misfit;
      if (!misfit.empty() && size < smallest_misfit) {
        smallest_misfit = size;
        found.next_misfit = misfit;
      }
      return misfit.empty();
    };
    found.size = largest_that_fits(fits, options.start, options.limit, options.unit, options.least);
    try {
      if (found.size > 0) prove(options, i, found);
    } catch (const BudgetError& error) {
      found.next_misfit = first_line(error);
    }
    if (options.on_found) options.on_found(found.name, found.size);
    sizes.strategies.push_back(found);
  }
  const auto whole = std::find_if(sizes.strategies.begin(), sizes.strategies.end(),
                                  [](const LargestSize& found) { return found.name == "whole"; });
  const std::int64_t one =
      sizes.strategies.empty() ? 0 : (whole != sizes.strategies.end() ? *whole : sizes.strategies.front()).size;
  for (LargestSize& found : sizes.strategies) {
    if (one > 0) found.ratio = static_cast<double>(found.size) / static_cast<double>(one);
  }
  return sizes;
}

}  // namespace sectionflow
