#include <cmath>
#include <cstdint>

#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/formulas/scaled_update.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

// Launches one behind the other: sums of squares of variable and directions, a block a stretch; their total, and the
// step that follows from it; the variable along its directions, which are found anew, since to keep them would take
// memory of the size of the variable. Adafactor's means of rows and columns come before.
namespace sectionflow {
namespace {

using formulas::ScaledDirection;
using formulas::SquareSums;

constexpr int kThreadsOfScaled = 256;
constexpr std::int64_t kStretchOfScaled = std::int64_t{16} * kThreadsOfScaled;
/// Two sums of a block, one behind the other, and what a thread finds for all of it.
constexpr std::size_t kOfSecondSum = gpu::reduce_bytes<double>();
constexpr std::size_t kOfTerms = 2 * gpu::reduce_bytes<double>();

/// What all launches of an update have in common. A rule finds directions: `Terms terms()`, once a block;
/// `advance(terms, i)` brings what is kept of element i up to date; `direction(terms, i)`; `step(sums)`.
template <class Rule>
struct ScaledLaunch {
  using Terms = typename Rule::Terms;
  static constexpr std::size_t kSharedBytes = kOfTerms + sizeof(Terms);
  Rule rule;
  float* variable;
  std::int64_t count;
  SquareSums* sums;       // one a stretch
  ScaledDirection* step;  // of the whole variable
  const bool* gate;       // null: always open

  std::int64_t num_stretches() const { return gpu::blocks_for(count, static_cast<int>(kStretchOfScaled)); }
  SF_HOST_DEVICE bool is_open() const { return gate == nullptr || *gate; }

