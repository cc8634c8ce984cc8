#include "train/match_variables.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/name_pattern.h"
#include "base/nearest.h"
#include "data/safetensors_header.h"
#include "graph/variable_shards.h"

namespace sectionflow {
namespace {

/// Differences that an error text lists.
constexpr std::size_t kMostListed = 5;

bool is_slot(Value variable) {
  return variable.node().phase() == Phase::training;
}

bool fits_any(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches_pattern(name, pattern); });
}

/// LoadOptions::only in two: patterns of names in the graph, and of names in the file alone.
struct Selection {
  std::vector<std::string> variables, tensors;
  bool is_of_all = false;
};

Selection selection_of(const Graph& graph, const LoadOptions& options) {
  std::vector<std::string> names;
  for (Value variable : graph.values(kVariables)) {
    if (!options.weights_only || !is_slot(variable)) names.push_back(variable.name());
  }
  Selection selection{.variables = {}, .tensors = {}, .is_of_all = options.only.empty()};
  for (const std::string& pattern : options.only) {
    (fits_any(pattern, names) ? selection.variables : selection.tensors).push_back(pattern);
  }
  return selection;
}

/// What is meant to choose something must not choose nothing.
void check_patterns(const Graph& graph, const VariableFile& file, const LoadOptions& options) {
  std::vector<std::string> variables, tensors;
  std::set<std::string> slots;
  for (Value variable : graph.values(kVariables)) {
    variables.push_back(variable.name());
    if (is_slot(variable)) slots.insert(variable.name());
  }
  for (const NamedTensor& each : file.tensors) tensors.push_back(each.name);
  const auto check = [&](const std::string& pattern, const std::vector<std::string>& names, const std::string& what) {
    if (fits_any(pattern, names)) return;
    // Slots have the names of their variables with more behind them.
    std::vector<std::string> given;
    std::copy_if(names.begin(), names.end(), std::back_inserter(given),
                 [&](const std::string& name) { return !slots.contains(name); });
    auto nearest = nearest_pattern(pattern, given);
    if (!nearest) nearest = nearest_pattern(pattern, names);
    throw ArgumentError(error_text_of("load_variables: ", shown_name(pattern), " fits ", what,
                                      hint(nearest ? text_of("did you mean ", shown_name(*nearest), "?")
                                                   : text_of("a '*' stands for any text, as in \"encoder/*\""))));
  };
  for (const std::string& pattern : options.only) {
    // Of what is renamed the file's name may be what is known.
    const bool is_of_file = !options.rename.empty() && fits_any(pattern, tensors);
    if (!is_of_file) check(pattern, variables, "no variable of the graph");
  }
  for (const auto& [from, to] : options.rename) {
    check_renaming("load_variables", from, to);
    check(from, tensors, text_of("no tensor of '", file.path, "'"));
  }
}

