// A program of its own: it replaces operator new. A cycle whose program is found in the cache looks at its feeds and
// fetches and executes the steps: all else that it does is the same for few nodes and for many.
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "base/bytes.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "sections/graph_section_manager.h"
#include "tests/support/replaced_new.h"

namespace {

constexpr std::size_t kPage = 4096, kRegionBytes = std::size_t{1} << 30;

/// Memory of which every page that is touched can be counted. What is taken of it is never given back.
class Region {
 public:
  void* take(std::size_t num_bytes, std::size_t alignment) noexcept {
    const std::size_t begin = (end_ + alignment - 1) / alignment * alignment;
    if (begin + num_bytes > kRegionBytes) return nullptr;
    end_ = begin + num_bytes;
    return bytes() + begin;
  }
  bool contains(const void* address) const noexcept {
    return bytes_ != nullptr && address >= bytes_ && address < bytes_ + kRegionBytes;
  }
  std::size_t num_pages() const { return (end_ + kPage - 1) / kPage; }

  /// From here on whoever touches a page is counted, once a page.
  void watch() {
    num_touched_ = 0;
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) { touched(info->si_addr); };
    sigaction(SIGSEGV, &action, &before_);
    mprotect(bytes(), kRegionBytes, PROT_NONE);
  }
  int stop_watching() {
    mprotect(bytes(), kRegionBytes, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
    return num_touched_;
  }

 private:
  static void touched(void* address);

  std::byte* bytes() noexcept {
    if (bytes_ == nullptr) {
      bytes_ = static_cast<std::byte*>(
          mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    return bytes_;
  }

  std::byte* bytes_ = nullptr;
  std::size_t end_ = 0;
  int num_touched_ = 0;
  struct sigaction before_ {};
};

Region region;
bool is_building = false, is_counting = false;
std::int64_t num_new = 0, bytes_new = 0;

void Region::touched(void* address) {
  if (!region.contains(address)) {
    // A fault of somebody's own: it comes again, and ends the program.
    sigaction(SIGSEGV, &region.before_, nullptr);
    return;
  }
  ++region.num_touched_;
  mprotect(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / kPage * kPage), kPage,
           PROT_READ | PROT_WRITE);
}

}  // namespace

#ifndef SF_NO_ALLOCATION_HOOK

namespace sectionflow::testing_support {

void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept {
  if (is_counting) {
    ++num_new;
    bytes_new += static_cast<std::int64_t>(num_bytes);
  }
  if (is_building) return region.take(num_bytes, alignment == 0 ? alignof(std::max_align_t) : alignment);
  return alignment == 0 ? std::malloc(num_bytes) : memalign(alignment, num_bytes);
}
void replaced_delete(void* bytes) noexcept {
  if (!region.contains(bytes)) std::free(bytes);
}

}  // namespace sectionflow::testing_support

#endif

namespace sectionflow {
namespace {

/// A chain of operations on four numbers, cut into sections, of which the last has the loss, and one outside behind it.
/// Twenty are products with a variable.
struct Chain {
  Chain(int num_operations, int num_sections) {
    const int each = num_operations / num_sections, every = num_operations / 20;
    // By the training flag, which is not fed.
    Value y = dropout(x, {.rate = 0.1F});
    for (int k = 0, made = 0; k < num_sections; ++k) {
      const auto section = manager.new_section();
      for (int i = 0; i < each; ++i, ++made) {
        y = made % every == 0 ? y * variable("w" + std::to_string(made), fill(graph, {4}, 1)) : tanh(y);
      }
      if (k + 1 == num_sections) loss = mean(y);
    }
    outside = loss;
    for (int i = 0; i < num_operations / 10; ++i) outside = relu(outside);
    manager.add_training_ops(Sgd{}, loss);
    manager.prepare_training();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {4});
  Value loss, outside;
};

/// What one call does beside executing: allocations, their bytes, and the pages of graph and manager that it touches.
struct Work {
  std::int64_t allocations = 0, bytes = 0;
  int pages = 0;
};

class Hits {
 public:
  Hits(int num_operations, int num_sections) {
    const std::size_t pages_before = region.num_pages();
    is_building = true;
    chain_ = std::make_unique<Chain>(num_operations, num_sections);
    is_building = false;
    num_pages = region.num_pages() - pages_before;
    session_ = std::make_unique<Session>(chain_->graph, SessionOptions{.device_memory = 64_MiB, .threads = 1});
    session_->initialize();
    feeds_ = {{chain_->x, data_}};
    fetches_ = {chain_->loss, chain_->outside};
    by_section_ = {{chain_->loss}};
    training_.targets = chain_->manager.training_operations();
  }

