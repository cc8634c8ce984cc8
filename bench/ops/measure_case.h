#pragma once

#include <string>
#include <vector>

#include "bench/ops/bench_case.h"
#include "runtime/session.h"

namespace sectionflow::bench {

/// Where cases are timed, and how often.
struct MeasureOptions {
  SessionOptions session{};
  PeakSizes peaks{};
  int repeats = 15;
};

/// How long one kernel took, in seconds.
struct Times {
  double median = 0, best = 0;
};

/// What one kernel computes and moves, and how long that takes.
struct KernelRow {
  std::string operation{};  ///< of the node: "conv2d_backward_filter"
  std::string kernel{};     ///< Kernel::implementation()
  bool is_gradient = false;
  double flops = 0, bytes = 0;  ///< op_work
  Times seconds{};

  /// By the median: what is to be expected.
  double flops_per_second() const { return flops / seconds.median; }
  double bytes_per_second() const { return bytes / seconds.median; }
};

/// One case with the machine's peaks, measured in the same rounds. Peaks are the best that was seen of copy and
/// product: a median would be low on a machine that does something else besides, most of all for the longest kernels.
struct CaseResult {
  std::string op;
  Shape shape;
  Dtype dtype = Dtype::f32;
  std::vector<std::pair<std::string, std::string>> settings;
  std::string device;  ///< "cpu (2 threads)"
  int threads = 0;
  KernelRow copy, product;
  std::vector<KernelRow> rows;

  /// Bytes a second that are read and written by the best copy.
  double memory_peak() const { return copy.bytes / copy.seconds.best; }
  /// Flops a second of the best product.
  double arithmetic_peak() const { return product.flops / product.seconds.best; }
  double share_of_memory(const KernelRow& row) const { return row.bytes_per_second() / memory_peak(); }
  double share_of_arithmetic(const KernelRow& row) const { return row.flops_per_second() / arithmetic_peak(); }
};

/// Times the kernels of one case, in rounds: copy and product, the operation, its gradient operations. What the machine
/// does besides meets them all alike, and each operation finds its operands out of the caches that the copy has gone
/// through. Two rounds warm up. Throws: ArgumentError for less than one repeat; what the operation and the session
/// throw.
CaseResult measure_case(const CaseRequest& request, const MeasureOptions& options);

}  // namespace sectionflow::bench
