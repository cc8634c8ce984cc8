// Towers: what is split, joined, refused, and how all end where one does.

#include "train/towers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "graph/ops/control.h"
#include "sectionflow.h"
#include "tests/runtime/variables.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::tower_tests {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing_support::error_of;

std::vector<SessionOptions> devices(int count) {
  std::vector<SessionOptions> all;
  for (int t = 0; t < count; ++t) all.push_back(cpu(t, {.threads = 1}));
  return all;
}

/// y = x w in two sections, loss = mean(y^2), by `rate`. Inputs whose first number is 1000 or more fail an assertion.
BuildTower product(int towers, std::optional<float> clip = 1.0F,
                   VariableDistribution distribution = VariableDistribution::replicated) {
  return [=](Graph& graph, GraphSectionManager& manager) {
    const Value x = placeholder(graph, "x", {kDynamic, 2}), rate = placeholder(graph, "rate", {});
    Value y, loss;
    {
      const auto section = manager.new_section("product");
      y = matmul(assert_that(x, reduce_max(x) < 1000.0F, {.text = "numbers are small"}),
                 variable("w", fill(graph, {2, 3}, 0.5F)));
    }
    {
      const auto section = manager.new_section("loss");
      loss = mean(square(y * variable("scale", fill(graph, {3}, 2.0F))));
    }
    manager.add_training_ops(Sgd{.learning_rate = rate}, loss,
                             {.clip_norm = clip, .ranks = towers, .distribution = distribution});
    manager.prepare_training();
    return TowerOutputs{{"y", y},
                        {"loss", loss},
                        {"column", reduce_sum(y, {.axes = {0}})},
                        {"columns", {reduce_sum(y, {.axes = {0}}), Join::concatenate}}};
  };
}

/// x[i] = {first + i, 1}.
Example rows(std::int64_t count, float first = 1, float rate = 0.125F) {
  Example batch;
  HostTensor x(Dtype::f32, {count, 2});
  for (std::int64_t i = 0; i < count; ++i) {
    x.values<float>()[static_cast<std::size_t>(2 * i)] = first + static_cast<float>(i);
    x.values<float>()[static_cast<std::size_t>(2 * i + 1)] = 1;
  }
  batch.emplace("x", std::move(x));
  batch.emplace("rate", HostTensor::scalar(rate));
  return batch;
}

std::map<std::string, HostTensor> variables_of(const Towers& towers, int t) {
  return sectionflow::variables_of(towers.tower(t).session());
}

// ---- What goes in and what comes out.

TEST(Towers, SplitABatchAndJoinWhatTheyGive) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  const Example given = towers.run(rows(4), {"y", "loss", "column", "columns"});
  // Rows are {1, 1}, ..., {4, 1}; w is 0.5 everywhere, scale 2.
  EXPECT_EQ(given.at("y").shape(), (Shape{4, 3}));
  EXPECT_THAT(std::vector<float>(given.at("y").values<float>().begin(), given.at("y").values<float>().end()),
              ElementsAre(1, 1, 1, 1.5F, 1.5F, 1.5F, 2, 2, 2, 2.5F, 2.5F, 2.5F));
  EXPECT_EQ(first_difference(given.at("loss"), HostTensor::of<float>({2}, {6.5F, 20.5F})), "");
  EXPECT_EQ(first_difference(given.at("column"), HostTensor::of<float>({2, 3}, {2.5F, 2.5F, 2.5F, 4.5F, 4.5F, 4.5F})),
            "");
  EXPECT_EQ(first_difference(given.at("columns"), HostTensor::of<float>({6}, {2.5F, 2.5F, 2.5F, 4.5F, 4.5F, 4.5F})),
            "");
}

