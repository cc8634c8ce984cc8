#include "bench/compare_command.h"

#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "bench/named_paths.h"
#include "compare/compare.h"
#include "examples/models/command_line.h"
#include "sectionflow.h"

namespace sectionflow {
namespace {

using Arguments = CompareArguments;

/// What planners take for this machine's speeds.
using MachineProfile = std::optional<Profile>;

std::vector<Strategy> strategies_of(const Arguments& arguments, const ZooArguments& zoo,
                                    const MachineProfile& profile) {
  const CutModel model = [zoo](const std::string& cut) { return model_of(zoo, cut_named(cut)).build; };
  const StrategySource source{.model = model,
                              .cut_of_whole = first_cut(arguments.strategies),
                              .profile = profile,
                              .on_planning = tell_planning(),
                              .plan = arguments.plan.empty() ? FitPlan() : load_plan(arguments.plan),
                              .effort = arguments.session.effort};
  std::vector<Strategy> strategies;
  for (const std::string& name : arguments.strategies) {
    strategies.push_back(strategy_named(name, source));
  }
  return strategies;
}

SessionOptions session_of(const Arguments& arguments, const Batch& batch) {
  SessionOptions session = session_options(arguments.session);
  session.seed = arguments.seed;
  session.device_memory = device_memory_of(arguments.session.device_memory, arguments.zoo, batch, session);
  return session;
}

/// Read from --profile, with what it does not know of the whole graph measured and written there.
MachineProfile profile_of(const Arguments& arguments, const SessionOptions& options, const Batch& batch) {
  if (arguments.profile.empty()) return std::nullopt;
  std::cerr << "the machine's speeds are those of " << arguments.profile << "; what it does not know is measured\n";
  make_folder_of(arguments.profile, "--profile");
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel model = model_of(arguments.zoo, {}).build(graph, manager);
  Session session(graph, options);
  session.initialize();
  return load_or_measure_profile(arguments.profile, session, {model.loss}, types_of(model.feeds(batch)),
                                 {.targets = manager.training_operations()});
}

/// What fit_budget makes of the whole graph in any device memory.
BudgetFrontier frontier_of(const Arguments& arguments, const SessionOptions& options, const MachineProfile& profile,
                           const Batch& batch) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel model = model_of(arguments.zoo, {}).build(graph, manager);
  Session session(graph, options);
  session.plan({model.loss}, types_of(model.feeds(batch)), {.targets = manager.training_operations()});
  return *explain(session,
                  {.fit = {.profile = profile, .effort = arguments.session.effort, .progress = tell_planning()},
                   .num_budgets = arguments.frontier})
              .frontier;
}

LargestOptions search_of(const std::string& what, const Arguments& arguments, const SessionOptions& session) {
  LargestOptions search{.what = what, .session = session, .train = !arguments.sizes_by_plan};
  search.on_found = [what](const std::string& strategy, std::int64_t size) {
    std::cerr << "largest " << what << " of " << strategy << ": " << size << "\n";
  };
  return search;
}

LargestSizes largest_batches(const Arguments& arguments, const SessionOptions& session, const MachineProfile& profile) {
  LargestOptions search = search_of("batch", arguments, session);
  search.start = arguments.batch;
  search.strategies = [&](std::int64_t) { return strategies_of(arguments, arguments.zoo, profile); };
  search.batch = [&, model = model_of(arguments.zoo, {})](std::int64_t batch) {
    return model.batch({.batch = batch, .seed = arguments.seed});
  };
  return find_largest_sizes(search);
}

/// A U-Net halves its images four times, so their sides are multiples of 16; other networks take such sides too.
constexpr std::int64_t kSideUnit = 16, kLongestSide = 4096;

ZooArguments zoo_of_side(const Arguments& arguments, std::int64_t side) {
  ZooArguments zoo = arguments.zoo;
  zoo.options.image = side;
  return zoo;
}

/// The smallest side that the network can be built for: each of its poolings and kernels has to find an image.
std::int64_t least_side(const Arguments& arguments) {
  const auto can_be_built = [&](std::int64_t side) {
    Graph graph;
    GraphSectionManager manager(graph);
    try {
      (void)model_of(zoo_of_side(arguments, side), {}).build(graph, manager);
      return true;
    } catch (const ShapeError&) {
      return false;
    }
  };
  std::int64_t side = kSideUnit;
  while (side < kLongestSide && !can_be_built(side)) side += kSideUnit;
  return side;
}

LargestSizes largest_sides(const Arguments& arguments, const SessionOptions& session, const MachineProfile& profile) {
  const auto zoo_at = [&](std::int64_t side) { return zoo_of_side(arguments, side); };
  LargestOptions search = search_of("side", arguments, session);
  search.is_batch = false;
  search.least = least_side(arguments);
  search.start = std::max(search.least, arguments.zoo.options.image / kSideUnit * kSideUnit);
  search.limit = kLongestSide;
  search.unit = kSideUnit;
  search.strategies = [&](std::int64_t side) { return strategies_of(arguments, zoo_at(side), profile); };
  search.batch = [&](std::int64_t side) {
    return model_of(zoo_at(side), {}).batch({.batch = arguments.batch, .seed = arguments.seed});
  };
  return find_largest_sizes(search);
}

/// Throws: ArgumentError where the network has too few blocks for so many sections.
void check_cut(const ZooArguments& zoo, const std::string& cut) {
  Graph graph;
  GraphSectionManager manager(graph);
  (void)model_of(zoo, cut_named(cut)).build(graph, manager);
}
bool can_be_cut(const ZooArguments& zoo, const std::string& cut) {
  try {
    check_cut(zoo, cut);
    return true;
  } catch (const ArgumentError&) {
    return false;
  }
}

/// What is compared where nothing is said.
std::vector<std::string> default_strategies(const ZooArguments& zoo) {
  std::vector<std::string> strategies = {"whole"};
  for (const std::string cut : {"2", "4", "blocks"}) {
    if (can_be_cut(zoo, cut)) strategies.push_back("sections:" + cut);
  }
  return strategies;
}

/// The files that are written can be, and take the place of nothing.
void check_files(const Arguments& arguments) {
  const std::filesystem::path report = arguments.report;
  const std::filesystem::path page = report.empty() ? "" : report / "index.html";
  const NamedPath profile{"--profile", arguments.profile};
  const bool is_measured = std::filesystem::exists(profile.path);
  std::vector<NamedPath> read = {{"--plan", arguments.plan}};
  std::vector<NamedPath> written = {{"--json", arguments.json}, {"--report", page}};
  (is_measured ? read : written).push_back(profile);
  check_apart(read, written);
  check_json(arguments.json);
  if (!page.empty()) check_output(page, "--report");
  if (!arguments.profile.empty() && !is_measured) check_output(profile.path, "--profile");
}

/// A plan is for one strategy: others would run it under their names.
void check_one_plan(const std::vector<std::string>& strategies) {
  check_plans_by_search("--plan", strategies);
  const auto planned = std::ranges::count_if(strategies, plans_by_search);
  SF_CHECK(planned == 1, ArgumentError, "--plan is of one strategy, and ", planned, " of --strategies would run by it",
           hint("compare one of ", searching_strategies("and"), " with others"));
}

/// What would only show after training is refused before it.
void check(const Arguments& arguments) {
  const bool searches = arguments.max_batch || arguments.max_side;
  SF_CHECK(!searches || !arguments.session.device_memory.empty(), ArgumentError,
           "--max-batch and --max-side look for what fits a budget; say which by --device-memory");
  (void)strategies_of(arguments, arguments.zoo, {});
  (void)model_of(arguments.zoo, {});  // what is wrong with the model itself is told first
  SF_CHECK(!arguments.max_side || has_size(arguments.zoo.model, &ZooOptions::image), ArgumentError,
           "--max-side: ", arguments.zoo.model,
           " has images of one side; wanted a model whose images have a side to choose",
           hint("take one, such as resnet50, or leave --max-side out"));
  if (arguments.session.effort > 0 && arguments.frontier == 0) check_plans_by_search("--effort", arguments.strategies);
  if (!arguments.plan.empty()) check_one_plan(arguments.strategies);
  check_files(arguments);
  for (const std::string& name : arguments.strategies) check_cut(arguments.zoo, first_cut({name}));
}

}  // namespace

