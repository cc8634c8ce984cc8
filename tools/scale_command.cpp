// A training step on 1 to thousands of ranks, on paper.

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text_table.h"
#include "bench/named_paths.h"
#include "bench/rates.h"
#include "bench/session_arguments.h"
#include "compare/contender.h"
#include "examples/models/command_line.h"
#include "swap/ranked_step.h"
#include "tools/command.h"
#include "tools/plan_subject.h"
#include "train/memory_share.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostRanks = 1 << 20;

struct ScaleArguments {
  SubjectArguments subject;
  std::string strategy = "sections:blocks";
  SessionArguments session{};
  std::string profile, json;
  std::string ranks = "1,2,4,...,4096";
  int ranks_per_machine = 1;
  std::string link, machine_link, reduction = "direct";
  double latency_us = 0, machine_latency_us = 0, call_us = 0;
};

/// "1,2,4,...,64": the numbers, and what goes on as the two before it do, by their factor.
std::vector<int> numbers_of_ranks(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw ArgumentError(error_text_of("--ranks ", text, ": ", why, hint("wanted 1,2,8 or 1,2,4,...,4096")));
  };
  std::vector<int> ranks;
  bool goes_on = false;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "...") {
      const bool doubles = ranks.size() >= 2 && ranks[ranks.size() - 2] > 0 &&
                           ranks.back() % ranks[ranks.size() - 2] == 0 && ranks.back() > ranks[ranks.size() - 2];
      if (!doubles || goes_on) refuse("'...' goes on by the factor of the two numbers before it");
      goes_on = true;
      continue;
    }
    const std::string wrong = number_argument(1, kMostRanks)(part);
    if (!wrong.empty()) refuse(wrong);
    const int last = std::stoi(part);
    if (goes_on) {
      const int factor = ranks.back() / ranks[ranks.size() - 2];
      while (ranks.back() <= last / factor) ranks.push_back(ranks.back() * factor);
      if (ranks.back() != last) refuse(text_of(last, " is not among the numbers that '...' comes to"));
      goes_on = false;
    } else {
      ranks.push_back(last);
    }
  }
  if (ranks.empty() || goes_on) refuse("a number is missing");
  return ranks;
}

Reduction reduction_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Reduction reduction : reductions()) {
    if (name_of(reduction) == name) return reduction;
    names.push_back(name_of(reduction));
  }
  check_known(name, names, "--reduction: '" + name + "' is none");
  return Reduction::direct;
}

RankLink link_of(const std::string& option, const std::string& rate, double latency_us) {
  return {.bytes_per_second = rate.empty() ? 0 : rate_named(option, rate), .latency = latency_us * 1e-6};
}

RankNetwork network_of(const ScaleArguments& arguments, const Profile& profile, int ranks) {
  return {.ranks = ranks,
          .ranks_per_machine = arguments.ranks_per_machine,
          .link = link_of("--rank-link", arguments.link, arguments.latency_us),
          .machine_link = link_of("--machine-link", arguments.machine_link, arguments.machine_latency_us),
          .reduction = reduction_named(arguments.reduction),
          .bytes_added_per_second = profile.memory_bandwidth,
          .call_seconds = arguments.call_us * 1e-6};
}

/// The step of a model, planned for two ranks: its instructions are those of any number.
class TwoRanks {
 public:
  TwoRanks(const ScaleArguments& arguments, const Profile& profile)
      : subject_(plan_subject(of_ranks(arguments.subject, 2))),
        contender_(strategy_named(arguments.strategy, {.model = subject_.model, .profile = profile}),
                   options_of(arguments), arguments.subject.batch) {
    report_ = contender_.plan(subject_.feeds(contender_.session().graph(), contender_.model()));
  }

  const ProgramReport& report() const { return report_; }
  Session& session() { return contender_.session(); }

 private:
  static SubjectArguments of_ranks(SubjectArguments subject, int ranks) {
    subject.zoo.options.ranks = ranks;
    return subject;
  }
  static SessionOptions options_of(const ScaleArguments& arguments) {
    SessionOptions options = session_options(arguments.session);
    const std::string& memory = arguments.session.device_memory;
    SF_CHECK(memory.empty() || !is_share(memory), ArgumentError, "--device-memory ", memory,
             " is a share; wanted a size", hint("sectionflow plan tells what a share comes to"));
    if (!memory.empty()) options.device_memory = parse_bytes(memory);
    return options;
  }

  PlanSubject subject_;
  Contender contender_;
  ProgramReport report_;
};

std::string milliseconds(double seconds) {
  return decimal_text(1000 * seconds, 2);
}

std::string text_of_steps(const std::vector<RankedStep>& steps, int ranks_per_machine) {
  TextTable table({"ranks", "machines", "step ms", "computing ms", "communicating ms", "exposed ms",
                   "of one rank's speed", "sent by a rank", "bound by"});
  for (const RankedStep& step : steps) {
    table.add_row({std::to_string(step.ranks), std::to_string((step.ranks + ranks_per_machine - 1) / ranks_per_machine),
                   milliseconds(step.seconds), milliseconds(step.compute_seconds),
                   milliseconds(step.communicate_seconds), milliseconds(step.exposed_seconds),
                   decimal_text(100 * step.efficiency(), 1) + " %",
                   bytes_text(static_cast<std::size_t>(step.bytes_sent)), step.bound()});
  }
  return table.text();
}

