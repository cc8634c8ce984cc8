// More memory in any tier, or in several: never predicted slower, and never refused, whatever the effort is.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "fit/parts_fitter.h"
#include "graph/ops/arithmetic.h"
#include "runtime/engine.h"
#include "tests/fit/zoo_case.h"
#include "tests/sections/image_nets.h"
#include "tests/support/dice.h"

namespace sectionflow::testing {
namespace {

constexpr std::size_t kPlenty = 1_GiB;

struct Budgets {
  std::size_t device = 0, host = 0, disk = 0;
  bool is_within(const Budgets& other) const {
    return device <= other.device && host <= other.host && disk <= other.disk;
  }
};

/// Which budgets are tried.
struct BudgetChoice {
  int tight_percent = 30;      ///< within next to nothing of what one operation alone needs
  int plenty_percent = 15;     ///< with more host memory than anything wants
  std::size_t least_step = 0;  ///< of others, in 64ths of the way from that to the step as it is
};

/// A network, who carries its copies, and how it is fitted.
struct Subject {
  std::string name{};
  TrainingCase net{};
  SessionOptions session{};
  Profile profile{};
  std::int64_t effort = 0;
  int num_rungs = 0;
  bool may_recompute = true, may_swap = true;
  BudgetChoice choice{};
};

/// What is found under some budgets.
struct Found {
  Budgets budgets{};
  bool fits = false;
  double seconds = 0;
};

/// A few dense layers of random widths, some of which read what is far before them: so few operations that the usual
/// effort takes little time.
TrainingCase small_net(std::uint64_t seed) {
  return {"small net", [=](Graph& graph, GraphSectionManager& manager) {
            Dice dice(seed + 6'000'000);
            const std::int64_t batch = dice.between(4, 40), width = 4 * dice.between(1, 12);
            const Value x = placeholder(graph, "x", {batch, width});
            const Value labels = placeholder(graph, "labels", {batch}, Dtype::i32);
            auto section = std::make_optional(manager.new_section());
            Value h = x;
            std::vector<Value> widest = {x};
            for (std::int64_t layer = dice.between(2, 5); layer > 0; --layer) {
              h = tanh(dense(h, {.features = dice.chance(40) ? width : 4 * dice.between(1, 24)}));
              if (h.shape() != x.shape()) continue;
              if (dice.chance(50)) h = h + widest[static_cast<std::size_t>(dice.between(0, std::ssize(widest) - 1))];
              widest.push_back(h);
            }
            const Value loss = mean(softmax_cross_entropy(dense(h, {.features = kClasses}), labels));
            section.reset();
            finish(manager, loss, Sgd{.learning_rate = 1e-2F});
            return TrainingNet{loss, [=](std::int64_t step, FeedStore& store) {
                                 store.push_back(random_images({batch, width}, seed, step));
                                 store.push_back(random_classes(batch, kClasses, seed, step));
                                 return Feeds{{x, store[store.size() - 2]}, {labels, store.back()}};
                               }};
          }};
}

Subject random_subject(std::uint64_t seed) {
  Dice dice(seed + 5'000'000);
  constexpr std::int64_t efforts[] = {1, 300, 3'000, 12'000, 40'000};
  constexpr double rates[] = {1e7, 1e8, 1e9};
  Subject subject;
  subject.net = small_net(seed);
  const double link = rates[dice.between(0, 2)];
  subject.session.copy_threads = dice.chance(50);
  subject.session.swap_variables = dice.chance(20);
  subject.profile = Profile{.flops = 1e9, .memory_bandwidth = 1e8, .link_out = link, .link_in = link};
  subject.effort = efforts[dice.between(0, 4)];
  subject.name = text_of("seed ", seed, ": ", subject.net.name, ", effort ", subject.effort, ", link ", link,
                         subject.session.copy_threads ? ", threads" : ", team",
                         subject.session.swap_variables ? ", variables on the host" : "");
  return subject;
}

/// From a byte to `most`, each power of two as likely as the next.
std::size_t of_any_size(Dice& dice, std::size_t most) {
  const double exponent = std::log2(static_cast<double>(most)) * static_cast<double>(dice.between(0, 1000)) / 1000;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::exp2(exponent)));
}

Budgets random_budgets(Dice& dice, const BudgetChoice& choice, std::size_t floor, std::size_t whole) {
  Budgets budgets;
  // Few amounts of device memory, so that many have the same; most of them small.
  const auto step = static_cast<std::size_t>(dice.between(0, 7) * dice.between(0, 7));
  budgets.device = floor + (whole - floor) / 64 * std::max(step, choice.least_step);
  if (dice.chance(choice.tight_percent))
    budgets.device = floor + floor / 256 * static_cast<std::size_t>(dice.between(0, 6));
  budgets.host = dice.chance(choice.plenty_percent) ? kPlenty : of_any_size(dice, 2 * whole);
  if (dice.chance(30)) budgets.disk = dice.chance(50) ? kPlenty : of_any_size(dice, whole);
  return budgets;
}

/// That is told where there is plenty of host memory.
std::size_t least_device(PartsFitter& fitter, PlanningTools& tools) {
  tools.set_budgets({.device = 1, .host = kPlenty, .disk = 0});
  (void)fitter.fitted();
  return std::min(fitter.least_device_bytes(), fitter.as_it_is().device_peak);
}

/// One fitter, which searches once for what no budget decides, under `count` budgets in turn.
std::vector<Found> found_for(const Subject& subject, const InstructionList& list, PlanningTools& tools,
                             std::uint64_t seed, int count) {
  const FitRequest request{.profile = &subject.profile,
                           .may_recompute = subject.may_recompute,
                           .may_swap = subject.may_swap,
                           .effort = subject.effort,
                           .num_rungs = subject.num_rungs};
  PartsFitter fitter(list, tools, request);
  const std::size_t whole = fitter.as_it_is().device_peak, floor = least_device(fitter, tools);
  Dice dice(seed);
  std::vector<Found> found;
  for (int i = 0; i < count; ++i) {
    const Budgets budgets = random_budgets(dice, subject.choice, floor, whole);
    tools.set_budgets({.device = budgets.device, .host = budgets.host, .disk = budgets.disk});
    const FittedList fitted = fitter.fitted();
    found.push_back({budgets, fitter.fits(fitted), fitted.seconds});
  }
  return found;
}

std::string text_of(const Budgets& budgets) {
  return sectionflow::text_of(budgets.device, " of device memory, ", budgets.host, " of host memory, ", budgets.disk,
                              " of disk");
}

// Of the seconds of one plan: steps are added up in the order of its list, some hundred.
constexpr double kRounding = 1 + 1000 * std::numeric_limits<double>::epsilon();

void expect_monotone(const std::vector<Found>& found) {
  for (const Found& less : found) {
    for (const Found& more : found) {
      if (!less.fits || !less.budgets.is_within(more.budgets)) continue;
      EXPECT_TRUE(more.fits) << text_of(more.budgets) << ", and it fits " << text_of(less.budgets);
      if (!more.fits) continue;
      EXPECT_LE(more.seconds, less.seconds * kRounding)
          << text_of(more.budgets) << ", against " << text_of(less.budgets);
    }
  }
}

/// Calls `use` with the list and the tools of a training step of the subject.
template <typename Use>
void with_tools(const Subject& subject, const Use& use) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = subject.net.build(graph, manager);
  SessionOptions options = subject.session;
  options.threads = 1;
  Session session(graph, options);
  engine(session).set_instruction_editor("fitted", [&](const InstructionList& list, PlanningTools& tools) {
    const TierBudgets budgets = tools.budgets();
    use(list, tools);
    tools.set_budgets(budgets);
    return list;
  });
  FeedStore store;
  (void)session.plan({net.loss}, types_of(net.feeds(0, store)), {.targets = manager.training_operations()});
}

