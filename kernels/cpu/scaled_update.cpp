#include "kernels/formulas/scaled_update.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "device/parallel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

// Two passes over the variable: the first finds the sums of squares of variable and directions, the second goes along
// the directions, which it finds anew: to keep them would take memory of the size of the variable.
namespace sectionflow {
namespace {

using formulas::SquareSums;

/// Elements whose directions are found together, and stay in the first-level cache.
constexpr std::int64_t kStripeOfDirections = 512;

template <class T>
const T* operand(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const T*>(arguments.inputs[index]);
}
float* updated_floats(const KernelArguments& arguments, std::size_t index) {
  return static_cast<float*>(arguments.updated[index]);
}

/// A variable in chunks of a length that does not depend on threads, and so neither do the sums of each.
struct Chunks {
  std::int64_t count;
  static constexpr std::int64_t kLength = 8 * kStripeOfDirections;

  std::int64_t number() const { return (count + kLength - 1) / kLength; }
  std::size_t bytes_of_sums() const { return static_cast<std::size_t>(number()) * sizeof(SquareSums); }

  /// body(chunk, first, count) for each stripe.
  template <class Body>
  void for_each_stripe(const Body& body) const {
    parallel_for(number(), kParallelGrain / kLength, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t last = std::min(count, end * kLength);
      for (std::int64_t i = begin * kLength; i < last; i += kStripeOfDirections) {
        body(i / kLength, i, std::min(kStripeOfDirections, last - i));
      }
    });
  }
};

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
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (; i < count; ++i) add(0, i);
  SquareSums sum;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sum = sum + SquareSums{of_variable[lane], of_direction[lane]};
  return sum;
}

/// `find(first, count, directions)` is called for each stripe, once.
template <class Find>
SquareSums sums_of_squares(const Chunks& chunks, const float* variable, void* workspace, const Find& find) {
  auto* sums = static_cast<SquareSums*>(workspace);
  chunks.for_each_stripe([&](std::int64_t chunk, std::int64_t first, std::int64_t count) {
    float directions[kStripeOfDirections];
    find(first, count, directions);
    const SquareSums before = first % Chunks::kLength == 0 ? SquareSums() : sums[chunk];
    sums[chunk] = before + stripe_sums(variable + first, directions, count);
  });
  SquareSums total;
  for (std::int64_t chunk = 0; chunk < chunks.number(); ++chunk) total = total + sums[chunk];
  return total;
}

template <class Find>
void go_along(const Chunks& chunks, formulas::ScaledDirection step, float* variable, const Find& find) {
  chunks.for_each_stripe([&](std::int64_t, std::int64_t first, std::int64_t count) {
    float directions[kStripeOfDirections];
    find(first, count, directions);
    const formulas::ScaledDirection taken = step;
    float* w = variable + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) w[i] = taken(w[i], directions[i]);
  });
}

/// A kernel of `update(arguments)`, which happens where the gate behind `own` inputs and a condition is true, or always
/// where there is none.
template <class Update>
std::unique_ptr<Kernel> gated_kernel(const KernelRequest& request, int own, std::size_t workspace_bytes,
                                     Update update) {
  const auto gate = static_cast<std::size_t>(own) + 1;
  const bool has_gate = request.inputs.size() > gate;
  return function_kernel(
      [has_gate, gate, update](const KernelArguments& arguments) {
        if (!has_gate || *operand<bool>(arguments, gate)) update(arguments);
      },
      {.workspace_bytes = workspace_bytes});
}

