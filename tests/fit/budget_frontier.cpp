#include "fit/budget_frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "tests/fit/explained_case.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

FitBudgetOptions options_of(const std::string& way) {
  FitBudgetOptions fit = explained_fit();
  fit.may_recompute = way != "auto:swap";
  fit.may_swap = way != "auto:recompute";
  return fit;
}

BudgetFrontier frontier_of(const std::string& way, int budgets, const std::string& strategy = "whole") {
  ExplainedCase planned(strategy, {});
  return *explain(planned.session(), {.fit = options_of(way), .num_budgets = budgets}).frontier;
}

class Frontiers : public ::testing::TestWithParam<const char*> {};

TEST_P(Frontiers, FallAndAreNowhereBelowTheBound) {
  const BudgetFrontier frontier = frontier_of(GetParam(), 9);
  ASSERT_EQ(frontier.points.size(), 9U);
  EXPECT_GE(frontier.points.front().budget_bytes, frontier.working_set_bytes);
  EXPECT_EQ(frontier.points.back().budget_bytes, frontier.whole_peak_bytes);
  EXPECT_EQ(frontier.points.back().seconds, frontier.whole_seconds);
  EXPECT_EQ(frontier.overhead(frontier.points.back().seconds), 0);
  double before = HUGE_VAL, bound_before = HUGE_VAL;
  for (const BudgetPoint& point : frontier.points) {
    SCOPED_TRACE(point.budget_bytes);
    EXPECT_TRUE(point.fits);
    EXPECT_LE(point.peak_bytes, point.budget_bytes);
    EXPECT_LE(point.seconds, before);
    EXPECT_LE(point.bound_seconds, bound_before);
    EXPECT_GE(point.seconds, point.bound_seconds * (1 - 1e-9));
    EXPECT_GT(point.bound_seconds, 0);
    before = point.seconds;
    bound_before = point.bound_seconds;
  }
  EXPECT_GT(frontier.points.front().seconds, frontier.whole_seconds);
  if (options_of(GetParam()).may_swap) return;
  EXPECT_GT(frontier.points.front().bound_seconds, frontier.whole_seconds) << "the bound says nothing";
}

TEST_P(Frontiers, PointsAreWhatFitBudgetPlansThere) {
  const BudgetFrontier frontier = frontier_of(GetParam(), 5);
  for (const std::size_t place : {0U, 2U, 3U}) {
    const BudgetPoint& point = frontier.points.at(place);
    ExplainedCase planned(GetParam(), {.device_memory = point.budget_bytes}, options_of(GetParam()));
    EXPECT_EQ(planned.report().fits, point.fits);
    EXPECT_EQ(planned.report().predicted_seconds, point.seconds);
    EXPECT_EQ(planned.report().planned_peak_bytes, point.peak_bytes);
    EXPECT_EQ(planned.report().host_peak_bytes, point.host_peak_bytes);
    EXPECT_EQ(planned.report().recomputed_operations, point.recomputed_operations);
    EXPECT_EQ(planned.report().bytes_out, point.bytes_out);
  }
}

TEST_P(Frontiers, ThePriceIsThatOfPlansForMoreAndLess) {
  const std::size_t budget = share_of_explained(60);
  ExplainedCase planned(GetParam(), {.device_memory = budget}, options_of(GetParam()));
  const Explanation explanation = explain(planned.session(), {.fit = options_of(GetParam()), .price = true});
  const MemoryPrice& price = explanation.price.value();
  EXPECT_EQ(price.here.budget_bytes, budget);
  EXPECT_EQ(price.here.seconds, planned.report().predicted_seconds);
  EXPECT_EQ(price.step_bytes, (budget - planned.report().persistent_bytes) / 16 / kPageBytes * kPageBytes);
  EXPECT_EQ(price.more.budget_bytes, budget + price.step_bytes);
  EXPECT_EQ(price.less.budget_bytes, budget - price.step_bytes);
  for (const BudgetPoint& point : {price.more, price.less}) {
    ExplainedCase other(GetParam(), {.device_memory = point.budget_bytes}, options_of(GetParam()));
    EXPECT_EQ(other.report().predicted_seconds, point.seconds);
  }
  EXPECT_THAT(price.text(), AllOf(HasSubstr("more would save"), HasSubstr("less would cost")));
  EXPECT_THAT(explanation.text(), HasSubstr(price.text()));
  const auto json = nlohmann::json::parse(explanation.json());
  EXPECT_EQ(json.at("price").at("more").at("seconds").get<double>(), price.more.seconds);
}

