#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sectionflow::planning {

/// A chain of stages, stage i from x_i to x_i+1, ended by a loss that takes no time. Sizes in bytes, times in seconds,
/// none of them negative.
struct Chain {
  std::vector<double> forward_seconds, backward_seconds;  // [stages]
  std::vector<std::int64_t> input_bytes;                  // [stages + 1]: of x_i, and of its gradient
  std::vector<std::int64_t>
      saved_bytes;  // [stages + 1]: of all that stage i - 1 keeps for its backward, with x_i; [0] unused
  std::vector<std::int64_t> forward_workspace, backward_workspace;  // [stages], or empty: none
};

struct ChainStep {
  enum class Kind : std::uint8_t {
    forward_all,   ///< keeps x_i and all that the backward of the stage reads
    forward_keep,  ///< keeps x_i and makes x_i+1
    forward,       ///< makes x_i+1 and drops x_i
    loss,
    backward,  ///< takes the gradient of x_i+1 and all that was kept for the stage; leaves the gradient of x_i
  };
  Kind kind = Kind::forward;
  int stage = 0;
  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

struct ChainPlan {
  double seconds = 0;
  std::vector<ChainStep> steps;
};

/// The fastest order of execution within the budget in which whatever is kept stays until the backward of its stage;
/// empty where there is none. Sizes are rounded up to a part of the budget, one of `slots`, or to bytes where these are
/// larger. stages^3 x slots steps, and stages^2 x slots x 12 bytes. The best plan may drop something earlier and make
/// it again. Throws: ArgumentError for a chain whose lists have other lengths, negative or endless numbers, or a table
/// of more than 2^28 entries. Source: Beaumont et al. 2024, Optimal re-materialization strategies for heterogeneous
/// chains.
std::optional<ChainPlan> plan_chain(const Chain& chain, std::int64_t budget, int slots = 500);

}  // namespace sectionflow::planning
