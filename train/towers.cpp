#include "train/towers.h"

#include <exception>
#include <mutex>
#include <set>
#include <utility>

#include "base/one_at_a_time.h"
#include "graph/graph_file.h"
#include "runtime/placement.h"
#include "train/tower_batches.h"
#include "train/tower_parts.h"
#include "train/tower_step.h"
#include "train/tower_threads.h"

namespace sectionflow {

struct Towers::Core {
  explicit Core(int count) : threads(count) {}
  ~Core() {
    threads.run([this](int t) {
      if (static_cast<std::size_t>(t) < towers.size()) towers[static_cast<std::size_t>(t)]->parts_->session.reset();
    });
  }

  /// Makes a call on all towers. `ends_all`: where one throws the others may wait for it, and are told. Throws: the
  /// error that came first; those of others that were told of it come behind.
  void on_all(bool ends_all, const std::function<void(Tower&)>& call) {
    const auto inside = one_at_a_time.enter("the towers");
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
        note(std::current_exception(), true);
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
  static std::string tower_text(const Tower& tower) { return text_of(tower.number(), ", on ", tower.device()); }

  void build(const BuildTower& build, const std::vector<SessionOptions>& devices);
  void make_sessions(const std::vector<SessionOptions>& devices, const CommunicatorOptions& options, Where where);
  std::vector<TowerStep> steps(bool trains, const Example& batch, const std::vector<std::string>& outputs) const;
  Example execute(bool trains, const Example& batch, const std::vector<std::string>& outputs, Where where);

  const Tower& first() const { return *towers.front(); }

  std::vector<std::string> inputs;
  std::vector<std::unique_ptr<Tower>> towers;
  std::set<std::string> checked;  // steps that all towers can take
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
  const auto inside = one_at_a_time.enter("the towers");
  const std::vector<TowerStep> steps = this->steps(trains, batch, outputs);
  const auto step_of = [&](const Tower& tower) -> const TowerStep& {
    return steps[static_cast<std::size_t>(tower.number())];
  };
  std::string key = trains ? "train" : "run";
  for (const std::string& name : outputs) key += text_of(" ", name.size(), ":", name);
  for (const auto& [name, tensor] : batch) key += text_of(" ", name.size(), ":", name, " ", tensor.type().text());
  if (!checked.contains(key)) {
    on_all(false, [&](Tower& tower) { check_step(tower, step_of(tower), where); });
    checked.insert(std::move(key));
  }
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

int Towers::size() const {
  return static_cast<int>(core_->towers.size());
}

Tower& Towers::tower(int number) const {
  SF_CHECK(number >= 0 && number < size(), ArgumentError, "there is no tower ", number, "; there are ", size(),
           ", from 0");
  return *core_->towers[static_cast<std::size_t>(number)];
}

void Towers::initialize(Where where) {
  call_at(where, [&] {
    core_->checked.clear();
    core_->on_all(false, [&](Tower& tower) { tower.session().initialize(where); });
  });
}

Example Towers::train(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] { return core_->execute(true, batch, outputs, where); });
}

Example Towers::run(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] { return core_->execute(false, batch, outputs, where); });
}

std::vector<ProgramReport> Towers::plan(const Example& batch, const std::vector<std::string>& outputs, Where where) {
  return call_at(where, [&] {
    const std::vector<TowerStep> steps = core_->steps(true, batch, outputs);
    std::vector<ProgramReport> reports(steps.size());
    core_->on_all(false, [&](Tower& tower) {
      const auto t = static_cast<std::size_t>(tower.number());
      reports[t] = plan_step(tower, steps[t], where);
    });
    return reports;
  });
}

HostTensor Towers::read(const std::string& variable, Where where) {
  return call_at(where, [&] {
    const auto inside = core_->one_at_a_time.enter("the towers");
    const Tower& first = core_->first();
    return first.session().read(first.graph().find(variable).output(), where);
  });
}

void Towers::write(const std::string& variable, const HostTensor& tensor, Where where) {
  call_at(where, [&] {
    const auto inside = core_->one_at_a_time.enter("the towers");
    for (const auto& tower : core_->towers) {
      tower->session().write(tower->graph().find(variable).output(), tensor, where);
    }
  });
}

void Towers::save(const std::string& path, Where where) {
  const auto inside = core_->one_at_a_time.enter("the towers");
  save_variables(core_->first().session(), path, {}, where);
}

LoadReport Towers::load(const std::string& path, const LoadOptions& options, Where where) {
  return call_at(where, [&] {
    const auto inside = core_->one_at_a_time.enter("the towers");
    Session& first = core_->first().session();
    LoadReport report = load_variables(first, path, options, where);
    for (std::size_t t = 1; t < core_->towers.size(); ++t) {
      const Tower& tower = *core_->towers[t];
      for (const Value variable : first.graph().values(kVariables)) {
        tower.session().write(tower.graph().find(variable.name()).output(), first.read(variable));
      }
      tower.session().set_completed_cycles(first.completed_cycles());
      tower.session().use_algorithms(first.algorithm_choices());
    }
    return report;
  });
}

std::uint64_t Towers::completed_cycles() const {
  return core_->first().session().completed_cycles();
}

void Towers::on_each(const std::function<void(Tower&)>& call, Where where) {
  call_at(where, [&] {
    core_->checked.clear();
    core_->on_all(true, call);
  });
}

Towers make_parallel(const BuildTower& build, const std::vector<SessionOptions>& devices,
                     std::vector<std::string> inputs, const CommunicatorOptions& options, Where where) {
  return Towers(build, devices, std::move(inputs), options, where);
}

}  // namespace sectionflow
