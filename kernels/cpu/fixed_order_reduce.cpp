#include "kernels/cpu/fixed_order_reduce.h"

namespace sectionflow {
namespace {

/// A run of neighbouring dimensions of one kind.
struct Run {
  std::int64_t dim = 1;
  bool is_reduced = false;
};

std::vector<Run> runs_of(const Shape& x, const std::vector<bool>& reduced) {
  std::vector<Run> runs;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] == 1) continue;
    if (!runs.empty() && runs.back().is_reduced == reduced[i]) {
      runs.back().dim *= x[i];
    } else {
      runs.push_back({x[i], reduced[i]});
    }
  }
  if (runs.empty()) runs.push_back({});
  return runs;
}

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

ReducePlan::ReducePlan(const Shape& x, const std::vector<bool>& reduced) {
  const std::vector<Run> runs = runs_of(x, reduced);
  row_is_reduced_ = runs.back().is_reduced;
  row_length_ = runs.back().dim;
  std::int64_t stride = row_length_;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Run& run = runs[runs.size() - 1 - i];
    Index& index = run.is_reduced ? reduced_ : kept_;
    index.dims[index.rank] = run.dim;
    index.strides[index.rank] = stride;
    ++index.rank;
    index.count *= run.dim;
    stride *= run.dim;
  }
  num_results_ = kept_.count * (row_is_reduced_ ? 1 : row_length_);
  num_reduced_ = reduced_.count * (row_is_reduced_ ? row_length_ : 1);

  if (row_is_reduced_) {
    const bool whole = kept_.count >= kEnoughTasks;
    const std::int64_t piece = whole ? row_length_ : std::min(row_length_, kBlockElements);
    cut(piece, whole ? reduced_.count : kBlockElements / std::max<std::int64_t>(1, piece));
    num_blocks_ = pieces_per_row_ * row_blocks_;
  } else {
    const std::int64_t piece = std::min(row_length_, kColumns);
    const bool whole = kept_.count * ceil_divide(row_length_, kColumns) >= kEnoughTasks;
    cut(piece, whole ? reduced_.count : std::max(kMinBlockRows, kBlockElements / std::max<std::int64_t>(1, piece)));
    num_blocks_ = row_blocks_;
  }
}

/// At least one task for each result, also where there is nothing to reduce.
void ReducePlan::cut(std::int64_t max_piece, std::int64_t max_block_rows) {
  piece_length_ = std::max<std::int64_t>(1, max_piece);
  pieces_per_row_ = row_is_reduced_ ? std::max<std::int64_t>(1, ceil_divide(row_length_, piece_length_))
                                    : ceil_divide(row_length_, piece_length_);
  block_rows_ = std::max<std::int64_t>(1, std::min(max_block_rows, reduced_.count));
  row_blocks_ = std::max<std::int64_t>(1, ceil_divide(reduced_.count, block_rows_));
}

ReducePlan::Task ReducePlan::task(std::int64_t number) const {
  const std::int64_t piece = number % pieces_per_row_;
  const std::int64_t row_block = number / pieces_per_row_ % row_blocks_;
  Task task{};
  task.kept = number / pieces_per_row_ / row_blocks_;
  task.block = row_is_reduced_ ? row_block * pieces_per_row_ + piece : row_block;
  task.first_row = std::min(reduced_.count, row_block * block_rows_);
  task.last_row = std::min(reduced_.count, task.first_row + block_rows_);
  task.begin = piece * piece_length_;
  task.end = std::min(row_length_, task.begin + piece_length_);
  return task;
}

std::int64_t ReducePlan::Index::offset_of(std::int64_t position) const {
  std::int64_t offset = 0;
  // Innermost first; the outermost needs no division.
  for (int i = 0; i + 1 < rank; ++i) {
    offset += position % dims[i] * strides[i];
    position /= dims[i];
  }
  return rank > 0 ? offset + position * strides[rank - 1] : 0;
}

}  // namespace sectionflow
