// First and second derivatives of every operation beside central differences in double, for as many seeds as asked for.

#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

#include "autodiff/compose.h"
#include "base/log.h"
#include "examples/models/command_line.h"
#include "tests/support/gradient_check.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::testing_support;

struct Arguments {
  int checks = 500;
  std::uint64_t first = 1;
  std::string only;
  bool list = false;
  bool faults = false;
};

/// Of one subject: how often it was checked, and how near it came to what is allowed.
struct Tally {
  int checked = 0, kinks = 0, failed = 0;
  double largest_first = 0, largest_second = 0;
};

/// Operations whose gradients have no rule: the first derivatives are checked by their cases in tests/ops.
const std::set<std::string> kDifferentiatedOnce = {"ctc_loss", "fake_quantize"};

/// Inputs that carry gradients of every operation with a rule of its own, by "op:input".
std::set<std::string> rules_without_check(const std::set<std::string>& covered) {
  std::set<std::string> missing;
  for (const auto& [op, entry] : gradient_registry().all()) {
    if (entry.is_zero() || entry.is_refused || kDifferentiatedOnce.contains(op)) continue;
    const auto next = covered.lower_bound(op + ":");
    if (next == covered.end() || !next->starts_with(op + ":")) missing.insert(op);
  }
  return missing;
}

void print_table(const std::vector<GradientSubject>& subjects, const std::map<std::string, Tally>& tallies) {
  for (const GradientSubject& subject : subjects) {
    const auto found = tallies.find(subject.name);
    if (found == tallies.end()) continue;
    const Tally& tally = found->second;
    std::cout << subject.name << ": " << tally.checked << " checked, " << tally.kinks
              << " drawn again at a kink; the largest error of a first derivative is " << tally.largest_first
              << " of what is allowed, of a second " << tally.largest_second << "\n";
  }
}

/// Whether there is what --only asks for; says what there is instead.
bool knows_only(const Arguments& arguments, const std::set<std::string>& known) {
  if (arguments.only.empty() || known.contains(arguments.only)) return true;
  std::cerr << "--only " << arguments.only << ": there is no such " << (arguments.faults ? "operation" : "subject")
            << "; there are";
  for (const std::string& name : known) std::cerr << " " << name;
  std::cerr << "\n";
  return false;
}

/// Checks the subjects in turn, two derivatives a seed.
int check_all(const Arguments& arguments) {
  const std::vector<GradientSubject> subjects = gradient_subjects();
  std::set<std::string> names;
  for (const GradientSubject& subject : subjects) names.insert(subject.name);
  if (!knows_only(arguments, names)) return 2;
  std::map<std::string, Tally> tallies;
  std::set<std::string> covered;
  int checks = 0, failures = 0, kinks = 0;
  for (std::uint64_t seed = arguments.first; checks < arguments.checks; ++seed) {
    const GradientSubject& subject = subjects[seed % subjects.size()];
    if (!arguments.only.empty() && subject.name != arguments.only) continue;
    Tally& tally = tallies[subject.name];
    const GradientFinding finding = check_gradients(gradient_registry(), subject, seed);
    covered.insert(finding.covered.begin(), finding.covered.end());
    if (finding.error.empty() && !finding.is_smooth) {
      ++tally.kinks;
      if (++kinks > arguments.checks) break;
      continue;
    }
    checks += 2;
    ++tally.checked;
    tally.largest_first = std::max(tally.largest_first, finding.first.share());
    tally.largest_second = std::max(tally.largest_second, finding.second.share());
    if (finding.is_right()) continue;
    ++failures;
    std::cout << subject.name << ", seed " << seed << ": " << finding.text() << "\n  --only " << subject.name
              << " --first " << seed << " --checks 2\n";
  }
  if (arguments.list) print_table(subjects, tallies);
  const std::set<std::string> missing = arguments.only.empty() ? rules_without_check(covered) : std::set<std::string>();
  for (const std::string& op : missing) {
    std::cout << op << " has a gradient rule that no check went through; add it to gradient_subjects()\n";
  }
  std::cout << checks << " checks from seed " << arguments.first << ", " << failures << " failed, " << kinks
            << " drawn again at a kink, " << missing.size() << " rules without a check\n";
  return failures == 0 && missing.empty() && checks >= arguments.checks ? 0 : 1;
}

