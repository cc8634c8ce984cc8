#include "tests/support/training_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/random.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/support/offload_cases.h"
#include "tests/support/test_device.h"

namespace sectionflow::testing {

HostTensor random_images(Shape shape, std::uint64_t seed, std::int64_t step) {
  HostTensor tensor(Dtype::f32, std::move(shape));
  auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({seed, 1, static_cast<std::uint32_t>(step)}, i / 4);
    values[i] = 2.0F * uniform_from_word(words[i % 4]) - 1.0F;
  }
  return tensor;
}

HostTensor random_classes(std::int64_t count, int num_classes, std::uint64_t seed, std::int64_t step) {
  HostTensor tensor(Dtype::i32, Shape{count});
  auto values = tensor.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({seed, 2, static_cast<std::uint32_t>(step)}, i);
    values[i] = static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(num_classes));
  }
  return tensor;
}

namespace {

/// One network, and one session that trains it.
class Trainer {
 public:
  Trainer(const TrainingCase& training_case, How how, const TrainOptions& options)
      : how_(how),
        manager_(graph_),
        net_(training_case.build(graph_, manager_)),
        session_(graph_, session_options(options)) {
    if (options.sections) manager_.set_section_options(*options.sections);
    if (options.on_session) options.on_session(how, graph_, session_);
    session_.initialize();
  }

  TrainingRecord train(std::int64_t num_steps) {
    const auto initial = read_variables(session_);
    for (std::int64_t step = 0; step < num_steps; ++step) run_step(step);
    if (session_.completed_cycles() != static_cast<std::uint64_t>(num_steps / net_.micro_batches)) {
      record_.complaints.push_back(text_of(session_.completed_cycles(), " cycles counted in ", num_steps, " steps"));
    }
    const bool changed = std::any_of(initial.begin(), initial.end(), [&](const auto& entry) {
      return !bitwise_equal(entry.second, record_.steps.back().variables.at(entry.first));
    });
    if (!changed) record_.complaints.push_back("training has changed nothing");
    return std::move(record_);
  }
  std::size_t peak_bytes() const { return session_.statistics().peak_bytes_in_use; }

 private:
  static SessionOptions session_options(const TrainOptions& options) {
    SessionOptions session = options.session;
    if (!testing_support::tests_run_on_cpu()) {
      session.device = testing_support::test_device();
      session.link_bandwidth = 0;
    }
    if (!session.device_memory.is_limited()) session.device_memory = 256_MiB;
    session.threads = options.threads;
    session.seed = options.seed;
    session.poison = options.poison;
    session.check_schedules = true;
    return session;
  }

  void run_step(std::int64_t step) {
    FeedStore store;
    const Feeds feeds = net_.feeds(step, store);
    const How how = how_ == How::mixed ? static_cast<How>(step % 3) : how_;
    const std::vector<std::int64_t> before = executions();
    // Who measures executes no recording: on a GPU the later steps are left to these.
    const bool measures = testing_support::tests_run_on_cpu() || step < 2;
    session_.set_measuring(measures);
    ProgramReport planned;
    record_.steps.push_back({cycle(how, feeds, planned), read_variables(session_), {}});
    session_.set_measuring(false);
    // Plans are of the micro-batch that takes the most.
    if (net_.micro_batches > 1 && how != How::halves) planned = engine(session_).latest_program()->report;
    const auto expect = [&](const char* what, auto found, auto wanted) {
      if (found == wanted) return;
      record_.complaints.push_back(
          text_of("step ", step, ", ", name_of(how), ": ", what, " ", found, "; planned ", wanted));
    };
    expect("peak bytes of the program executed", session_.statistics().planned_peak_bytes, planned.planned_peak_bytes);
    if (measures) expect_measured(expect, planned);
    expect("recomputed operations", recomputed_since(before), planned.recomputed_operations);
    if (!net_.evaluated.empty()) evaluate(step, feeds);
  }

  template <class Expect>
  void expect_measured(const Expect& expect, const ProgramReport& planned) {
    expect("measured peak bytes", session_.statistics().measured_peak_bytes, planned.planned_peak_bytes);
    expect("measured host bytes", session_.statistics().measured_host_peak_bytes, planned.host_peak_bytes);
    expect("measured disk bytes", session_.statistics().measured_disk_peak_bytes, planned.disk_peak_bytes);
  }

