#include <cstdint>

#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/scaled_update_family.h"

// Launches one behind the other: sums of squares of variable and directions, a block a stretch; their total, and the
// step that follows from it; the variable along its directions. Adafactor's means of rows and columns come before.
namespace sectionflow {
namespace {

using formulas::ScaledDirection;
using formulas::SquareSums;

constexpr int kThreadsOfScaled = 256;
constexpr std::int64_t kStretchOfScaled = std::int64_t{16} * kThreadsOfScaled;
/// Two sums of a block, one behind the other, and what a thread finds for all of it.
constexpr std::size_t kOfSecondSum = gpu::reduce_bytes<double>();
constexpr std::size_t kOfTerms = 2 * gpu::reduce_bytes<double>();

/// What the launches of an update have in common.
template <class Rule>
struct ScaledLaunch : ScaledUpdate<Rule> {
  using Terms = typename Rule::Terms;
  static constexpr std::size_t kSharedBytes = kOfTerms + sizeof(Terms);

  std::int64_t num_stretches() const { return gpu::blocks_for(this->count, static_cast<int>(kStretchOfScaled)); }

  template <class Thread>
  SF_HOST_DEVICE Terms terms_of_block(Thread& thread) const {
    auto shared = thread.template shared<Terms>(kOfTerms, 1);
    if (thread.index() == 0) shared[0] = this->rule.terms();
    thread.barrier();
    const Terms terms = shared[0];
    return terms;
  }
  /// body(i) for the elements of a thread.
  template <class Thread, class Body>
  SF_HOST_DEVICE void for_each_of(const Thread& thread, const Body& body) const {
    const std::int64_t first = thread.block() * kStretchOfScaled;
    const std::int64_t end = first + kStretchOfScaled < this->count ? first + kStretchOfScaled : this->count;
    for (std::int64_t i = first + thread.index(); i < end; i += kThreadsOfScaled) body(i);
  }
};

template <class Rule>
struct SumStretch {
  ScaledLaunch<Rule> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto terms = all.terms_of_block(thread);
    SquareSums sum;
    all.for_each_of(thread, [&](std::int64_t i) {
      all.rule.advance(terms, i);
      const double w = all.variable[i], u = all.rule.direction(terms, i);
      sum = sum + SquareSums{w * w, u * u};
    });
    const double of_variable = gpu::block_reduce(thread, sum.variable, 0, gpu::Sum());
    const double of_direction = gpu::block_reduce(thread, sum.direction, kOfSecondSum, gpu::Sum());
    if (thread.index() == 0) all.sums[thread.block()] = {of_variable, of_direction};
  }
};

/// One block.
template <class Rule>
struct TotalOfStretches {
  ScaledLaunch<Rule> all;
  std::int64_t stretches;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const SquareSums* sums = all.sums;
    SquareSums total;
    total.variable = gpu::row_sum(thread, stretches, 0, [=](std::int64_t i) { return sums[i].variable; });
    total.direction = gpu::row_sum(thread, stretches, kOfSecondSum, [=](std::int64_t i) { return sums[i].direction; });
    if (thread.index() == 0) *all.step = all.rule.step(total);
  }
};

template <class Rule>
struct GoAlong {
  ScaledLaunch<Rule> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto terms = all.terms_of_block(thread);
    const ScaledDirection step = *all.step;
    all.for_each_of(thread,
                    [&](std::int64_t i) { all.variable[i] = step(all.variable[i], all.rule.direction(terms, i)); });
  }
};

/// A block a row.
template <class G>
struct AverageRow {
  ScaledUpdate<AdafactorRule<G>> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto& rule = all.rule;
    const std::int64_t first = thread.block() * rule.columns;
    const double sum = gpu::row_sum(thread, rule.columns, 0, [&](std::int64_t i) { return rule.square(first + i); });
    float& mean = rule.row_means[thread.block()];
    if (thread.index() == 0) mean = rule.average()(mean, rule.mean_of(sum, rule.columns));
  }
};