TEST(Towers, TrainByWhatIsFedWholeToAll) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  const auto before = variables_of(towers, 0);
  (void)towers.train(rows(4, 1, 0));
  EXPECT_THAT(differing(before, variables_of(towers, 1)), IsEmpty());
  const Example step = towers.train(rows(4, 1, 0.5F), {"loss"});
  EXPECT_EQ(step.at("loss").shape(), (Shape{2}));
  EXPECT_THAT(differing(before, variables_of(towers, 0)), ElementsAre("scale", "w"));
  EXPECT_THAT(differing(variables_of(towers, 1), variables_of(towers, 0)), IsEmpty());
  EXPECT_EQ(towers.completed_cycles(), 2U);
}

TEST(Towers, RefuseABatchThatTheyDoNotDivideWithBothNumbers) {
  Towers towers = make_parallel(product(3), devices(3), {"x"});
  towers.initialize();
  const auto before = variables_of(towers, 2);
  for (const bool trains : {true, false}) {
    EXPECT_THAT(error_of([&] { (void)(trains ? towers.train(rows(32)) : towers.run(rows(32), {"y"})); }),
                AllOf(HasSubstr("SF-E602 ShapeError"), HasSubstr("'x' has 32 examples, which 3 towers do not divide"),
                      HasSubstr("feed 30 or 33")));
  }
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(2)); }), HasSubstr("2 examples, which 3 towers"));
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(0)); }), HasSubstr("0 examples, which 3 towers"));
  EXPECT_THAT(differing(before, variables_of(towers, 2)), IsEmpty());
  (void)towers.train(rows(33));
  EXPECT_EQ(towers.completed_cycles(), 1U);
}

TEST(Towers, RefuseTensorsAndNamesThatAreNone) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  Example strange = rows(4);
  strange.emplace("y", HostTensor(Dtype::f32, {4}));
  EXPECT_THAT(error_of([&] { (void)towers.train(strange); }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("no placeholder 'y'"), HasSubstr("'x'")));
  EXPECT_THAT(error_of([&] { (void)towers.run(rows(4), {"los"}); }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("no output 'los'"), HasSubstr("'loss'")));
  Example poor = rows(4);
  poor.erase("rate");
  EXPECT_THAT(error_of([&] { (void)towers.train(poor); }), AllOf(HasSubstr("SF-E301"), HasSubstr("rate")));
  Example wide = rows(4);
  wide.insert_or_assign("x", HostTensor(Dtype::f32, {4, 3}));
  EXPECT_THAT(error_of([&] { (void)towers.train(wide); }), HasSubstr("SF-E303"));
  EXPECT_THAT(error_of([&] { (void)towers.read("v"); }), HasSubstr("SF-E010"));
  // None of these ends them.
  (void)towers.train(rows(4));
  EXPECT_EQ(towers.completed_cycles(), 1U);
}

TEST(Towers, HaveNoValuesBeforeTheyAreInitialized) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }), HasSubstr("SF-E321"));
  EXPECT_EQ(towers.plan(rows(4)).size(), 2U);
  towers.initialize();
  (void)towers.train(rows(4));
}

