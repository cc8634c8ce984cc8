#include "bench/ops/bench_case.h"

#include "autodiff/gradients.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"

namespace sectionflow::bench {
namespace {

Value random_variable(Graph& graph, Shape shape, Dtype dtype, double low, double high) {
  const Value numbers =
      random_uniform(graph, std::move(shape), {.low = static_cast<float>(low), .high = static_cast<float>(high)});
  return variable("operand", dtype == Dtype::f32 ? numbers : cast(numbers, dtype), {.trainable = false});
}

}  // namespace

Value CaseBuilder::operand(Shape shape) {
  return sources_.emplace_back(random_variable(graph_, std::move(shape), request_.dtype, -1, 1));
}

Value CaseBuilder::f32_operand(Shape shape) {
  return sources_.emplace_back(random_variable(graph_, std::move(shape), Dtype::f32, -1, 1));
}

Value CaseBuilder::constant_operand(Shape shape, Dtype dtype, double low, double high) {
  return random_variable(graph_, std::move(shape), dtype, low, high);
}

Value CaseBuilder::yes() {
  return constant(graph_, HostTensor::scalar(true));
}

BenchCase::BenchCase(const CaseRequest& request, const PeakSizes& peaks) {
  add_peaks(peaks, request.dtype);
  group_ = graph_.new_group(request.op->name);
  CaseBuilder builder(graph_, request);
  {
    const GraphScope inside = graph_.enter_group(group_);
    request.op->build(builder);
  }
  forward_ = {builder.result_.valid() ? Operation(builder.result_) : builder.effect_};
  if (request.gradient) add_gradient(builder);
}

void BenchCase::add_peaks(const PeakSizes& peaks, Dtype dtype) {
  const auto num_floats = static_cast<std::int64_t>(peaks.copy_bytes / sizeof(float));
  const auto floats = [&](double content) {
    return variable("copied", fill(graph_, {num_floats}, content), {.trainable = false});
  };
  copy_ = assign(floats(1), floats(2));
  const auto matrix = [&] { return random_variable(graph_, {peaks.matrix_side, peaks.matrix_side}, dtype, -1, 1); };
  const Value a = matrix();
  product_ = Operation(matmul(a, matrix()));
}

// Gradient operations take the group of the operation; the sum that makes a loss of its result stands outside.
void BenchCase::add_gradient(const CaseBuilder& builder) {
  const Value y = builder.result_;
  const Value weighted = y * random_variable(graph_, y.shape(), y.dtype(), -1, 1);
  const Value loss = reduce_sum(y.dtype() == Dtype::f32 ? weighted : cast(weighted, Dtype::f32));
  for (const Value& gradient : gradients(loss, builder.sources_)) gradient_.emplace_back(gradient);
}

bool BenchCase::is_timed(const Node& node, bool of_gradient) const {
  const bool is_gradient = node.phase() == Phase::training;
  return node.group() == group_ && is_gradient == of_gradient && !node.op().is_constant();
}

}  // namespace sectionflow::bench