INSTANTIATE_TEST_SUITE_P(Ways, Frontiers, ::testing::Values("auto", "auto:recompute", "auto:swap"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name == "auto" ? "Both" : name == "auto:swap" ? "Swap" : "Recompute";
                         });

TEST(BudgetFrontier, IsTheSameWhateverTheStepItselfTakes) {
  const BudgetFrontier whole = frontier_of("auto:recompute", 4);
  for (const std::string strategy : {"auto:recompute", "swap"}) {
    const FitBudgetOptions fit = options_of("auto:recompute");
    ExplainedCase planned(strategy, {.device_memory = share_of_explained(60)}, fit);
    const BudgetFrontier other = *explain(planned.session(), {.fit = fit, .num_budgets = 4}).frontier;
    ASSERT_EQ(other.points.size(), whole.points.size()) << strategy;
    for (std::size_t i = 0; i < whole.points.size(); ++i) {
      EXPECT_EQ(other.points[i].budget_bytes, whole.points[i].budget_bytes) << strategy;
      EXPECT_EQ(other.points[i].seconds, whole.points[i].seconds) << strategy;
    }
  }
}

/// Host memory for a part of what the smallest budget has there.
std::size_t short_host(const BudgetFrontier& frontier) {
  return frontier.points.front().host_peak_bytes / 2;
}

TEST(BudgetFrontier, BeginsWhereAnythingFitsThatHostMemoryHasRoomFor) {
  for (const std::string way : {"auto:swap", "auto"}) {
    SCOPED_TRACE(way);
    const BudgetFrontier roomy = frontier_of(way, 2);
    ExplainedCase planned("whole", {.host_memory = short_host(roomy)});
    const BudgetFrontier frontier = *explain(planned.session(), {.fit = options_of(way), .num_budgets = 4}).frontier;
    ASSERT_EQ(frontier.points.size(), 4U);
    EXPECT_LT(frontier.points.front().budget_bytes, frontier.whole_peak_bytes);
    for (const BudgetPoint& point : frontier.points) EXPECT_TRUE(point.fits) << point.budget_bytes;
    const std::size_t span = frontier.whole_peak_bytes - frontier.working_set_bytes;
    const std::size_t less = frontier.points.front().budget_bytes - span / 32;
    if (less < frontier.working_set_bytes) continue;
    ExplainedCase below(way, {.device_memory = less, .host_memory = short_host(roomy)}, options_of(way));
    EXPECT_FALSE(below.report().fits) << "it begins too high";
  }
}

TEST(BudgetFrontier, NoErrorAsksForMoreThanItsSmallestBudgetWhereHostMemoryIsShort) {
  const std::size_t host = short_host(frontier_of("auto:swap", 2));
  const FitBudgetOptions fit = options_of("auto:swap");
  ExplainedCase planned("whole", {.host_memory = host});
  const BudgetFrontier frontier = *explain(planned.session(), {.fit = fit, .num_budgets = 2}).frontier;
  const std::size_t smallest = frontier.points.front().budget_bytes;
  ASSERT_LT(smallest, frontier.whole_peak_bytes);
  int refused = 0;
  for (const std::size_t budget : {frontier.working_set_bytes, (frontier.working_set_bytes + smallest) / 2}) {
    ExplainedCase below("auto:swap", {.device_memory = budget, .host_memory = host}, fit);
    if (below.report().fits) continue;
    ++refused;
    EXPECT_THAT(below.report().planned_peak_bytes, AllOf(Gt(budget), Le(smallest)));
    EXPECT_FALSE(below.report().minimum_is_exact);
  }
  EXPECT_GT(refused, 0);
}

