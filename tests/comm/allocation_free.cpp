// A program of its own: it replaces operator new. Calls of a communicator are steps of a schedule, which allocate
// nothing.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/comm/rank_threads.h"
#include "tests/support/replaced_new.h"

namespace {

// Of the calling thread: whether its allocations count, and how many there were.
thread_local bool counts = false;
thread_local int num_allocations = 0;

}  // namespace

namespace sectionflow::testing_support {

void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept {
  if (counts) ++num_allocations;
  const std::size_t size = num_bytes == 0 ? 1 : num_bytes;
  return alignment == 0 ? std::malloc(size)
                        : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void replaced_delete(void* bytes) noexcept {
  std::free(bytes);
}

}  // namespace sectionflow::testing_support

namespace sectionflow::comm_tests {
namespace {

void make_calls(Communicator& communicator, std::int64_t elements, std::span<float> x, std::span<float> all,
                std::span<std::byte> workspace) {
  communicator.barrier();
  communicator.all_reduce_sum(x.data(), nullptr, x.data(), elements, workspace.data());
  communicator.reduce_scatter_sum(x.data(), x.data(), all.data(), elements, workspace.data());
  communicator.broadcast(std::as_writable_bytes(x), 1);
  communicator.all_gather(std::as_bytes(x), std::as_writable_bytes(all));
}

TEST(CommunicatorCalls, AllocateNothing) {
#if defined(SF_NO_ALLOCATION_HOOK)
  GTEST_SKIP() << "a sanitizer replaces operator new itself";
#endif
  for (const double rate : {0.0, 1e9}) {
    for (const std::int64_t elements : {10, 600'000}) {
      const Ends ends = run_ranks(3, {.link_bytes_per_second = rate}, [&](Communicator& communicator) {
        std::vector<float> x(static_cast<std::size_t>(elements)), all(3 * x.size());
        std::vector<std::byte> workspace(Communicator::reduce_workspace(elements, 3));
        counts = true;
        for (int round = 0; round < 3; ++round) make_calls(communicator, elements, x, all, workspace);
        counts = false;
        EXPECT_EQ(num_allocations, 0);
      });
      EXPECT_EQ(ends, Ends(3));
    }
  }
}

}  // namespace
}  // namespace sectionflow::comm_tests