template <class G>
std::unique_ptr<Kernel> lamb_kernel(const KernelRequest& request) {
  const Chunks chunks{request.inputs[0].shape.num_elements()};
  const auto options = request.node.options<LambOptions>();
  return gated_kernel(request, 6, chunks.bytes_of_sums(), [chunks, options](const KernelArguments& arguments) {
    float *variable = updated_floats(arguments, 0), *m = updated_floats(arguments, 1),
          *v = updated_floats(arguments, 2);
    const G* gradient = operand<G>(arguments, 3);
    const auto next = formulas::lamb_direction(options, *operand<std::int64_t>(arguments, 5));
    const auto find = [=](std::int64_t first, std::int64_t count, float* directions) {
      const formulas::LambDirection direction = next;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        directions[i] = direction(variable[first + i], m[first + i], std::sqrt(v[first + i]));
      }
    };
    const auto average = [=](std::int64_t first, std::int64_t count, float* directions) {
      const formulas::Average of_m = next.first, of_v = next.second;
#pragma omp simd
      for (std::int64_t i = first; i < first + count; ++i) {
        const float g = stored<float>(gradient[i]);
        m[i] = of_m(m[i], g);
        v[i] = of_v(v[i], g * g);
      }
      find(first, count, directions);
    };
    const SquareSums sums = sums_of_squares(chunks, variable, arguments.workspace, average);
    go_along(chunks, formulas::lamb_step(sums, *operand<float>(arguments, 4)), variable, find);
  });
}

formulas::AdafactorDirection adafactor_direction(const AdafactorOptions& options) {
  return {options.epsilon * options.epsilon};
}

template <class G>
std::unique_ptr<Kernel> adafactor_by_squares_kernel(const KernelRequest& request) {
  const Chunks chunks{request.inputs[0].shape.num_elements()};
  const auto options = request.node.options<AdafactorOptions>();
  return gated_kernel(request, 5, chunks.bytes_of_sums(), [chunks, options](const KernelArguments& arguments) {
    float *variable = updated_floats(arguments, 0), *squares = updated_floats(arguments, 1);
    const G* gradient = operand<G>(arguments, 2);
    const float learning_rate = *operand<float>(arguments, 3);
    const std::int64_t steps = *operand<std::int64_t>(arguments, 4);
    const auto of_squares = formulas::adafactor_average(options, steps);
    const auto direction = adafactor_direction(options);
    const auto find = [=](std::int64_t first, std::int64_t count, float* directions) {
      const formulas::AdafactorDirection taken = direction;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        directions[i] = taken(stored<float>(gradient[first + i]), squares[first + i]);
      }
    };
    const auto average = [=](std::int64_t first, std::int64_t count, float* directions) {
      const formulas::Average taken = of_squares;
#pragma omp simd
      for (std::int64_t i = first; i < first + count; ++i) {
        const float g = stored<float>(gradient[i]);
        squares[i] = taken(squares[i], g * g);
      }
      find(first, count, directions);
    };
    const SquareSums sums = sums_of_squares(chunks, variable, arguments.workspace, average);
    go_along(chunks, formulas::adafactor_step(options, sums, chunks.count, learning_rate, steps), variable, find);
  });
}

/// A variable [matrices, rows, columns] whose squares are kept as the means of its rows and columns.
struct FactoredShape {
  explicit FactoredShape(const Shape& shape) : rows(shape[-2]), columns(shape[-1]) {
    for (int i = 0; i < shape.rank() - 2; ++i) matrices *= shape[i];
  }
  std::int64_t matrices = 1, rows, columns;
};

/// Takes the means of g^2 over columns into `means` [matrices, rows].
template <class G>
void average_rows(const FactoredShape& shape, formulas::Average average, const G* gradient, float* means) {
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / shape.columns);
  parallel_for(shape.matrices * shape.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      double sum = 0;
      for (std::int64_t i = row * shape.columns; i < (row + 1) * shape.columns; ++i) {
        const double g = stored<float>(gradient[i]);
        sum += g * g;
      }
      means[row] = average(means[row], static_cast<float>(sum / static_cast<double>(shape.columns)));
    }
  });
}

/// The same over rows into `means` [matrices, columns], some neighbouring columns at a time.
template <class G>
void average_columns(const FactoredShape& shape, formulas::Average average, const G* gradient, float* means) {
  constexpr std::int64_t kWidth = 64;
  const std::int64_t stripes = (shape.columns + kWidth - 1) / kWidth;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / (shape.rows * kWidth));
  parallel_for(shape.matrices * stripes, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t stripe = begin; stripe < end; ++stripe) {
      const std::int64_t matrix = stripe / stripes, first = stripe % stripes * kWidth;
      const std::int64_t width = std::min(kWidth, shape.columns - first);
      double sums[kWidth] = {};
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const G* g = gradient + (matrix * shape.rows + row) * shape.columns + first;
        for (std::int64_t i = 0; i < width; ++i) {
          const double slope = stored<float>(g[i]);
          sums[i] += slope * slope;
        }
      }
      for (std::int64_t i = 0; i < width; ++i) {
        float& mean = means[matrix * shape.columns + first + i];
        mean = average(mean, static_cast<float>(sums[i] / static_cast<double>(shape.rows)));
      }
    }
  });
}

