#include "train/towers.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "base/one_at_a_time.h"
#include "graph/graph_file.h"
#include "graph/nodes/shards.h"
#include "graph/variable_shards.h"
#include "runtime/engine.h"
#include "runtime/placement.h"
#include "train/tower_batches.h"
#include "train/tower_parts.h"
#include "train/tower_step.h"
#include "train/tower_threads.h"
#include "train/tower_variables.h"
#include "train/variable_snapshot.h"

namespace sectionflow {

struct [[gnu::visibility("hidden")]] Towers::Core {
  explicit Core(int count) : threads(count) {}
  ~Core() {
    threads.run([this](int t) {
      if (static_cast<std::size_t>(t) < towers.size()) towers[static_cast<std::size_t>(t)]->parts_->session.reset();
    });
  }

  /// Makes a call on all towers. `ends_all`: where one throws the others may wait for it, and are told. Throws: the
  /// error that came first; those of others that were told of it come behind.
  void on_all(bool ends_all, const std::function<void(Tower&)>& call) {
    const auto inside = enter();
    std::mutex mutex;
    std::exception_ptr cause, consequence;
    const auto note = [&](std::exception_ptr error, bool is_told) {
      const std::lock_guard lock(mutex);
      std::exception_ptr& first = is_told ? consequence : cause;
      if (first == nullptr) first = std::move(error);
    };
    threads.run([&](int t) {
      Tower& tower = *towers[static_cast<std::size_t>(t)];
      try {
        call(tower);
      } catch (CommunicationError& error) {
        error.add_fact("tower", tower_text(tower));
        if (error.code() == ErrorCode::communication) error.add_fact("towers", kEnded);
        note(std::current_exception(), true);
        // All have different texts, and may go on. Anything else may be of a call that nobody else makes.
        if (ends_all && error.code() != ErrorCode::different_texts) tower.parts_->communicator->fail(error.what());
      } catch (Error& error) {
        if (ends_all) tower.parts_->communicator->fail(error.what());
        error.add_fact("tower", tower_text(tower));
        note(std::current_exception(), false);
      } catch (const std::exception& error) {
        if (ends_all) tower.parts_->communicator->fail(error.what());
        note(std::current_exception(), false);
      } catch (...) {
        if (ends_all) tower.parts_->communicator->fail("something was thrown that is no std::exception");
        note(std::current_exception(), false);
      }
    });
    if (cause != nullptr) std::rethrow_exception(cause);
    if (consequence != nullptr) std::rethrow_exception(consequence);
  }
  static constexpr std::string_view kEnded =
      "what one of them throws as it executes ends their training: make them anew, and load the last file";
  static std::string tower_text(const Tower& tower) {
    return text_of(tower.number(), ", on ", tower.device());
  }

  OneAtATime::Entry enter() {
    return one_at_a_time.enter("the set of towers");
  }
  /// Makes a check of each tower, on this thread.
  void check_each(const std::function<void(const Tower&)>& check) const {
    for (const auto& tower : towers) {
      try {
        check(*tower);
      } catch (Error& error) {
        error.add_fact("tower", tower_text(*tower));
        throw;
      }
    }
  }
  /// Throws: ArgumentError (SF-E323) where a call that changes variables has ended on some towers alone.
  void check_even() const {
    SF_CHECK_CODE(!is_uneven, ArgumentError, ErrorCode::torn_session,
                  "a call that was to change the variables of all towers has failed on one of them",
                  hint("call initialize(); where it fails again, as by a budget, make the towers anew"));
  }
  /// The variables of all are there, and the same.
  void check_readable() const {
    check_even();
    check_each([](const Tower& tower) { check_whole(tower.session()); });
  }

  void initialize(Where where);
  HostTensor read(const std::string& name, Where where);
  void save(const std::string& path, Where where);
  void write(const std::string& name, const HostTensor& tensor, Where where);
  LoadReport load(const std::string& path, const LoadOptions& options, Where where);
  void build(const BuildTower& build, const std::vector<SessionOptions>& devices);
  void make_sessions(const std::vector<SessionOptions>& devices, const CommunicatorOptions& options, Where where);
  std::vector<TowerStep> steps(bool trains, const Example& batch, const std::vector<std::string>& outputs) const;
  Example execute(bool trains, const Example& batch, const std::vector<std::string>& outputs, Where where);

  const Tower& first() const {
    return *towers.front();
  }

