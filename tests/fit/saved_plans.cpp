// Plans in files: what was searched for once is planned again without a search, whoever has written the file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "data/tensor_hashes.h"
#include "fit/plan_file.h"
#include "graph/ops/dropout.h"
#include "tests/fit/fit_case.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Json = nlohmann::ordered_json;

struct PlannedNet {
  int layers = 2;
  std::int64_t features = 8;
  bool drops = true;
  std::int64_t batch = kBatch, later_batch = kBatch;
};

/// Convolutions with batch norm, and dropout, in two sections.
TrainingCase case_of(const PlannedNet& net) {
  return {"a net", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images, loss;
            for (int part = 0; part < 2; ++part) {
              const auto section = manager.new_section();
              for (int i = 0; i < net.layers; ++i) {
                x = conv_norm_relu(x, in.is_training, net.features);
                if (net.drops) x = dropout(x, in.is_training, {.rate = 0.2F});
              }
              if (part == 1) loss = head_loss(x, in.labels);
            }
            finish(manager, loss);
            const auto batch_of = [=](std::int64_t step) { return step == 0 ? net.batch : net.later_batch; };
            return TrainingNet{loss, in.feeds(batch_of), {loss}, in.feeds(batch_of, false)};
          }};
}

struct PlanWay {
  const char* name;
  SessionOptions session;
  FitBudgetOptions fit;
  friend void PrintTo(const PlanWay& way, std::ostream* stream) { *stream << way.name; }
};

const std::vector<PlanWay>& plan_ways() {
  constexpr std::int64_t kEffort = 50'000;
  static const Profile slow{.flops = 1e9, .memory_bandwidth = 1e8, .link_out = 2e8, .link_in = 2e8};
  static const std::vector<PlanWay> all = {
      {"Recompute", {}, {.may_swap = false, .effort = kEffort}},
      {"Swap", {.copy_threads = true}, {.may_recompute = false, .effort = kEffort}},
      {"BothWithADisk",
       {.host_memory = 256_KiB, .disk = 64_MiB, .copy_threads = true},
       {.profile = slow, .effort = kEffort}},
      {"BothWithVariablesOnTheHost", {.swap_variables = true}, {.profile = slow, .effort = kEffort}},
  };
  return all;
}
const PlanWay& way_of_both() {
  return plan_ways()[2];
}
const PlanWay& way_with_variables_on_the_host() {
  return plan_ways()[3];
}

/// A third of the way from the least that a step comes down to, to what it takes as it is.
SessionOptions tight(const TrainingCase& net, const PlanWay& way) {
  const auto needed = [&](std::size_t device_memory) {
    Fitted fitted(net, checked(way.session, device_memory), few(way.fit));
    return std::max(fitted.plan().planned_peak_bytes, fitted.plan_cycle().planned_peak_bytes);
  };
  const std::size_t whole = needed(1_GiB), least = needed(needed(1));
  EXPECT_LT(least, whole - whole / 10);
  return checked(way.session, least + (whole - least) / 3);
}

/// A plan, and a search beside it that no test would see the end of.
FitBudgetOptions without_search(FitBudgetOptions fit, FitPlan plan) {
  fit.effort = std::int64_t{1} << 40;
  fit.plan = std::move(plan);
  return fit;
}

class SavedPlans : public ::testing::TestWithParam<PlanWay> {};

