#pragma once

#include <any>
#include <climits>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// What an operation stands for in a graph.
enum class OpRole {
  computed,     ///< what is done or computed when a run comes to it
  constant,     ///< a value that is part of the graph
  placeholder,  ///< a value that every run feeds
  variable      ///< a value that lives in the session from run to run
};

/// Whether an operation may be executed again within one training cycle.
enum class Recompute {
  pure,    ///< a function of its inputs
  seeded,  ///< random by (seed, ordinal, cycle): a replay gives the same numbers
  once     ///< has an effect (parameter updates, running statistics): never replayed
};

/// What an update leaves in one of the variables that it changes.
enum class LeftByUpdate {
  own,       ///< numbers that tell of themselves alone
  seen,      ///< where one is infinite or NaN, that of the first updated variable is one of both as well
  unchanged  ///< what was there
};

/// Whether an operation brings its input from the device to the host, or back.
enum class Movement { none, out, in };

/// What an operation does with one of its inputs.
enum class InputUse {
  data,          ///< reads the elements
  shape_only,    ///< reads nothing but the shape: no bytes are needed
  host_boolean,  ///< a boolean that chooses the kernel on the host; part of a program's signature
  unused         ///< not needed at all under the given host booleans
};

/// The host's knowledge of boolean inputs, one an input; empty where an input is no known host boolean.
using HostBooleans = std::span<const std::optional<bool>>;

/// Whether two types may turn out to be one when feeds decide what is unknown: equal but for unknown dimensions.
bool may_agree(const TensorType& a, const TensorType& b);

/// Throws: InternalError of an operation that asks for options of another type than it has. `label` begins its text.
[[noreturn]] void throw_other_options(const std::string& label);

/// What a shape rule sees.
struct ShapeRequest {
  const std::string& label;  ///< "conv2d 'block1/conv'": starts every error text
  std::span<const TensorType> inputs;
  const std::any& options;

  /// The options of the op's own type. Throws: InternalError for another.
  template <class Options>
  const Options& get() const {
    const auto* found = std::any_cast<Options>(&options);
    if (found == nullptr) throw_other_options(label);
    return *found;
  }
};

/// What one part of an operation has of an input or of an output, where the operation runs in parts. A part is a
/// stretch of rows: of entries along the first dimension.
enum class PartUse {
  rows,   ///< the part's own rows
  whole,  ///< of an input: all of it, or nothing where it is not read
  sum     ///< of an output: all of it; the first part writes it, each further one adds what its rows give
};

/// How an operation runs in parts, with the bits that it has as a whole.
struct RowParts {
  std::vector<PartUse> inputs{}, outputs{};  ///< one an input, one an output
  std::int64_t block = 1;                    ///< every part has a multiple of so many rows
};

/// What is known of a node in one program: what decides whether it is an identity, and how it runs in parts.
struct ConcreteRequest {
  std::span<const TensorType> inputs;   ///< concrete types
  std::span<const TensorType> outputs;  ///< concrete types
  HostBooleans booleans;
  const std::any& options;

  /// The options of the op's own type. Throws: InternalError for another.
  template <class Options>
  const Options& get() const {
    const auto* found = std::any_cast<Options>(&options);
    if (found == nullptr) throw_other_options("concrete node");
    return *found;
  }
};

/// How many inputs an operation takes.
struct InputCount {
  constexpr InputCount(int exactly) : least(exactly), most(exactly) {}  // NOLINT: `.inputs = 2` reads well
  constexpr InputCount(int at_least, int at_most) : least(at_least), most(at_most) {}
  int least, most;
};
/// As the most that InputCount allows: any number.
inline constexpr int kAnyNumber = INT_MAX;

class OptionReader;
class OptionWriter;

/// How the options of an operation are checked, written to a file and read from it; made by described_by
/// (graph/option_fields.h). As it stands: the operation has no options.
struct OptionsDescription {
  const std::type_info* type = &typeid(void);
  std::function<void(const std::any& options, OptionWriter& fields)> write{};
  std::function<std::any(OptionReader& fields)> read{};
  std::function<std::any()> defaults{};  ///< what they are where nobody says otherwise
  /// Asked before the shape rule. Throws: ArgumentError that begins with `label` for a choice that is none.
  std::function<void(const std::any& options, const std::string& label)> check{};
};