TEST(Towers, ThatOnlyEvaluateTrainNothing) {
  const auto build = [](Graph& graph, GraphSectionManager&) {
    return TowerOutputs{{"y", placeholder(graph, "x", {kDynamic, 2}) * 2.0F}};
  };
  Towers towers = make_parallel(build, devices(2), {"x"});
  towers.initialize();
  Example batch;
  batch.emplace("x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(first_difference(towers.run(batch, {"y"}).at("y"), HostTensor::of<float>({2, 2}, {2, 4, 6, 8})), "");
  EXPECT_THAT(error_of([&] { (void)towers.train(batch); }), AllOf(HasSubstr("SF-E208"), HasSubstr(".ranks = 2")));
}

// ---- Devices.

TEST(Towers, RefuseDevicesWhoseBitsWouldDiffer) {
  const auto error_with = [](std::vector<SessionOptions> given) {
    return error_of([&] { (void)make_parallel(product(2), given, {"x"}); });
  };
  EXPECT_THAT(error_with({cpu(0, {.threads = 1}), cpu(1, {.threads = 2})}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("cpu:0 has threads: 1, and cpu:1 has 2")));
  EXPECT_THAT(error_with({cpu(0, {.threads = 1, .seed = 3}), cpu(1, {.threads = 1, .seed = 4})}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("the seed 3, and cpu:1 has 4")));
  EXPECT_THAT(error_with({cpu(0, {.threads = 1}), {.device = cuda(0), .threads = 1}}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("the kind")));
  EXPECT_THAT(error_with({cpu(1, {.threads = 1}), cpu(1, {.threads = 1})}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("two devices are cpu:1")));
  const auto communicators = in_process_communicators(2);
  EXPECT_THAT(error_with({cpu(0, {.threads = 1}), cpu(1, {.threads = 1, .communicator = communicators[1]})}),
              AllOf(HasSubstr("SF-E036"), HasSubstr("cpu:1 has a communicator")));
  EXPECT_THAT(error_with({}), AllOf(HasSubstr("SF-E010"), HasSubstr("no device")));
}

TEST(Towers, ShareTheCoresWhereNoThreadsAreSaid) {
  Towers towers = make_parallel(product(2), {cpu(0, {}), cpu(1, {})}, {"x"});
  EXPECT_GE(towers.tower(0).session().threads(), 1);
  EXPECT_EQ(towers.tower(0).session().threads(), towers.tower(1).session().threads());
}

TEST(Towers, RefuseGraphsThatDiffer) {
  int built = 0;
  const auto other = [&](Graph& graph, GraphSectionManager& manager) {
    return product(2, built++ == 0 ? 1.0F : 2.0F)(graph, manager);
  };
  EXPECT_THAT(error_of([&] { (void)make_parallel(other, devices(2), {"x"}); }),
              AllOf(HasSubstr("SF-E036"), HasSubstr("tower 1 is built as another graph")));
  EXPECT_THAT(error_of([&] { (void)make_parallel(product(1), devices(2), {"x"}); }),
              AllOf(HasSubstr("SF-E036"), HasSubstr("of 1 ranks, and there are 2 towers")));
  EXPECT_THAT(error_of([&] { (void)make_parallel(product(2), devices(2), {"z"}); }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("no placeholder 'z'")));
  EXPECT_THAT(error_of([&] { (void)make_parallel(product(2), devices(2), {"rate"}); }),
              AllOf(HasSubstr("SF-E010"), HasSubstr("'rate'"), HasSubstr("fed whole")));
  EXPECT_THAT(error_of([&] { (void)make_parallel({}, devices(2), {}); }), HasSubstr("SF-E010"));
}

TEST(Towers, AreMadeAndRunOnOneThreadEach) {
  Towers towers = make_parallel(product(3), devices(3), {"x"});
  std::vector<std::thread::id> first(3), second(3);
  towers.on_each([&](Tower& tower) { first[static_cast<std::size_t>(tower.number())] = std::this_thread::get_id(); });
  towers.initialize();
  (void)towers.train(rows(3));
  towers.on_each([&](Tower& tower) { second[static_cast<std::size_t>(tower.number())] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_NE(first[0], std::this_thread::get_id());
  EXPECT_EQ(towers.tower(2).device(), "cpu:2");
  EXPECT_EQ(towers.tower(2).session().device_name(), "cpu (1 thread)");
}

TEST(Towers, OfWhichOneHasTooSmallABudgetChangeNothing) {
  const std::size_t peak = make_parallel(product(2), devices(2), {"x"}).plan(rows(4))[1].planned_peak_bytes;
  Towers towers =
      make_parallel(product(2), {cpu(0, {.threads = 1}), cpu(1, {.device_memory = peak + 256, .threads = 1})}, {"x"});
  towers.initialize();
  const auto before = variables_of(towers, 0);
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4096)); }),
              AllOf(HasSubstr("SF-E101 BudgetError"), HasSubstr("tower:   1, on cpu:1")));
  EXPECT_THAT(differing(before, variables_of(towers, 0)), IsEmpty());
  (void)towers.train(rows(4));
  EXPECT_EQ(towers.completed_cycles(), 1U);
}