int run_compare(const CompareArguments& asked) {
  CompareArguments arguments = asked;
  if (arguments.strategies.empty()) arguments.strategies = default_strategies(arguments.zoo);
  check(arguments);
  const ZooModel model = model_of(arguments.zoo, {});
  CompareOptions options{.model = arguments.zoo.model, .steps = arguments.steps};
  // Eight different batches, gone round.
  options.batch = [&](std::int64_t step) {
    return model.batch({.batch = arguments.batch, .seed = arguments.seed, .step = step % 8});
  };
  options.session = session_of(arguments, options.batch(0));
  const MachineProfile profile = profile_of(arguments, options.session, options.batch(0));
  options.reference = Strategy{.name = "whole", .whole_graph = true, .build = model.build};
  options.on_round = [&](std::int64_t done) {
    if (done % 5 == 0 || done == arguments.steps) std::cerr << "step " << done << "/" << arguments.steps << "\n";
  };
  Comparison comparison = compare_strategies(strategies_of(arguments, arguments.zoo, profile), options);
  if (arguments.max_batch) comparison.largest.push_back(largest_batches(arguments, options.session, profile));
  if (arguments.max_side) comparison.largest.push_back(largest_sides(arguments, options.session, profile));
  if (arguments.frontier > 0) comparison.frontier = frontier_of(arguments, options.session, profile, options.batch(0));
  if (!is_standard_output(arguments.json)) {
    std::cout << comparison.setting() << "\n" << comparison.limits() << "\n" << comparison.text();
  }
  write_json(arguments.json, comparison.json());
  if (!arguments.report.empty()) write_report(comparison, arguments.report);
  return comparison.all_identical() ? 0 : 1;
}

