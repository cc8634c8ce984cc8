#include "train/trainer_core.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "runtime/engine.h"
#include "train/fit_options.h"
#include "train/training_run.h"

namespace sectionflow {
namespace {

/// Takes a source to its very beginning, and back to where it was, whatever happens to who reads it. One that cannot
/// go to its beginning is left where it stands.
class FromTheBeginning {
 public:
  explicit FromTheBeginning(BatchSource& source) : source_(source), position_(source.position()) { source.restore(""); }
  FromTheBeginning(const FromTheBeginning&) = delete;
  FromTheBeginning& operator=(const FromTheBeginning&) = delete;
  ~FromTheBeginning() {
    if (is_back_) return;
    try {
      source_.restore(position_);
    } catch (const std::exception& error) {
      LOG(WARNING) << "the source of an evaluation cannot go back to where it was: " << error.what();
    } catch (...) {
      LOG(WARNING) << "the source of an evaluation cannot go back to where it was";
    }
  }
  void go_back() {
    is_back_ = true;
    source_.restore(position_);
  }

 private:
  BatchSource& source_;
  std::string position_;
  bool is_back_ = false;
};

/// While it lives the session is offered feeds ahead; of none of them it keeps anything behind it.
class OffersFeeds {
 public:
  explicit OffersFeeds(Session& session) : engine_(engine(session)) {}
  OffersFeeds(const OffersFeeds&) = delete;
  OffersFeeds& operator=(const OffersFeeds&) = delete;
  ~OffersFeeds() { engine_.forget_next_feeds(); }