  template <class Thread>
  SF_HOST_DEVICE Terms terms_of_block(Thread& thread) const {
    auto shared = thread.template shared<Terms>(kOfTerms, 1);
    if (thread.index() == 0) shared[0] = rule.terms();
    thread.barrier();
    const Terms terms = shared[0];
    return terms;
  }
  /// body(i) for the elements of a thread.
  template <class Thread, class Body>
  SF_HOST_DEVICE void for_each_of(const Thread& thread, const Body& body) const {
    const std::int64_t first = thread.block() * kStretchOfScaled;
    const std::int64_t end = first + kStretchOfScaled < count ? first + kStretchOfScaled : count;
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

template <class Rule>
void launch_scaled(void* queue, const ScaledLaunch<Rule>& all) {
  const gpu::LaunchShape shape{
      .blocks = all.num_stretches(), .threads = kThreadsOfScaled, .shared_bytes = all.kSharedBytes};
  gpu::launch_blocks(queue, shape, SumStretch<Rule>{all});
  gpu::launch_blocks(queue, {.blocks = 1, .threads = kThreadsOfScaled, .shared_bytes = all.kSharedBytes},
                     TotalOfStretches<Rule>{all, all.num_stretches()});
  gpu::launch_blocks(queue, shape, GoAlong<Rule>{all});
}

template <class G>
struct LambRule {
  using Terms = formulas::LambDirection;
  const float* variable;
  float* m;
  float* v;
  const G* gradient;
  const float* learning_rate;
  const std::int64_t* steps;
  LambOptions options;

  SF_HOST_DEVICE Terms terms() const { return formulas::lamb_direction(options, *steps); }
  SF_HOST_DEVICE void advance(const Terms& terms, std::int64_t i) const {
    const float g = static_cast<float>(gradient[i]);
    m[i] = terms.first(m[i], g);
    v[i] = terms.second(v[i], g * g);
  }
  SF_HOST_DEVICE float direction(const Terms& terms, std::int64_t i) const {
    return terms(variable[i], m[i], std::sqrt(v[i]));
  }
  SF_HOST_DEVICE ScaledDirection step(const SquareSums& sums) const {
    return formulas::lamb_step(sums, *learning_rate);
  }
};

/// What Adafactor's rules have in common.
struct AdafactorClock {
  const float* learning_rate;
  const std::int64_t* steps;
  AdafactorOptions options;

  SF_HOST_DEVICE formulas::Average average() const { return formulas::adafactor_average(options, *steps); }
  SF_HOST_DEVICE formulas::AdafactorDirection direction() const { return {options.epsilon * options.epsilon}; }
  SF_HOST_DEVICE ScaledDirection step(const SquareSums& sums, std::int64_t count) const {
    return formulas::adafactor_step(options, sums, count, *learning_rate, *steps);
  }
};

template <class G>
struct SquaresRuleOfAdafactor {
  using Terms = formulas::Average;
  float* squares;
  const G* gradient;
  AdafactorClock clock;
  std::int64_t count;

  SF_HOST_DEVICE Terms terms() const { return clock.average(); }
  SF_HOST_DEVICE void advance(const Terms& average, std::int64_t i) const {
    const float g = static_cast<float>(gradient[i]);
    squares[i] = average(squares[i], g * g);
  }
  SF_HOST_DEVICE float direction(const Terms&, std::int64_t i) const {
    return clock.direction()(static_cast<float>(gradient[i]), squares[i]);
  }
  SF_HOST_DEVICE ScaledDirection step(const SquareSums& sums) const { return clock.step(sums, count); }
};

/// A variable [matrices, rows, columns].
template <class G>
struct FactorsRule {
  using Terms = formulas::AdafactorDirection;
  float* row_means;     // [matrices, rows]
  float* column_means;  // [matrices, columns]
  float* means;         // [matrices], of the rows' means, epsilon at least
  const G* gradient;
  AdafactorClock clock;
  std::int64_t matrices, rows, columns;

  SF_HOST_DEVICE Terms terms() const { return clock.direction(); }
  SF_HOST_DEVICE void advance(const Terms&, std::int64_t) const {}
  SF_HOST_DEVICE float direction(const Terms& direction, std::int64_t i) const {
    const std::int64_t row = i / columns, matrix = row / rows, column = i - row * columns;
    const float of_row = row_means[row] / means[matrix];
    return direction(static_cast<float>(gradient[i]), of_row * column_means[matrix * columns + column]);
  }
  SF_HOST_DEVICE ScaledDirection step(const SquareSums& sums) const {
    return clock.step(sums, matrices * rows * columns);
  }

  SF_HOST_DEVICE void average_into(float& mean, double sum, std::int64_t number) const {
    mean = clock.average()(mean, static_cast<float>(sum / static_cast<double>(number)));
  }
};

/// A block a row.
template <class G>
struct AverageRow {
  ScaledLaunch<FactorsRule<G>> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto& rule = all.rule;
    const G* gradient = rule.gradient + thread.block() * rule.columns;
    const double sum = gpu::row_sum(thread, rule.columns, 0, [=](std::int64_t i) {
      const double g = static_cast<float>(gradient[i]);
      return g * g;
    });
    if (thread.index() == 0) rule.average_into(rule.row_means[thread.block()], sum, rule.columns);
  }
};

/// Some neighbouring columns a block, each by several threads that take every so many-th row.
template <class G>
struct AverageColumns {
  static constexpr int kWidth = gpu::kWarp, kLanes = kThreadsOfScaled / kWidth;
  ScaledLaunch<FactorsRule<G>> all;
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
        const double g = static_cast<float>(rule.gradient[(matrix * rule.rows + row) * rule.columns + column]);
        sum += g * g;
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
    rule.average_into(rule.column_means[matrix * rule.columns + column], sum, rule.rows);
  }
};

/// A block a matrix.
template <class G>
struct MeanOfRows {
  ScaledLaunch<FactorsRule<G>> all;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    if (!all.is_open()) return;
    const auto& rule = all.rule;
    const float* row_means = rule.row_means + thread.block() * rule.rows;
    const double sum =
        gpu::row_sum(thread, rule.rows, 0, [=](std::int64_t i) { return static_cast<double>(row_means[i]); });
    if (thread.index() != 0) return;
    const float mean = static_cast<float>(sum / static_cast<double>(rule.rows));
    rule.means[thread.block()] = formulas::at_least(mean, rule.clock.options.epsilon);
  }
};

template <class G>
void launch_means(void* queue, const ScaledLaunch<FactorsRule<G>>& all) {
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

/// Where the workspace of an update of `count` elements has its parts.
struct ScaledLayout {
  explicit ScaledLayout(std::int64_t count, std::int64_t matrices = 0) {
    const std::int64_t stretches = gpu::blocks_for(count, static_cast<int>(kStretchOfScaled));
    sums_at = layout.add(static_cast<std::size_t>(stretches) * sizeof(SquareSums));
    step_at = layout.add(sizeof(ScaledDirection));
    means_at = layout.add(static_cast<std::size_t>(matrices) * sizeof(float));
  }
  WorkspaceLayout layout;
  std::size_t sums_at, step_at, means_at;
};

/// `own`: inputs of the update without condition and gate.
template <class Rule>
ScaledLaunch<Rule> scaled_launch(const KernelArguments& arguments, const Rule& rule, const ScaledLayout& layout,
                                 std::int64_t count, std::size_t own) {
  const bool has_gate = arguments.inputs.size() > own + 1;
  return {rule,
          static_cast<float*>(arguments.updated[0]),
          count,
          static_cast<SquareSums*>(workspace_part(arguments.workspace, layout.sums_at)),
          static_cast<ScaledDirection*>(workspace_part(arguments.workspace, layout.step_at)),
          has_gate ? static_cast<const bool*>(arguments.inputs[own + 1]) : nullptr};
}

float* slot_of(const KernelArguments& arguments, std::size_t index) {
  return static_cast<float*>(arguments.updated[index]);
}
const float* rate_of(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const float*>(arguments.inputs[index]);
}
const std::int64_t* steps_of(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const std::int64_t*>(arguments.inputs[index]);
}

std::unique_ptr<Kernel> make_lamb(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.num_elements();
  const auto options = request.node.options<LambOptions>();
  const ScaledLayout layout(count);
  return with_stored_type(request.inputs[3].dtype, [&](auto g) -> std::unique_ptr<Kernel> {
    using G = decltype(g);
    return function_kernel(
        [=](const KernelArguments& a) {
          if (count == 0) return;
          const LambRule<G> rule{slot_of(a, 0), slot_of(a, 1),  slot_of(a, 2), static_cast<const G*>(a.inputs[3]),
                                 rate_of(a, 4), steps_of(a, 5), options};
          launch_scaled(a.queue, scaled_launch(a, rule, layout, count, 6));
        },
        {.workspace_bytes = layout.layout.num_bytes()});
  });
}

std::unique_ptr<Kernel> make_adafactor_by_squares(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.num_elements();
  const auto options = request.node.options<AdafactorOptions>();
  const ScaledLayout layout(count);
  return with_stored_type(request.inputs[2].dtype, [&](auto g) -> std::unique_ptr<Kernel> {
    using G = decltype(g);
    return function_kernel(
        [=](const KernelArguments& a) {
          if (count == 0) return;
          const SquaresRuleOfAdafactor<G> rule{
              slot_of(a, 1), static_cast<const G*>(a.inputs[2]), {rate_of(a, 3), steps_of(a, 4), options}, count};
          launch_scaled(a.queue, scaled_launch(a, rule, layout, count, 5));
        },
        {.workspace_bytes = layout.layout.num_bytes()});
  });
}

std::unique_ptr<Kernel> make_adafactor(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t count = shape.num_elements(), rows = shape[-2], columns = shape[-1];
  const std::int64_t matrices = count == 0 ? 0 : count / (rows * columns);
  const auto options = request.node.options<AdafactorOptions>();
  const ScaledLayout layout(count, matrices);
  return with_stored_type(request.inputs[3].dtype, [&](auto g) -> std::unique_ptr<Kernel> {
    using G = decltype(g);
    return function_kernel(
        [=](const KernelArguments& a) {
          if (count == 0) return;
          auto* means = static_cast<float*>(workspace_part(a.workspace, layout.means_at));
          const FactorsRule<G> rule{slot_of(a, 1),
                                    slot_of(a, 2),
                                    means,
                                    static_cast<const G*>(a.inputs[3]),
                                    {rate_of(a, 4), steps_of(a, 5), options},
                                    matrices,
                                    rows,
                                    columns};
          const auto all = scaled_launch(a, rule, layout, count, 6);
          launch_means(a.queue, all);
          launch_scaled(a.queue, all);
        },
        {.workspace_bytes = layout.layout.num_bytes()});
  });
}

}  // namespace

void add_scaled_update_cuda_kernels(KernelRegistry& registry) {
  registry.add("apply_lamb", make_lamb, Bf16::native);
  registry.add("apply_adafactor", make_adafactor, Bf16::native);
  registry.add("apply_adafactor_by_squares", make_adafactor_by_squares, Bf16::native);
}

}  // namespace sectionflow