  /// Of a call that has been made before.
  Work work_of(void (Hits::*call)()) {
    for (int i = 0; i < 2; ++i) (this->*call)();
    const Program* program = engine(*session_).latest_program();
    num_new = bytes_new = 0;
    region.watch();
    is_counting = true;
    (this->*call)();
    is_counting = false;
    const int num_touched = region.stop_watching();
    EXPECT_EQ(engine(*session_).latest_program(), program);
    return {num_new, bytes_new, num_touched};
  }

  // Calls. Their arguments are made by the user, who pays for them.
  void cycle() { (void)chain_->manager.run_full_cycle(*session_, fetches_, feeds_); }
  void halves() {
    (void)chain_->manager.run_forward(*session_, fetches_, feeds_);
    (void)chain_->manager.run_backward(*session_);
  }
  void halves_with_fetches() {
    (void)chain_->manager.run_forward(*session_, fetches_, feeds_);
    (void)chain_->manager.run_backward(*session_, by_section_);
  }
  void evaluation() { (void)session_->run(fetches_, feeds_); }
  void training() { (void)session_->run(fetches_, feeds_, training_); }

  NodeId first_fetched() const { return chain_->loss.node().id(); }
  int num_nodes() const { return chain_->graph.num_nodes(); }
  /// Those with a name, by looking at each.
  int named_nodes() const {
    int count = 0;
    for (NodeId id = 0; id < num_nodes(); ++id) count += chain_->graph.node(id).name().empty() ? 0 : 1;
    return count;
  }
  std::size_t num_pages = 0;  ///< of graph and manager

 private:
  std::unique_ptr<Chain> chain_;
  std::unique_ptr<Session> session_;
  HostTensor data_ = HostTensor::of<float>({4}, {1, 2, 3, 4});
  Feeds feeds_;
  std::vector<Value> fetches_;
  std::vector<std::vector<Value>> by_section_;
  RunOptions training_;
};

class AllocationGrowth : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SF_NO_ALLOCATION_HOOK
    GTEST_SKIP() << "a sanitizer owns the allocation functions, or this is no glibc";
#endif
    // What is made once in a process is none of any graph's.
    Hits(40, 10).cycle();
  }
};

TEST_F(AllocationGrowth, AHitDoesTheSameForEveryNumberOfNodesAndSections) {
  // Numbers of nodes, sections and groups have as many digits, so that keys are as long.
  Hits few(1200, 12), many(3600, 12), cut(3600, 90);
  EXPECT_GT(few.first_fetched(), 1000);
  EXPECT_GT(2 * many.num_nodes(), 5 * few.num_nodes());
  EXPECT_LT(cut.num_nodes(), 10000);
  // Those of the graph, the manager, and the few nodes that a call names.
  constexpr int kFewPages = 30;
  EXPECT_GT(few.num_pages, 3U * kFewPages);
  const std::vector<std::pair<std::string, void (Hits::*)()>> calls = {
      {"run_full_cycle", &Hits::cycle},
      {"run_forward and run_backward", &Hits::halves},
      {"the same with fetches", &Hits::halves_with_fetches},
      {"run, to evaluate", &Hits::evaluation},
      {"run, to train", &Hits::training},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const Work least = few.work_of(call);
    EXPECT_LE(least.pages, kFewPages);
    for (Hits* hits : {&many, &cut}) {
      const Work work = hits->work_of(call);
      EXPECT_EQ(work.allocations, least.allocations);
      EXPECT_EQ(work.bytes, least.bytes);
      EXPECT_LE(work.pages, kFewPages);
    }
  }
}

TEST_F(AllocationGrowth, SeesAWalkOverAllNodes) {
  Hits hits(480, 12);
  region.watch();
  const int num_named = hits.named_nodes();
  EXPECT_GT(static_cast<std::size_t>(region.stop_watching()), hits.num_pages / 4);
  EXPECT_EQ(num_named, hits.num_nodes());
}

}  // namespace
}  // namespace sectionflow