 private:
  Engine& engine_;
};

/// Rows of the batches, one below the other.
HostTensor joined(const std::vector<HostTensor>& parts) {
  std::vector<std::int64_t> dims = parts.front().shape().dims();
  dims[0] = 0;
  for (const HostTensor& part : parts) dims[0] = checked_add(dims[0], part.shape()[0]);
  HostTensor whole(parts.front().dtype(), Shape(dims));
  std::byte* place = whole.bytes();
  for (const HostTensor& part : parts) {
    if (part.num_bytes() > 0) std::memcpy(place, part.bytes(), part.num_bytes());
    place += part.num_bytes();
  }
  return whole;
}

/// Whether a run computes all that an update puts into its average. What variables alone decide is no part of a step.
bool follows(const Node& update, const std::set<NodeId>& run) {
  const auto is_computed = [](const Value& value) {
    return !value.node().op().is_variable() && value.dtype() != Dtype::boolean;
  };
  std::vector<Value> parts;
  for (const Value& input : update.inputs()) {
    if (!is_computed(input)) continue;
    // What ranks have in common is computed for the update alone.
    const bool is_common = input.node().op().communicates && !input.node().inputs().empty();
    const std::vector<Value> made = is_common ? input.node().inputs() : std::vector{input};
    std::copy_if(made.begin(), made.end(), std::back_inserter(parts), is_computed);
  }
  return !parts.empty() &&
         std::all_of(parts.begin(), parts.end(), [&](const Value& part) { return run.contains(part.node().id()); });
}

void check_batch_is_there(const std::optional<Example>& batch) {
  SF_CHECK_CODE(batch.has_value(), ArgumentError, ErrorCode::nothing_to_train_on,
                "the source gives no batch: a pass of it is empty",
                hint("look at its data, at drop_remainder, and at what it filters"));
}

bool same_rows(const HostTensor& a, const HostTensor& b) {
  const auto& x = a.shape().dims();
  const auto& y = b.shape().dims();
  return x.size() == y.size() && std::equal(x.begin() + 1, x.end(), y.begin() + 1);
}

}  // namespace

TrainerCore::TrainerCore(Session& session, GraphSectionManager* manager, std::vector<Operation> targets,
                         TrainerOptions options)
    : session_(session),
      manager_(manager),
      options_(std::move(options)),
      feeds_(session.graph(), options_.inputs, options_.ignored),
      training_(session.graph(), std::move(targets)),
      evaluation_(session.graph(), {}),
      prediction_(session.graph(), {}) {
  for (const Operation& target : training_.targets()) {
    SF_CHECK(target.valid() && &target.node().graph() == &session.graph(), ArgumentError,
             "Trainer: a training operation is of another graph than the session, or of none");
  }
  if (options_.loss.valid()) {
    check_number("loss", options_.loss);
    training_.add("loss", options_.loss);
    evaluation_.add("loss", options_.loss);
  }
  if (options_.weight.valid())
    check_number("weight", options_.weight, "add up what counts: reduce_sum(cast(x, Dtype::f32))");
  const auto add = [&](const std::map<std::string, Value>& metrics, bool evaluates) {
    for (const auto& [name, value] : metrics) {
      check_number(name, value);
      training_.add(name, value);
      if (evaluates) evaluation_.add(name, value);
    }
  };
  add(options_.metrics, true);
  add(options_.training_metrics, false);
  training_.weigh_by(options_.weight);
  evaluation_.weigh_by(options_.weight);
  for (const auto& [name, value] : options_.outputs) {
    SF_CHECK(value.valid() && &value.graph() == &session.graph(), ArgumentError, "Trainer: output '", name,
             "' is no value of the session's graph");
    SF_CHECK(value.shape().rank() > 0, ArgumentError, "Trainer: output '", name, "' is ", value.type().text(),
             "; wanted one row an example", Fact{"value", value.node().place()});
    prediction_.add(name, value);
  }
}

void TrainerCore::check_number(const std::string& name, Value value, const char* advice) const {
  SF_CHECK(value.valid() && &value.graph() == &session_.graph(), ArgumentError, "Trainer: '", name,
           "' is no value of the session's graph");
  const Shape& shape = value.shape();
  SF_CHECK(shape.is_static() && shape.num_elements() == 1, ArgumentError, "Trainer: '", name, "' is ",
           value.type().text(), "; wanted a single number", Fact{"value", value.node().place()}, hint(advice));
  SF_CHECK(!name.empty() && !name.starts_with("val_"), ArgumentError, "Trainer: a metric is called '", name,
           "'; wanted a name that does not begin with val_, which evaluations put before it");
  for (const std::string& known : training_.names()) {
    SF_CHECK(known != name, ArgumentError, "Trainer: two metrics are called '", name, "'",
             hint("the loss is called 'loss', and needs not be among the metrics"));
  }
}

BatchFeeds::Bound TrainerCore::bind(const Example& batch, FetchedNumbers& run, const Feeds& others) {
  BatchFeeds::Bound bound = feeds_.bind(batch, run.read());
  bound.feeds.insert(bound.feeds.end(), others.begin(), others.end());
  return bound;
}

BatchFeeds::Bound TrainerCore::training_feeds(const Example& batch) {
  // What a cycle executes besides its fetches may grow until it is prepared.
  if (manager_ != nullptr && training_.targets().size() != manager_->training_operations().size()) {
    training_.set_targets(manager_->training_operations());
  }
  return bind(batch, training_, options_.training_feeds);
}

void TrainerCore::warn_of_updates() const {
  // Cycles take the updates of the graph along by themselves.
  if (manager_ != nullptr) return;
  const Graph& graph = session_.graph();
  const std::set<NodeId> run = nodes_run_by(graph, training_.values(), training_.targets());
  std::string first;
  int count = 0;
  for (const Operation& update : graph.operations(kUpdateOperations)) {
    if (run.contains(update.node().id()) || !follows(update.node(), run)) continue;
    if (count++ == 0) first = update.node().name();
  }
  LOG_IF(WARNING, count > 0) << "fit: the steps leave out " << count << " updates of moving averages, '" << first
                             << "' the first: evaluations take the averages as they are. Add the graph's operations of "
                                "kUpdateOperations to the training operations that the Trainer gets";
}

void TrainerCore::offer_next(const BatchSource& source, FetchedNumbers& run) {
  Engine& programs = engine(session_);
  if (!programs.copies_feeds_ahead()) return;
  Feeds feeds;
  source.look_ahead([&](const std::string& name, const HostTensor& tensor) {
    const auto placeholder = feeds_.fed_as_it_is(name, tensor.type(), run.read());
    if (placeholder) feeds.emplace_back(*placeholder, tensor);
  });
  programs.offer_next_feeds(std::move(feeds));
}

double TrainerCore::train(const BatchSource& source, const Feeds& feeds, std::int64_t num_examples, Logs& logs,
                          Where where) {
  std::vector<HostTensor> fetched;
  offer_next(source, training_);
  try {
    fetched = manager_ != nullptr ? manager_->run_full_cycle(session_, training_.values(), feeds, {}, where)
                                  : session_.run(training_.values(), feeds, {.targets = training_.targets()}, where);
  } catch (const ArgumentError& error) {
    explain_missing_feed(error, session_.graph(), training_.read(), feeds);
    throw;
  }
  for (std::size_t i = 0; i < training_.names().size(); ++i)
    logs[training_.names()[i]] = FetchedNumbers::number_of(fetched[i]);
  return training_.weight_of(fetched, num_examples);
}

History TrainerCore::fit(BatchSource& source, const FitOptions& options, Where where) {
  SF_CHECK_CODE(!is_fitting_, ArgumentError, ErrorCode::fit_within_fit, "fit: this trainer is within another fit",
                hint("callbacks may evaluate and predict; to train on something else make another Trainer"));
  SF_CHECK_CODE(options_.loss.valid(), ArgumentError, ErrorCode::nothing_to_train_on,
                "fit: the trainer has no loss; wanted the number that its training operations lessen",
                hint("set TrainerOptions::loss: a trainer without one only predicts"));
  SF_CHECK_CODE(manager_ != nullptr || !training_.targets().empty(), ArgumentError, ErrorCode::nothing_to_train_on,
                "fit: the trainer has no training operations", hint("give it those of minimize, or a section manager"));
  is_fitting_ = true;
  const OffersFeeds offers(session_);
  try {
    source.lend(batch_memory());
    History history = TrainingRun(*this, source, options, where).train();
    is_fitting_ = false;
    return history;
  } catch (...) {
    is_fitting_ = false;
    throw;
  }
}

std::shared_ptr<BatchMemory> TrainerCore::batch_memory() {
  if (memory_ == nullptr) memory_ = sectionflow::batch_memory(session_);
  return memory_;
}

void TrainerCore::check_not_fitting(const char* call) const {
  SF_CHECK_CODE(!is_fitting_, ArgumentError, ErrorCode::fit_within_fit, call, ": this trainer is within a fit",
                hint(text_of(call, " before fit is called")));
}

void TrainerCore::restore(const std::string& position) {
  check_not_fitting("restore");
  progress_ = TrainingProgress::read(position);
  restored_ = is_by_hand_ = true;
  note_evaluated();
}

void TrainerCore::note_evaluated() {
  evaluated_write_ = engine(session_).last_write();
}

bool TrainerCore::is_evaluated() const {
  return progress_.evaluated_step == progress_.step && evaluated_write_ == engine(session_).last_write();
}

void TrainerCore::note_resumed(const std::string& folder) {
  is_by_hand_ = false;
  saved_[folder] = moment();
  note_owner_of(folder);
}

TrainingMoment TrainerCore::moment() const {
  return {progress_.step, progress_.epoch, evaluated_step_to_keep(), engine(session_).last_write()};
}

bool TrainerCore::trains_on(const BatchSource& source) const {
  const bool is_known = progress_.batches_per_pass > 0 || progress_.step_in_epoch > 0;
  // Where the one is gone, another may have its address.
  return &source == trained_on_ && (!is_known || source.position() == progress_.data.text());
}

bool TrainerCore::run_batches(BatchSource& source, const EvaluateOptions& options, FetchedNumbers& run, Where where,
                              const std::function<void(BatchRun)>& take, const std::function<bool()>& is_broken_off) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  SF_CHECK(options.steps >= 0, ArgumentError, "steps is ", options.steps, "; wanted 0 (a whole pass) or more");
  check_evaluation_ends(source, options.steps);
  source.lend(batch_memory());
  const OffersFeeds offers(session_);
  FromTheBeginning pass(source);
  std::int64_t step = 0;
  bool is_whole = true;
  while (options.steps == 0 || step < options.steps) {
    is_whole = !is_broken_off || !is_broken_off();
    if (!is_whole) break;
    const auto begin = Clock::now();
    auto batch = source.next();
    if (!batch && step > 0 && options.steps == 0) break;
    // More batches are wanted than a pass has.
    if (!batch && step > 0) batch = source.next();
    check_batch_is_there(batch);
    const BatchFeeds::Bound bound = bind(*batch, run, options_.evaluation_feeds);
    offer_next(source, run);
    const auto begin_step = Clock::now();
    auto fetched = session_.run(run.values(), bound.feeds, {}, where);
    take({.step = ++step,
          .num_examples = bound.num_examples,
          .data_seconds = seconds(begin_step - begin),
          .step_seconds = seconds(Clock::now() - begin_step),
          .fetched = std::move(fetched)});
  }
  pass.go_back();
  return is_whole;
}

