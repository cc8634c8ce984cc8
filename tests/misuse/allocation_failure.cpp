// A program of its own: it replaces operator new and mmap, and lets any one of their calls fail, or all from one on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <new>
#include <numeric>
#include <optional>

#include "base/bytes.h"
#include "graph/layers.h"
#include "graph/nodes/arithmetic.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "tests/misuse/misuse_case.h"
#include "tests/support/replaced_new.h"

namespace {

/// Sites are counted on the thread that is watched alone; -1: nothing fails.
thread_local bool watched = false;
long num_sites = 0, failing_site = -1;
bool fails_for_good = false;
std::atomic<long> num_alive = 0;

/// Whether this allocation is to fail.
bool is_refused() {
  if (!watched) return false;
  const long site = num_sites++;
  return failing_site >= 0 && (site == failing_site || (fails_for_good && site > failing_site));
}

}  // namespace

#ifndef SF_NO_ALLOCATION_HOOK

namespace sectionflow::testing_support {

void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept {
  if (is_refused()) return nullptr;
  void* bytes = nullptr;
  if (alignment <= sizeof(void*)) {
    bytes = std::malloc(num_bytes == 0 ? 1 : num_bytes);
  } else if (posix_memalign(&bytes, alignment, num_bytes) != 0) {
    bytes = nullptr;
  }
  if (bytes != nullptr) ++num_alive;
  return bytes;
}
void replaced_delete(void* bytes) noexcept {
  if (bytes != nullptr) --num_alive;
  std::free(bytes);
}

}  // namespace sectionflow::testing_support

// The arena's memory; the C library maps its own without this symbol.
extern "C" void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
  if (is_refused()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}

#endif

namespace sectionflow::testing {
namespace {

/// A small training from the first placeholder to the second cycle, one call of the user's a step. Of our own kernels
/// alone: what oneDNN allocates is not ours to fail.
struct World {
  Graph graph;
  std::optional<GraphSectionManager> manager;
  std::optional<SectionScope> section;
  Value x, is_training, h, w, loss, noise;
  std::optional<Session> session;
  HostTensor data = random_images({3, 4}, 5, 0);
  std::vector<HostTensor> fetched;

  Feeds feeds() const { return {{x, data}, {is_training, true}}; }
  std::uint64_t state() {
    StateHash hash;
    hash.add(graph);
    if (manager) hash.add(*manager);
    if (session) {
      hash.add(static_cast<std::int64_t>(session->completed_cycles()));
      try {
        hash.add(*session);
      } catch (const ArgumentError&) {
        hash.add(std::string("no values"));
      }
    }
    return hash.value();
  }
};

struct Call {
  const char* name;
  std::function<void(World&)> make;
};

const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"section manager", [](World& t) { t.manager.emplace(t.graph); }},
      {"placeholder",
       [](World& t) {
         t.x = placeholder(t.graph, "x", {kDynamic, 4});
       }},
      {"boolean placeholder",
       [](World& t) { t.is_training = placeholder(t.graph, "is_training", {}, Dtype::boolean); }},
      {"new_section", [](World& t) { t.section.emplace(t.manager->new_section("a section with a long name")); }},
      {"fill", [](World& t) { t.h = fill(t.graph, {4}, 0.5); }},
      {"variable", [](World& t) { t.w = variable("weights of the first section", t.h); }},
      {"mul", [](World& t) { t.h = mul(t.x, t.w); }},
      {"batch_norm layer", [](World& t) { t.h = batch_norm(t.h, t.is_training); }},
      {"operator", [](World& t) { t.h = t.h * 1.5F; }},
      {"end of section", [](World& t) { t.section.reset(); }},
      {"random", [](World& t) { t.noise = random_normal(t.graph, {4}); }},
      {"new_section without a name", [](World& t) { t.section.emplace(t.manager->new_section()); }},
      {"add", [](World& t) { t.h = add(t.h, t.noise); }},
      {"relu", [](World& t) { t.h = relu(t.h); }},
      {"random initial value", [](World& t) { t.w = truncated_normal(t.graph, {4}); }},
      {"random variable", [](World& t) { t.w = variable("v", t.w); }},
      {"mul again", [](World& t) { t.h = mul(t.h, t.w); }},
      {"mean", [](World& t) { t.loss = mean(t.h); }},
      {"end of the second section", [](World& t) { t.section.reset(); }},
      {"add_training_ops", [](World& t) { t.manager->add_training_ops(Adam{.learning_rate = 0.1F}, t.loss); }},
      {"prepare_training", [](World& t) { t.manager->prepare_training(); }},
      {"Session", [](World& t) { t.session.emplace(t.graph, SessionOptions{.device_memory = 1_MiB, .threads = 1}); }},
      {"initialize", [](World& t) { t.session->initialize(); }},
      {"plan",
       [](World& t) {
         (void)t.manager->plan(*t.session, {t.loss}, {{t.x, Shape{3, 4}}, {t.is_training, true}});
       }},
      {"run_full_cycle",
       [](World& t) {
         auto [loss] = t.manager->run_full_cycle(*t.session, {t.loss}, t.feeds());
         t.fetched[0] = std::move(loss);
       }},
      {"run",
       [](World& t) {
         auto [h] = t.session->run({t.h}, t.feeds());
         t.fetched[1] = std::move(h);
       }},
      {"run_forward",
       [](World& t) {
         auto [loss] = t.manager->run_forward(*t.session, {t.loss}, t.feeds());
         t.fetched[2] = std::move(loss);
       }},
      {"run_backward", [](World& t) { t.manager->run_backward(*t.session); }},
      {"initialize again", [](World& t) { t.session->initialize(); }},
      {"run_full_cycle again",
       [](World& t) {
         auto [loss] = t.manager->run_full_cycle(*t.session, {t.loss}, t.feeds());
         t.fetched[3] = std::move(loss);
       }},
  };
  return all;
}

