#pragma once

#include <cstdint>
#include <vector>

#include "base/host_tensor.h"
#include "base/random.h"
#include "graph/graph.h"
#include "op_case/case_device.h"
#include "op_case/node_call.h"

namespace sectionflow::op_cases {

/// Which of the pairs that a kernel offers (Kernel::in_place) are used, as far as they do not exclude each other.
enum class InPlaceUse {
  none,
  first_pairs,  ///< taken from the front of the list
  last_pairs    ///< taken from the back: another choice where an output may lie over either of two inputs
};

/// What must not matter to the result, but for `threads` and `random`.
struct RunOptions {
  int threads = 2;
  InPlaceUse in_place = InPlaceUse::none;
  bool replay = false;             ///< every node that may be replayed is executed twice; the replay's outputs count
  std::uint8_t garbage = 0xFF;     ///< fills workspace and outputs before each launch (0xFF: NaN)
  std::uint32_t address_seed = 0;  ///< moves buffers to other multiples of kBufferAlignment, variables to others of 64
  /// On the CPU each node that may (OpDef::parts) also runs in the fewest and the most equal parts of its rows.
  bool in_parts = false;
  /// Ops with bf16 run through f32 (kernels/widened_kernel.h), also where need not be, but for products that a library
  /// of the CPU takes as bf16.
  bool widens_bf16 = false;
  RandomAddress random{};  ///< seed and step of seeded ops; the node's ordinal is filled in
};

struct RunResult {
  std::vector<HostTensor> fetched;  ///< one a fetch; a fetched variable shows its old content
  Feeds variables;                  ///< the new content of each variable that `operations` changed
};

/// Computes `fetches`, then executes the updates among `operations` and what they need, node by node with the kernels
/// of the device's registry, on plain buffers and without schedule, planner or session. `feeds`: every placeholder
/// and variable that is needed; they decide unknown dimensions, and boolean scalars among them choose kernels. Guards
/// each buffer: Throws InternalError naming the node whose kernel wrote beside its outputs and workspace, changed an
/// input or a kept output, declares an impossible in-place pair, or gives other bits in parts; ArgumentError for a
/// missing or unfit feed.
RunResult run_kernels(const CaseDevice& device, const std::vector<Value>& fetches,
                      const std::vector<Operation>& operations, const Feeds& feeds, const RunOptions& options = {});

}  // namespace sectionflow::op_cases
