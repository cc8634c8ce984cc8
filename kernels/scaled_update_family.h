#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/host_device.h"
#include "base/shape.h"
#include "kernels/formulas/scaled_update.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

// Updates whose step is scaled by norms of the whole variable. The first pass finds the sums of squares of variable and
// directions, the second goes along the directions, which it finds anew: to keep them would take memory of the size of
// the variable.
namespace sectionflow {

// Rules find directions: `Terms terms()`, once for many elements; `advance(terms, i)` brings what is kept of element i
// up to date; `direction(terms, i)`; `step(sums)`. Gradients are stored as G.

template <class G>
struct LambRule {
  using Terms = formulas::LambDirection;
  LambOptions options;
  const float* variable;
  float *m, *v;
  const G* gradient;
  const float* learning_rate;
  const std::int64_t* steps;

  SF_HOST_DEVICE Terms terms() const { return formulas::lamb_direction(options, *steps); }
  SF_HOST_DEVICE void advance(const Terms& terms, std::int64_t i) const {
    const float g = stored<float>(gradient[i]);
    m[i] = terms.first(m[i], g);
    v[i] = terms.second(v[i], g * g);
  }
  SF_HOST_DEVICE float direction(const Terms& terms, std::int64_t i) const {
    return terms(variable[i], m[i], std::sqrt(v[i]));
  }
  SF_HOST_DEVICE formulas::ScaledDirection step(const formulas::SquareSums& sums) const {
    return formulas::lamb_step(sums, *learning_rate);
  }
};

/// What Adafactor's rules have in common.
template <class G>
struct AdafactorInputs {
  AdafactorOptions options;
  std::int64_t count;  // elements
  const G* gradient;
  const float* learning_rate;
  const std::int64_t* steps;

  SF_HOST_DEVICE formulas::Average average() const { return formulas::adafactor_average(options, *steps); }
  SF_HOST_DEVICE float direction_by(std::int64_t i, float square) const {
    return formulas::AdafactorDirection{options.epsilon * options.epsilon}(stored<float>(gradient[i]), square);
  }
  SF_HOST_DEVICE formulas::ScaledDirection step(const formulas::SquareSums& sums) const {
    return formulas::adafactor_step(options, sums, count, *learning_rate, *steps);
  }
};

template <class G>
struct AdafactorBySquaresRule : AdafactorInputs<G> {
  using Terms = formulas::Average;
  float* squares;

  SF_HOST_DEVICE Terms terms() const { return this->average(); }
  SF_HOST_DEVICE void advance(const Terms& average, std::int64_t i) const {
    const float g = stored<float>(this->gradient[i]);
    squares[i] = average(squares[i], g * g);
  }
  SF_HOST_DEVICE float direction(const Terms&, std::int64_t i) const { return this->direction_by(i, squares[i]); }
};

/// Of a variable [matrices, rows, columns]. A device brings the means up to date before it asks for directions.
template <class G>
struct AdafactorRule : AdafactorInputs<G> {
  struct Terms {};
  std::int64_t matrices, rows, columns;
  float* row_means;     // [matrices, rows]
  float* column_means;  // [matrices, columns]
  float* means;         // [matrices], of the rows' means, epsilon at least

  SF_HOST_DEVICE Terms terms() const { return {}; }
  SF_HOST_DEVICE void advance(const Terms&, std::int64_t) const {}
  SF_HOST_DEVICE float direction(const Terms&, std::int64_t i) const {
    const std::int64_t row = i / columns, matrix = row / rows, column = i - row * columns;
    return this->direction_by(i, row_means[row] / means[matrix] * column_means[matrix * columns + column]);
  }
  SF_HOST_DEVICE double square(std::int64_t i) const {
    const double g = stored<float>(this->gradient[i]);
    return g * g;
  }
  SF_HOST_DEVICE static float mean_of(double sum, std::int64_t number) {
    return static_cast<float>(sum / static_cast<double>(number));
  }
  /// From the sum of the means of its rows.
  SF_HOST_DEVICE void write_mean(std::int64_t matrix, double sum) const {
    means[matrix] = formulas::at_least(mean_of(sum, rows), this->options.epsilon);
  }
};

/// What a launch is about.
template <class Rule>
struct ScaledUpdate {
  Rule rule;
  float* variable;
  std::int64_t count;
  formulas::SquareSums* sums;       // one a stretch
  formulas::ScaledDirection* step;  // of the whole variable
  const bool* gate;                 // null: always open