/// Plans for `count` budgets of the subject, each against all that are within it.
void expect_monotone(const Subject& subject, std::uint64_t seed, int count) {
  SCOPED_TRACE(subject.name);
  std::vector<Found> found;
  with_tools(subject, [&](const InstructionList& list, PlanningTools& tools) {
    found = found_for(subject, list, tools, seed, count);
  });
  ASSERT_EQ(found.size(), static_cast<std::size_t>(count));
  expect_monotone(found);
}

void expect_monotone_subjects(std::uint64_t first, std::uint64_t last, int count) {
  for (std::uint64_t seed = first; seed <= last; ++seed) expect_monotone(random_subject(seed), seed, count);
}

TEST(MonotoneFits, UnderFiftyBudgetsOfAllTiersByAnyEffort) {
  for (const std::uint64_t seed : {1, 101}) expect_monotone_subjects(seed, seed, 50);
}

/// Who carries the copies, the link, the effort and what lives on the host are of the network's own dice. Where little
/// host memory is given, and where the low effort finds nothing, a budget takes longest: few have little.
Subject zoo_subject(const std::string& name) {
  const std::vector<std::string> names = zoo_names();
  Subject subject = random_subject(1000 + static_cast<std::uint64_t>(std::ranges::find(names, name) - names.begin()));
  subject.net = small_case(name);
  subject.name.insert(0, name + " as ");
  subject.num_rungs = 12;
  subject.choice = {.tight_percent = 10, .plenty_percent = 85, .least_step = 1};
  return subject;
}

