#include <omp.h>

#include <algorithm>

#include "device/parallel.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/scaled_update_family.h"

namespace sectionflow {
namespace {

using formulas::SquareSums;

/// Elements whose directions are found together, and stay in the first-level cache.
constexpr std::int64_t kStripeOfDirections = 512;

SquareSums stripe_sums(const float* variable, const float* direction, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  double of_variable[kLanes] = {}, of_direction[kLanes] = {};
  const auto add = [&](std::int64_t lane, std::int64_t i) {
    const double w = variable[i], u = direction[i];
    of_variable[lane] += w * w;
    of_direction[lane] += u * u;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (; i < count; ++i) add(0, i);
  SquareSums sum;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sum = sum + SquareSums{of_variable[lane], of_direction[lane]};
  return sum;
}

template <class Rule, class Terms>
void advance_stripe(const Rule& rule, const Terms& terms, std::int64_t first, std::int64_t count) {
  const Rule of = rule;
  const Terms by = terms;
#pragma omp simd
  for (std::int64_t i = first; i < first + count; ++i) of.advance(by, i);
}

template <class Rule, class Terms>
void find_directions(const Rule& rule, const Terms& terms, std::int64_t first, std::int64_t count, float* directions) {
  const Rule of = rule;
  const Terms by = terms;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) directions[i] = of.direction(by, first + i);
}
/// By stretches of rows, so that no element's number is divided by that of columns.
template <class G, class Terms>
void find_directions(const AdafactorRule<G>& rule, const Terms&, std::int64_t first, std::int64_t count,
                     float* directions) {
  const AdafactorRule<G> of = rule;
  while (count > 0) {
    const std::int64_t row = first / of.columns, column = first % of.columns, matrix = row / of.rows;
    const std::int64_t length = std::min(count, of.columns - column);
    const float of_row = of.row_means[row] / of.means[matrix];
    const float* of_columns = of.column_means + matrix * of.columns + column;
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) directions[i] = of.direction_by(first + i, of_row * of_columns[i]);
    first += length;
    count -= length;
    directions += length;
  }
}

/// Lamb's stripes are of more tensors and less arithmetic, and are faster as hardware asks for them.
template <class Rule>
void ask_for_stripe(const Rule&, const float*, std::int64_t, std::int64_t) {}
template <class G>
void ask_for_stripe(const AdafactorRule<G>& rule, const float* variable, std::int64_t first, std::int64_t count) {
  ask_ahead(variable + first, count);
  ask_ahead(rule.gradient + first, count);
}

/// Of `count` elements from `first` on: of many in 16 lanes, so that no sum waits for the one before it.
template <class G>
double sum_of_squares(const AdafactorRule<G>& rule, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kSums = 16;
  const AdafactorRule<G> of = rule;
  double sum = 0;
  if (count < 2 * kSums) {
    for (std::int64_t i = 0; i < count; ++i) sum += of.square(first + i);
    return sum;
  }
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kSums; ++lane) sums[lane] += of.square(first + i + lane);
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) sums[lane] += of.square(first + i + lane);
  for (const double of_lane : sums) sum += of_lane;
  return sum;
}

constexpr std::int64_t kMostColumns = 1024;
/// Columns together: a stripe a thread, since memory gives long stretches of rows faster.
std::int64_t stripe_columns(std::int64_t columns) {
  constexpr std::int64_t kLeast = 64;
  const std::int64_t team = omp_get_max_threads();
  return std::clamp((columns / team + kLeast - 1) / kLeast * kLeast, kLeast, kMostColumns);
}

/// Of the `width` columns from `first` on.
template <class G>
void update_column_means(const AdafactorRule<G>& of, const formulas::Average& average, std::int64_t matrix,
                         std::int64_t first, std::int64_t width) {
  double sums[kMostColumns];
  std::fill_n(sums, width, 0.0);
  for (std::int64_t row = matrix * of.rows; row < (matrix + 1) * of.rows; ++row) {
    const std::int64_t at = row * of.columns + first;
    ask_for_lines(of.gradient + at + of.columns, width);  // the next row
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) sums[i] += of.square(at + i);
  }
  float* means = of.column_means + matrix * of.columns + first;
  for (std::int64_t i = 0; i < width; ++i) means[i] = average(means[i], of.mean_of(sums[i], of.rows));
}

