#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

/// A training graph built operation by operation, one output each.
class TrainingGraph {
 public:
  int add(double seconds, std::vector<int> inputs, std::int64_t bytes) {
    const int id = static_cast<int>(problem_.operations.size());
    problem_.operations.push_back({"f" + std::to_string(id), seconds, 0, std::move(inputs), {id}});
    problem_.values.push_back({"v" + std::to_string(id), bytes, id});
    return id;
  }

  /// A backward operation for each input of each operation so far; where gradients meet, their sum.
  Problem with_gradients(int loss) {
    const int forward = static_cast<int>(problem_.operations.size());
    std::vector<int> gradient(static_cast<std::size_t>(forward), -1);
    gradient[static_cast<std::size_t>(loss)] = loss;
    for (int v = forward; v-- > 0;) {
      const Operation operation = problem_.operations[static_cast<std::size_t>(v)];
      const int incoming = gradient[static_cast<std::size_t>(v)];
      for (const int input : operation.inputs) {
        const std::int64_t bytes = problem_.values[static_cast<std::size_t>(input)].bytes;
        std::vector<int> reads = {input};
        if (incoming != input) reads.push_back(incoming);
        const int made = add(1.5 * operation.seconds, reads, bytes);
        int& known = gradient[static_cast<std::size_t>(input)];
        known = known < 0 ? made : add(static_cast<double>(bytes) * 2e-10, {known, made}, bytes);
      }
    }
    return problem_;
  }

 private:
  Problem problem_;
};

/// Residual blocks of three convolutions, each with a normalisation and an activation, in stages that halve the bytes.
inline Problem residual_network(const std::vector<int>& blocks) {
  TrainingGraph graph;
  double bytes = 6.4e6;
  const auto cheap = [&](std::vector<int> inputs, double size) {
    return graph.add(size * 2e-10, std::move(inputs), static_cast<std::int64_t>(size));
  };
  const auto convolution = [&](int input, double size, double dearness) {
    return graph.add(size * dearness * 1e-9, {input}, static_cast<std::int64_t>(size));
  };
  int x = cheap({graph.add(bytes * 1e-9, {}, static_cast<std::int64_t>(bytes))}, bytes);
  for (const int count : blocks) {
    for (int block = 0; block < count; ++block) {
      int y = cheap({cheap({convolution(x, bytes / 4, 1.5)}, bytes / 4)}, bytes / 4);
      y = cheap({cheap({convolution(y, bytes / 4, 3)}, bytes / 4)}, bytes / 4);
      y = cheap({convolution(y, bytes, 1.5)}, bytes);
      if (block == 0) x = cheap({convolution(x, bytes, 1.2)}, bytes);
      x = cheap({cheap({y, x}, bytes)}, bytes);
    }
    bytes /= 2;
  }
  return graph.with_gradients(graph.add(1e-5, {x}, 1000));
}

}  // namespace sectionflow::planning
