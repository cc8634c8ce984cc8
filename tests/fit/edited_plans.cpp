// Files of plans by anybody: damaged, of another form, and with a hash of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <random>
#include <set>

#include "base/error.h"
#include "tests/fit/plan_case.h"
#include "tests/fit/plan_edits.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string& good_plan() {
  return whole_plan().text;
}

/// Of the good one.
std::string edited_good(const std::function<void(PlanJson& plan)>& edit) {
  return edited(good_plan(), edit);
}

TEST(EditedPlan, IsRefusedWhereAByteIsAnother) {
  const std::string good = good_plan();
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

TEST(EditedPlan, OfAnotherFormIsRefusedWithTheReason) {
  const auto expect_none = [](const std::string& text, const std::string& why) {
    EXPECT_THAT([&] { FitPlan::from_text(text, "the plan: "); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E102"), HasSubstr("the plan: "), HasSubstr(why))));
  };
  expect_none(edited_good([](PlanJson& plan) { plan["version"] = 2; }),
              "version 2; this SectionFlow reads version 1; try a newer");
  expect_none(edited_good([](PlanJson& plan) { plan["format"] = "sectionflow profile"; }), "is no plan");
  expect_none(edited_good([](PlanJson& plan) { plan.erase("budgets"); }), "lacks 'budgets'");
  expect_none(edited_good([](PlanJson& plan) {
                plan["budgets"] = {1, 2};
              }),
              "'budgets' is a list of 2; wanted a list of 3");
  expect_none(edited_good([](PlanJson& plan) { plan["budgets"][0] = -1; }), "has -1 where a whole number");
  expect_none(edited_good([](PlanJson& plan) { plan["budgets"][0] = UINT64_MAX; }), "has 18446744073709551615");
  expect_none(edited_good([](PlanJson& plan) { step_of(plan)["half"] = 1e9; }), "where a whole number");
  expect_none(edited_good([](PlanJson& plan) { step_of(plan)["half"] = 1LL << 40; }), "has 1099511627776");
  expect_none(edited_good([](PlanJson& plan) { step_of(plan)["notes"] = {"\x1b[2J"}; }), "where a text of one line");
  expect_none(edited_good([](PlanJson& plan) {
                step_of(plan)["instructions"][0] = {1, 2};
              }),
              "in place of an instruction");
  expect_none(edited_good([](PlanJson& plan) {
                step_of(plan)["instructions"][0] = {"feed", 1, 2, 3};
              }),
              "an unknown kind");
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
void edit_at_random(PlanJson& program, std::mt19937_64& random) {
  PlanJson& list = program["instructions"];
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (std::size_t edits = 1 + below(2); edits > 0; --edits) {
    const std::size_t kind = below(7);
    if (kind == 0) {
      program["half"] = below(list.size() + 2);
    } else if (kind == 1) {
      list[below(list.size())] = {below(2) == 0 ? "copy_out" : "copy_in", below(60), below(12), 0};
    } else {
      edit_instruction_at_random(list, random);
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
    std::mt19937_64 random(seed);
    const std::string text = edited(plan.text, [&](PlanJson& edited) { edit_at_random(step_of(edited), random); });
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

TEST(EditedPlan, OfWhomeverChangesNoBit) {
  expect_no_bit_changed(whole_plan(), How::whole,
                        {"is executed twice", "is never executed", "cannot be executed", "behind another update",
                         "other half", "neither one of the program"});
}

TEST(EditedPlan, OfWhomeverChangesNoBitOfHalves) {
  const TextOfPlan plan(way_with_variables_on_the_host(), How::halves);
  expect_no_bit_changed(plan, How::halves,
                        {"is executed twice", "is never executed", "cannot be executed", "behind another update",
                         "other half", "has the pass"});
}

}  // namespace
}  // namespace sectionflow::testing
