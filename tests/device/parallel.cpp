// A session's team has the size its kernels were made for, whatever OpenMP was told before, or is refused.

#include "device/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/cpu_device.h"
#include "device/mapped_memory.h"

namespace sectionflow {
namespace {

constexpr unsigned kFlushModes = 0x8040;

/// What the caller may see of OpenMP's settings, and the modes of its arithmetic.
struct CallersSettings {
  int threads = omp_get_max_threads(), dynamic = omp_get_dynamic(), levels = omp_get_max_active_levels();
  unsigned modes = _mm_getcsr() & ~0x3FU;
  friend bool operator==(const CallersSettings&, const CallersSettings&) = default;
};

int num_flushing_threads() {
  std::atomic<int> count = 0;
#pragma omp parallel
  if ((_mm_getcsr() & kFlushModes) == kFlushModes) ++count;
  return count;
}

/// More threads than a team has that OpenMP cuts to the machine's cores; within OpenMP's limit.
int many_threads() {
  return std::min(available_cores() + 1, omp_get_thread_limit());
}

/// On a thread of its own, whose settings are its own.
template <class Body>
void apart(const Body& body) {
  std::thread(body).join();
}

TEST(ComputeTeam, HasEveryThreadWhereTeamsAreDynamic) {
  apart([] {
    omp_set_dynamic(1);
    const CallersSettings before;
    {
      const ComputeTeam team(many_threads());
      EXPECT_EQ(num_flushing_threads(), many_threads());
    }
    EXPECT_EQ(CallersSettings(), before);
    EXPECT_NE(omp_get_dynamic(), 0);
  });
}

TEST(ComputeTeam, HasEveryThreadWhereParallelRegionsWereSwitchedOff) {
  apart([] {
    const int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(0);
    const CallersSettings before;
    {
      const ComputeTeam team(many_threads());
      EXPECT_EQ(num_flushing_threads(), many_threads());
    }
    EXPECT_EQ(CallersSettings(), before);
    omp_set_max_active_levels(levels);
  });
}

TEST(ComputeTeam, HasTheSameSizeOnEveryThreadThatEnters) {
  omp_set_num_threads(1);
  const int wanted = std::min(3, omp_get_thread_limit());
  for (int i = 0; i < 3; ++i) {
    apart([&] {
      const CallersSettings before;
      {
        const ComputeTeam team(wanted);
        EXPECT_EQ(num_flushing_threads(), wanted);
        EXPECT_EQ(omp_get_max_threads(), wanted);
      }
      EXPECT_EQ(CallersSettings(), before);
    });
  }
}

TEST(ComputeTeam, IsRefusedInsideOfAParallelRegionAndChangesNothing) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "OpenMP gives one thread: no region is parallel";
  for (const int levels : {1, 2}) {
    apart([&] {
      omp_set_dynamic(0);
      omp_set_max_active_levels(levels);
      std::string text;
      bool changed = true;
#pragma omp parallel num_threads(2)
#pragma omp single
      {
        const CallersSettings before;
        try {
          const ComputeTeam team(2);
        } catch (const DeviceError& error) {
          text = error.what();
        }
        changed = !(CallersSettings() == before);
      }
      EXPECT_NE(text.find("computes on 2 threads, and the call comes from inside a parallel region"), std::string::npos)
          << text;
      EXPECT_NE(text.find("{.threads = 1}"), std::string::npos) << text;
      EXPECT_FALSE(changed);
    });
  }
}

TEST(ComputeTeam, OfOneThreadIsHadInsideOfAParallelRegion) {
  apart([] {
    std::atomic<int> entered = 0;
    int regions = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
      regions = omp_get_num_threads();
      const ComputeTeam team(1);
      if (omp_get_max_threads() == 1 && (_mm_getcsr() & kFlushModes) == kFlushModes) ++entered;
    }
    EXPECT_EQ(entered, regions);
  });
}

TEST(ComputeTeam, BeyondTheLimitOfThreadsIsRefusedWithTheLimit) {
  std::string text;
  const int wanted = omp_get_thread_limit() < 1024 ? omp_get_thread_limit() + 1 : 2;
#pragma omp teams num_teams(1) thread_limit(1)
  {
    try {
      const ComputeTeam team(wanted);
    } catch (const DeviceError& error) {
      text = error.what();
    }
  }
  EXPECT_NE(text.find("OpenMP's limit is 1"), std::string::npos) << text;
}

TEST(CpuDevice, HasNoMoreThreadsThanOpenMpGives) {
  EXPECT_EQ(CpuDevice(2).threads(), std::min(2, omp_get_thread_limit()));
  CpuDevice device(2);
  const auto entered = device.enter();
  EXPECT_EQ(num_flushing_threads(), device.threads());
}

TEST(Copies, PastCachesCopyTheirBytesAndNoOthersWhereverTheyBeginAndEnd) {
  const ComputeTeam team(many_threads());
  constexpr std::size_t kMost = (std::size_t{3} << 20) + 200;
  std::vector<std::byte> from(kMost + 8), to(kMost + 8);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
  for (const std::size_t begin : {0U, 1U, 7U, 63U, 64U, 65U}) {
    for (const std::size_t num_bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{130}, kMost - 65}) {
      std::fill(to.begin(), to.end(), std::byte{0xAB});
      std::vector<std::byte> wanted = to;
      std::copy_n(from.begin() + 3, num_bytes, wanted.begin() + static_cast<std::ptrdiff_t>(begin));
      copy_past_caches(to.data() + begin, from.data() + 3, num_bytes);
      EXPECT_TRUE(to == wanted) << num_bytes << " bytes at " << begin;
    }
  }
}

}  // namespace
}  // namespace sectionflow
