#include <array>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bench/named_paths.h"
#include "bench/session_arguments.h"
#include "compare/contender.h"
#include "examples/models/command_line.h"
#include "runtime/memory_snapshot.h"
#include "sections/section_dot.h"
#include "swap/planned_trace.h"
#include "tools/command.h"
#include "tools/plan_report.h"
#include "tools/plan_subject.h"
#include "tools/stopped_planning.h"

namespace sectionflow {
namespace {

struct PlanArguments {
  SubjectArguments subject;
  std::string strategy = "whole";
  SessionArguments session{};
  std::string profile;
  std::string json, dot, trace, memory_snapshot, save_plan;
  bool explain = false, no_smallest = false;
  int frontier = 0;  // budgets; 0: none
};

/// A strategy's model and session, planned and never run.
class PlannedModel {
 public:
  PlannedModel(const PlanSubject& subject, const Strategy& strategy, const SessionOptions& options, std::int64_t batch)
      : contender_(strategy, options, batch), feeds_(subject.feeds(contender_.session().graph(), contender_.model())) {
    Session& session = contender_.session();
    std::vector<Value> fetches;
    if (contender_.model().loss.valid()) fetches.push_back(contender_.model().loss);
    for (Value metric : subject.metrics(session.graph())) fetches.push_back(metric);
    if (strategy.whole_graph) {
      report_ = session.plan(fetches, feeds_, {.targets = subject.targets(session.graph(), contender_.manager())});
    } else {
      report_ = contender_.manager().plan(session, fetches, feeds_);
    }
  }

  const ProgramReport& report() const { return report_; }
  Session& session() { return contender_.session(); }
  GraphSectionManager& manager() { return contender_.manager(); }
  const FeedTypes& feeds() const { return feeds_; }