void add_compare_arguments(CLI::App& app, CompareArguments& arguments) {
  std::string forms;
  for (const std::string& form : strategy_forms()) forms += (forms.empty() ? "" : ", ") + form;
  add_zoo_arguments(app, arguments.zoo);
  app.add_option("--batch", arguments.batch, "examples in a batch")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--strategies", arguments.strategies,
                 forms +
                     "; separated by commas, N: 1, 2, 4, ... or blocks; whole,sections:2,sections:4,sections:blocks "
                     "if absent, without those that the model has too few blocks for")
      ->delimiter(',');
  app.add_option("--steps", arguments.steps, "training steps of each strategy, of which the first is left out")
      ->check(number_argument<std::int64_t>(2))
      ->capture_default_str();
  add_session_arguments(app, arguments.session, "budget of each strategy");
  app.add_option(
         "--profile", arguments.profile,
         "a file with this machine's speeds, for planners that ask; measured and written where there is none yet; "
         "those of a nominal machine if absent")
      ->check(not_empty());
  app.add_option("--seed", arguments.seed, "seed of data and initial values")
      ->check(number_argument<std::uint64_t>(0))
      ->capture_default_str();
  add_json_argument(app, arguments.json);
  app.add_option("--report", arguments.report, "write a page with pictures to index.html in this folder")
      ->check(not_empty());
  app.add_option("--frontier", arguments.frontier,
                 "also the time of the whole graph under fit_budget, predicted, in so many budgets")
      ->check(number_argument(2, 1000));
  CLI::Option* const max_batch =
      app.add_flag("--max-batch", arguments.max_batch, "also the largest batch of each strategy within the budgets");
  CLI::Option* const max_side =
      app.add_flag("--max-side", arguments.max_side, "also the largest images, for models whose size may be chosen");
  app.add_flag("--sizes-by-plan", arguments.sizes_by_plan,
               "of --max-batch and --max-side: as the plans say, without a training step of the sizes found");
  app.add_option("--plan", arguments.plan,
                 "a file of sectionflow plan --save-plan, by which auto plans without a search")
      ->check(not_empty())
      ->excludes(max_batch)
      ->excludes(max_side);
}

}  // namespace sectionflow
