#include "kernels/kernel_registry.h"

#include <gtest/gtest.h>

#include "graph/op_registry.h"
#include "graph/ops/activation.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "tests/support/kernel_runner.h"

namespace sectionflow::testing_support {
namespace {

TEST(KernelRegistry, EveryOpThatNeedsAKernelHasOneOnTheCpu) {
  for (const auto& [name, definition] : op_registry().all()) {
    EXPECT_EQ(kernel_registry(DeviceKind::cpu).has(name), definition.has_kernel) << name;
  }
}

TEST(KernelRegistry, TypesWithoutAKernelAreRefusedByName) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}, Dtype::f64);
  for (Value y : {relu_grad(x, x), bias_add_grad(x)}) {
    try {
      (void)implementation_of(y);
      ADD_FAILURE() << y.name() << " took f64";
    } catch (const ArgumentError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(y.node().label()), std::string::npos) << text;
      EXPECT_NE(text.find("f64[2,3]"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace sectionflow::testing_support
