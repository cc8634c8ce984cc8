// What towers refuse on all before one is touched, and what they refuse when one has failed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "graph/ops/control.h"
#include "sectionflow.h"
#include "tests/runtime/variables.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "train/towers.h"

namespace sectionflow::tower_refusals {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing_support::error_of;

std::vector<SessionOptions> devices(int count) {
  std::vector<SessionOptions> all;
  for (int t = 0; t < count; ++t) all.push_back(cpu(t, {.threads = 1}));
  return all;
}

/// y = x w in two sections, loss = mean((y scale)^2), by `rate`. Updates are not clipped: those of "scale" come first.
TowerOutputs build_net(Graph& graph, GraphSectionManager& manager) {
  const Value x = placeholder(graph, "x", {kDynamic, 2}), rate = placeholder(graph, "rate", {});
  Value y, loss;
  {
    const auto section = manager.new_section("product");
    y = matmul(x, variable("w", fill(graph, {2, 3}, 1e-36F)));
  }
  {
    const auto section = manager.new_section("more");
    y = y * variable("more", fill(graph, {3}, 1.0F));
  }
  {
    const auto section = manager.new_section("loss");
    loss = mean(square(y * variable("scale", fill(graph, {3}, 2.0F))));
  }
  manager.add_training_ops(Sgd{.learning_rate = rate}, loss, {.ranks = 2});
  manager.prepare_training();
  return {{"y", y}, {"loss", loss}};
}

Example rows(std::int64_t count) {
  Example batch;
  HostTensor x(Dtype::f32, {count, 2});
  for (float& number : x.values<float>()) number = 1;
  batch.emplace("x", std::move(x));
  batch.emplace("rate", HostTensor::scalar(0.001F));
  return batch;
}

Towers two_towers(SessionOptions second = {.threads = 1}) {
  return make_parallel(build_net, {cpu(0, {.threads = 1}), cpu(1, std::move(second))}, {"x"},
                       {.deadline = std::chrono::minutes(60)});
}

std::map<std::string, HostTensor> variables_of(const Towers& towers, int t) {
  return sectionflow::variables_of(towers.tower(t).session());
}

void run_forward(Tower& tower) {
  const HostTensor x = HostTensor::of<float>({1, 2}, {1, 2});
  (void)tower.manager().run_forward(
      tower.session(), std::vector<Value>{},
      {{tower.graph().find("x").output(), x}, {tower.graph().find("rate").output(), 0.5}});
}

TEST(TowerRefusals, HalfUpdatedVariablesAreNeitherSavedNorReadNorSet) {
  const TemporaryFolder folder;
  const std::string good = folder.path() / "good.safetensors", torn = folder.path() / "torn.safetensors";
  Towers towers = two_towers();
  towers.initialize();
  towers.save(good);
  Example bad = rows(4);
  towers.tower(1).session().set_value_checks({.infinity = true});
  // The gradient of w is the last to be there; what it was computed from has been updated.
  bad.at("x").values<float>()[4] = 3e38F;
  EXPECT_THAT(error_of([&] { (void)towers.train(bad); }), HasSubstr("SF-E605"));
  EXPECT_THAT(error_of([&] { towers.save(torn); }), AllOf(HasSubstr("SF-E323"), HasSubstr("tower_refusals.cpp")));
  EXPECT_FALSE(std::filesystem::exists(torn));
  EXPECT_THAT(error_of([&] { (void)towers.read("w"); }), HasSubstr("SF-E323"));
  EXPECT_THAT(error_of([&] { towers.write("w", HostTensor(Dtype::f32, {2, 3})); }), HasSubstr("SF-E323"));
  EXPECT_THAT(error_of([&] { (void)towers.load(good); }), HasSubstr("SF-E323"));
  EXPECT_THAT(error_of([&] { (void)towers.run(rows(4), {"y"}); }), HasSubstr("SF-E323"));
  towers.initialize();
  (void)towers.load(good);
  (void)towers.run(rows(4), {"y"});
}

TEST(TowerRefusals, AFeedOfAnotherDtypeEndsNoTraining) {
  Towers towers = two_towers();
  towers.initialize();
  const auto refuse = [&] {
    for (const char* name : {"x", "rate"}) {
      Example batch = rows(4);
      batch.insert_or_assign(name, HostTensor(Dtype::i32, batch.at(name).shape()));
      EXPECT_THAT(error_of([&] { (void)towers.train(batch); }), AllOf(HasSubstr("SF-E304"), HasSubstr(name)));
      EXPECT_THAT(error_of([&] { (void)towers.run(batch, {"y"}); }), HasSubstr("SF-E304"));
      EXPECT_THAT(error_of([&] { (void)towers.plan(batch); }), HasSubstr("SF-E304"));
    }
  };
  refuse();
  (void)towers.train(rows(4));
  refuse();
  (void)towers.train(rows(4));
  EXPECT_EQ(towers.completed_cycles(), 2U);
}

TEST(TowerRefusals, AFeedThatIsNotFiniteEndsNoTrainingWhereFeedsAreChecked) {
  Towers towers = two_towers({.threads = 1, .check_feeds = true});
  towers.initialize();
  for (std::uint64_t cycle = 1; cycle <= 2; ++cycle) {
    Example bad = rows(4);
    bad.at("x").values<float>()[4] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(error_of([&] { (void)towers.train(bad); }), AllOf(HasSubstr("SF-E307"), HasSubstr("tower:   1")));
    (void)towers.train(rows(4));
    EXPECT_EQ(towers.completed_cycles(), cycle);
  }
}

TEST(TowerRefusals, APendingHalfOfOneKeepsAllFromBeingTouched) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "file.safetensors";
  Towers towers = two_towers();
  towers.initialize();
  (void)towers.train(rows(4));
  towers.save(path);
  (void)towers.train(rows(4));
  const auto before = variables_of(towers, 0);
  towers.on_each([](Tower& tower) {
    if (tower.number() == 1) run_forward(tower);
  });
  const auto is_refused = AllOf(HasSubstr("SF-E322"), HasSubstr("tower:   1, on cpu:1"));
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.initialize(); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.write("scale", HostTensor(Dtype::f32, {3})); }), is_refused);
  EXPECT_THAT(error_of([&] { (void)towers.load(path); }), is_refused);
  EXPECT_THAT(differing(before, variables_of(towers, 0)), IsEmpty());
  Tower& second = towers.tower(1);
  second.manager().discard_forward(second.session());
  (void)towers.train(rows(4));
  EXPECT_THAT(differing(variables_of(towers, 0), variables_of(towers, 1)), IsEmpty());
}