template <class Rule>
void update_means(const Rule&) {}
template <class G>
void update_means(const AdafactorRule<G>& rule) {
  const AdafactorRule<G> of = rule;
  const formulas::Average average = of.average();
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / of.columns);
  parallel_for(of.matrices * of.rows, grain, [=](std::int64_t begin, std::int64_t end) {
    in_wide_vectors([=] {
      for (std::int64_t row = begin; row < end; ++row) {
        const double sum = sum_of_squares(of, row * of.columns, of.columns);
        of.row_means[row] = average(of.row_means[row], of.mean_of(sum, of.columns));
      }
    });
  });
  const std::int64_t width = stripe_columns(of.columns), stripes = (of.columns + width - 1) / width;
  parallel_for(of.matrices * stripes, std::max<std::int64_t>(1, kParallelGrain / (of.rows * width)),
               [=](std::int64_t begin, std::int64_t end) {
                 in_wide_vectors([=] {
                   for (std::int64_t stripe = begin; stripe < end; ++stripe) {
                     const std::int64_t first = stripe % stripes * width;
                     update_column_means(of, average, stripe / stripes, first, std::min(width, of.columns - first));
                   }
                 });
               });
  for (std::int64_t matrix = 0; matrix < of.matrices; ++matrix) {
    double sum = 0;
    for (std::int64_t row = 0; row < of.rows; ++row) sum += of.row_means[matrix * of.rows + row];
    of.write_mean(matrix, sum);
  }
}

/// The updates as loops over stretches of a length that does not depend on threads, and so neither do the sums of each.
struct LoopScaledUpdates {
  static constexpr std::int64_t kStretch = 8 * kStripeOfDirections;
  static constexpr std::size_t kStepBytes = 0;

  template <class Rule>
  static void run(void* /*queue*/, const ScaledUpdate<Rule>& update) {
    if (!update.is_open()) return;
    const Rule& rule = update.rule;
    update_means(rule);
    const typename Rule::Terms terms = rule.terms();
    for_each_stripe(update.count, [&](std::int64_t first, std::int64_t count) {
      ask_for_stripe(rule, update.variable, first, count);
      float directions[kStripeOfDirections];
      advance_stripe(rule, terms, first, count);
      find_directions(rule, terms, first, count, directions);
      SquareSums& sums = update.sums[first / kStretch];
      const SquareSums before = first % kStretch == 0 ? SquareSums() : sums;
      sums = before + stripe_sums(update.variable + first, directions, count);
    });
    SquareSums total;
    for (std::int64_t first = 0; first < update.count; first += kStretch) total = total + update.sums[first / kStretch];
    const formulas::ScaledDirection step = rule.step(total);
    for_each_stripe(update.count, [&](std::int64_t first, std::int64_t count) {
      ask_for_stripe(rule, update.variable, first, count);
      float directions[kStripeOfDirections];
      find_directions(rule, terms, first, count, directions);
      const formulas::ScaledDirection taken = step;
      float* w = update.variable + first;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) w[i] = taken(w[i], directions[i]);
    });
  }

 private:
  /// body(first, count), the stripes of a stretch one after the other.
  template <class Body>
  static void for_each_stripe(std::int64_t count, const Body& body) {
    parallel_for((count + kStretch - 1) / kStretch, kParallelGrain / kStretch,
                 [&](std::int64_t begin, std::int64_t end) {
                   const std::int64_t last = std::min(count, end * kStretch);
                   in_wide_vectors([&] {
                     for (std::int64_t i = begin * kStretch; i < last; i += kStripeOfDirections) {
                       body(i, std::min(kStripeOfDirections, last - i));
                     }
                   });
                 });
  }
};

}  // namespace

void add_scaled_update_cpu_kernels(KernelRegistry& registry) {
  ScaledUpdateFamily<LoopScaledUpdates>::add_to(registry);
}

}  // namespace sectionflow
