#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/ops/op_table.h"
#include "graph/graph.h"

namespace sectionflow::bench {

/// Builds the operation of a case. Operands are variables, which a session has in device memory, so that nothing is
/// copied in for a run.
class CaseBuilder {
 public:
  CaseBuilder(Graph& graph, const CaseRequest& request) : graph_(graph), request_(request) {}

  Graph& graph() { return graph_; }
  const Shape& shape() const { return request_.shape; }
  const Settings& settings() const { return request_.settings; }

  /// Random numbers of [-1, 1) in the dtype of the case, of which the gradient is taken.
  Value operand(Shape shape);
  /// The same in f32, whatever the dtype of the case: scales, statistics.
  Value f32_operand(Shape shape);
  /// Random numbers of [low, high) without a gradient; whole ones for i32.
  Value constant_operand(Shape shape, Dtype dtype, double low, double high);
  /// A boolean that the host knows.
  Value yes();

  void result(Value y) { result_ = y; }
  void effect(Operation update) { effect_ = update; }

 private:
  friend class BenchCase;

  Graph& graph_;
  const CaseRequest& request_;
  std::vector<Value> sources_;
  Value result_{};
  Operation effect_{};
};

/// What the machine's peaks are measured by.
struct PeakSizes {
  std::size_t copy_bytes = 0;    ///< of the tensor that is copied
  std::int64_t matrix_side = 0;  ///< of the square matrices that are multiplied
};

/// A graph with one operation, its gradient operations if they are asked for, and beside them what the machine's peaks
/// are measured by: a copy of one tensor, and a product of two matrices of the dtype of the case.
class BenchCase {
 public:
  /// Throws: what the operation throws for its operands.
  BenchCase(const CaseRequest& request, const PeakSizes& peaks);

  Graph& graph() { return graph_; }
  Operation copy() const { return copy_; }
  Operation product() const { return product_; }
  /// What a run computes to time the operation, or its gradient operations.
  const std::vector<Operation>& forward() const { return forward_; }
  const std::vector<Operation>& gradient() const { return gradient_; }
  /// Whether the node belongs to the operation: to its gradient, or not to it.
  bool is_timed(const Node& node, bool of_gradient) const;

 private:
  void add_peaks(const PeakSizes& peaks, Dtype dtype);
  void add_gradient(const CaseBuilder& builder);

  Graph graph_;
  GroupId group_ = kNoGroup;
  Operation copy_, product_;
  std::vector<Operation> forward_, gradient_;
};

}  // namespace sectionflow::bench