 private:
  Contender contender_;
  FeedTypes feeds_;
  ProgramReport report_;
};

std::optional<Profile> profile_of(const PlanArguments& arguments) {
  if (arguments.profile.empty()) return std::nullopt;
  return Profile::load(arguments.profile);
}

/// `stage`: before what its planning counts.
Strategy strategy_of(const PlanArguments& arguments, const PlanSubject& subject, const std::string& name,
                     const std::string& stage = {}) {
  const auto tell = [stage, told = tell_planning()](PlanningProgress progress) {
    progress.what.insert(0, stage);
    told(progress);
  };
  // How a model that is trained whole is cut changes nothing but its pictures; a graph has the cut that it has.
  const bool is_zoo = arguments.subject.graph_file.empty();
  return strategy_named(name, {.model = subject.model,
                               .cut_of_whole = is_zoo ? "1" : kSectionsOfFile,
                               .profile = profile_of(arguments),
                               .on_planning = tell,
                               .stop = stops_planning(),
                               .effort = arguments.session.effort});
}

SessionOptions session_of(const PlanArguments& arguments, const PlanSubject& subject) {
  SessionOptions options = session_options(arguments.session);
  const std::string& memory = arguments.session.device_memory;
  if (!is_share(memory)) {
    options.device_memory = memory.empty() ? 0 : parse_bytes(memory);
    return options;
  }
  const PlannedModel whole(subject, strategy_of(arguments, subject, "whole"), options, arguments.subject.batch);
  options.device_memory = memory_share(memory, whole.report());
  return options;
}

std::string misfit_text(const ProgramReport& report) {
  try {
    throw_budget_error(report);
  } catch (const BudgetError& error) {
    return shell_text(error);
  }
}

/// What a plan for the least device memory that can be asked for says it would need. A planner that sees at once that
/// one operation alone needs more has not looked for what else is needed: it is asked again with that much.
void find_smallest_budget(const PlanSubject& subject, const Strategy& strategy, SessionOptions options,
                          PlannedStep& planned) {
  try {
    for (std::size_t budget = 1, asked = 0; budget > asked;) {
      options.device_memory = asked = budget;
      const PlannedModel model(subject, strategy, options, planned.batch);
      const ProgramReport& report = model.report();
      planned.smallest_budget = budget = report.planned_peak_bytes;
      // What fits in what was told is the least where that was exact, or where nothing could be below.
      const bool is_floor = report.persistent_bytes + report.largest_operation.bytes >= budget;
      planned.smallest_is_exact = report.fits ? planned.smallest_is_exact || is_floor : report.minimum_is_exact;
      planned.smallest_is_enough = report.fits || report.minimum_is_enough;
      if (report.fits || report.persistent_bytes + report.largest_operation.bytes <= asked) break;
    }
  } catch (const BudgetError& error) {
    planned.smallest_budget = error.minimum_bytes;
  } catch (const Error& error) {
    // A planner that takes parameters for so little finds none, and says nothing of what it would need.
    if (!is_misfit(error)) throw;
  }
}

/// The files that are drawn into, by their options; empty: not asked for.
std::array<std::pair<const char*, std::string>, 3> pictures_of(const PlanArguments& arguments) {
  return {{{"--dot", arguments.dot}, {"--trace", arguments.trace}, {"--memory-snapshot", arguments.memory_snapshot}}};
}

void draw(const PlanArguments& arguments, PlannedModel& model) {
  for (const auto& [name, path] : pictures_of(arguments)) {
    if (!path.empty()) make_folder_of(path, name);
  }
  if (!arguments.dot.empty()) write_sections_dot(arguments.dot, model.manager(), model.feeds());
  if (arguments.trace.empty() && arguments.memory_snapshot.empty()) return;
  const Trace trace = planned_trace(model.session(), profile_of(arguments).value_or(Profile::nominal()));
  if (!arguments.trace.empty()) trace.write(arguments.trace, model.session().graph());
  if (!arguments.memory_snapshot.empty()) {
    write_memory_snapshot(arguments.memory_snapshot, model.session(), trace);
  }
}

/// The plan that the strategy has searched for, if that is asked for and it fits.
void save(const PlanArguments& arguments, PlannedModel& model) {
  if (arguments.save_plan.empty() || !model.report().fits) return;
  make_folder_of(arguments.save_plan, "--save-plan");
  save_plan(model.session(), arguments.save_plan);
}

/// What --explain and --frontier ask for, of the model that was planned last.
void explain_step(const PlanArguments& arguments, const Strategy& strategy, PlannedModel& model, PlannedStep& planned) {
  if (!arguments.explain && arguments.frontier == 0) return;
  const FitBudgetOptions fit = strategy.fit.value_or(FitBudgetOptions{.profile = profile_of(arguments),
                                                                      .effort = arguments.session.effort,
                                                                      .progress = tell_planning(),
                                                                      .stop = stops_planning()});
  Explanation explanation =
      explain(model.session(), {.fit = fit, .price = arguments.explain, .num_budgets = arguments.frontier});
  planned.frontier = std::exchange(explanation.frontier, std::nullopt);
  SF_CHECK(arguments.explain || planned.frontier, ArgumentError, "--frontier: ", explanation.no_price,
           hint("leave it out, or take another --strategy"));
  if (arguments.explain) planned.explanation = std::move(explanation);
}

PlannedStep plan_step(const PlanArguments& arguments, const PlanSubject& subject, const SessionOptions& options) {
  PlannedStep planned{.model = subject.name,
                      .strategy = arguments.strategy,
                      .batch = arguments.subject.batch,
                      .link_bandwidth = options.link_bandwidth,
                      .copy_threads = options.copy_threads,
                      .swap_variables = options.swap_variables,
                      .metrics = arguments.subject.metrics,
                      .lacks_metrics = arguments.subject.graph_file.empty() && !arguments.subject.metrics,
                      .is_limited = options.device_memory.is_limited()};
  const Strategy strategy = strategy_of(arguments, subject, arguments.strategy);
  try {
    PlannedModel model(subject, strategy, options, planned.batch);
    planned.device = model.session().device_name();
    planned.report = model.report();
    planned.fits = model.report().fits;
    if (!planned.fits) planned.misfit = misfit_text(model.report());
    planned.sections = section_memory(timeline_of(model.session()));
    draw(arguments, model);
    save(arguments, model);
    try {
      explain_step(arguments, strategy, model, planned);
    } catch (const StoppedError&) {
      planned.stopped =
          arguments.no_smallest ? "--explain or --frontier" : "--explain or --frontier, and the smallest budget,";
    }
  } catch (Error& error) {
    if (!is_misfit(error)) {
      error.add_fact("asked", text_of("--batch ", planned.batch));
      throw;
    }
    planned.misfit = shell_text(error);
  }
  // What is planned is planned: a signal ends what is looked for besides.
  if (!planned.stopped.empty() || arguments.no_smallest) return planned;
  const Strategy of_smallest = strategy_of(arguments, subject, arguments.strategy, "for the smallest budget: ");
  try {
    find_smallest_budget(subject, of_smallest, options, planned);
  } catch (const StoppedError&) {
    planned.smallest_budget.reset();
    planned.stopped = "the smallest budget";
  }
  return planned;
}

int run_plan(const PlanArguments& arguments) {
  check_json(arguments.json);
  std::vector<NamedPath> written = {{"--json", arguments.json}};
  for (const auto& [name, path] : pictures_of(arguments)) {
    if (!path.empty()) check_output(path, name);
    written.push_back({name, path});
  }
  if (!arguments.save_plan.empty()) {
    check_plans_by_search("--save-plan", {arguments.strategy});
    check_output(arguments.save_plan, "--save-plan");
    written.push_back({"--save-plan", arguments.save_plan});
  }
  const bool asks_in_any_case = arguments.explain || arguments.frontier > 0;
  if (arguments.session.effort > 0 && !asks_in_any_case) check_plans_by_search("--effort", {arguments.strategy});
  check_apart({{"--graph", arguments.subject.graph_file}, {"--profile", arguments.profile}}, written);
  const PlanSubject subject = plan_subject(arguments.subject);
  // A search takes a signal; without one there is nothing that would look for it.
  std::optional<StopsPlanning> stops;
  if (asks_in_any_case || plans_by_search(arguments.strategy)) stops.emplace();
  const PlannedStep planned = plan_step(arguments, subject, session_of(arguments, subject));
  if (!is_standard_output(arguments.json)) std::cout << planned.text();
  write_json(arguments.json, planned.json());
  if (!arguments.save_plan.empty() && !planned.fits) {
    std::cerr << "--save-plan: nothing is written to '" << arguments.save_plan << "': what is planned does not fit\n";
  }
  if (!planned.stopped.empty())
    return status_of_stopped("the search for " + planned.stopped + " was stopped (SF-E103): the plan is told without");
  return planned.fits ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand(
      "plan", "Tells what a training step would take of memory and traffic, and whether it fits; nothing is run.");
  const auto arguments = std::make_shared<PlanArguments>();
  SubjectArguments& subject = arguments->subject;
  add_zoo_arguments(*app, subject.zoo);
  app->add_option("--graph", subject.graph_file, "a graph of a file (save_graph), instead of a model")
      ->check(not_empty());
  app->add_option("--shape", subject.shapes, "of a placeholder of the graph: NAME=SIZExSIZEx...");
  app->add_option("--flag", subject.flags,
                  "of a boolean placeholder of the graph: NAME=true or NAME=false; true if absent");
  app->add_option("--fetch", subject.fetch, "what the graph is to compute; the loss of its sections if absent");
  app->add_option("--batch", subject.batch, "examples in a batch")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str();
  app->add_flag("--metrics", subject.metrics,
                "of a model: with its accuracy, as train executes it, which may take some more; a plan for train "
                "--plan is made so");
  app->add_option("--strategy", arguments->strategy,
                  joined(strategy_forms()) + "; N: 1, 2, 4, ... or blocks, of a graph: file")
      ->capture_default_str();
  app->add_option("--ranks", subject.zoo.options.ranks,
                  "of a model: of the step of each of so many ranks that train together; plans are alike from 2 on but "
                  "for the scratch of sums")
      ->check(number_argument(1, 1 << 20))
      ->capture_default_str();
  add_session_arguments(*app, arguments->session, "budget");
  app->add_option("--profile", arguments->profile, "a file with this machine's speeds; a nominal machine's if absent")
      ->check(not_empty());
  app->add_flag("--explain", arguments->explain,
                "tell what becomes of each tensor and why, what the peak is made of, and what more and less device "
                "memory would do");
  app->add_option("--frontier", arguments->frontier, "plan so many budgets of device memory by fit_budget too")
      ->check(number_argument(2, 1000));
  app->add_flag("--no-smallest-budget", arguments->no_smallest,
                "leave out the smallest budget, for which --strategy auto searches once more");
  add_json_argument(*app, arguments->json);
  app->add_option("--dot", arguments->dot, "draw the sections for Graphviz into this file")->check(not_empty());
  app->add_option("--trace", arguments->trace, "write the planned step for Perfetto into this file")
      ->check(not_empty());
  app->add_option("--memory-snapshot", arguments->memory_snapshot,
                  "write the planned memory for pytorch.org/memory_viz into this file")
      ->check(not_empty());
  app->add_option("--save-plan", arguments->save_plan,
                  "write what --strategy auto has planned, where it fits, into this file, for compare --plan, or, "
                  "with --metrics, for train --plan")
      ->check(not_empty());
  app->callback([arguments, &run] {
    run = [arguments] {
      try {
        return run_plan(*arguments);
      } catch (const StoppedError& error) {
        return status_of_stopped(error);
      }
    };
  });
}

}  // namespace sectionflow