/// Some neighbouring columns a block, each by several threads that take every so many-th row.
template <class G>
struct AverageColumns {
  static constexpr int kWidth = gpu::kWarp, kLanes = kThreadsOfScaled / kWidth;
  ScaledUpdate<AdafactorRule<G>> all;
  std::int64_t tiles;  // of a matrix

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto& rule = all.rule;
    const std::int64_t matrix = thread.block() / tiles, tile = thread.block() % tiles;
    const int lane = thread.index() / kWidth;
    const std::int64_t column = tile * kWidth + thread.index() % kWidth;
    double sum = 0;
    if (column < rule.columns) {
      for (std::int64_t row = lane; row < rule.rows; row += kLanes) {
        sum += rule.square((matrix * rule.rows + row) * rule.columns + column);
      }
    }
    auto shared = thread.template shared<double>(0, kThreadsOfScaled);
    shared[thread.index()] = sum;
    thread.barrier();
    if (lane != 0 || column >= rule.columns) return;
    for (int other = 1; other < kLanes; ++other) {
      const double of_lane = shared[thread.index() + other * kWidth];
      sum += of_lane;
    }
    float& mean = rule.column_means[matrix * rule.columns + column];
    mean = rule.average()(mean, rule.mean_of(sum, rule.rows));
  }
};

/// A block a matrix.
template <class G>
struct MeanOfRows {
  ScaledUpdate<AdafactorRule<G>> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto& rule = all.rule;
    const float* row_means = rule.row_means + thread.block() * rule.rows;
    const double sum =
        gpu::row_sum(thread, rule.rows, 0, [=](std::int64_t i) { return static_cast<double>(row_means[i]); });
    if (thread.index() == 0) rule.write_mean(thread.block(), sum);
  }
};

template <class Rule>
void launch_means(void*, const ScaledUpdate<Rule>&) {}
template <class G>
void launch_means(void* queue, const ScaledUpdate<AdafactorRule<G>>& all) {
  const auto& rule = all.rule;
  const auto of_blocks = [](std::int64_t blocks, std::size_t shared_bytes) {
    return gpu::LaunchShape{.blocks = blocks, .threads = kThreadsOfScaled, .shared_bytes = shared_bytes};
  };
  gpu::launch_blocks(queue, of_blocks(rule.matrices * rule.rows, gpu::reduce_bytes<double>()), AverageRow<G>{all});
  const std::int64_t tiles = gpu::blocks_for(rule.columns, AverageColumns<G>::kWidth);
  gpu::launch_blocks(queue, of_blocks(rule.matrices * tiles, kThreadsOfScaled * sizeof(double)),
                     AverageColumns<G>{all, tiles});
  gpu::launch_blocks(queue, of_blocks(rule.matrices, gpu::reduce_bytes<double>()), MeanOfRows<G>{all});
}

struct LaunchedScaledUpdates {
  static constexpr std::int64_t kStretch = kStretchOfScaled;
  static constexpr std::size_t kStepBytes = sizeof(ScaledDirection);

  template <class Rule>
  static void run(void* queue, const ScaledUpdate<Rule>& update) {
    launch_means(queue, update);
    const ScaledLaunch<Rule> all{update};
    const gpu::LaunchShape shape{
        .blocks = all.num_stretches(), .threads = kThreadsOfScaled, .shared_bytes = all.kSharedBytes};
    gpu::launch_blocks(queue, shape, SumStretch<Rule>{all});
    gpu::launch_blocks(queue, {.blocks = 1, .threads = kThreadsOfScaled, .shared_bytes = all.kSharedBytes},
                       TotalOfStretches<Rule>{all, all.num_stretches()});
    gpu::launch_blocks(queue, shape, GoAlong<Rule>{all});
  }
};

}  // namespace

void add_scaled_update_cuda_kernels(KernelRegistry& registry) {
  ScaledUpdateFamily<LaunchedScaledUpdates>::add_to(registry);
}

}  // namespace sectionflow
