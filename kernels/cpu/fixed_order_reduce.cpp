#include "kernels/cpu/fixed_order_reduce.h"

namespace sectionflow {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Enough work that the second pass over the partial results costs nothing against the first.
constexpr std::int64_t kBlockElements = 16384;
// Partial results of kept rows take at most 2 / kMinBlockRows of the bytes of x.
constexpr std::int64_t kMinBlockRows = 128;
// As many tasks keep every thread busy; sums then need not be cut.
constexpr std::int64_t kEnoughTasks = 64;

}  // namespace

ReducePlan::ReducePlan(const Shape& x, const std::vector<bool>& reduced) : axes_(x, reduced) {
  if (axes_.row_is_reduced) {
    const bool whole = axes_.kept.count >= kEnoughTasks;
    const std::int64_t piece = whole ? axes_.row_length : std::min(axes_.row_length, kBlockElements);
    cut(piece, whole ? axes_.reduced.count : kBlockElements / std::max<std::int64_t>(1, piece));
    num_blocks_ = pieces_per_row_ * row_blocks_;
  } else {
    const std::int64_t piece = std::min(axes_.row_length, kColumns);
    const bool whole = axes_.kept.count * ceil_divide(axes_.row_length, kColumns) >= kEnoughTasks;
    cut(piece,
        whole ? axes_.reduced.count : std::max(kMinBlockRows, kBlockElements / std::max<std::int64_t>(1, piece)));
    num_blocks_ = row_blocks_;
  }
}

/// At least one task for each result, also where there is nothing to reduce.
void ReducePlan::cut(std::int64_t max_piece, std::int64_t max_block_rows) {
  piece_length_ = std::max<std::int64_t>(1, max_piece);
  pieces_per_row_ = axes_.row_is_reduced ? std::max<std::int64_t>(1, ceil_divide(axes_.row_length, piece_length_))
                                         : ceil_divide(axes_.row_length, piece_length_);
  block_rows_ = std::max<std::int64_t>(1, std::min(max_block_rows, axes_.reduced.count));
  row_blocks_ = std::max<std::int64_t>(1, ceil_divide(axes_.reduced.count, block_rows_));
}

}  // namespace sectionflow