  std::vector<std::string> inputs;
  std::vector<std::unique_ptr<Tower>> towers;
  bool is_uneven = false;  // their variables may differ
  OneAtATime one_at_a_time;
  TowerThreads threads;
};

void Towers::Core::build(const BuildTower& build, const std::vector<SessionOptions>& devices) {
  SF_CHECK(build != nullptr, ArgumentError, "make_parallel: there is nothing that builds a tower");
  std::uint64_t digest = 0;
  for (std::size_t t = 0; t < devices.size(); ++t) {
    auto parts = std::make_unique<Tower::Parts>(static_cast<int>(t), device_name(devices[t].device));
    parts->outputs = build(parts->graph, parts->manager);
    check_tower(parts->graph, inputs, parts->outputs, static_cast<int>(devices.size()));
    const std::uint64_t here = graph_digest(parts->graph);
    if (t == 0) digest = here;
    const bool is_same = here == digest && (t == 0 || same_outputs(first().parts_->outputs, parts->outputs));
    SF_CHECK_CODE(is_same, ArgumentError, ErrorCode::ranks, "make_parallel: tower ", t,
                  " is built as another graph than tower 0, or gives other outputs",
                  hint("`build` is called once for each tower and must build the same each time"));
    towers.push_back(std::unique_ptr<Tower>(new Tower(std::move(parts))));
  }
}

void Towers::Core::make_sessions(const std::vector<SessionOptions>& devices, const CommunicatorOptions& options,
                                 Where where) {
  const auto communicators = in_process_communicators(static_cast<int>(devices.size()), options);
  for (std::size_t t = 0; t < devices.size(); ++t) towers[t]->parts_->communicator = communicators[t];
  on_all(false, [&](Tower& tower) {
    SessionOptions own = devices[static_cast<std::size_t>(tower.number())];
    own.communicator = tower.parts_->communicator;
    tower.parts_->session.emplace(tower.graph(), std::move(own), where);
  });
}

std::vector<TowerStep> Towers::Core::steps(bool trains, const Example& batch,
                                           const std::vector<std::string>& outputs) const {
  std::vector<TowerStep> steps;
  for (const auto& tower : towers) {
    TowerStep step{.trains = trains};
    for (const std::string& name : outputs) step.fetches.push_back(tower->output(name));
    step.feeds = feeds_of_tower(batch, inputs, tower->graph(), tower->number(), static_cast<int>(towers.size()));
    steps.push_back(std::move(step));
  }
  SF_CHECK_CODE(!trains || !training_operations_of(first().graph()).empty(), ArgumentError, ErrorCode::nothing_to_train,
                "towers have no training operations",
                hint("have `build` add them: training_updates() or add_training_ops(), with .ranks = ", towers.size()));
  return steps;
}

Example Towers::Core::execute(bool trains, const Example& batch, const std::vector<std::string>& outputs, Where where) {
  const auto inside = enter();
  const std::vector<TowerStep> steps = this->steps(trains, batch, outputs);
  const auto step_of = [&](const Tower& tower) -> const TowerStep& {
    return steps[static_cast<std::size_t>(tower.number())];
  };
  check_even();
  // Each time: what sessions are in, and what has been set up, is not in the batch.
  on_all(false, [&](Tower& tower) { check_step(tower, step_of(tower), where); });
  std::vector<std::vector<HostTensor>> fetched(towers.size());
  on_all(true, [&](Tower& tower) {
    fetched[static_cast<std::size_t>(tower.number())] = execute_step(tower, step_of(tower), where);
  });
  Example result;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::vector<HostTensor> parts;
    for (std::vector<HostTensor>& of_tower : fetched) parts.push_back(std::move(of_tower[i]));
    result.insert_or_assign(outputs[i], joined(outputs[i], first().parts_->outputs.at(outputs[i]), parts));
  }
  return result;
}

void Towers::Core::initialize(Where where) {
  const auto inside = enter();
  check_each([](const Tower& tower) { check_can_set(tower.session(), "initialize()"); });
  std::atomic<bool> has_begun = false;
  try {
    on_all(false, [&](Tower& tower) {
      tower.session().initialize(where);
      has_begun = true;
    });
  } catch (...) {
    is_uneven = is_uneven || has_begun;
    throw;
  }
  is_uneven = false;
}

HostTensor Towers::Core::read(const std::string& name, Where where) {
  const auto inside = enter();
  check_readable();
  const auto value_on = [&](const Tower& tower) {
    return tower.session().read(tower.graph().find(name).output(), where);
  };
  const auto is_in_shards = [&] {
    Node& known = first().graph().find(name);
    return known.op().is_variable() && ranks_of_shard(known.output()) > 0;
  };
  // A master copy is in shards, of which the variables of the session tell nothing.
  if (!has_shards(first().session()) && !is_in_shards()) return value_on(first());
  // What one alone would refuse, before the others wait for it.
  check_each([&](const Tower& tower) { (void)known_variable(tower, name, "read"); });
  std::vector<HostTensor> values(towers.size());
  on_all(true, [&](Tower& tower) { values[static_cast<std::size_t>(tower.number())] = value_on(tower); });
  return std::move(values.front());
}

void Towers::Core::save(const std::string& path, Where where) {
  const auto inside = enter();
  check_readable();
  check_no_half(first().session(), "save");
  check_between_updates(first().session(), "save");
  if (!has_shards(first().session())) return save_variables(first().session(), path, {}, where);
  check_each([](const Tower& tower) { engine(tower.session()).check_has_values("save"); });
  on_all(true, [&](Tower& tower) { save_variables(tower.session(), path, {}, where); });
}