std::size_t num_instructions(const Subject& subject) {
  std::size_t count = 0;
  with_tools(subject, [&](const InstructionList& list, PlanningTools&) { count = list.instructions.size(); });
  return count;
}

/// Where there is more to choose from, a budget takes tens of seconds if values may both be computed again and be
/// offloaded: then each is tried alone.
constexpr std::size_t kFewInstructions = 250;

void expect_monotone_network(const std::string& name) {
  Subject subject = zoo_subject(name);
  if (num_instructions(subject) <= kFewInstructions) return expect_monotone(subject, 1, 50);
  for (const bool swaps : {false, true}) {
    subject.may_recompute = !swaps;
    subject.may_swap = swaps;
    SCOPED_TRACE(swaps ? "by offloading" : "by computing again");
    expect_monotone(subject, 1, 50);
  }
}

TEST(MonotoneFits, OfANetworkOfTheZooUnderFiftyBudgetsOfAllTiers) {
  expect_monotone_network("mnist_cnn");
}

class ManyMonotoneZooFits : public ::testing::TestWithParam<std::string> {};

TEST_P(ManyMonotoneZooFits, UnderFiftyBudgetsOfAllTiers) {
  expect_monotone_network(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Zoo, ManyMonotoneZooFits, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

/// Where little host memory is given the low effort asks what it finds in all of it.
TEST(MonotoneFits, ThatAreStoppedAmongOtherBudgetsLeaveThoseThatWereAsked) {
  Subject subject = random_subject(101);
  subject.effort = 1;
  with_tools(subject, [&](const InstructionList& list, PlanningTools& tools) {
    TierBudgets asked{.device = 1, .host = kPlenty};
    bool stops = false;
    FitRequest request{.profile = &subject.profile, .effort = subject.effort};
    request.stop = [&] { return stops && tools.budgets().host != asked.host; };
    PartsFitter fitter(list, tools, request);
    tools.set_budgets(asked);
    (void)fitter.fitted();
    asked = {.device = fitter.least_device_bytes(), .host = 1};
    tools.set_budgets(asked);
    stops = true;
    EXPECT_THROW(fitter.fitted(), StoppedError);
    EXPECT_EQ(tools.budgets().device, asked.device);
    EXPECT_EQ(tools.budgets().host, asked.host);
  });
}

/// What was searched for is shared by all, as by the layouts of variables of a session.
TEST(FitsBelowALimit, AreThoseWithoutOneWhereTheseAreQuicker) {
  int quicker = 0, useless = 0;
  for (std::uint64_t seed = 201; seed <= 202; ++seed) {
    Subject subject = random_subject(seed);
    subject.choice = {.tight_percent = 20, .plenty_percent = 50, .least_step = 1};
    subject.session.swap_variables = seed % 2 == 0;
    SCOPED_TRACE(subject.name);
    with_tools(subject, [&](const InstructionList& list, PlanningTools& tools) {
      planning::FrontierCache frontiers;
      FitRequest request{.profile = &subject.profile, .frontiers = &frontiers};
      PartsFitter anyhow(list, tools, request);
      const std::size_t whole = anyhow.as_it_is().device_peak, floor = least_device(anyhow, tools);
      Dice dice(seed);
      for (int i = 0; i < 4; ++i) {
        const Budgets budgets = random_budgets(dice, subject.choice, floor, whole);
        tools.set_budgets({.device = budgets.device, .host = budgets.host, .disk = budgets.disk});
        const FittedList best = anyhow.fitted();
        if (!anyhow.fits(best)) continue;
        for (const double share : {0.7, 0.999, 1.0, 1.001, 1.3}) {
          request.only_below = best.seconds * share;
          PartsFitter limited(list, tools, request);
          const FittedList found = limited.fitted();
          const bool is_of_use = limited.fits(found) && found.seconds < request.only_below;
          EXPECT_EQ(is_of_use, share > 1) << text_of(budgets) << ", below " << share << " of " << best.seconds;
          ++(is_of_use ? quicker : useless);
          if (is_of_use) {
            EXPECT_EQ(found.seconds, best.seconds) << text_of(budgets) << ", below " << share;
          }
        }
      }
    });
  }
  EXPECT_GT(quicker, 4);
  EXPECT_GT(useless, 6);
}

TEST(ManyMonotoneFits, UnderFiftyBudgetsOfAllTiersByAnyEffort) {
  expect_monotone_subjects(2, 60, 50);
}

}  // namespace
}  // namespace sectionflow::testing