  void evaluate(std::int64_t step, const Feeds& training_feeds) {
    FeedStore store;
    const Feeds feeds = net_.evaluation_feeds ? net_.evaluation_feeds(step, store) : training_feeds;
    record_.steps.back().evaluated = session_.run(net_.evaluated, feeds);
  }

  /// Runs one training step; tells what was planned for it.
  HostTensor cycle(How how, const Feeds& feeds, ProgramReport& planned) {
    const std::vector<Value> fetches = {net_.loss};
    if (how == How::whole) {
      const RunOptions options{.targets = manager_.training_operations()};
      planned = session_.plan(fetches, types_of(feeds), options);
      return std::move(session_.run(fetches, feeds, options)[0]);
    }
    if (how == How::sections) {
      planned = manager_.plan(session_, fetches, types_of(feeds));
      return std::move(manager_.run_full_cycle(session_, fetches, feeds)[0]);
    }
    auto fetched = manager_.run_forward(session_, fetches, feeds);
    planned = engine(session_).pending()->report;
    manager_.run_backward(session_);
    return std::move(fetched[0]);
  }

  std::vector<std::int64_t> executions() const {
    std::vector<std::int64_t> counts;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) counts.push_back(session_.executions(graph_.node(id)));
    return counts;
  }

  /// Executions of a node beyond its first; a placeholder is fed again and a constant produced again instead.
  std::int64_t recomputed_since(const std::vector<std::int64_t>& before) const {
    std::int64_t recomputed = 0;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op().is_constant() || !node.op().has_kernel) continue;
      const std::int64_t times = session_.executions(node) - before[static_cast<std::size_t>(id)];
      recomputed += std::max<std::int64_t>(times - 1, 0);
    }
    return recomputed;
  }

  How how_;
  Graph graph_;
  GraphSectionManager manager_;
  TrainingNet net_;
  Session session_;
  TrainingRecord record_;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// What the call returns, or the failure that it ended with.
template <class Call>
std::optional<Failure> failure_of(const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return Failure{Failure::Kind::exception, error.what()};
  }
}

}  // namespace

const char* name_of(How how) {
  constexpr std::array<const char*, 4> names = {"whole graph", "sections", "halves", "mixed strategies"};
  return names.at(static_cast<std::size_t>(how));
}

namespace {

/// What a training says of a budget: its record, or the smallest budget that it asks for instead.
struct Attempt {
  std::optional<TrainingRecord> record{};
  std::size_t wanted = 0;
};

Attempt attempt(const TrainingCase& training_case, How how, TrainOptions options, std::size_t budget) {
  options.session.device_memory = budget;
  try {
    return {.record = Trainer(training_case, how, options).train(options.steps)};
  } catch (const BudgetError& error) {
    return {.wanted = error.minimum_bytes};
  }
}

/// Trains in the budget that the options ask for. A budget that an error has told must do for what was refused.
TrainingRecord train_in_budget(const TrainingCase& training_case, How how, const TrainOptions& options) {
  // Initial values, a step, a step of another batch, an evaluation: each may ask for more than what came before.
  constexpr int kMostRefusals = 6;
  std::size_t smallest = 1;
  Attempt at_smallest = attempt(training_case, how, options, smallest);
  for (int refusals = 1; !at_smallest.record; ++refusals) {
    SF_CHECK(at_smallest.wanted > smallest && refusals <= kMostRefusals, InternalError, "a budget of ", smallest,
             " bytes was said to be enough, and is refused for one of ", at_smallest.wanted);
    smallest = at_smallest.wanted;
    at_smallest = attempt(training_case, how, options, smallest);
  }
  if (options.budget == 0) {
    const Attempt less = attempt(training_case, how, options, smallest - 1);
    if (less.record || less.wanted != smallest) {
      at_smallest.record->complaints.push_back(
          text_of("a byte less than ", smallest, less.record ? " is enough" : " is refused for another minimum"));
    }
    return std::move(*at_smallest.record);
  }
  TrainOptions ample = options;
  std::size_t most = smallest;
  ample.on_session = [&](How, const Graph&, Session& session) {
    if (options.on_session) options.on_session(how, session.graph(), session);
  };
  {
    Trainer trainer(training_case, how, ample);
    (void)trainer.train(options.steps);
    most = std::max(most, trainer.peak_bytes());
  }
  const std::size_t budget = smallest + (most - smallest) * static_cast<std::size_t>(options.budget) / 100;
  Attempt between = attempt(training_case, how, options, budget);
  SF_CHECK(between.record.has_value(), InternalError, "a budget of ", smallest, " bytes is enough, and one of ", budget,
           " is refused for one of ", between.wanted);
  return std::move(*between.record);
}

}  // namespace