  SF_HOST_DEVICE bool is_open() const { return gate == nullptr || *gate; }
};

/// What requests ask for. How a device goes through the elements is up to `Updates`:
/// - `run(queue, update)`, of a ScaledUpdate, by stretches of `kStretch` elements;
/// - `kStepBytes`: of the step in the workspace, where a device keeps it there.
template <class Updates>
class ScaledUpdateFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("apply_lamb", make_lamb, Bf16::native);
    registry.add("apply_adafactor", make_adafactor, Bf16::native);
    registry.add("apply_adafactor_by_squares", make_adafactor_by_squares, Bf16::native);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  static float* slot(const KernelArguments& arguments, std::size_t index) {
    return static_cast<float*>(arguments.updated[index]);
  }
  template <class T>
  static const T* input(const KernelArguments& arguments, std::size_t index) {
    return static_cast<const T*>(arguments.inputs[index]);
  }

  static Made make_lamb(const KernelRequest& request) {
    const auto options = request.node.options<LambOptions>();
    return with_stored_type(request.inputs[3].dtype, [&](auto g) {
      using G = decltype(g);
      return kernel(request, 6, 0, [options](const KernelArguments& a, std::int64_t, float*) -> LambRule<G> {
        return {
            options, slot(a, 0), slot(a, 1), slot(a, 2), input<G>(a, 3), input<float>(a, 4), input<std::int64_t>(a, 5)};
      });
    });
  }
  static Made make_adafactor_by_squares(const KernelRequest& request) {
    const auto options = request.node.options<AdafactorOptions>();
    return with_stored_type(request.inputs[2].dtype, [&](auto g) {
      using Rule = AdafactorBySquaresRule<decltype(g)>;
      return kernel(request, 5, 0, [options](const KernelArguments& a, std::int64_t count, float*) -> Rule {
        return {adafactor_inputs<decltype(g)>(options, count, a, 2), slot(a, 1)};
      });
    });
  }
  static Made make_adafactor(const KernelRequest& request) {
    const auto options = request.node.options<AdafactorOptions>();
    const Shape& shape = request.inputs[0].shape;
    const std::int64_t rows = shape[-2], columns = shape[-1];
    const std::int64_t matrices = shape.num_elements() == 0 ? 0 : shape.num_elements() / (rows * columns);
    return with_stored_type(request.inputs[3].dtype, [&](auto g) {
      using Rule = AdafactorRule<decltype(g)>;
      return kernel(request, 6, matrices, [=](const KernelArguments& a, std::int64_t count, float* means) -> Rule {
        return {adafactor_inputs<decltype(g)>(options, count, a, 3),
                matrices,
                rows,
                columns,
                slot(a, 1),
                slot(a, 2),
                means};
      });
    });
  }
  /// `first`: the gradient's number among the inputs.
  template <class G>
  static AdafactorInputs<G> adafactor_inputs(const AdafactorOptions& options, std::int64_t count,
                                             const KernelArguments& a, std::size_t first) {
    return {options, count, input<G>(a, first), input<float>(a, first + 1), input<std::int64_t>(a, first + 2)};
  }

  /// The update by `rule_of(arguments, count, means [num_means])`, of an op with `own` inputs, behind which a condition
  /// and then a gate may follow.
  template <class RuleOf>
  static Made kernel(const KernelRequest& request, std::size_t own, std::int64_t num_means, RuleOf rule_of) {
    const std::int64_t count = request.inputs[0].shape.num_elements();
    const std::int64_t stretches = (count + Updates::kStretch - 1) / Updates::kStretch;
    WorkspaceLayout layout;
    const std::size_t sums_at = layout.add(static_cast<std::size_t>(stretches) * sizeof(formulas::SquareSums));
    const std::size_t step_at = layout.add(Updates::kStepBytes);
    const std::size_t means_at = layout.add(static_cast<std::size_t>(num_means) * sizeof(float));
    const bool has_gate = request.inputs.size() > own + 1;
    return function_kernel(
        [=](const KernelArguments& a) {
          if (count == 0) return;
          const auto part = [&](std::size_t at) { return workspace_part(a.workspace, at); };
          const auto rule = rule_of(a, count, static_cast<float*>(part(means_at)));
          using Update = ScaledUpdate<std::remove_const_t<decltype(rule)>>;
          Updates::run(a.queue, Update{rule, slot(a, 0), count, static_cast<formulas::SquareSums*>(part(sums_at)),
                                       static_cast<formulas::ScaledDirection*>(part(step_at)),
                                       has_gate ? input<bool>(a, own + 1) : nullptr});
        },
        {.workspace_bytes = layout.num_bytes()});
  }
};

}  // namespace sectionflow