TEST_P(SavedPlans, GiveTheBytesAndPeaksOfTheSearchWithoutOne) {
  const TrainingCase net = case_of({});
  const SessionOptions budgets = tight(net, GetParam());
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "step.plan").string(), again = (folder.path() / "again.plan").string();
  const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
  for (const How how : {How::whole, How::sections, How::halves}) {
    SCOPED_TRACE(name_of(how));
    const auto trained = [&](const FitBudgetOptions& fit) {
      TrainOptions options{.steps = 3, .threads = 1, .session = budgets};
      options.on_session = [&](How, const Graph&, Session& session) { fit_budget(session, fit); };
      return record_training(net, how, options);
    };
    const auto planned = [&](Fitted& fitted) {
      fitted.session().initialize();
      (void)fitted.plan_evaluation();
      return how == How::whole ? fitted.plan() : how == How::sections ? fitted.plan_cycle() : fitted.plan_halves();
    };
    Fitted searched(net, budgets, few(GetParam().fit));
    const ProgramReport found = planned(searched);
    ASSERT_TRUE(found.fits);
    ASSERT_GT(found.recomputed_operations + static_cast<int>(found.bytes_out), 0);
    save_plan(searched.session(), path);

    const FitPlan plan = load_plan(path);
    Fitted loaded(net, budgets, without_search(GetParam().fit, plan));
    const ProgramReport report = planned(loaded);
    EXPECT_TRUE(report.fits);
    EXPECT_EQ(report.planned_peak_bytes, found.planned_peak_bytes);
    EXPECT_EQ(report.host_peak_bytes, found.host_peak_bytes);
    EXPECT_EQ(report.disk_peak_bytes, found.disk_peak_bytes);
    EXPECT_EQ(report.recomputed_operations, found.recomputed_operations);
    EXPECT_EQ(report.bytes_out, found.bytes_out);
    EXPECT_EQ(report.num_steps, found.num_steps);
    EXPECT_THAT(report.notes, Contains(HasSubstr("by a plan that was given")));
    for (const std::string& note : found.notes) EXPECT_THAT(report.notes, Contains(note));
    save_plan(loaded.session(), again);
    EXPECT_EQ(bytes_of_file(again), bytes_of_file(path));

    const TrainingRecord by_plan = trained(without_search(GetParam().fit, plan));
    EXPECT_EQ(first_difference(plain, by_plan), "");
    EXPECT_THAT(by_plan.complaints, IsEmpty());
    EXPECT_EQ(first_difference(trained(few(GetParam().fit)), by_plan), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SavedPlans, ::testing::ValuesIn(plan_ways()),
                         [](const auto& info) { return std::string(info.param.name); });

/// A plan for a training step, as a whole or by halves, an evaluation and the initial values, and its budgets.
struct TextOfPlan {
  TextOfPlan(const PlanWay& way, How how) : fit(way.fit), budgets(tight(case_of({}), way)) {
    Fitted fitted(case_of({}), budgets, fit);
    fitted.session().initialize();
    (void)(how == How::whole ? fitted.plan() : fitted.plan_halves());
    (void)fitted.plan_evaluation();
    text = plan_of(fitted.session()).text();
  }
  FitBudgetOptions fit;
  SessionOptions budgets;
  std::string text;
};
const TextOfPlan& whole_plan() {
  static const TextOfPlan plan(way_of_both(), How::whole);
  return plan;
}
const std::string& text_of_plan() {
  return whole_plan().text;
}
const SessionOptions& budgets_of_plan() {
  return whole_plan().budgets;
}

FitBudgetOptions by_text(const std::string& text) {
  return without_search(way_of_both().fit, FitPlan::from_text(text, "the plan: "));
}

/// What is handed to a session of another net, options for a search included.
void expect_refused(const PlannedNet& net, const ::testing::Matcher<std::string>& text) {
  Fitted fitted(case_of(net), budgets_of_plan(), by_text(text_of_plan()));
  EXPECT_THAT([&] { fitted.plan(); }, ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E102"), text)));
}

TEST(SavedPlan, OfAnotherModelIsRefused) {
  expect_refused({.features = 16}, AllOf(HasSubstr("the plan is of a model with"), HasSubstr("trained variables")));
  expect_refused({.layers = 3}, HasSubstr("the plan is of a model with"));
}

TEST(SavedPlan, OfAnotherGraphWithTheSameVariablesIsRefused) {
  expect_refused({.drops = false}, AllOf(HasSubstr("operations; this session's is of"), HasSubstr("another graph")));
}

TEST(SavedPlan, OfOtherFeedsIsRefusedWithBoth) {
  expect_refused({.batch = 4}, AllOf(HasSubstr("images f32[6,8,8,3]"), HasSubstr("images f32[4,8,8,3]")));
}

TEST(SavedPlan, LeavesABatchOfAnotherSizeToTheSearchOnceItsOwnHasBeenThere) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  Fitted fitted(case_of({.later_batch = 5}), budgets_of_plan(), fit);
  fitted.session().initialize();
  fitted.run(0);
  testing_support::LogLines log;
  fitted.run(1);
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("the plan that was given has none for"),
                                        HasSubstr("images f32[5,8,8,3]"), HasSubstr("it is searched for"))));
}

TEST(SavedPlan, LeavesOtherFetchesToTheSearch) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = case_of({}).build(graph, manager);
  Session session(graph, budgets_of_plan());
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  fit_budget(session, fit);
  FeedStore store;
  const Feeds feeds = net.feeds(0, store);
  testing_support::LogLines log;
  const Value other = net.loss.node().inputs()[0];
  EXPECT_TRUE(session.plan({net.loss, other}, types_of(feeds), {.targets = manager.training_operations()}).fits);
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("has none for"), HasSubstr("'" + other.name() + "'"))));
}