/// What an operation means: shapes, options, traits. Knows no devices, kernels or gradients.
struct OpDef {
  std::string name{};
  InputCount inputs = 1;
  OptionsDescription options{};
  /// Output types from input types and options. Called when a node is made (unknown dimensions possible) and again for
  /// each feed signature. Throws: ShapeError, ArgumentError.
  std::function<std::vector<TensorType>(const ShapeRequest&)> infer{};
  /// A constant costs nothing to produce: it is produced again wherever it is read instead of being kept.
  OpRole role = OpRole::computed;
  Recompute recompute = Recompute::pure;
  /// One entry an input; all `data` where the function is absent.
  std::function<std::vector<InputUse>(std::size_t num_inputs, HostBooleans)> uses{};
  /// Whether the operation has any effect under these booleans; absent: always. An operation without effect is not
  /// executed.
  std::function<bool(HostBooleans)> has_effect{};
  /// Whether output 0, the only one, has the elements of the first input that is read as data, in the same order. Such
  /// a node reads no other. It is not executed: both are names of one buffer. It needs a kernel all the same, for an
  /// input that is a variable. Absent: never.
  std::function<bool(const ConcreteRequest&)> is_identity{};
  /// Output 0, the only one, has the elements of input 0 in the same order, as the nearest numbers of another dtype.
  bool converts = false;
  /// How it may run in parts under these types, in whatever rows its inputs with PartUse::rows have in common. Its
  /// kernels of the CPU then give the same bits in parts of equal size as at once (KernelRequest::part). Absent, or an
  /// empty result: not at all. Only of operations that are neither seeded nor updates.
  std::function<std::optional<RowParts>(const ConcreteRequest&)> parts{};
  /// Small outputs that are kept from the first execution to spare a recomputation a pass; its kernel then reads them.
  std::vector<int> kept_outputs{};
  /// Inputs that are variables which the operation changes in place.
  std::vector<int> updated_inputs{};
  /// One entry an updated input; all `own` where there is none. Checks of values leave out what they need not look at.
  std::vector<LeftByUpdate> left_by_update{};
  /// Has no kernel: placeholders (fed), variables (in the session), groups (order only).
  bool has_kernel = true;
  /// A copy between device and host instead of a kernel; what was moved out is offloaded to the host and is there to be
  /// moved in again, for nothing else.
  Movement movement = Movement::none;
  /// Its kernel exchanges bytes with the other ranks of a session (Communicator), beside the compute lane. Such nodes
  /// are executed in one order on all ranks, once a cycle; what they give is the same on all.
  bool communicates = false;
  /// Its kernel writes text for people to read: it is not launched where nothing but its time is wanted.
  bool prints = false;
  /// Floating point operations of one execution, estimated from concrete types. Absent: so few that its bytes alone
  /// decide how long it takes.
  std::function<double(std::span<const TensorType> inputs, std::span<const TensorType> outputs)> flops{};

  bool is_constant() const { return role == OpRole::constant; }
  bool is_placeholder() const { return role == OpRole::placeholder; }
  bool is_variable() const { return role == OpRole::variable; }
  /// Whether its value is there before anything is computed: a constant, a placeholder, a variable.
  bool is_given() const { return role != OpRole::computed; }
  /// Whether its value comes from the graph or the host, a constant or a placeholder: brought to the device again
  /// wherever it is read.
  bool is_brought_in() const { return is_constant() || is_placeholder(); }
  /// Whether its value is there before a run begins: a constant, a variable.
  bool outlives_runs() const { return is_constant() || is_variable(); }
  /// Whether it changes variables.
  bool is_update() const { return !updated_inputs.empty(); }

  std::vector<InputUse> input_uses(std::size_t num_inputs, HostBooleans booleans) const;
};

}  // namespace sectionflow