TEST(TowerRefusals, AveragesInThePlaceOfOnesWeightsKeepAllFromBeingSet) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "file.safetensors";
  const auto build = [](Graph& graph, GraphSectionManager&) {
    const Value loss = mean(placeholder(graph, "x", {kDynamic}) * variable("w", fill(graph, {}, 1.0F)));
    training_updates(Sgd{}, loss, {.ranks = 2, .average = WeightAverageOptions{}});
    return TowerOutputs{{"loss", loss}};
  };
  Towers towers = make_parallel(build, devices(2), {"x"});
  towers.initialize();
  towers.save(path);
  {
    const Tower& second = towers.tower(1);
    const AveragedWeights averaged(second.session(),
                                   {{second.graph().find("w").output(), second.graph().find("w/average").output()}});
    const auto is_refused = AllOf(HasSubstr("SF-E035"), HasSubstr("tower:   1, on cpu:1"));
    EXPECT_THAT(error_of([&] { towers.initialize(); }), is_refused);
    EXPECT_THAT(error_of([&] { towers.write("w", HostTensor::scalar(3.0F)); }), is_refused);
    EXPECT_THAT(error_of([&] { (void)towers.load(path); }), is_refused);
  }
  towers.write("w", HostTensor::scalar(3.0F));
  EXPECT_THAT(differing(variables_of(towers, 0), variables_of(towers, 1)), IsEmpty());
}