/// What a disturbed or undisturbed life gave.
struct Outcome {
  std::vector<HostTensor> fetched;
  std::uint64_t state = 0;
  std::vector<long> sites;  ///< of each call, in its last attempt
  int num_failed = 0;       ///< calls that were refused memory
};

/// Makes `call` with allocations counted; true when it went through, false when it was refused memory.
bool attempt(World& world, const Call& call, long site, bool for_good) {
  num_sites = 0;
  failing_site = site;
  fails_for_good = for_good;
  watched = true;
  try {
    call.make(world);
    watched = false;
    return true;
  } catch (const std::bad_alloc&) {
    watched = false;
    return false;
  } catch (const DeviceError&) {
    watched = false;
    return false;
  } catch (...) {
    watched = false;
    throw;
  }
}

/// Of all that can be read; while a backward half is pending that is the graph and its sections.
std::uint64_t readable_state(World& world) {
  const bool readable = !world.session || engine(*world.session).pending() == nullptr;
  return readable ? world.state() : StateHash().add(world.graph).add(*world.manager).value();
}

/// All calls in order; in each that has so many, the allocation of that number fails. A call that is refused memory
/// must have changed nothing, and goes through when it is made again. `sites`: of each call, undisturbed.
Outcome live(long site, bool for_good, const std::vector<long>& sites) {
  World world;
  world.fetched.resize(4);
  Outcome outcome;
  for (std::size_t i = 0; i < calls().size(); ++i) {
    const Call& call = calls()[i];
    // Reading all of the state takes most of the time: it is read where something may fail.
    const bool may_fail = site >= 0 && site < sites[i];
    const std::uint64_t before = may_fail ? readable_state(world) : 0;
    if (!attempt(world, call, may_fail ? site : -1, for_good)) {
      EXPECT_EQ(before, readable_state(world))
          << call.name << " was refused memory and has changed something, site " << site;
      ++outcome.num_failed;
      EXPECT_TRUE(attempt(world, call, -1, false)) << call.name;
    }
    outcome.sites.push_back(num_sites);
  }
  outcome.state = world.state();
  outcome.fetched = std::move(world.fetched);
  return outcome;
}

class AllocationFailure : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#ifdef SF_NO_ALLOCATION_HOOK
    GTEST_SKIP() << "a sanitizer owns the allocation functions, or this is no glibc";
#endif
  }
};

// Every site of every call of a whole life: building, training operations, planning, session, first and later cycles.
// A life meets one site of each of its calls, so that there are as many lives as the longest call has sites.
TEST_P(AllocationFailure, AtEverySiteChangesNothingAndLeaksNothing) {
  (void)live(-1, false, {});  // registries and other things that stay
  const Outcome undisturbed = live(-1, false, {});
  const long sites = std::accumulate(undisturbed.sites.begin(), undisturbed.sites.end(), 0L);
  const long most = *std::max_element(undisturbed.sites.begin(), undisturbed.sites.end());
  ASSERT_GT(sites, 1000);
  std::cout << sites << " allocation sites, up to " << most << " in a call\n";
  long num_failed = 0;
  // Where all fail from a site on, every other site keeps the time in bounds.
  const long stride = GetParam() ? 2 : 1;
  for (long site = 0; site < most; site += stride) {
    const long alive = num_alive;
    {
      const Outcome outcome = live(site, GetParam(), undisturbed.sites);
      num_failed += outcome.num_failed;
      ASSERT_EQ(outcome.state, undisturbed.state) << "site " << site;
      for (std::size_t i = 0; i < outcome.fetched.size(); ++i) {
        ASSERT_TRUE(bitwise_equal(outcome.fetched[i], undisturbed.fetched[i])) << "fetch " << i << ", site " << site;
      }
      ASSERT_FALSE(HasFailure());
    }
    ASSERT_EQ(num_alive, alive) << "allocations that nobody gives back, site " << site;
  }
  // Some sites are hints that the standard library can do without.
  std::cout << num_failed << " of them refused the call\n";
  EXPECT_GT(num_failed, sites / stride * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(, AllocationFailure, ::testing::Values(false, true),
                         [](const auto& info) { return std::string(info.param ? "ForGood" : "Once"); });

}  // namespace
}  // namespace sectionflow::testing
