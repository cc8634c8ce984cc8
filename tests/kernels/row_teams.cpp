// Rows of any length, taken in packs by teams of threads.

#include "kernels/cuda/row_teams.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"
#include "tests/support/gpu_blocks.h"

namespace sectionflow {
namespace {

using gpu::HostThread;
using testing_support::emulate_blocks;

/// Elements as buffers of them lie.
template <class T>
struct alignas(64 * sizeof(T)) Aligned {
  T values[64] = {};
};

/// Rows of numbers that bf16 holds; y[i] = 2 x[i] + i, and the sums, by whatever order the threads run in.
template <class T>
std::pair<std::vector<double>, std::vector<T>> rows_of_packs(std::int64_t num_rows, std::int64_t length) {
  const gpu::RowTeams rows(Shape{num_rows, length});
  const auto count = static_cast<std::size_t>(num_rows * length);
  std::vector<Aligned<T>> x((count + 63) / 64), y(x.size());
  for (std::size_t i = 0; i < count; ++i) x[i / 64].values[i % 64] = T(static_cast<float>(i * i % 113) / 16);
  std::vector<double> sums(3 * static_cast<std::size_t>(num_rows), -1);
  const T* from = x.data()->values;
  T* to = y.data()->values;
  emulate_blocks(
      rows.launch_shape(),
      [&](HostThread& thread) {
        gpu::RowTeam<HostThread> team(thread, rows);
        for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
          const auto row = team.row(from, n);
          const auto [shift, exponentials] = team.exponentials(row);
          const double sum =
              team.sum([](std::int64_t i, float value) { return value / static_cast<float>(i + 3); }, row);
          team.map(
              team.row(to, n), [](std::int64_t i, float value) { return 2 * value + static_cast<float>(i % 2); }, row);
          if (team.lane() != 0) continue;
          double* of_row = sums.data() + 3 * n;
          of_row[0] = shift, of_row[1] = exponentials, of_row[2] = sum;
        }
      },
      7);
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::int64_t>(i) % length;
    EXPECT_EQ(static_cast<float>(to[i]),
              static_cast<float>(T(2 * static_cast<float>(from[i]) + static_cast<float>(n % 2))));
  }
  EXPECT_TRUE(std::all_of(to + count, to + 64 * y.size(), [](T value) { return static_cast<float>(value) == 0; }));
  return {sums, {to, to + count}};
}

TEST(RowTeams, RowsOfAnyLengthAreTakenInPacks) {
  for (const std::int64_t length : {1, 7, 8, 13, 16, 40, 67, 300, 1025, 2057}) {
    SCOPED_TRACE(length);
    const std::int64_t num_rows = length > 1000 ? 3 : 9;
    const auto [of_f32, y] = rows_of_packs<float>(num_rows, length);
    EXPECT_EQ(rows_of_packs<BFloat16>(num_rows, length).first, of_f32);
    for (std::int64_t n = 0; n < num_rows; ++n) {
      const double* of_row = of_f32.data() + 3 * n;
      double sum = 0, exponentials = 0, largest = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        const auto at = static_cast<std::size_t>(n * length + i);
        const double x = static_cast<double>(at * at % 113) / 16;
        sum += x / static_cast<double>(i + 3);
        exponentials += std::exp(x - of_row[0]);
        largest = std::max(largest, x);
      }
      EXPECT_EQ(of_row[0], largest);
      EXPECT_NEAR(of_row[1], exponentials, 1e-5 * exponentials);
      EXPECT_NEAR(of_row[2], sum, 1e-5 * (sum + 1));
    }
  }
}

/// Elements between pages that nobody may touch: from the beginning of the first page that there is, or up to the end
/// of the last one.
template <class T>
class Fenced {
 public:
  Fenced(std::size_t count, bool at_end) : pages_((count * sizeof(T) + kPageBytes - 1) / kPageBytes) {
    void* const mapped = mmap(nullptr, num_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SF_CHECK(mapped != MAP_FAILED, InternalError, "no pages are left");
    fence_ = static_cast<std::byte*>(mapped);
    std::byte* const first = fence_ + kPageBytes;
    SF_CHECK(mprotect(first, pages_ * kPageBytes, PROT_READ | PROT_WRITE) == 0, InternalError, "pages stay closed");
    begin_ = reinterpret_cast<T*>(at_end ? first + pages_ * kPageBytes - count * sizeof(T) : first);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { (void)munmap(fence_, num_bytes()); }
  T* begin() { return begin_; }

 private:
  std::size_t num_bytes() const { return (pages_ + 2) * kPageBytes; }

  std::size_t pages_;
  std::byte* fence_ = nullptr;
  T* begin_ = nullptr;
};

/// y = x + v in place, v the same for all rows, behind what reductions read of both; nothing is touched beside them.
template <class T>
void add_between_fences(std::int64_t length, bool at_end) {
  constexpr std::int64_t kRows = 32;  // so that any length is whole packs in all
  const gpu::RowTeams rows(Shape{kRows, length});
  const auto count = static_cast<std::size_t>(kRows * length);
  Fenced<T> x(count, at_end);
  Fenced<float> v(static_cast<std::size_t>(length), at_end);
  for (std::size_t i = 0; i < count; ++i) x.begin()[i] = T(static_cast<float>(i % 61));
  for (std::int64_t i = 0; i < length; ++i) v.begin()[i] = static_cast<float>(i % 7);
  T* from = x.begin();
  const float* added = v.begin();
  std::vector<double> sums(kRows), shifts(kRows);
  emulate_blocks(
      rows.launch_shape(),
      [&](HostThread& thread) {
        gpu::RowTeam<HostThread> team(thread, rows);
        for (std::int64_t n = team.first_row(); n < rows.count; n += team.row_step()) {
          const auto row = team.row(from, n);
          const double shift = team.exponentials(row).shift;
          const double sum = team.sum([](std::int64_t, float a, float b) { return a * b; }, row, added);
          team.map(
              row, [](std::int64_t, float a, float b) { return a + b; }, row, added);
          if (team.lane() == 0) sums[static_cast<std::size_t>(n)] = sum, shifts[static_cast<std::size_t>(n)] = shift;
        }
      },
      3);
  for (std::int64_t n = 0; n < kRows; ++n) {
    double sum = 0, largest = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(n * length + i);
      const auto value = static_cast<double>(at % 61), other = static_cast<double>(i % 7);
      EXPECT_EQ(static_cast<double>(static_cast<float>(from[at])), value + other);
      sum += value * other;
      largest = std::max(largest, value);
    }
    EXPECT_EQ(sums[static_cast<std::size_t>(n)], sum);
    EXPECT_EQ(shifts[static_cast<std::size_t>(n)], largest);
  }
}

TEST(RowTeams, NothingIsTouchedBesideATensor) {
  for (const std::int64_t length : {1, 5, 15, 17, 31, 33, 255, 257, 1023, 1024, 1031, 2049}) {
    for (const bool at_end : {false, true}) {
      SCOPED_TRACE(text_of(length, at_end ? " at the end of memory" : " at its beginning"));
      add_between_fences<float>(length, at_end);
      add_between_fences<BFloat16>(length, at_end);
    }
  }
}

}  // namespace
}  // namespace sectionflow
