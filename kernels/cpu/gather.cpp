#include "graph/ops/gather.h"

#include <algorithm>

#include "device/parallel.h"
#include "kernels/formulas/gather.h"
#include "kernels/function_kernel.h"
#include "kernels/gather_family.h"

namespace sectionflow {
namespace {

/// The sum of rows by index, cut into pieces of the table: each piece is written by one thread, which goes through the
/// indices in their order. So the bits do not depend on the number of threads.
template <class Index>
class ScatterAdd {
 public:
  ScatterAdd(const GatherTable& table, std::int64_t num_indices) : table_(table), num_indices_(num_indices) {
    column_pieces_ = (table.row_length + kPieceColumns - 1) / kPieceColumns;
    // Few columns: the rows are cut too, as every piece costs a pass over the indices.
    row_pieces_ = std::clamp<std::int64_t>(kPieces / std::max<std::int64_t>(1, column_pieces_), 1,
                                           std::max<std::int64_t>(1, table.num_rows));
  }

  void run(float* dtable, const float* dy, const Index* indices) const {
    parallel_for(table_.num_rows * table_.row_length, kParallelGrain,
                 [=](std::int64_t begin, std::int64_t end) { std::fill(dtable + begin, dtable + end, 0.0F); });
    const std::int64_t num_pieces = column_pieces_ * row_pieces_;
    const std::int64_t work = num_indices_ * table_.row_length / std::max<std::int64_t>(1, num_pieces) + num_indices_;
    parallel_for(num_pieces, std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t piece = begin; piece < end; ++piece) add_piece(piece, dtable, dy, indices);
                 });
  }

 private:
  void add_piece(std::int64_t piece, float* dtable, const float* dy, const Index* indices) const {
    const std::int64_t length = table_.row_length;
    const std::int64_t row_piece = piece / column_pieces_;
    const std::int64_t first_row = table_.num_rows * row_piece / row_pieces_;
    const std::int64_t last_row = table_.num_rows * (row_piece + 1) / row_pieces_;
    const std::int64_t first_column = piece % column_pieces_ * kPieceColumns;
    const std::int64_t num_columns = std::min(kPieceColumns, length - first_column);
    for (std::int64_t n = 0; n < num_indices_; ++n) {
      const auto index = static_cast<std::int64_t>(indices[n]);
      if (index < first_row || index >= last_row) continue;
      float* to = dtable + index * length + first_column;
      const float* from = dy + n * length + first_column;
#pragma omp simd
      for (std::int64_t c = 0; c < num_columns; ++c) to[c] += from[c];
    }
  }

  static constexpr std::int64_t kPieceColumns = 64;
  static constexpr std::int64_t kPieces = 16;

  GatherTable table_;
  std::int64_t num_indices_;
  std::int64_t column_pieces_ = 1, row_pieces_ = 1;
};

/// The kernels as loops over indices.
struct LoopGathers {
  static constexpr Bf16 kGradientOfBf16 = Bf16::widened;

  template <class T, class Index>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request) {
    const GatherTable table(request.inputs[0].shape);
    const std::int64_t count = request.inputs[1].shape.num_elements();
    return function_kernel([=](const KernelArguments& arguments) {
      const T* rows = static_cast<const T*>(arguments.inputs[0]);             // [V, C]
      const Index* indices = static_cast<const Index*>(arguments.inputs[1]);  // [N]
      T* y = static_cast<T*>(arguments.outputs[0]);                           // [N, C]
      const std::int64_t length = table.row_length;
      parallel_for(count, std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, length)),
                   [=](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t n = begin; n < end; ++n) {
                       const auto index = static_cast<std::int64_t>(indices[n]);
                       T* to = y + n * length;
                       if (index >= 0 && index < table.num_rows) {
                         std::copy_n(rows + index * length, length, to);
                       } else {
                         std::fill_n(to, length, formulas::missing_element<T>());
                       }
                     }
                   });
    });
  }

  template <class Index>
  static std::unique_ptr<Kernel> gather_grad(const KernelRequest& request) {
    const ScatterAdd<Index> sum(GatherTable(request.outputs[0].shape), request.inputs[1].shape.num_elements());
    return function_kernel([sum](const KernelArguments& arguments) {
      sum.run(static_cast<float*>(arguments.outputs[0]), static_cast<const float*>(arguments.inputs[0]),
              static_cast<const Index*>(arguments.inputs[1]));
    });
  }
};

}  // namespace

void add_gather_cpu_kernels(KernelRegistry& registry) {
  GatherFamily<LoopGathers>::add_to(registry);
}

}  // namespace sectionflow