Json json_of(const RankedStep& step) {
  return {{"ranks", step.ranks},
          {"step_seconds", step.seconds},
          {"compute_seconds", step.compute_seconds},
          {"communicate_seconds", step.communicate_seconds},
          {"latency_seconds", step.latency_seconds},
          {"exposed_seconds", step.exposed_seconds},
          {"efficiency", step.efficiency()},
          {"bytes_sent", step.bytes_sent},
          {"calls", step.calls},
          {"bound", step.bound()}};
}

int run_scale(const ScaleArguments& arguments) {
  check_json(arguments.json);
  check_apart({{"--profile", arguments.profile}}, {{"--json", arguments.json}});
  SF_CHECK(arguments.ranks_per_machine == 1 || !arguments.machine_link.empty(), ArgumentError, "--ranks-per-machine ",
           arguments.ranks_per_machine, ": what is between ranks of a machine is not said",
           hint("add --machine-link, as in 100GB/s"));
  const std::vector<int> ranks = numbers_of_ranks(arguments.ranks);
  const Profile profile = arguments.profile.empty() ? Profile::nominal() : Profile::load(arguments.profile);
  (void)network_of(arguments, profile, 2);
  TwoRanks model(arguments, profile);
  std::vector<RankedStep> steps;
  for (const int count : ranks) {
    steps.push_back(ranked_step(model.session(), profile, network_of(arguments, profile, count)));
  }
  const GradientBytes gradients = gradient_bytes(model.session());
  const ProgramReport& report = model.report();
  if (!is_standard_output(arguments.json)) {
    std::cout << arguments.subject.zoo.model << ", batch " << arguments.subject.batch << " a rank, "
              << arguments.strategy << ", sums " << arguments.reduction << "\n"
              << text_of_steps(steps, arguments.ranks_per_machine)
              << "in common in a step: " << bytes_text(report.bytes_communicated) << " in " << steps.front().calls
              << " calls; gradients at a time: " << bytes_text(gradients.held) << ", of the two largest sections "
              << bytes_text(gradients.two_sections) << "\npeak with 2 ranks: " << bytes_text(report.planned_peak_bytes)
              << "\n";
  }
  Json json = {{"model", arguments.subject.zoo.model},
               {"batch", arguments.subject.batch},
               {"strategy", arguments.strategy},
               {"reduction", arguments.reduction},
               {"ranks_per_machine", arguments.ranks_per_machine},
               {"bytes_communicated", report.bytes_communicated},
               {"gradient_bytes_held", gradients.held},
               {"gradient_bytes_of_two_sections", gradients.two_sections},
               {"planned_peak_bytes_of_2_ranks", report.planned_peak_bytes},
               {"steps", Json::array()}};
  for (const RankedStep& step : steps) json["steps"].push_back(json_of(step));
  write_json(arguments.json, json.dump(1));
  return 0;
}

void add_network_arguments(CLI::App& app, ScaleArguments& arguments) {
  app.add_option("--ranks", arguments.ranks, "how many, as in 1,2,8 or 1,2,4,...,4096")->capture_default_str();
  app.add_option("--ranks-per-machine", arguments.ranks_per_machine, "ranks of a machine, which share its link")
      ->check(number_argument(1, kMostRanks))
      ->capture_default_str();
  app.add_option("--rank-link", arguments.link,
                 "by which a machine sends to all others, as in 12.5GB/s; as fast as you like if absent")
      ->check(rate_argument());
  app.add_option("--machine-link", arguments.machine_link, "by which a rank sends to those of its machine")
      ->check(rate_argument());
  const auto microseconds = CLI::Range(0.0, 1e7);
  app.add_option("--rank-latency-us", arguments.latency_us,
                 "microseconds that a message to another machine comes later")
      ->check(microseconds);
  app.add_option("--machine-latency-us", arguments.machine_latency_us, "the same within a machine")
      ->check(microseconds);
  app.add_option("--call-us", arguments.call_us, "microseconds that each sum takes besides")->check(microseconds);
  app.add_option("--reduction", arguments.reduction,
                 "how ranks add up: direct, as Communicator does; ring, tree or hierarchical, as others do")
      ->capture_default_str();
}

}  // namespace

void add_scale_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app =
      program.add_subcommand("scale", "Tells what a training step would take on so many ranks; nothing is run.");
  const auto arguments = std::make_shared<ScaleArguments>();
  add_zoo_arguments(*app, arguments->subject.zoo);
  app->add_option("--batch", arguments->subject.batch, "examples in a batch of each rank")
      ->check(number_argument<std::int64_t>(1))
      ->capture_default_str();
  app->add_option("--strategy", arguments->strategy, joined(strategy_forms()))->capture_default_str();
  add_session_arguments(*app, arguments->session, "budget of each rank");
  app->add_option("--profile", arguments->profile, "a file with this machine's speeds; a nominal machine's if absent")
      ->check(not_empty());
  add_network_arguments(*app, *arguments);
  add_json_argument(*app, arguments->json);
  app->callback([arguments, &run] { run = [arguments] { return run_scale(*arguments); }; });
}

}  // namespace sectionflow
