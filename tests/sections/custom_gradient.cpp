// Parts whose gradients the user tells, under budgets and in sections.
#include "autodiff/custom_gradient.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/host_tensor.h"
#include "graph/initializer.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"

namespace sectionflow {
namespace {

/// A net with a custom gradient in each of its two parts.
Value clipped_dense(Value x) {
  const Value kernel = parameter("kernel", glorot_uniform(), {x.graph(), {4, 4}, 4, 4});
  return custom_gradient(
      {x, kernel}, [](const std::vector<Value>& in) { return tanh(matmul(in[0], in[1])); },
      [](const BackwardRequest& r) {
        const Value inner = clip(r.dy * (1.0F - square(r.y)), -0.25F, 0.25F);
        return std::vector{matmul(inner, r.inputs[1], {.transpose_b = true}),
                           matmul(r.inputs[0], inner, {.transpose_a = true})};
      });
}

TEST(CustomGradient, TrainsToTheSameBytesInSections) {
  std::vector<HostTensor> whole;
  for (const bool by_sections : {false, true}) {
    Graph graph;
    GraphSectionManager manager(graph);
    const Value x = placeholder(graph, "x", {4, 4});
    Value y = x;
    for (const char* part : {"first", "second", "third"}) {
      const auto section = manager.new_section();
      const auto names = graph.scope(part);
      y = clipped_dense(y);
    }
    const Value loss = mean(square(y - 0.5F));
    const HostTensor fed = HostTensor::of<float>({4, 4}, {1, 2, -1, 0, 3, 1, 0, 2, -2, 1, 1, 0, 0, 3, -1, 2});
    std::vector<HostTensor> found = testing_support::trained_bytes(graph, manager, loss, by_sections, [&](int) {
      return Feeds{{x, fed}};
    });
    if (!by_sections) {
      whole = std::move(found);
      continue;
    }
    ASSERT_EQ(found.size(), whole.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(bitwise_equal(found[i], whole[i])) << i;
  }
}

/// Bytes of a step that computes the mean of y, forward alone.
std::size_t peak_of(const std::function<Value(Value)>& part) {
  Graph graph;
  const Value x = placeholder(graph, "x", {64, 64});
  Value y = x;
  for (int i = 0; i < 3; ++i) y = part(y);
  Session session(graph, {.threads = 1});
  return session.plan({mean(y)}, {{x, Shape{64, 64}}}).planned_peak_bytes;
}

TEST(CustomGradient, TakesNoBytes) {
  const auto plain = [](Value x) { return exp(tanh(x)); };
  EXPECT_EQ(peak_of([&](Value x) {
              return custom_gradient(
                  {x}, [&](const std::vector<Value>& in) { return plain(in[0]); },
                  [](const BackwardRequest& r) { return std::vector{r.dy}; });
            }),
            peak_of(plain));
}

}  // namespace
}  // namespace sectionflow
