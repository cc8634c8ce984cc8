#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/ops/basic.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {

/// A graph with placeholders on demand.
class Shapes : public testing::Test {
 protected:
  Value in(Shape shape, Dtype dtype = Dtype::f32) { return placeholder(graph_, "x", std::move(shape), dtype); }
  Value var(Shape shape, Dtype dtype = Dtype::f32) { return variable("v", fill(graph_, std::move(shape), 0, dtype)); }

  /// Expects an error of the type whose text starts with `start` and has all `parts`.
  template <class Wanted, class Call>
  void expect_refused(const Call& call, const std::string& start, const std::vector<std::string>& parts) {
    const std::string text = error_text<Wanted>(call);
    EXPECT_EQ(text.find(start), 0U) << text;
    for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
  }

  Graph graph_;
};

}  // namespace sectionflow::testing_support