TEST(TowerRefusals, ABranchThatDoesNotFitOneChangesNothing) {
  const auto build = [](Graph& graph, GraphSectionManager& manager) {
    const Value x = placeholder(graph, "x", {kDynamic, 2}), big = placeholder(graph, "big", {}, Dtype::boolean);
    Value y, loss;
    {
      const auto section = manager.new_section("a");
      y = matmul(x, variable("w", fill(graph, {2, 3}, 0.5F)));
    }
    {
      const auto section = manager.new_section("b");
      const auto wide = [&] {
        return square(matmul(tanh(matmul(y, fill(graph, {3, 4096}, 0.01F))), fill(graph, {4096, 3}, 0.01F)));
      };
      loss = mean(cond(big, wide, [&] { return square(y); }));
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.1F}, loss, {.ranks = 2});
    manager.prepare_training();
    return TowerOutputs{{"loss", loss}};
  };
  const auto batch = [](bool is_big) {
    Example rows_of = rows(64);
    rows_of.erase("rate");
    rows_of.emplace("big", HostTensor(Dtype::boolean, {}));
    rows_of.at("big").bytes()[0] = std::byte(is_big ? 1 : 0);
    return rows_of;
  };
  const std::size_t small = make_parallel(build, devices(2), {"x"}).plan(batch(false))[1].planned_peak_bytes;
  Towers towers =
      make_parallel(build, {cpu(0, {.threads = 1}), cpu(1, {.device_memory = small + 4096, .threads = 1})}, {"x"});
  towers.initialize();
  (void)towers.train(batch(false));
  EXPECT_THAT(error_of([&] { (void)towers.train(batch(true)); }), AllOf(HasSubstr("SF-E101"), HasSubstr("tower:   1")));
  (void)towers.train(batch(false));
  EXPECT_EQ(towers.completed_cycles(), 2U);
}

TEST(TowerRefusals, TowersOfWhichOneHasNoRoomForItsVariablesWaitForAnotherInitialize) {
  Towers towers = two_towers({.device_memory = 512, .threads = 1});
  EXPECT_THAT(error_of([&] { towers.initialize(); }), AllOf(HasSubstr("SF-E101"), HasSubstr("tower:   1, on cpu:1")));
  const auto is_refused = AllOf(HasSubstr("SF-E323"), HasSubstr("initialize()"));
  EXPECT_THAT(error_of([&] { (void)towers.read("w"); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.write("w", HostTensor(Dtype::f32, {2, 3})); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.save("never.safetensors"); }), is_refused);
  EXPECT_THAT(error_of([&] { (void)towers.load("never.safetensors"); }), is_refused);
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.on_each([](Tower&) {}); }), is_refused);
  EXPECT_THAT(error_of([&] { towers.initialize(); }), HasSubstr("SF-E101"));
}

TEST(TowerRefusals, ACommunicationErrorOfACallsOwnEndsTheOthersAtOnce) {
  Towers towers = two_towers();
  towers.initialize();
  // The deadline is an hour: the others are told.
  EXPECT_THAT(error_of([&] {
                towers.on_each([](Tower& tower) {
                  if (tower.number() == 1) throw CommunicationError("another hub is gone");
                  const HostTensor x = HostTensor::of<float>({1, 2}, {1, 2});
                  (void)tower.manager().run_full_cycle(
                      tower.session(), {tower.output("loss")},
                      {{tower.graph().find("x").output(), x}, {tower.graph().find("rate").output(), 0.5}});
                });
              }),
              AllOf(HasSubstr("another hub is gone"), HasSubstr("tower:   1, on cpu:1")));
  EXPECT_THAT(error_of([&] { (void)towers.train(rows(4)); }),
              AllOf(HasSubstr("SF-E510"), HasSubstr("another hub is gone"), HasSubstr("make them anew")));
}

TEST(TowerRefusals, DifferentTextsEndNoTraining) {
  Towers towers = two_towers();
  towers.initialize();
  EXPECT_THAT(error_of([&] {
                towers.on_each([](Tower& tower) {
                  tower.session().options().communicator->expect_same("numbers", std::to_string(tower.number()));
                });
              }),
              HasSubstr("SF-E512"));
  (void)towers.train(rows(4));
  EXPECT_EQ(towers.completed_cycles(), 1U);
}