TEST(SavedPlan, IsHeldAgainstTheBudgetOfTheSessionThatTakesIt) {
  Fitted more(case_of({}), checked(way_of_both().session, 1_GiB), by_text(text_of_plan()));
  const ProgramReport roomy = more.plan();
  EXPECT_TRUE(roomy.fits);
  EXPECT_GT(roomy.recomputed_operations + static_cast<int>(roomy.bytes_out), 0);

  Fitted less(case_of({}), checked(way_of_both().session, roomy.planned_peak_bytes - 1), by_text(text_of_plan()));
  less.session().initialize();
  EXPECT_FALSE(less.plan().fits);
  try {
    less.run(0);
    FAIL() << "a plan runs in less than it takes";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.minimum_bytes, roomy.planned_peak_bytes);
    EXPECT_THAT(error.fact("hint"), HasSubstr("plan anew, without the plan that was given"));
  }
}

TEST(SavedPlan, IsNoneBeforeAnythingIsPlanned) {
  Graph graph;
  Session session(graph);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "step.plan").string();
  EXPECT_THAT([&] { save_plan(session, path); }, ThrowsMessage<ArgumentError>(HasSubstr("call fit_budget(session)")));
  fit_budget(session);
  EXPECT_THAT([&] { save_plan(session, path); }, ThrowsMessage<ArgumentError>(HasSubstr("nothing has been planned")));
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_EQ(plan_of(session).num_programs(), 0);
  EXPECT_THAT([&] { load_plan(path); }, ThrowsMessage<DataError>(HasSubstr(path)));
}

TEST(SavedPlan, OfAProgramThatNothingFitsIsNotSaved) {
  Fitted fitted(case_of({}), checked({}, 1), few({.may_swap = false}));
  EXPECT_FALSE(fitted.plan().fits);
  EXPECT_EQ(plan_of(fitted.session()).num_programs(), 0);
}

// Files of anybody.

std::string sealed(const std::string& body) {
  return body + ",\n \"xxh3\": \"" + text_hash(body) + "\"\n}\n";
}

/// The plan with its members changed, and the hash that belongs to that.
std::string edited(const std::function<void(Json& plan)>& edit, const std::string& text = text_of_plan()) {
  Json plan = Json::parse(text);
  plan.erase("xxh3");
  edit(plan);
  std::string body = plan.dump();
  body.pop_back();
  return sealed(body);
}

/// The program of the training step.
Json& step_of(Json& plan) {
  for (Json& program : plan["programs"]) {
    if (program["updates"] > 0 && !program["fetches"].empty()) return program;
  }
  throw std::runtime_error("no training step in the plan");
}

TEST(SavedPlan, IsRefusedWhereAByteIsAnother) {
  const std::string good = text_of_plan();
  EXPECT_EQ(FitPlan::from_text(good, "").text(), good);
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = good;
    const std::size_t at = random() % good.size();
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    EXPECT_THROW(FitPlan::from_text(damaged, ""), DataError) << "seed 1, byte " << at;
  }
  for (std::size_t size = 1; size < good.size(); size += 1 + size / 20)
    EXPECT_THROW(FitPlan::from_text(good.substr(0, size), ""), DataError) << size;
  const TemporaryFolder folder;
  EXPECT_THROW(load_plan(folder.file("empty.plan", "").string()), DataError);
  EXPECT_THROW(load_plan(folder.path().string()), DataError);
}

