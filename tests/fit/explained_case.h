#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "compare/contender.h"
#include "compare/strategy_names.h"
#include "examples/models/zoo.h"
#include "fit/explain.h"
#include "runtime/engine.h"

// One small network, planned by every strategy in a budget that the whole graph does not fit.
namespace sectionflow::testing {

inline constexpr std::int64_t kExplainedEffort = 200'000;

inline ZooModel explained_model(Cut cut = {}) {
  return zoo_model(
      "gpt", {.cut = cut, .optimizer = Adam{}, .width = 16, .layers = 2, .heads = 2, .sequence = 8, .vocabulary = 19});
}

/// Planned and never run.
class ExplainedCase {
 public:
  /// `name`: of a strategy; "disk:2": two sections whose borders are offloaded to disk.
  ExplainedCase(const std::string& name, SessionOptions options, FitBudgetOptions fit = {})
      : contender_(strategy(name, fit), with_tiers(name, std::move(options)), kBatchOfCase) {
    report_ = contender_.plan(types_of(contender_.model().feeds(explained_model().batch({.batch = kBatchOfCase}))));
  }

  Session& session() { return contender_.session(); }
  const ProgramReport& report() const { return report_; }
  const Program& program() { return *engine(session()).latest_program(); }
  const Graph& graph() { return contender_.session().graph(); }

 private:
  static constexpr std::int64_t kBatchOfCase = 16;

  static Strategy strategy(const std::string& name, FitBudgetOptions fit) {
    const CutModel model = [](const std::string& cut) { return explained_model(cut_named(cut)).build; };
    const bool has_disk = name == "disk:2";
    Strategy made = strategy_named(has_disk ? "sections:2" : name, {.model = model});
    if (has_disk) made.sections = SectionOptions{.borders = BorderPolicy::disk};
    if (!made.fit) return made;
    fit.may_recompute = made.fit->may_recompute;
    fit.may_swap = made.fit->may_swap;
    if (fit.effort == 0) fit.effort = kExplainedEffort;
    made.fit = fit;
    made.edit_session = [fit](Session& session) { fit_budget(session, fit); };
    return made;
  }
  static SessionOptions with_tiers(const std::string& name, SessionOptions options) {
    options.threads = 1;
    options.check_schedules = true;
    if (name == "disk:2") options.disk = 64_MiB;
    return options;
  }

  Contender contender_;
  ProgramReport report_;
};

/// What the network takes without a budget, and a part of it.
inline std::size_t share_of_explained(int percent) {
  static const ProgramReport whole = ExplainedCase("whole", {}).report();
  return whole.persistent_bytes + whole.transient_bytes * static_cast<std::size_t>(percent) / 100;
}

inline const std::vector<std::string>& explained_strategies() {
  static const std::vector<std::string> all = {"whole", "auto",        "auto:recompute", "auto:swap",      "disk:2",
                                               "swap",  "lms:3/1/1/0", "sections:2",     "sections+swap:2"};
  return all;
}

/// Links so slow that not everything is copied.
inline FitBudgetOptions explained_fit(FitBudgetOptions fit = {}) {
  fit.profile = Profile{.flops = 2e9, .memory_bandwidth = 1e9, .link_out = 1e9, .link_in = 1e9, .disk_out = 1e9};
  fit.effort = kExplainedEffort;
  return fit;
}

}  // namespace sectionflow::testing
