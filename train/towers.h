#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "comm/communicator.h"
#include "data/source.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "schedule/report.h"
#include "sections/graph_section_manager.h"
#include "train/checkpoint.h"

namespace SF_API sectionflow {

/// How what each tower gives becomes one tensor.
enum class Join {
  automatic,    ///< concatenated where a feed decides the first axis (kDynamic), as it does a batch's; else stacked
  concatenate,  ///< along the first axis, tower 0's part first: [b, ...] of each become [n b, ...]
  stack,        ///< along an axis that comes first: [...] of each become [n, ...]
};

/// A value that every tower gives.
struct TowerOutput {
  TowerOutput(Value given, Join how = Join::automatic) : value(given), join(how) {}  // NOLINT: meant to convert

  Value value;
  Join join;
};
/// What towers give, by names of the user's choice.
using TowerOutputs = std::map<std::string, TowerOutput>;

/// Builds a tower, as one builds for one device: placeholders, sections or none, training operations or none
/// (UpdateOptions::ranks: as many as there are towers). Placeholders are those of a tower's part of the batch.
using BuildTower = std::function<TowerOutputs(Graph& graph, GraphSectionManager& manager)>;

/// The CPU once more, as a device of its own: number `ordinal` of those that towers are on, which compute with threads
/// and keep to budgets of their own.
SessionOptions cpu(int ordinal, SessionOptions options);

/// One of the towers: a graph, its manager, and a session on a device. Owns: all three.
class Tower {
 public:
  ~Tower();
  Tower(const Tower&) = delete;
  Tower& operator=(const Tower&) = delete;

  int number() const;                 ///< among the towers, from 0; its rank
  const std::string& device() const;  ///< "cpu:1", "cuda:0"
  Graph& graph() const;
  GraphSectionManager& manager() const;
  Session& session() const;
  /// What it gives by that name, in its own graph. Throws: ArgumentError for a name that is none, with those that are.
  Value output(const std::string& name) const;

 private:
  friend class Towers;
  struct Parts;
  explicit Tower(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Copies of a net in one process, each on a device of its own with a thread of its own, that compute parts of a batch
/// and train together: ranks (docs/many_devices.md), so that n towers have, bit for bit, the variables of one process
/// that takes their parts as micro-batches. A call is made on all towers, each on its thread, and returns when all have
/// ended.
///
/// Where a tower throws, the others end too, and the call throws the error that came first; an Error has the fact
/// "tower". What can be refused on all towers before one of them trains changes nothing: feeds that do not fit, a batch
/// that does not divide, a budget of one of them, a pending forward half. What a tower throws as it executes, or in
/// on_each, is final: later calls that train throw a CommunicationError (SF-E510). What does not train goes on, reading
/// and saving too, where no update had begun; behind the first, sessions are torn, and all but initialize() is refused
/// (SF-E323). Threads: one at a time; a second that comes in is refused. What has been moved from throws ArgumentError.
class Towers {
 public:
  /// As make_parallel.
  Towers(const BuildTower& build, const std::vector<SessionOptions>& devices, std::vector<std::string> inputs,
         const CommunicatorOptions& options = {}, Where where = Where::here());
  ~Towers();
  Towers(Towers&&) noexcept;
  Towers& operator=(Towers&&) noexcept;

  int size() const;
  /// To look at, or to set up, while no call is made. Throws: ArgumentError for a number that is none.
  Tower& tower(int number) const;

  /// Session::initialize on all: the same values everywhere. Throws: as it; where some towers had begun, values differ,
  /// and all other calls throw ArgumentError (SF-E323) until this one succeeds.
  void initialize(Where where = Where::here());
  /// One training step on one batch, or on one micro-batch of TrainingOptions::micro_batches: a cycle over the sections
  /// where there are some, otherwise a run of all training operations of the graph. Each tensor feeds the placeholder
  /// of its name: inputs in equal parts of their first axis, tower 0 the first; others whole, to all. Returns `outputs`
  /// (none unless named), joined. Throws, before anything runs: ShapeError (SF-E602) for a batch that the towers do not
  /// divide, and for inputs of different numbers of examples; ArgumentError (SF-E600) for a tensor that no placeholder
  /// takes, and for an output that is none; what the sessions throw.
  Example train(const Example& batch, const std::vector<std::string>& outputs = {}, Where where = Where::here());
  /// The outputs of a batch, joined, without training. Throws: as train.
  Example run(const Example& batch, const std::vector<std::string>& outputs, Where where = Where::here());
  /// What a training step on such a batch takes, of each tower, in its budget. Runs nothing; needs no initialize().
  std::vector<ProgramReport> plan(const Example& batch, const std::vector<std::string>& outputs = {},
                                  Where where = Where::here());

  /// The value of a variable, which is the same on all towers. Throws: as Session::read; ArgumentError for a name that
  /// is none, and where a tower is torn (SF-E323), as all that follow.
  HostTensor read(const std::string& variable, Where where = Where::here());
  /// Sets a variable on all towers. Throws: as Session::write; ArgumentError for a name that is none, and (SF-E035)
  /// while averages stand in the place of a tower's weights. Nothing has changed then.
  void write(const std::string& variable, const HostTensor& tensor, Where where = Where::here());
  /// save_variables of tower 0: a file of one process, which sessions and other numbers of towers load.
  /// Throws: as it; ArgumentError (SF-E033) amid the micro-batches of an update.
  void save(const std::string& path, Where where = Where::here());
  /// load_variables, of such a file or of a checkpoint's folder, on tower 0; the others get what it has then. Throws:
  /// as load_variables; ArgumentError (SF-E033) for a file that was saved amid the micro-batches of an update, and
  /// (SF-E035) as write. Nothing has changed then.
  LoadReport load(const std::string& path, const LoadOptions& options = {}, Where where = Where::here());
  /// Training cycles completed, as Session::completed_cycles.
  std::uint64_t completed_cycles() const;

  /// Makes `call` with each tower, on its thread, all at once: a Trainer a tower, insert_swaps or fit_budget of each
  /// session. All towers must make the same calls that train, as ranks must; one that throws ends the training of all,
  /// but for a CommunicationError of different texts (SF-E512). Throws: ArgumentError for no call.
  void on_each(const std::function<void(Tower&)>& call, Where where = Where::here());

 private:
  struct Core;
  Core& core() const;
  std::unique_ptr<Core> core_;
};

/// Builds a tower on each device, with the same variables, of whose batches `inputs` are split: the names of
/// placeholders. `build` is called once for each tower, on this thread, and must build the same each time.
///
/// Threads decide bits: all devices must have as many (SessionOptions::threads; 0: an equal share of the cores), and
/// be of one kind, with one seed. Budgets, and where tensors are kept, may differ.
/// Throws: ArgumentError (SF-E036) for devices that differ so, or of one name, for a communicator among their options,
/// and for graphs that differ; ArgumentError for no device, a negative number, no `build`, an input that is no
/// placeholder with a first axis, and an output of another graph; ArgumentError (SF-E036) for updates of another number
/// of ranks; DeviceError; what `build` throws.
Towers make_parallel(const BuildTower& build, const std::vector<SessionOptions>& devices,
                     std::vector<std::string> inputs, const CommunicatorOptions& options = {},
                     Where where = Where::here());

}  // namespace sectionflow