std::string name_in_graph(const std::string& name, const LoadOptions& options) {
  for (const auto& [from, to] : options.rename) {
    if (auto other = renamed(name, from, to)) return *other;
  }
  return name;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const VariableFile& file, const LoadOptions& options)
      : graph_(graph), file_(file), options_(options), selection_(selection_of(graph, options)) {}

  std::vector<VariableMatch> match(LoadReport& report) {
    name_tensors();
    for (Value variable : graph_.values(kVariables)) take(variable, report);
    for (const auto& [name, tensor] : by_name_) leave(name, *tensor, report);
    report.unused.insert(report.unused.end(), not_selected_.begin(), not_selected_.end());
    refuse_differences();
    return std::move(matches_);
  }

 private:
  static bool fits(const std::string& name, const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const auto& each) { return matches_pattern(name, each); });
  }

  /// Those that are selected: what is left out has its name to itself.
  void name_tensors() {
    for (const NamedTensor& each : file_.tensors) {
      const std::string name = name_in_graph(each.name, options_);
      const bool is_of_file = fits(each.name, selection_.tensors);
      if (!selection_.is_of_all && !is_of_file && !fits(name, selection_.variables)) {
        not_selected_.push_back(each.name);
        continue;
      }
      if (is_of_file) selected_by_file_.insert(name);
      const auto [found, is_new] = by_name_.emplace(name, &each);
      if (!is_new)
        differs(shown_name(each.name), " and ", shown_name(found->second->name), " would both be ",
                shown_name(found->first));
    }
  }

  void take(Value variable, LoadReport& report) {
    const std::string& name = variable.name();
    const auto found = by_name_.find(name);
    const bool is_selected =
        selection_.is_of_all || fits(name, selection_.variables) || selected_by_file_.contains(name);
    const bool is_wanted = is_selected && !(options_.weights_only && is_slot(variable));
    if (!is_wanted || found == by_name_.end()) {
      report.kept.push_back(name);
      if (is_wanted && !options_.allow_missing) {
        num_of_slots_ += is_slot(variable) ? 1 : 0;
        differs(shown_name(name), " is missing; wanted ", whole_type(variable).text());
      }
      return;
    }
    const HostTensor& tensor = found->second->tensor;
    if (tensor.type() != whole_type(variable)) {
      num_of_slots_ += is_slot(variable) ? 1 : 0;
      differs(shown_name(name), " is ", tensor.type().text(), "; wanted ", whole_type(variable).text());
    }
    matches_.push_back({variable, &tensor});
    report.loaded.push_back(name);
    taken_.insert(name);
  }

  /// A tensor of the file that no variable has got.
  void leave(const std::string& name, const NamedTensor& tensor, LoadReport& report) {
    if (taken_.contains(name)) return;
    report.unused.push_back(tensor.name);
    const bool is_left_out = options_.weights_only && (file_.slots.contains(tensor.name) || is_kept(name, report));
    if (is_left_out || options_.allow_extra) return;
    num_of_slots_ += file_.slots.contains(tensor.name) ? 1 : 0;
    differs(shown_name(name), " is no variable of the graph");
  }
  static bool is_kept(const std::string& name, const LoadReport& report) {
    return std::find(report.kept.begin(), report.kept.end(), name) != report.kept.end();
  }

  template <class... Parts>
  void differs(const Parts&... parts) {
    if (++num_different_ <= kMostListed) listed_ += text_of("\n    ", parts...);
  }

  void refuse_differences() const {
    if (num_different_ == 0) return;
    throw DataError(error_text_of("'", file_.path, "' does not hold the variables of this graph: ", num_different_,
                                  num_different_ == 1 ? " difference" : " differences", listed_, advice()),
                    ErrorCode::other_variables);
  }

  Fact advice() const {
    if (num_of_slots_ == num_different_) {
      return hint(
          "only slots of optimizers differ: .weights_only = true loads the rest, for inference and for training "
          "on by another optimizer");
    }
    return hint(
        "load it into the graph that it was saved from, built with the same optimizer; or say what differs: "
        ".weights_only without slots, .only = {\"encoder/*\"}, .rename, .allow_missing, .allow_extra");
  }

  const Graph& graph_;
  const VariableFile& file_;
  const LoadOptions& options_;
  Selection selection_;
  std::map<std::string, const NamedTensor*> by_name_;  // by the names in the graph
  std::set<std::string> selected_by_file_;             // of these: selected by the names in the file
  std::vector<std::string> not_selected_;              // by the names in the file
  std::set<std::string> taken_;
  std::vector<VariableMatch> matches_;
  std::size_t num_different_ = 0;
  std::size_t num_of_slots_ = 0;  // of those: of variables that training has added
  std::string listed_;
};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostListed; ++i)
    text += (i == 0 ? ": " : ", ") + shown_name(names[i]);
  return names.size() > kMostListed ? text + ", ..." : text;
}

}  // namespace

std::vector<VariableMatch> match_variables(const Graph& graph, const VariableFile& file, const LoadOptions& options,
                                           LoadReport& report) {
  check_patterns(graph, file, options);
  return Matcher(graph, file, options).match(report);
}

std::string LoadReport::text() const {
  const auto count = [](std::size_t number, const char* what) {
    return text_of(number, " ", what, number == 1 ? "" : "s");
  };
  std::string text = "loaded " + count(loaded.size(), "variable");
  if (!kept.empty()) text += "; kept " + count(kept.size(), "variable") + list_of(kept);
  if (!unused.empty()) text += "; not used: " + count(unused.size(), "tensor") + list_of(unused);
  if (completed_cycles) text += text_of("; ", *completed_cycles, " completed cycles");
  return text;
}

}  // namespace sectionflow
