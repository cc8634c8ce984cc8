// The smallest program: a straight line through noisy points, trained as one graph.

#include <cmath>
#include <iostream>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status = answer_arguments(argc, argv, "Fits a straight line to noisy points: the smallest program."))
    return *status;
  start_logging("01_linear_regression");

  // Points of y = 3 x - 1 with a little noise that repeats.
  constexpr std::int64_t kPoints = 64;
  HostTensor xs(Dtype::f32, {kPoints, 1}), ys(Dtype::f32, {kPoints, 1});
  for (std::int64_t i = 0; i < kPoints; ++i) {
    const float x = static_cast<float>(i) / kPoints * 2 - 1;
    xs.values<float>()[i] = x;
    ys.values<float>()[i] = 3 * x - 1 + 0.1F * std::sin(static_cast<float>(37 * i));
  }

  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1});
  const Value y = placeholder(graph, "y", {kDynamic, 1});
  const Value slope = variable("slope", fill(graph, {1, 1}, 0));
  const Value offset = variable("offset", fill(graph, {1}, 0));
  const Value error = matmul(x, slope) + offset - y;
  const Value loss = mean(error * error);
  const std::vector<Operation> training = minimize(Sgd{.learning_rate = 0.3}, loss);

  Session session(graph, {.device_memory = 1_MiB});
  session.initialize();
  for (int step = 0; step < 100; ++step) {
    const auto [value] = session.run({loss}, {{x, xs}, {y, ys}}, {.targets = training});
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << value.item<float>() << "\n";
  }
  const float a = session.read(slope).values<float>()[0], b = session.read(offset).values<float>()[0];
  std::cout << "y = " << a << " x + " << b << "\n";
  return std::abs(a - 3) < 0.05F && std::abs(b + 1) < 0.05F ? 0 : 1;
}
