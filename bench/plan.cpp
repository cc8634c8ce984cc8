// What to keep, what to compute again and what to copy out so that a graph of a file, or a training step of a model,
// fits a budget; how far that is from the best, at most; and such graphs, generated.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "bench/named_paths.h"
#include "bench/program.h"
#include "bench/rates.h"
#include "bench/zoo_arguments.h"
#include "examples/models/command_line.h"
#include "fit/make_problem.h"
#include "planning/evaluate.h"
#include "planning/generate.h"
#include "planning/instance.h"
#include "planning/lower_bound.h"
#include "planning/search.h"
#include "runtime/engine.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::planning;
using Json = nlohmann::ordered_json;

struct Arguments {
  std::string instance, budget = "50%", link, json;
  bool order_fixed = false, never_slower = false;
  std::int64_t effort = 0;
  std::uint64_t seed = 1;
  std::string generate, out;
  int operations = 300;
  GptSize gpt;
  Roofline roofline;
  ZooArguments zoo;
  std::int64_t batch = 8;
  std::string profile;
};

/// What is planned, and what its operations and values are called, as JSON writes it.
struct Subject {
  Problem problem;
  std::vector<std::string> operation_ids, value_ids;
};

Subject subject_of(Instance instance) {
  // A value has the index, and so the id, of its operation.
  return {std::move(instance.problem), instance.ids, instance.ids};
}

/// A training step of a model of the zoo, the whole graph, by its names.
Subject subject_of(const Arguments& arguments) {
  const ZooModel model = model_of(arguments.zoo, Cut{});
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  const Profile profile = arguments.profile.empty() ? Profile::nominal() : Profile::load(arguments.profile);
  Subject subject;
  Session session(graph, {});
  engine(session).set_instruction_editor("problem", [&](InstructionList list, PlanningTools& tools) {
    subject.problem = problem_of(list, tools, profile);
    return list;
  });
  const Batch batch = model.batch({.batch = arguments.batch, .seed = 1, .step = 0});
  session.plan({built.loss}, types_of(built.feeds(batch)), {.targets = manager.training_operations()});
  for (const planning::Operation& operation : subject.problem.operations)
    subject.operation_ids.push_back(Json(operation.name).dump());
  for (const PlannedValue& value : subject.problem.values) subject.value_ids.push_back(Json(value.name).dump());
  return subject;
}

/// "50%" of the peak of the default order, or a size: of a model in bytes, of an instance in its own unit.
std::int64_t budget_of(const Arguments& arguments, std::int64_t peak) {
  const std::string& text = arguments.budget;
  std::int64_t budget = kMostProblemBytes;
  if (is_share(text)) {
    const auto [percent, unit] = number_and_unit("--budget", text);
    SF_CHECK(unit == "%", ArgumentError, "--budget ", text, ": wanted a share, as in 50%");
    const double share = static_cast<double>(peak) * (percent / 100);
    if (share < static_cast<double>(kMostProblemBytes)) budget = static_cast<std::int64_t>(share);
  } else if (arguments.instance.empty()) {
    const std::string wrong = size_argument(true)(text);
    SF_CHECK(wrong.empty(), ArgumentError, "--budget: ", wrong);
    budget = static_cast<std::int64_t>(parse_bytes(text));
  } else {
    const std::string wrong = number_argument<std::int64_t>(0)(text);
    SF_CHECK(wrong.empty(), ArgumentError, "--budget: ", wrong, ", or a share, as in 50%",
             hint("numbers are in the unit of the instance's sizes"));
    budget = std::stoll(text);
  }
  SF_CHECK(budget < kMostProblemBytes, ArgumentError, "--budget ", text, " is more than 2^62");
  return budget;
}

/// "50GB/s", or a number of the instance's sizes in its unit of time.
Link link_of(const std::string& text) {
  if (text.empty()) return {};
  return {rate_named("--link", text), 0};
}

Json json_of(const Plan& plan, const Subject& subject) {
  static constexpr const char* names[] = {"compute", "drop", "out", "in"};
  Json steps = Json::array();
  for (const PlanStep& step : plan.steps) {
    const auto& ids = step.kind == PlanStep::Kind::compute ? subject.operation_ids : subject.value_ids;
    steps.push_back({{names[static_cast<int>(step.kind)], Json::parse(ids[static_cast<std::size_t>(step.id)])}});
  }
  return steps;
}