TEST(TowerRefusals, NoFileIsOfHalfAnUpdate) {
  const TemporaryFolder folder;
  const std::string whole = folder.path() / "whole.safetensors", half = folder.path() / "half.safetensors";
  const auto build = [](int ranks) {
    return [ranks](Graph& graph, GraphSectionManager&) {
      const Value x = placeholder(graph, "x", {kDynamic});
      const Value loss = mean(x * variable("w", fill(graph, {}, 0.0F)));
      training_updates(Sgd{.learning_rate = 1.0F}, loss, {.micro_batches = 2, .ranks = ranks});
      return TowerOutputs{{"loss", loss}};
    };
  };
  const auto ones = [](std::int64_t count) {
    Example batch;
    batch.emplace("x", HostTensor(Dtype::f32, {count}));
    for (float& number : batch.at("x").values<float>()) number = 1;
    return batch;
  };
  Towers two = make_parallel(build(2), devices(2), {"x"});
  two.initialize();
  two.save(whole);
  (void)two.train(ones(2));
  EXPECT_THAT(error_of([&] { two.save(half); }), AllOf(HasSubstr("SF-E033"), HasSubstr("1 of its 2 micro-batches"),
                                                       HasSubstr("until the update has all")));
  save_variables(two.tower(0).session(), half);
  (void)two.train(ones(2));
  two.save(whole);
  Towers three = make_parallel(build(3), devices(3), {"x"});
  three.initialize();
  EXPECT_THAT(error_of([&] { (void)three.load(half); }), AllOf(HasSubstr("SF-E033"), HasSubstr("was saved amid")));
  EXPECT_EQ(three.read("w").item<float>(), 0.0F);
  (void)three.load(half, {.weights_only = true});
  (void)three.load(whole);
  (void)three.train(ones(3));
  (void)three.train(ones(3));
  EXPECT_EQ(three.read("w").item<float>(), -2.0F);
}

TEST(TowerRefusals, InputsOfDifferentNumbersOfExamplesAreNamed) {
  const auto build = [](Graph& graph, GraphSectionManager&) {
    return TowerOutputs{
        {"sum", reduce_sum(placeholder(graph, "a", {kDynamic, 2})) + reduce_sum(placeholder(graph, "b", {kDynamic}))}};
  };
  Towers towers = make_parallel(build, devices(2), {"a", "b"});
  towers.initialize();
  Example batch;
  batch.emplace("a", HostTensor(Dtype::f32, {4, 2}));
  batch.emplace("b", HostTensor(Dtype::f32, {6}));
  EXPECT_THAT(error_of([&] { (void)towers.run(batch, {"sum"}); }),
              AllOf(HasSubstr("SF-E602 ShapeError"), HasSubstr("'a' has 4 examples, and input 'b' has 6")));
}

TEST(TowerRefusals, TowersThatWereMovedFromSaySo) {
  Towers from = two_towers();
  const Towers to = std::move(from);
  EXPECT_EQ(to.size(), 2);
  const auto is_refused = AllOf(HasSubstr("SF-E010"), HasSubstr("moved from"));
  EXPECT_THAT(error_of([&] { (void)from.size(); }), is_refused);  // NOLINT: what is tested
  EXPECT_THAT(error_of([&] { from.initialize(); }), is_refused);
  EXPECT_THAT(error_of([&] { (void)from.tower(0); }), is_refused);
}

TEST(TowerRefusals, NoCallOnEachEndsNoTraining) {
  Towers towers = two_towers();
  towers.initialize();
  EXPECT_THAT(error_of([&] { towers.on_each(nullptr); }), AllOf(HasSubstr("SF-E010"), HasSubstr("no call to make")));
  (void)towers.train(rows(4));
}

TEST(TowerRefusals, DevicesAreNumberedFromZero) {
  EXPECT_THAT(error_of([] {
                (void)make_parallel(build_net, {cpu(0, {.threads = 1}), cpu(-1, {.threads = 1})}, {"x"});
              }),
              AllOf(HasSubstr("SF-E010"), HasSubstr("'cpu:-1' is no device")));
}

}  // namespace
}  // namespace sectionflow::tower_refusals