TEST(BudgetFrontier, OfCyclesOverSectionsIsAtLeastAsLowAsTheCut) {
  for (const std::string strategy : {"sections:2", "sections+swap:2"}) {
    ExplainedCase planned(strategy, {.device_memory = share_of_explained(70)});
    const FitBudgetOptions fit{.effort = kExplainedEffort};
    const Explanation explanation = explain(planned.session(), {.fit = fit, .price = true, .num_budgets = 3});
    ASSERT_TRUE(explanation.frontier) << explanation.no_price;
    ASSERT_TRUE(planned.report().fits);
    EXPECT_TRUE(explanation.price->here.fits);
    EXPECT_LE(explanation.price->here.seconds, explanation.seconds * (1 + 1e-9)) << strategy;
  }
}

TEST(BudgetFrontier, IsNotThereForGraphsThatLmsHasEdited) {
  ExplainedCase planned("lms:3/1/1/0", {.device_memory = share_of_explained(70)});
  const Explanation explanation = explain(planned.session(), {.price = true, .num_budgets = 3});
  EXPECT_FALSE(explanation.price);
  EXPECT_FALSE(explanation.frontier);
  EXPECT_THAT(explanation.no_price, HasSubstr("Lms"));
  EXPECT_THAT(explanation.text(), HasSubstr(explanation.no_price));
  EXPECT_EQ(nlohmann::json::parse(explanation.json()).at("no_price"), explanation.no_price);
}

TEST(BudgetFrontier, IsTableJsonAndPicture) {
  const BudgetFrontier frontier{
      .whole_seconds = 0.1,
      .whole_peak_bytes = 100_MiB,
      .variables_bytes = 10_MiB,
      .working_set_bytes = 30_MiB,
      .working_set_of = "conv2d 'stem'",
      .points = {{.budget_bytes = 30_MiB, .seconds = 0.2, .bound_seconds = HUGE_VAL},
                 {.budget_bytes = 40_MiB,
                  .fits = true,
                  .seconds = 0.125,
                  .bound_seconds = 0.11,
                  .peak_bytes = 39_MiB,
                  .recomputed_operations = 7},
                 {.budget_bytes = 100_MiB, .fits = true, .seconds = 0.1, .bound_seconds = 0.1, .peak_bytes = 100_MiB}}};
  EXPECT_EQ(frontier.text(),
            "device memory     takes      step   more time  no plan below  recomputed\n"
            "30.0 MiB                           none found           none\n"
            "40.0 MiB       39.0 MiB  125.0 ms     25.00 %        10.00 %           7\n"
            "100 MiB         100 MiB  100.0 ms      0.00 %         0.00 %           0\n"
            "with all memory: 100 MiB, 100.0 ms; nothing runs below 30.0 MiB, which conv2d 'stem' needs\n");
  const auto json = nlohmann::json::parse(frontier.json());
  EXPECT_EQ(json.at("points").size(), 3U);
  EXPECT_TRUE(json.at("points").at(0).at("bound_seconds").is_null());
  EXPECT_EQ(json.at("points").at(1).at("bound_seconds"), 0.11);
  const std::string picture = frontier.picture({{"a <plan>", 72_MiB, 0.3}});
  EXPECT_THAT(picture, AllOf(HasSubstr("<svg "), HasSubstr("a &lt;plan&gt;"), Not(HasSubstr("nan")),
                             Not(HasSubstr("inf")), HasSubstr("40.0 MiB: 25.00 %, no plan below 10.00 %")));
}

/// Ends of the picture's lines of one look: x1, y1, x2, y2.
std::vector<std::array<double, 4>> lines_of(const std::string& picture, const std::string& look) {
  std::vector<std::array<double, 4>> lines;
  const std::regex line(R"re(<line x1="(\S+)" y1="(\S+)" x2="(\S+)" y2="(\S+)"[^>]*)re" + look);
  for (std::sregex_iterator found(picture.begin(), picture.end(), line), end; found != end; ++found) {
    lines.push_back({std::stod((*found)[1]), std::stod((*found)[2]), std::stod((*found)[3]), std::stod((*found)[4])});
  }
  return lines;
}