/// JSON has no infinity: null.
Json finite(double number) {
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

struct Outcome {
  std::int64_t peak_default = 0, budget = 0, effort = 0;
  double cost_default = 0, seconds = 0;
  WorkingSet working_set;
  SearchResult search;
  LowerBound bound;

  double percent(double extra_seconds) const {
    return extra_seconds == 0 ? 0 : cost_default > 0 ? 100 * extra_seconds / cost_default : HUGE_VAL;
  }
  // Seconds are added up in other orders, so that no overhead may come out as a little less than none.
  double overhead() const {
    return search.plan ? percent(std::max(0.0, search.evaluation.seconds - cost_default)) : HUGE_VAL;
  }
  double gap() const { return search.plan ? overhead() - percent(bound.extra_seconds) : HUGE_VAL; }
};

/// Figures on lines of their own, the plan on one.
std::string json_text(const Outcome& outcome, const Subject& subject) {
  const auto id = [&](int operation) {
    return operation < 0 ? Json(nullptr) : Json::parse(subject.operation_ids[static_cast<std::size_t>(operation)]);
  };
  Json json = {{"n", subject.problem.operations.size()},
               {"peak_default", outcome.peak_default},
               {"budget", outcome.budget},
               {"working_set", outcome.working_set.bytes},
               {"working_set_of", id(outcome.working_set.operation)},
               {"cost_default", outcome.cost_default},
               {"overhead", finite(outcome.overhead())},
               {"peak", outcome.search.plan ? Json(outcome.search.evaluation.peak) : Json(nullptr)},
               {"lower_bound_overhead", finite(outcome.percent(outcome.bound.extra_seconds))},
               {"lower_bound_of", id(outcome.bound.operation)},
               {"gap_points", finite(outcome.gap())},
               {"shadow_price", outcome.bound.seconds_per_byte},
               {"effort", outcome.effort},
               {"seconds", outcome.seconds},
               {"bytes_out", outcome.search.evaluation.bytes_out},
               {"bytes_in", outcome.search.evaluation.bytes_in}};
  if (!outcome.search.plan) json["reason"] = outcome.search.reason;
  const Json steps = outcome.search.plan ? json_of(*outcome.search.plan, subject) : Json(nullptr);
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // the line end and the brace
  return text + ",\n \"plan\": " + steps.dump() + "\n}\n";
}

void print(const Outcome& outcome, const Subject& subject) {
  const double peak = std::max(1.0, static_cast<double>(outcome.peak_default));
  std::printf("%zu operations, %g in the given order at a peak of %lld; largest working set %.1f %% of that\n",
              subject.problem.operations.size(), outcome.cost_default, static_cast<long long>(outcome.peak_default),
              100 * static_cast<double>(outcome.working_set.bytes) / peak);
  std::printf("budget %lld (%.1f %%)\n", static_cast<long long>(outcome.budget),
              100 * static_cast<double>(outcome.budget) / peak);
  if (outcome.search.plan) {
    std::printf("plan: overhead %.3f %%, peak %lld, %zu steps, from %s\n", outcome.overhead(),
                static_cast<long long>(outcome.search.evaluation.peak), outcome.search.plan->steps.size(),
                outcome.search.start.c_str());
    constexpr double kRounding = 5e-4;  // no "-0.000"
    std::printf("no plan has less than %.3f %%: at most %.3f points to gain; another unit of size saves %g\n",
                outcome.percent(outcome.bound.extra_seconds), std::abs(outcome.gap()) < kRounding ? 0.0 : outcome.gap(),
                outcome.bound.seconds_per_byte);
  } else {
    std::printf("no plan: %s\n", outcome.search.reason.c_str());
  }
  std::printf("%.2f s\n", outcome.seconds);
}

/// Tells on the error stream how far a search is, once it has taken a second, and then once a second at most.
std::function<void(const SearchProgress&)> told_search() {
  using Clock = std::chrono::steady_clock;
  return [begun = Clock::now(), told = 0.0, tell = tell_planning()](const SearchProgress& progress) mutable {
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    if (seconds < told + 1) return;
    told = seconds;
    if (progress.most_searches > 1) {
      tell({"budgets searched", progress.searches, progress.most_searches, seconds});
    } else {
      const double share =
          static_cast<double>(progress.moves) / static_cast<double>(std::max<std::int64_t>(progress.moves_in_all, 1));
      tell({"percent of the changes", static_cast<int>(100 * share), 100, seconds});
    }
  };
}

/// The exit status: 1 where there is no plan.
int plan(const Arguments& arguments) {
  check_apart({{"--instance", arguments.instance}, {"--profile", arguments.profile}}, {{"--json", arguments.json}});
  check_json(arguments.json);
  (void)budget_of(arguments, 0);  // what is wrong with it is told before a model is built
  const Link link = link_of(arguments.link);
  const Subject subject =
      arguments.instance.empty() ? subject_of(arguments) : subject_of(read_instance(arguments.instance));
  const Problem& problem = subject.problem;
  Outcome outcome;
  outcome.peak_default = default_peak(problem);
  outcome.cost_default = default_cost(problem);
  outcome.budget = budget_of(arguments, outcome.peak_default);
  outcome.working_set = largest_working_set(problem, link);
  outcome.effort = arguments.effort > 0 ? arguments.effort : default_effort(problem, link.bytes_per_second > 0);
  const auto begin = std::chrono::steady_clock::now();
  outcome.search = search_plan(problem, {.budget = outcome.budget,
                                         .link = link,
                                         .order_fixed = arguments.order_fixed,
                                         .never_slower = arguments.never_slower,
                                         .effort = arguments.effort,
                                         .seed = arguments.seed,
                                         .progress = told_search()});
  outcome.bound = lower_bound(problem, outcome.budget, {.link = link});
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write_json(arguments.json, json_text(outcome, subject));
  if (!is_standard_output(arguments.json)) print(outcome, subject);
  return outcome.search.plan ? 0 : 1;
}

std::string kind_problem(const std::string& kind) {
  const std::vector<std::string> kinds = {"gpt", "layered", "chain", "unet"};
  if (std::ranges::find(kinds, kind) != kinds.end()) return {};
  const auto near = nearest_spelling(kind, kinds);
  return text_of("'", kind, "' is no kind of graph", near ? "; did you mean '" + *near + "'?" : "",
                 "; wanted gpt, layered, chain or unet");
}

int generate(const Arguments& arguments) {
  SF_CHECK(!arguments.out.empty(), ArgumentError, "--generate ", arguments.generate, ": wanted --out FILE too");
  const auto layers = arguments.zoo.options.layers > 0 ? static_cast<int>(arguments.zoo.options.layers) : 12;
  GptSize gpt = arguments.gpt;
  gpt.layers = layers;
  if (arguments.zoo.options.sequence > 0) gpt.sequence = arguments.zoo.options.sequence;
  const std::string& kind = arguments.generate;
  const Instance instance = kind == "gpt"       ? generate_gpt(gpt, arguments.roofline)
                            : kind == "layered" ? generate_layered(arguments.operations, arguments.seed)
                            : kind == "chain"   ? generate_chain(layers, arguments.seed)
                                                : generate_unet(layers, arguments.seed);
  write_instance(arguments.out, instance);
  std::printf("%s: %zu operations, %g in the given order at a peak of %lld\n", instance.name.c_str(),
              instance.problem.operations.size(), default_cost(instance.problem),
              static_cast<long long>(default_peak(instance.problem)));
  return 0;
}

/// What is planned or made, as the command line says it: "--model", "--generate gpt"; empty: nothing.
std::string asked_for(const CLI::App& app, const Arguments& arguments) {
  if (!arguments.instance.empty()) return "--instance";
  if (!arguments.generate.empty()) return "--generate " + arguments.generate;
  return app.get_option("--model")->count() > 0 ? "--model" : "";
}

/// Options that say something of one thing would say nothing of another. Throws: ArgumentError.
void check_applies(const CLI::App& app, const std::string& asked) {
  using Names = std::vector<std::string>;
  const Names of_model = {"--batch",   "--profile", "--optimizer", "--learning-rate", "--image",
                          "--classes", "--width",   "--heads",     "--vocabulary",    "--bf16"},
              of_gpt = {"--hidden", "--tokens", "--element-bytes", "--flops", "--memory-rate", "--launch"},
              of_plans = {"--budget", "--order-fixed", "--never-slower", "--link", "--effort", "--json"};
  const std::vector<std::pair<Names, Names>> uses = {
      {of_model, {"--model"}},
      {of_gpt, {"--generate gpt"}},
      {of_plans, {"--model", "--instance"}},
      {{"--operations"}, {"--generate layered"}},
      {{"--sequence"}, {"--model", "--generate gpt"}},
      {{"--layers"}, {"--model", "--generate gpt", "--generate chain", "--generate unet"}}};
  for (const auto& [options, things] : uses) {
    if (std::find(things.begin(), things.end(), asked) != things.end()) continue;
    std::string wanted;
    for (const std::string& thing : things) wanted += (wanted.empty() ? "" : " or ") + thing;
    for (const std::string& option : options) {
      SF_CHECK(app.get_option(option)->count() == 0, ArgumentError, option, " requires ", wanted,
               hint("leave it out with ", asked));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Plans what of a graph is kept, computed again and copied out under a budget of memory, and says how much less "
      "any plan could cost. Sizes and times are in the units of the instance, of a model bytes and seconds, without "
      "its variables; percents of time are of all operations once, percents of memory of the peak of the given order "
      "with each output dropped behind its last reader. Exit status 1: there is no plan, or none was found.");
  add_zoo_arguments(app, arguments.zoo);
  auto* model = app.get_option("--model");
  model->default_str("");
  app.add_option("--batch", arguments.batch, "of a model: examples in a batch")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--profile", arguments.profile,
                 "of a model: a file with a machine's speeds; a nominal one's if absent");
  auto* instance =
      app.add_option("--instance", arguments.instance, "the graph: a file in node-link form (docs/planning.md)");
  app.add_option("--budget", arguments.budget, "memory: a share, as in 50%, or a size: of a model as in 512MiB")
      ->capture_default_str();
  app.add_flag("--order-fixed", arguments.order_fixed, "first executions stay in the given order");
  app.add_flag("--never-slower", arguments.never_slower,
               "the quickest of the plans for all whole percents within the budget, so that more is never slower");
  app.add_option("--link", arguments.link,
                 "a link to host memory, as in 50GB/s or in sizes a unit of time; by itself none");
  app.add_option("--effort", arguments.effort, "moves of the search; 0: as many as are worth their time")
      ->check(number_argument<std::int64_t>(0));
  app.add_option("--seed", arguments.seed, "of the search, and of what is generated")
      ->check(number_argument<std::uint64_t>(0))
      ->capture_default_str();
  auto* kind = app.add_option("--generate", arguments.generate, "make an instance instead")->check(kind_problem);
  app.add_option("--out", arguments.out, "the file to write it to")->needs(kind);
  app.get_option("--layers")->description("layers of gpt, stages of chain, levels of unet; 12 where generated");
  app.add_option("--operations", arguments.operations, "of layered")->check(number_argument(1))->capture_default_str();
  app.add_option("--hidden", arguments.gpt.hidden, "of gpt: features")
      ->check(number_argument<decltype(GptSize::hidden)>(1))
      ->capture_default_str();
  app.add_option("--tokens", arguments.gpt.tokens, "of gpt: in a batch")
      ->check(number_argument<decltype(GptSize::tokens)>(1))
      ->capture_default_str();
  app.add_option("--element-bytes", arguments.gpt.bytes_per_element, "of gpt: of a number")
      ->check(number_argument<decltype(GptSize::bytes_per_element)>(1))
      ->capture_default_str();
  app.add_option("--flops", arguments.roofline.flops, "of gpt: the device's, a second")->capture_default_str();
  app.add_option("--memory-rate", arguments.roofline.bytes_per_second, "of gpt: the device's bytes a second")
      ->capture_default_str();
  app.add_option("--launch", arguments.roofline.seconds_to_launch, "of gpt: seconds of each operation besides")
      ->capture_default_str();
  add_json_argument(app, arguments.json);
  instance->excludes(kind)->excludes(model);
  kind->excludes(model);
  return run_program(app, argc, argv, [&] {
    const std::string asked = asked_for(app, arguments);
    SF_CHECK(!asked.empty(), ArgumentError,
             "nothing to do: wanted --instance FILE, --model NAME, or --generate KIND --out FILE");
    check_applies(app, asked);
    return arguments.generate.empty() ? plan(arguments) : generate(arguments);
  });
}