void TrainerCore::check_evaluation_fits(BatchSource& source, Where where) {
  if (&source == checked_to_fit_ || evaluation_.names().empty()) return;
  try {
    FromTheBeginning pass(source);
    const auto batch = source.next();
    check_batch_is_there(batch);
    const BatchFeeds::Bound bound = bind(*batch, evaluation_, options_.evaluation_feeds);
    Engine& programs = engine(session_);
    programs.check_ready(programs.whole_program(evaluation_.values(), types_of(bound.feeds), {}, where));
    pass.go_back();
  } catch (Error& error) {
    error.add_fact("during",
                   text_of("the planning of evaluations of FitOptions::validation, before step ", progress_.step + 1));
    throw;
  }
  checked_to_fit_ = &source;
}

std::optional<Logs> TrainerCore::evaluate(BatchSource& source, const EvaluateOptions& options,
                                          const TrainerState* around, Where where,
                                          const std::function<bool()>& is_broken_off) {
  SF_CHECK(!evaluation_.names().empty(), ArgumentError, "evaluate: the trainer has neither loss nor metrics",
           hint("set TrainerOptions::loss or ::metrics"));
  Logs logs, totals;
  double total_weight = 0;
  const auto take = [&](const BatchRun& batch) {
    const double weight = evaluation_.weight_of(batch.fetched, batch.num_examples);
    evaluation_.check_weight(weight);
    total_weight += weight;
    for (std::size_t i = 0; i < evaluation_.names().size(); ++i) {
      const double number = FetchedNumbers::number_of(batch.fetched[i]);
      logs[evaluation_.names()[i]] = number;
      totals[evaluation_.names()[i]] += weighted(number, weight);
    }
    const TrainerState state{.session = session_,
                             .logs = logs,
                             .epoch = around != nullptr ? around->epoch : progress_.epoch,
                             .step = progress_.step,
                             .step_in_epoch = batch.step,
                             .steps_per_epoch = options.steps > 0
                                                    ? options.steps
                                                    : std::max<std::int64_t>(source.batches_per_pass().value_or(0), 0),
                             .batch_size = batch.num_examples,
                             .step_seconds = batch.step_seconds,
                             .data_seconds = batch.data_seconds,
                             .in_sections = in_sections(),
                             .run = around != nullptr ? around->run : nullptr,
                             .manager = manager_};
    for (Callback* callback : options.callbacks) callback->on_evaluation_step(state);
  };
  if (!run_batches(source, options, evaluation_, where, take, is_broken_off)) return std::nullopt;
  for (auto& [name, total] : totals) total /= total_weight;
  return totals;
}

Example TrainerCore::predict(BatchSource& source, const EvaluateOptions& options, Where where) {
  SF_CHECK(!prediction_.names().empty(), ArgumentError, "predict: the trainer has no outputs",
           hint("set TrainerOptions::outputs"));
  std::vector<std::vector<HostTensor>> parts(prediction_.names().size());
  run_batches(source, options, prediction_, where, [&](BatchRun batch) {
    for (std::size_t i = 0; i < batch.fetched.size(); ++i) {
      HostTensor& output = batch.fetched[i];
      SF_CHECK_CODE(
          output.shape()[0] == batch.num_examples && (parts[i].empty() || same_rows(parts[i].front(), output)),
          ShapeError, ErrorCode::batch_examples, "predict: output '", prediction_.names()[i], "' is ",
          output.type().text(), " for a batch of ", batch.num_examples,
          " examples; wanted one row an example, and rows "
          "of one shape");
      parts[i].push_back(std::move(output));
    }
  });
  Example joined_outputs;
  for (std::size_t i = 0; i < parts.size(); ++i) joined_outputs.emplace(prediction_.names()[i], joined(parts[i]));
  return joined_outputs;
}

}  // namespace sectionflow