/// means[matrix]: of its rows' squares, epsilon at least.
void mean_of_rows(const FactoredShape& shape, const float* rows, float epsilon, float* means) {
  for (std::int64_t matrix = 0; matrix < shape.matrices; ++matrix) {
    double sum = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) sum += rows[matrix * shape.rows + row];
    means[matrix] = formulas::at_least(static_cast<float>(sum / static_cast<double>(shape.rows)), epsilon);
  }
}

template <class G>
std::unique_ptr<Kernel> adafactor_kernel(const KernelRequest& request) {
  const FactoredShape shape(request.inputs[0].shape);
  const Chunks chunks{request.inputs[0].shape.num_elements()};
  const auto options = request.node.options<AdafactorOptions>();
  WorkspaceLayout layout;
  const std::size_t sums_at = layout.add(chunks.bytes_of_sums());
  const std::size_t means_at = layout.add(static_cast<std::size_t>(shape.matrices) * sizeof(float));
  return gated_kernel(request, 6, layout.num_bytes(), [=](const KernelArguments& arguments) {
    if (chunks.count == 0) return;
    float* variable = updated_floats(arguments, 0);
    float *rows = updated_floats(arguments, 1), *columns = updated_floats(arguments, 2);
    auto* means = static_cast<float*>(workspace_part(arguments.workspace, means_at));
    const G* gradient = operand<G>(arguments, 3);
    const float learning_rate = *operand<float>(arguments, 4);
    const std::int64_t steps = *operand<std::int64_t>(arguments, 5);
    const auto average = formulas::adafactor_average(options, steps);
    average_rows(shape, average, gradient, rows);
    average_columns(shape, average, gradient, columns);
    mean_of_rows(shape, rows, options.epsilon, means);
    const auto direction = adafactor_direction(options);
    const auto find = [=](std::int64_t first, std::int64_t count, float* directions) {
      const formulas::AdafactorDirection taken = direction;
      while (count > 0) {
        const std::int64_t row = first / shape.columns, column = first % shape.columns, matrix = row / shape.rows;
        const std::int64_t length = std::min(count, shape.columns - column);
        const float of_row = rows[row] / means[matrix];
        const float* of_columns = columns + matrix * shape.columns + column;
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i) {
          directions[i] = taken(stored<float>(gradient[first + i]), of_row * of_columns[i]);
        }
        first += length;
        count -= length;
        directions += length;
      }
    };
    const SquareSums sums = sums_of_squares(chunks, variable, workspace_part(arguments.workspace, sums_at), find);
    go_along(chunks, formulas::adafactor_step(options, sums, chunks.count, learning_rate, steps), variable, find);
  });
}

std::unique_ptr<Kernel> make_lamb(const KernelRequest& request) {
  return with_stored_type(request.inputs[3].dtype, [&](auto g) { return lamb_kernel<decltype(g)>(request); });
}
std::unique_ptr<Kernel> make_adafactor(const KernelRequest& request) {
  return with_stored_type(request.inputs[3].dtype, [&](auto g) { return adafactor_kernel<decltype(g)>(request); });
}
std::unique_ptr<Kernel> make_adafactor_by_squares(const KernelRequest& request) {
  return with_stored_type(request.inputs[2].dtype,
                          [&](auto g) { return adafactor_by_squares_kernel<decltype(g)>(request); });
}

}  // namespace

void add_scaled_update_cpu_kernels(KernelRegistry& registry) {
  registry.add("apply_lamb", make_lamb, Bf16::native);
  registry.add("apply_adafactor", make_adafactor, Bf16::native);
  registry.add("apply_adafactor_by_squares", make_adafactor_by_squares, Bf16::native);
}

}  // namespace sectionflow
