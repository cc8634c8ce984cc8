#include "kernels/cpu/lines_ahead.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace sectionflow {
namespace {

TEST(InSteps, GoOverEachElementOnceAndAskForNoneThatChanges) {
  for (const std::int64_t begin : {0, 1, 64}) {
    for (const std::int64_t count : {0, 1, 63, 64, 65, 128, 1000}) {
      std::vector<float> x(static_cast<std::size_t>(begin + count + 1), 1), wanted = x;
      for (std::int64_t i = begin; i < begin + count; ++i) wanted[static_cast<std::size_t>(i)] = 2;
      std::int64_t next = begin;
      const auto step = [&](std::int64_t first, auto length) {
        EXPECT_EQ(first, next);
        EXPECT_GE(length, 1);
        EXPECT_LE(length, kElementsAStep);
        next = first + length;
        for (std::int64_t i = first; i < next; ++i) x[static_cast<std::size_t>(i)] += 1;
      };
      in_steps(begin, begin + count, step, x.data(), wanted.data());
      EXPECT_EQ(next, begin + count);
      EXPECT_EQ(x, wanted) << count << " from " << begin;
    }
  }
}

TEST(AskedLines, MayLieWhereThereIsNoMemory) {
  ask_for_lines(static_cast<const float*>(nullptr), 4096);
  ask_ahead(reinterpret_cast<const float*>(~std::uintptr_t{63}), 64);
}

}  // namespace
}  // namespace sectionflow
