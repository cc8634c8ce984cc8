#include "kernels/cpu/wide_vectors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace sectionflow {
namespace {

template <class T, class Count>
void expect_each_of_its_own(Count count) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<T> x, wanted;
  for (std::int64_t i = 0; i <= count; ++i) {
    x.push_back(static_cast<T>(static_cast<float>(i) - 20.0F));
    wanted.push_back(i < count ? static_cast<T>(static_cast<float>(x.back()) * 1.5F) : x.back());
  }
  std::vector<T> y(x.size(), x.back());
  write_elements(y.data(), count, [&](std::int64_t i) { return static_cast<float>(x[at(i)]) * 1.5F; });
  write_elements(x.data(), count, [&](std::int64_t i) { return static_cast<float>(x[at(i)]) * 1.5F; });
  for (std::int64_t i = 0; i <= count; ++i) {
    EXPECT_EQ(static_cast<float>(y[at(i)]), static_cast<float>(wanted[at(i)])) << i << " of " << count;
    EXPECT_EQ(static_cast<float>(x[at(i)]), static_cast<float>(wanted[at(i)])) << i << " of " << count << ", in place";
  }
}

template <class T>
void expect_elements() {
  for (const std::int64_t count : {0, 1, 15, 64, 67}) expect_each_of_its_own<T>(count);
  expect_each_of_its_own<T>(std::integral_constant<std::int64_t, 64>());
  expect_each_of_its_own<T>(std::integral_constant<std::int64_t, 256>());
}

TEST(ElementsSideBySide, AreEachMadeOfWhatLiesAtItsPlace) {
  expect_elements<float>();
  expect_elements<BFloat16>();
}

}  // namespace
}  // namespace sectionflow
