// What compiled programs take, and which go when they take too much.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>

#include "base/bytes.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"
#include "runtime/program_cache.h"
#include "tests/support/random_graph.h"
#include "tests/support/replaced_new.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;

#ifdef SF_NO_ALLOCATION_HOOK
constexpr bool kIsOurAllocator = false;  // a sanitizer keeps what is freed
#else
constexpr bool kIsOurAllocator = true;
#endif

/// y = relu(x * 2) for any number of rows: one program a number.
struct AnyRows {
  explicit AnyRows(std::size_t program_memory)
      : session(graph, {.device_memory = 1_MiB, .program_memory = program_memory, .threads = 1}) {
    session.initialize();
  }
  HostTensor run(std::int64_t rows) {
    HostTensor data(Dtype::f32, {rows});
    for (std::int64_t i = 0; i < rows; ++i) data.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    return session.run(y, {{x, data}});
  }
  const Statistics& statistics() const { return session.statistics(); }

  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic});
  Value y = relu(x * 2.0F);
  Session session;
};

TEST(ProgramMemory, ProgramsAreKeptAndCounted) {
  AnyRows any(256_MiB);
  EXPECT_EQ(any.statistics().programs_kept, 0) << "that of the initial values is of no more use";
  for (std::int64_t rows = 1; rows <= 5; ++rows) (void)any.run(rows);
  EXPECT_EQ(any.statistics().programs_kept, 5);
  const std::size_t five = any.statistics().program_bytes;
  for (std::int64_t rows = 1; rows <= 5; ++rows) (void)any.run(rows);
  EXPECT_EQ(any.statistics().programs_kept, 5);
  EXPECT_EQ(any.statistics().program_bytes, five);
  EXPECT_EQ(any.statistics().programs_evicted, 0);
  any.session.clear_statistics();
  EXPECT_EQ(any.statistics().program_bytes, five) << "they are still there";
  any.session.initialize();
  EXPECT_EQ(any.statistics().programs_kept, 0);
  EXPECT_EQ(any.statistics().program_bytes, 0U);
}

TEST(ProgramMemory, TheOneUsedLongestAgoGoesFirst) {
  AnyRows counted(256_MiB);
  for (std::int64_t rows = 1; rows <= 3; ++rows) (void)counted.run(rows);
  const std::size_t capacity = counted.statistics().program_bytes + counted.statistics().program_bytes / 6;
  AnyRows any(capacity);
  const auto program_of = [&](std::int64_t rows) {
    return &engine(any.session).whole_program({any.y}, {{any.x, Shape{rows}}});
  };
  for (std::int64_t rows = 1; rows <= 3; ++rows) (void)any.run(rows);
  const Program *first = program_of(1), *third = program_of(3);
  (void)program_of(1);
  (void)any.run(4);  // 2 was used longest ago
  EXPECT_EQ(any.statistics().programs_kept, 3);
  EXPECT_EQ(any.statistics().programs_evicted, 1);
  EXPECT_EQ(program_of(1), first);
  EXPECT_EQ(program_of(3), third);
  EXPECT_LE(any.statistics().program_bytes, capacity);
  (void)any.run(2);
  EXPECT_EQ(any.statistics().programs_evicted, 2) << "it had to be compiled again";
  any.session.clear_statistics();
  EXPECT_EQ(any.statistics().programs_evicted, 0);
}

TEST(ProgramMemory, WithoutRoomOnlyTheLatestStaysAndResultsAreTheSame) {
  AnyRows none(0), all(256_MiB);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t rows = 1; rows <= 4; ++rows) {
      EXPECT_TRUE(bitwise_equal(none.run(rows), all.run(rows)));
      EXPECT_EQ(none.statistics().programs_kept, 1);
      EXPECT_EQ(engine(none.session).latest_program()->schedule.fetches[0].type.shape, (Shape{rows}));
    }
  }
  EXPECT_EQ(none.statistics().programs_evicted, 7);
}

TEST(ProgramMemory, ManySignaturesOfATrainingStayBelowTheLimit) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel model = build_tiny(graph, manager, 3, Adam{.learning_rate = 1e-2F});
  constexpr std::size_t kLimit = 4_MiB;
  Session session(graph, {.device_memory = 64_MiB, .program_memory = kLimit, .threads = 1});
  session.initialize();
  const auto resident = [] {
    std::size_t pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident_pages;
    return resident_pages * 4096;
  };
  constexpr int kWarm = 60, kSignatures = 400;
  std::size_t warm = 0;
  for (int examples = 1; examples <= kSignatures; ++examples) {
    const Batch batch = tiny_batch(0, examples);
    (void)manager.plan(session, {model.loss}, types_of(model.feeds(batch)));
    EXPECT_LE(session.statistics().program_bytes, kLimit);
    if (examples == kWarm) warm = resident();
  }
  EXPECT_EQ(session.statistics().programs_kept + session.statistics().programs_evicted, kSignatures);
  EXPECT_GT(session.statistics().programs_evicted, kSignatures / 2);
  if (!kIsOurAllocator) return;
  // Without a limit each takes some 0.4 MiB. What is left is how the allocator puts things.
  const std::size_t now = resident();
  EXPECT_LT(now, warm + 16_MiB) << bytes_text(now) << " after " << kSignatures << ", " << bytes_text(warm) << " after "
                                << kWarm;
}

TEST(ProgramMemory, IsEstimatedNearWhatTheHeapSays) {
  const auto heap = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  if (!kIsOurAllocator) GTEST_SKIP() << "another allocator tells nothing";
  TrainableRandomModel t({.seed = 4});
  Session session(t.graph, {.device_memory = 8_MiB, .threads = 1});
  session.initialize();
  const auto plan = [&](int examples) {
    (void)engine(session).whole_program({t.model.loss}, random_batch(t.model, examples, 0).types(t.model), t.training);
  };
  for (int examples = 1; examples <= 5; ++examples) plan(examples);
  const std::size_t heap_before = heap(), counted_before = session.statistics().program_bytes;
  for (int examples = 6; examples <= 45; ++examples) plan(examples);
  const double real = static_cast<double>(heap() - heap_before);
  const double counted = static_cast<double>(session.statistics().program_bytes - counted_before);
  EXPECT_GT(counted, 0.6 * real) << real << " bytes on the heap";
  EXPECT_LT(counted, 3 * real) << "code that oneDNN makes is not on the heap";
}

TEST(ProgramMemory, ProgramsOfAnOlderGraphGoWhenOneOfTheNewIsCompiled) {
  AnyRows any(256_MiB);
  for (std::int64_t rows = 1; rows <= 3; ++rows) (void)any.run(rows);
  any.graph.add_control_edge(Operation(any.x), Operation(any.y));
  (void)any.run(1);
  EXPECT_EQ(any.statistics().programs_kept, 1);
  EXPECT_EQ(any.statistics().programs_evicted, 0) << "there was room";
}

TEST(ProgramMemory, FailingToInitializeKeepsThePrograms) {
  AnyRows any(256_MiB);
  (void)any.run(2);
  const Program* program = engine(any.session).latest_program();
  const Value too_large = variable("too_large", fill(any.graph, {1 << 20}, 0));
  EXPECT_THROW(any.session.initialize(), BudgetError);
  EXPECT_EQ(any.statistics().programs_kept, 1);
  EXPECT_EQ(&engine(any.session).whole_program({any.y}, {{any.x, Shape{2}}}), program);
  EXPECT_TRUE(too_large.valid());
}

}  // namespace
}  // namespace sectionflow
