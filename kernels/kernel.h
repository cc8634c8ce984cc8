#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/random.h"
#include "device/device.h"
#include "graph/node.h"

namespace SF_API sectionflow {

class Communicator;

/// One of the parts in which a node runs (OpDef::parts).
struct NodePart {
  std::int64_t rows = 0;  ///< of the whole; decides, with the other dimensions, by which blocks a kernel computes
  bool adds = false;      ///< what the op gives as PartUse::sum is added to what is there, instead of written

  friend auto operator<=>(const NodePart&, const NodePart&) = default;
};

/// What a kernel is made for: one node under one feed signature.
struct KernelRequest {
  const Node& node;
  std::vector<TensorType> inputs;                  ///< concrete types; of the part, where there is one
  std::vector<TensorType> outputs;                 ///< concrete types; of the part, where there is one
  std::vector<std::optional<bool>> host_booleans;  ///< one an input; set for inputs used as host booleans
  /// A repeated execution within a cycle: outputs that the op keeps (OpDef::kept_outputs) hold their first values and
  /// must be read instead of computed; the other outputs must get the same bits as the first time.
  bool replay = false;
  std::optional<NodePart> part{};  ///< absent: the whole node
  Device& device;
};

/// The bytes of one execution. Pointers are multiples of kBufferAlignment but for those of variables, and of the rows
/// of a part, which are multiples of an element; null where an input is not read (shape_only, host_boolean, unused).
struct KernelArguments {
  std::span<const void* const> inputs;  ///< one an input
  std::span<void* const> outputs;       ///< one an output
  std::span<void* const> updated;       ///< one an entry of OpDef::updated_inputs: the variables to change in place
  void* workspace = nullptr;            ///< workspace_bytes() of scratch with unknown content
  RandomAddress random;                 ///< for seeded ops
  void* queue = nullptr;  ///< asynchronous devices: the compute queue that the kernel joins (Device::native_queue)
  const RandomState* random_state = nullptr;  ///< the same: seed and cycle in device memory, to be read by the kernel
  Communicator* communicator = nullptr;       ///< for ops that communicate (OpDef::communicates): the session's
};

/// An output that may lie in the same bytes as an input (which is then dead afterwards). Results must not depend on it.
struct InPlace {
  int input = 0;
  int output = 0;
};

class Kernel;

/// What is launched in a chain behind another kernel.
struct ChainedKernel {
  Kernel& kernel;
  const KernelArguments& arguments;
  int operand = 0;      ///< the input that is the other kernel's output
  bool stores = false;  ///< whether that output is read by others too; if not, its bytes are left with any content
};

/// Arithmetic on views. Made once, launched often; never allocates, never synchronises, never prints (but for print).
/// Which instructions run, how work is cut and in which order sums are taken depends on the request and the device's
/// thread count alone: never on addresses, in-place execution, or the content of workspace and outputs.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Which implementation this is: "onednn jit:avx512_core", "loop".
  virtual std::string implementation() const { return "loop"; }
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Host memory that a library holds for it, such as code made for the problem; an estimate where it does not tell.
  virtual std::size_t library_bytes() const { return 0; }
  /// Pairs of equal bytes that may share them.
  virtual std::vector<InPlace> in_place() const { return {}; }
  virtual void launch(const KernelArguments& arguments) = 0;

  /// What kernels have in common that launch_joint takes together; null: this one is always launched alone. Only for
  /// kernels that need no scratch and draw no random words.
  virtual const void* joint_kind() const { return nullptr; }
  /// Launches kernels of this one's joint_kind(), itself among them, with an `arguments` each: the bits are those of
  /// launching one after the other. None may write what another reads or writes. `random` is not set.
  virtual void launch_joint(std::span<Kernel* const> kernels, std::span<const KernelArguments> arguments) {
    for (std::size_t i = 0; i < kernels.size(); ++i) kernels[i]->launch(arguments[i]);
  }

  /// Whether launch_chain takes `next`, whose input `operand` is this one's only output. Only for kernels whose
  /// elements each depend on those at the same place, that need no scratch and draw no random words.
  virtual bool chains_into(const Kernel& /*next*/, int /*operand*/) const { return false; }
  /// Launches this kernel and `next` together: the bits are those of launching one after the other. The output of
  /// `next` may lie exactly over any input of this one too, and its other inputs lie apart from this one's output.
  /// Where that is not stored, its bytes may be those of the output of `next`.
  virtual void launch_chain(const KernelArguments& arguments, const ChainedKernel& next) {
    launch(arguments);
    next.kernel.launch(next.arguments);
  }
};

/// Makes a kernel, or nullptr when this implementation does not take such a request.
using KernelFactory = std::unique_ptr<Kernel> (*)(const KernelRequest&);

}  // namespace sectionflow