TEST(BudgetFrontier, IsDrawnInStepsThatClaimNothingBetweenItsPoints) {
  const BudgetFrontier frontier{
      .whole_seconds = 0.1,
      .whole_peak_bytes = 100_MiB,
      .working_set_bytes = 30_MiB,
      .points = {{.budget_bytes = 40_MiB, .fits = true, .seconds = 0.2, .bound_seconds = 0.15},
                 {.budget_bytes = 100_MiB, .fits = true, .seconds = 0.1, .bound_seconds = 0.1}}};
  const std::string picture = frontier.picture();
  const auto plans = lines_of(picture, "stroke:#0072b2"), bounds = lines_of(picture, "stroke:#009e73");
  ASSERT_EQ(plans.size(), 2U);
  ASSERT_EQ(bounds.size(), 2U);
  EXPECT_EQ(plans[0][1], plans[0][3]) << "up to the next budget a plan takes what it takes";
  EXPECT_EQ(plans[1][0], plans[1][2]);
  EXPECT_EQ(bounds[0][0], bounds[0][2]) << "with a little more memory only the next bound is proved";
  EXPECT_EQ(bounds[1][1], bounds[1][3]);
}

TEST(BudgetFrontier, SavesNothingBelowZero) {
  const BudgetFrontier frontier{
      .whole_seconds = 0.1,
      .whole_peak_bytes = 100_MiB,
      .working_set_bytes = 30_MiB,
      .points = {{.budget_bytes = 40_MiB, .fits = true, .seconds = 0.0999, .bound_seconds = 0.09},
                 {.budget_bytes = 90_MiB, .fits = true, .seconds = 0.0999999, .bound_seconds = 0.09}}};
  EXPECT_THAT(frontier.text(), AllOf(HasSubstr("0.00 %"), Not(HasSubstr("-0."))));
  const std::string picture = frontier.picture({{"marked", 72_MiB, -1e-7}});
  EXPECT_THAT(picture, AllOf(HasSubstr("40.0 MiB: 0.00 %"), HasSubstr("marked: 72.0 MiB, 0.00 %"),
                             Not(HasSubstr("-0.00 %")), Not(HasSubstr("-0.10 %"))));
}

TEST(MemoryPrice, SaysNothingOfLessWhereThereIsNotThatMuch) {
  const BudgetPoint here{.budget_bytes = 2_KiB, .fits = true, .seconds = 0.1, .bound_seconds = 0.1};
  MemoryPrice price{.step_bytes = 4_KiB, .here = here, .more = here, .less = {}};
  price.more.budget_bytes = 6_KiB;
  EXPECT_THAT(price.text(), AllOf(HasSubstr("4.00 KiB more would save 0.0 %; a MiB"), Not(HasSubstr("less would"))));
  price.here.budget_bytes = 8_KiB;
  EXPECT_THAT(price.text(), HasSubstr("4.00 KiB less would be too little"));
}

TEST(BudgetFrontier, OfOnePointIsAPictureToo) {
  const BudgetFrontier frontier{.whole_seconds = 0,
                                .whole_peak_bytes = 1_MiB,
                                .working_set_bytes = 1_MiB,
                                .points = {{.budget_bytes = 1_MiB, .fits = true, .peak_bytes = 1_MiB}}};
  EXPECT_THAT(frontier.picture(), AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  EXPECT_THAT(frontier.text(), HasSubstr("0.00 %"));
}

TEST(Planning, TellsOfItsProgressOnceItTakesASecond) {
  struct Enough {};
  std::vector<PlanningProgress> told;
  ExplainedCase planned("whole", {});
  FitBudgetOptions fit = options_of("auto:recompute");
  fit.effort = 300 * kExplainedEffort;
  fit.progress = [&](const PlanningProgress& progress) {
    told.push_back(progress);
    if (told.size() == 2) throw Enough();
  };
  EXPECT_THROW(explain(planned.session(), {.fit = fit, .num_budgets = 3}), Enough);
  double before = 0;
  for (const PlanningProgress& progress : told) {
    EXPECT_GE(progress.seconds, before + 1);
    EXPECT_LE(progress.done, progress.of);
    EXPECT_THAT(progress.what, HasSubstr("budgets searched"));
    before = progress.seconds;
  }
}

}  // namespace
}  // namespace sectionflow::testing