// ---- Ends.

TEST(Towers, AllEndWithTheErrorOfTheOneThatFails) {
  for (const std::int64_t failing : {0, 2}) {
    Towers towers = make_parallel(product(3), devices(3), {"x"}, {.deadline = std::chrono::minutes(60)});
    towers.initialize();
    (void)towers.train(rows(6));
    const auto before = variables_of(towers, 1);
    Example batch = rows(6);
    batch.at("x").values<float>()[static_cast<std::size_t>(failing * 4)] = 1000;
    EXPECT_THAT(error_of([&] { (void)towers.train(batch); }),
                AllOf(HasSubstr("SF-E312"), HasSubstr("numbers are small"),
                      HasSubstr("tower:   " + std::to_string(failing) + ", on cpu:" + std::to_string(failing))));
    // Clipping waits for all gradients: no update had begun. What does not train goes on.
    EXPECT_THAT(differing(before, variables_of(towers, 1)), IsEmpty());
    (void)towers.run(rows(6), {"y"});
    EXPECT_THAT(error_of([&] { (void)towers.train(rows(6)); }), AllOf(HasSubstr("SF-E510"), HasSubstr("numbers")));
  }
}

TEST(Towers, ThatFailAsTheyEvaluateEvaluateOn) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  EXPECT_THAT(error_of([&] { (void)towers.run(rows(4, 998), {"y"}); }),
              AllOf(HasSubstr("SF-E312"), HasSubstr("tower:   1, on cpu:1")));
  EXPECT_EQ(towers.run(rows(4), {"y"}).at("y").shape(), (Shape{4, 3}));
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }), HasSubstr("SF-E510"));
  EXPECT_EQ(first_difference(towers.read("scale"), HostTensor::of<float>({3}, {2, 2, 2})), "");
}

TEST(Towers, EndWhereACallOfOneThrows) {
  Towers towers = make_parallel(product(2), devices(2), {"x"}, {.deadline = std::chrono::minutes(60)});
  towers.initialize();
  const HostTensor x = HostTensor::of<float>({1, 2}, {1, 2});
  EXPECT_EQ(
      error_of([&] {
        towers.on_each([&](Tower& tower) {
          if (tower.number() == 1) throw std::runtime_error("no data");
          const Value input = tower.graph().find("x").output(), rate = tower.graph().find("rate").output();
          (void)tower.manager().run_full_cycle(tower.session(), {tower.output("loss")}, {{input, x}, {rate, 0.5}});
        });
      }),
      "no data");
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }), AllOf(HasSubstr("SF-E510"), HasSubstr("no data")));
}

TEST(Towers, LetOneThreadInAtATime) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  EXPECT_THAT(error_of([&] { towers.on_each([&](Tower&) { (void)towers.read("w"); }); }),
              AllOf(HasSubstr("SF-E012"), HasSubstr("the set of towers is in use")));
}

// ---- Variables.

TEST(Towers, GiveAndTakeVariables) {
  Towers towers = make_parallel(product(2), devices(2), {"x"});
  towers.initialize();
  const HostTensor w = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  towers.write("w", w);
  EXPECT_EQ(first_difference(towers.read("w"), w), "");
  EXPECT_THAT(differing(variables_of(towers, 0), variables_of(towers, 1)), IsEmpty());
  EXPECT_THAT(error_of([&] { towers.write("w", HostTensor(Dtype::f32, {2})); }), HasSubstr("SF-E020"));
}