/// The case of a check.
struct Case {
  const GradientSubject* subject;
  std::uint64_t seed;
};

/// Cases by the inputs that their gradients go through, "op:input"; of each, a few.
std::map<std::string, std::vector<Case>> cases_by_input(const std::vector<GradientSubject>& subjects,
                                                        std::uint64_t first) {
  constexpr std::uint64_t kSeeds = 12;
  constexpr std::size_t kEnough = 6;
  std::map<std::string, std::vector<Case>> cases;
  for (const GradientSubject& subject : subjects) {
    std::map<std::string, std::vector<Case>> of_subject;
    for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
      const GradientFinding finding = check_gradients(gradient_registry(), subject, seed);
      if (!finding.is_smooth || !finding.is_right()) continue;
      for (const std::string& input : finding.covered) of_subject[input].push_back({&subject, seed});
    }
    for (const auto& [input, found] : of_subject) {
      auto& all = cases[input];
      // Its own subject knows an operation best; the others follow.
      all.insert(input.starts_with(subject.name) ? all.begin() : all.end(), found.begin(), found.end());
      if (all.size() > 4 * kEnough) all.resize(4 * kEnough);
    }
  }
  return cases;
}

/// The rules, where that of `op` gives for its input `input` a gradient that is too large by a quarter.
GradientRegistry with_fault(const std::string& op, std::size_t input) {
  GradientRegistry faulty = gradient_registry();
  const GradientEntry right = *faulty.find(op);
  const auto wrong = [right, input](const GradientRequest& request) {
    std::vector<Value> gradients = right.rule(request);
    if (input < gradients.size() && gradients[input].valid()) {
      gradients[input] = add(gradients[input], mul(gradients[input], scalar_like(gradients[input], 0.25F)));
    }
    return gradients;
  };
  faulty.add(op, wrong, right.traits);
  return faulty;
}

/// Plants a fault in every rule, input by input, and expects the checks to find it.
int check_faults(const Arguments& arguments) {
  const std::vector<GradientSubject> subjects = gradient_subjects();
  std::set<std::string> with_rule;
  for (const auto& [op, entry] : gradient_registry().all()) {
    if (!entry.is_zero() && !entry.is_refused) with_rule.insert(op);
  }
  if (!knows_only(arguments, with_rule)) return 2;
  int planted = 0, missed = 0;
  for (const auto& [name, cases] : cases_by_input(subjects, arguments.first)) {
    const std::size_t colon = name.find(':');
    const std::string op = name.substr(0, colon);
    if (!arguments.only.empty() && op != arguments.only) continue;
    const GradientRegistry faulty = with_fault(op, std::stoul(name.substr(colon + 1)));
    const bool is_found = std::any_of(cases.begin(), cases.end(), [&](const Case& one) {
      const GradientFinding finding = check_gradients(faulty, *one.subject, one.seed);
      return finding.is_smooth && !finding.is_right();
    });
    ++planted;
    if (is_found) continue;
    ++missed;
    std::cout << "a wrong gradient of input " << name << " was not found in " << cases.size() << " cases\n";
  }
  std::cout << planted << " faults planted from seed " << arguments.first << ", " << missed << " not found\n";
  return planted > 0 && missed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  sectionflow::start_logging(argv[0]);
  FLAGS_minloglevel = google::GLOG_WARNING;  // print operations are among the subjects
  CLI::App app("First and second derivatives of every operation beside central differences in double.");
  Arguments arguments;
  app.add_option("--checks", arguments.checks, "how many derivatives to check")->capture_default_str();
  app.add_option("--first", arguments.first, "the first seed")->capture_default_str();
  app.add_option("--only", arguments.only, "check this subject alone; with --faults: this operation's rule");
  app.add_flag("--list", arguments.list, "tell of each subject how near it came to what is allowed");
  app.add_flag("--faults", arguments.faults, "plant a fault in each rule instead, and see that the checks find it");
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  return arguments.faults ? check_faults(arguments) : check_all(arguments);
}