TrainingRecord record_training(const TrainingCase& training_case, How how, const TrainOptions& options) {
  const bool in_budget = options.budget >= 0 && (how == How::sections || how == How::halves);
  if (in_budget) return train_in_budget(training_case, how, options);
  return Trainer(training_case, how, options).train(options.steps);
}

std::string first_difference(const TrainingRecord& a, const TrainingRecord& b) {
  if (a.steps.size() != b.steps.size()) return "the number of steps differs";
  for (std::size_t step = 0; step < a.steps.size(); ++step) {
    const TrainingRecord::Step &of_a = a.steps[step], &of_b = b.steps[step];
    const auto at = [step](const std::string& name, const std::string& difference) {
      return text_of("step ", step, ": ", name, " differs ", difference);
    };
    const std::string loss = first_difference(of_a.loss, of_b.loss);
    if (!loss.empty()) return at("the loss", loss);
    if (of_a.variables.size() != of_b.variables.size()) return "the number of variables differs";
    for (const auto& [name, tensor] : of_a.variables) {
      const auto other = of_b.variables.find(name);
      if (other == of_b.variables.end()) return "variable '" + name + "' is missing";
      const std::string difference = first_difference(tensor, other->second);
      if (!difference.empty()) return at("variable '" + name + "'", difference);
    }
    for (std::size_t i = 0; i < of_a.evaluated.size(); ++i) {
      const std::string difference = first_difference(of_a.evaluated[i], of_b.evaluated[i]);
      if (!difference.empty()) return at(text_of("evaluated value ", i), difference);
    }
  }
  return "";
}

TrainingState train(const TrainingCase& training_case, How how, const TrainOptions& options) {
  TrainingRecord record = record_training(training_case, how, options);
  EXPECT_EQ(joined(record.complaints), "") << training_case.name;
  TrainingState state;
  for (TrainingRecord::Step& step : record.steps) state.losses.push_back(std::move(step.loss));
  state.variables = std::move(record.steps.back().variables);
  return state;
}

std::optional<Failure> find_failure(const TrainingCase& training_case, const TrainOptions& options) {
  std::optional<TrainingRecord> whole;
  for (How how : {How::whole, How::sections, How::halves, How::mixed}) {
    auto failure = failure_of([&]() -> std::optional<Failure> {
      TrainingRecord record = record_training(training_case, how, options);
      const std::string difference = whole ? first_difference(*whole, record) : "";
      if (!difference.empty()) return Failure{Failure::Kind::difference, difference};
      if (!record.complaints.empty()) return Failure{Failure::Kind::complaint, joined(record.complaints)};
      if (!whole) whole = std::move(record);
      return std::nullopt;
    });
    if (!failure) continue;
    failure->text = text_of(name_of(how), ": ", failure->text);
    return failure;
  }
  return std::nullopt;
}

void expect_exact(const TrainingCase& training_case, const TrainOptions& options) {
  const auto failure = find_failure(training_case, options);
  if (failure) ADD_FAILURE() << training_case.name << ": " << failure->text;
  if (options.sections) return;
  TrainOptions few = options;
  // On a GPU two more, which are executed from recordings.
  few.steps = std::min<std::int64_t>(options.steps, testing_support::tests_run_on_cpu() ? 2 : 4);
  const TrainingRecord whole = record_training(training_case, How::whole, few);
  // Cycles and halves by turns: the random models go both ways with all policies.
  How how = How::sections;
  for (const OffloadCase& offload_case : offload_cases_for(training_case.name)) {
    SCOPED_TRACE(training_case.name + ", " + offload_case.name);
    const auto apart = failure_of([&]() -> std::optional<Failure> {
      const TrainingRecord record = record_training(training_case, how, with_offloads(few, offload_case));
      const std::string difference = first_difference(whole, record);
      if (!difference.empty()) return Failure{Failure::Kind::difference, difference};
      if (!record.complaints.empty()) return Failure{Failure::Kind::complaint, joined(record.complaints)};
      return std::nullopt;
    });
    if (apart) ADD_FAILURE() << name_of(how) << ": " << apart->text;
    how = how == How::sections ? How::halves : How::sections;
  }
}

}  // namespace sectionflow::testing