TEST(Towers, GoOnFromAFileAsIfNeverInterrupted) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "towers.safetensors";
  Towers through = make_parallel(product(2), devices(2), {"x"});
  through.initialize();
  for (int i = 0; i < 2; ++i) (void)through.train(rows(4, static_cast<float>(i)));
  through.save(path);
  for (int i = 2; i < 4; ++i) (void)through.train(rows(4, static_cast<float>(i)));

  Towers later = make_parallel(product(2), devices(2), {"x"});
  later.initialize();
  EXPECT_EQ(later.load(path).completed_cycles, 2U);
  for (int i = 2; i < 4; ++i) (void)later.train(rows(4, static_cast<float>(i)));
  for (int t = 0; t < 2; ++t) EXPECT_THAT(differing(variables_of(through, 0), variables_of(later, t)), IsEmpty());
  // Another number of towers has the same variables.
  Towers more = make_parallel(product(4), devices(4), {"x"});
  more.initialize();
  (void)more.load(path);
  (void)more.train(rows(4));
  EXPECT_EQ(more.completed_cycles(), 3U);
  EXPECT_THAT(error_of([&] { (void)more.load(path + ".not"); }), HasSubstr("DataError"));
}

TEST(Towers, OfAnyDistributionGiveTakeAndSaveWholeVariables) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "towers.safetensors";
  Towers whole = make_parallel(product(2), devices(2), {"x"});
  whole.initialize();
  const HostTensor w = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  whole.write("w", w);
  (void)whole.train(rows(4));
  for (const auto distribution : {VariableDistribution::sharded, VariableDistribution::parameter_server,
                                  VariableDistribution::distributed_replicated}) {
    const BuildTower build = product(2, 1.0F, distribution);
    Towers towers = make_parallel(build, devices(2), {"x"});
    EXPECT_THAT(error_of([&] { (void)towers.read("w"); }), HasSubstr("SF-E321"));
    towers.initialize();
    towers.write("w", w);
    EXPECT_EQ(first_difference(towers.read("w"), w), "");
    EXPECT_THAT(error_of([&] { (void)towers.read("x"); }), HasSubstr("SF-E010"));
    if (distribution == VariableDistribution::distributed_replicated) {
      EXPECT_EQ(first_difference(towers.read("w/master"), w), "");
    }
    (void)towers.train(rows(4));
    EXPECT_EQ(first_difference(towers.read("w"), whole.read("w")), "");
    towers.save(path);
    Towers later = make_parallel(build, devices(2), {"x"});
    later.initialize();
    EXPECT_EQ(later.load(path).completed_cycles, 1U);
    for (const char* name : {"w", "scale"}) EXPECT_EQ(first_difference(later.read(name), whole.read(name)), "");
  }
}

TEST(Towers, HaveTrainersThatTakeABatchEach) {
  const auto x_of = [](std::int64_t number) { return rows(2, static_cast<float>(number)); };
  const auto batch_of = [&](std::int64_t number) {
    Example batch = x_of(number);
    batch.erase("rate");
    return batch;
  };
  Towers by_trainers = make_parallel(product(2), devices(2), {"x"});
  by_trainers.initialize();
  // docs/many_devices.md shows the lines from here on.
  by_trainers.on_each([&](Tower& tower) {
    FunctionBatches batches([&](std::int64_t, std::int64_t batch) -> std::optional<Example> {
      if (batch == 3) return std::nullopt;
      return batch_of(batch * 2 + tower.number());
    });
    const Value rate = tower.graph().find("rate").output();
    Trainer trainer(tower.session(), tower.manager(),
                    {.loss = tower.output("loss"), .training_feeds = {{rate, 0.125}}});
    trainer.fit(batches, {.epochs = 1});
  });
  // Here the lines end.
  Towers by_batches = make_parallel(product(2), devices(2), {"x"});
  by_batches.initialize();
  for (std::int64_t k = 0; k < 3; ++k) {
    Example whole = rows(4);
    for (std::int64_t t = 0; t < 2; ++t) {
      const Example part = x_of(2 * k + t);
      std::copy_n(part.at("x").values<float>().begin(), 4, whole.at("x").values<float>().begin() + 4 * t);
    }
    (void)by_batches.train(whole);
  }
  for (int t = 0; t < 2; ++t) {
    EXPECT_THAT(differing(variables_of(by_batches, 0), variables_of(by_trainers, t)), IsEmpty());
  }
}

}  // namespace
}  // namespace sectionflow::tower_tests