void Towers::Core::write(const std::string& name, const HostTensor& tensor, Where where) {
  const auto inside = enter();
  check_even();
  std::vector<Value> variables;
  check_each([&](const Tower& tower) { variables.push_back(settable_variable(tower, name, tensor.type())); });
  is_uneven = true;
  for (std::size_t t = 0; t < towers.size(); ++t) towers[t]->session().write(variables[t], tensor, where);
  is_uneven = false;
}

LoadReport Towers::Core::load(const std::string& path, const LoadOptions& options, Where where) {
  const auto inside = enter();
  check_even();
  Session& from = first().session();
  const std::vector<Value> variables = from.graph().values(kVariables);
  std::vector<std::vector<Value>> targets(towers.size());
  check_each([&](const Tower& tower) {
    check_can_set(tower.session(), "load");
    for (const Value variable : variables) {
      targets[static_cast<std::size_t>(tower.number())].push_back(
          settable_variable(tower, variable.name(), whole_type(variable)));
    }
  });
  const VariableFile file = read_variable_file(path);
  check_between_updates(from, file, options);
  LoadReport report = load_file(from, file, options, where);
  is_uneven = true;
  for (std::size_t t = 1; t < towers.size(); ++t) {
    Session& to = towers[t]->session();
    if (has_shards(from)) {
      (void)load_file(to, file, options, where);
      continue;
    }
    for (std::size_t i = 0; i < variables.size(); ++i) to.write(targets[t][i], from.read(variables[i], where), where);
    to.set_completed_cycles(from.completed_cycles(), where);
    to.use_algorithms(from.algorithm_choices());
  }
  is_uneven = false;
  return report;
}

Towers::Towers(const BuildTower& build, const std::vector<SessionOptions>& devices, std::vector<std::string> inputs,
               const CommunicatorOptions& options, Where where) {
  call_at(where, [&] {
    const std::vector<SessionOptions> complete = devices_of_towers(devices);
    core_ = std::make_unique<Core>(static_cast<int>(complete.size()));
    core_->inputs = std::move(inputs);
    core_->build(build, complete);
    core_->make_sessions(complete, options, where);
  });
}
Towers::~Towers() = default;
Towers::Towers(Towers&&) noexcept = default;
Towers& Towers::operator=(Towers&&) noexcept = default;

Towers::Core& Towers::core() const {
  SF_CHECK(core_ != nullptr, ArgumentError, "these towers have been moved from", hint("use those that they went to"));
  return *core_;
}

int Towers::size() const {
  return static_cast<int>(core().towers.size());
}

Tower& Towers::tower(int number) const {
  SF_CHECK(number >= 0 && number < size(), ArgumentError, "there is no tower ", number, "; there are ", size(),
           ", from 0");
  return *core().towers[static_cast<std::size_t>(number)];
}

void Towers::initialize(Where where) {
  call_at(where, [&] { core().initialize(where); });
}

Example Towers::train(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] { return core().execute(true, batch, outputs, where); });
}

Example Towers::run(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] { return core().execute(false, batch, outputs, where); });
}

std::vector<ProgramReport> Towers::plan(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] {
    const std::vector<TowerStep> steps = core().steps(true, batch, outputs);
    std::vector<ProgramReport> reports(steps.size());
    core().on_all(false, [&](Tower& tower) {
      const auto t = static_cast<std::size_t>(tower.number());
      reports[t] = plan_step(tower, steps[t], where);
    });
    return reports;
  });
}

HostTensor Towers::read(const std::string& variable, Where where) {
  return call_at(where, [&] { return core().read(variable, where); });
}

void Towers::write(const std::string& variable, const HostTensor& tensor, Where where) {
  call_at(where, [&] { core().write(variable, tensor, where); });
}

void Towers::save(const std::string& path, Where where) {
  call_at(where, [&] { core().save(path, where); });
}

LoadReport Towers::load(const std::string& path, const LoadOptions& options, Where where) {
  return call_at(where, [&] { return core().load(path, options, where); });
}

std::uint64_t Towers::completed_cycles() const {
  return core().first().session().completed_cycles();
}

void Towers::on_each(const std::function<void(Tower&)>& call, Where where) {
  call_at(where, [&] {
    SF_CHECK(call != nullptr, ArgumentError, "on_each: there is no call to make",
             hint("give what is to be done with each tower: [](Tower& tower) {...}"));
    const auto inside = core().enter();
    core().check_even();
    core().on_all(true, call);
  });
}

Towers make_parallel(const BuildTower& build, const std::vector<SessionOptions>& devices,
                     std::vector<std::string> inputs, const CommunicatorOptions& options, Where where) {
  return Towers(build, devices, std::move(inputs), options, where);
}

}  // namespace sectionflow