TEST(SavedPlan, OfAnotherFormIsRefusedWithTheReason) {
  const auto expect_none = [](const std::string& text, const std::string& why) {
    EXPECT_THAT([&] { FitPlan::from_text(text, "the plan: "); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E102"), HasSubstr("the plan: "), HasSubstr(why))));
  };
  expect_none(edited([](Json& plan) { plan["version"] = 2; }),
              "version 2; this SectionFlow reads version 1; try a newer");
  expect_none(edited([](Json& plan) { plan["format"] = "sectionflow profile"; }), "is no plan");
  expect_none(edited([](Json& plan) { plan.erase("budgets"); }), "lacks 'budgets'");
  expect_none(edited([](Json& plan) { plan["budgets"] = {1, 2}; }), "'budgets' is a list of 2; wanted a list of 3");
  expect_none(edited([](Json& plan) { plan["budgets"][0] = -1; }), "has -1 where a whole number");
  expect_none(edited([](Json& plan) { plan["budgets"][0] = UINT64_MAX; }), "has 18446744073709551615");
  expect_none(edited([](Json& plan) { step_of(plan)["half"] = 1e9; }), "where a whole number");
  expect_none(edited([](Json& plan) { step_of(plan)["half"] = 1LL << 40; }), "has 1099511627776");
  expect_none(edited([](Json& plan) { step_of(plan)["notes"] = {"\x1b[2J"}; }), "where a text of one line");
  expect_none(edited([](Json& plan) { step_of(plan)["instructions"][0] = {1, 2}; }), "in place of an instruction");
  expect_none(edited([](Json& plan) { step_of(plan)["instructions"][0] = {"feed", 1, 2, 3}; }), "an unknown kind");
  expect_none(sealed("{" + std::string(100'000, '[')), "is no plan");
  expect_none(sealed("[]"), "is no plan");
}

/// The bytes of the loss and of all variables after a step from the initial values.
std::vector<std::string> bytes_after_a_step(Fitted& fitted, How how) {
  fitted.session().initialize();
  const auto bytes = [](const HostTensor& tensor) {
    return std::string(reinterpret_cast<const char*>(tensor.bytes()), tensor.num_bytes());
  };
  std::vector<std::string> all = {bytes(how == How::whole ? fitted.run(0) : fitted.run_halves(0))};
  for (const Value& variable : fitted.graph().values(kVariables)) all.push_back(bytes(fitted.session().read(variable)));
  return all;
}

/// Changes one or two things of a program at random.
void edit_at_random(Json& program, std::mt19937& random) {
  Json& list = program["instructions"];
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (std::size_t edits = 1 + below(2); edits > 0; --edits) {
    const std::size_t at = below(list.size()), other = below(list.size());
    const auto spot = list.begin() + static_cast<std::ptrdiff_t>(at);
    const Json copy = list[at];
    switch (below(7)) {
      case 0:
        list.erase(spot);
        break;
      case 1:
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(other), copy);
        break;
      case 2:
        std::swap(list[at], list[other]);
        break;
      case 3:
        std::swap(list[at], list[std::min(at + 1, list.size() - 1)]);
        break;
      case 4:
        program["half"] = below(list.size() + 2);
        break;
      case 5: {  // a number of it
        Json& number = list[at][copy.size() - 1 - below(copy.size() - (copy[0].is_string() ? 1 : 0))];
        number = std::max(0, number.get<int>() + static_cast<int>(below(5)) - 2);
        break;
      }
      default:
        list[at] = {below(2) == 0 ? "copy_out" : "copy_in", below(60), below(12), 0};
    }
  }
}

/// What becomes of plans that are edited at random, of a step that is run so.
void expect_no_bit_changed(const TextOfPlan& plan, How how, std::set<std::string> wanted_refusals) {
  const auto options = [&](const std::string& text) {
    return without_search(plan.fit, FitPlan::from_text(text, "the plan: "));
  };
  Fitted fitted(case_of({}), plan.budgets, options(plan.text));
  const std::vector<std::string> wanted = bytes_after_a_step(fitted, how);
  Fitted whole(case_of({}), checked({}, 1_GiB));
  ASSERT_TRUE(bytes_after_a_step(whole, How::whole) == wanted);
  int taken = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::mt19937 random(seed);
    const std::string text = edited([&](Json& edited) { edit_at_random(step_of(edited), random); }, plan.text);
    try {
      fit_budget(fitted.session(), options(text));
      EXPECT_TRUE(bytes_after_a_step(fitted, how) == wanted) << text;
      ++taken;
    } catch (const DataError& error) {
      EXPECT_EQ(error.code(), ErrorCode::plan_file) << error.what();
      std::erase_if(wanted_refusals,
                    [&](const std::string& why) { return error.message().find(why) != std::string::npos; });
    } catch (const BudgetError&) {
    }
  }
  std::cout << taken << " of 300 edited plans of a step " << name_of(how) << " are plans\n";
  EXPECT_GT(taken, 10);
  EXPECT_THAT(wanted_refusals, IsEmpty());
}

TEST(SavedPlan, OfWhomeverChangesNoBit) {
  expect_no_bit_changed(whole_plan(), How::whole,
                        {"is executed twice", "is never executed", "cannot be executed", "behind another update",
                         "other half", "neither one of the program"});
}

TEST(SavedPlan, OfWhomeverChangesNoBitOfHalves) {
  const TextOfPlan plan(way_with_variables_on_the_host(), How::halves);
  expect_no_bit_changed(plan, How::halves,
                        {"is executed twice", "is never executed", "cannot be executed", "behind another update",
                         "other half", "has the pass"});
}

}  // namespace
}  // namespace sectionflow::testing
