#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library/gemm.h"
#include "kernels/cuda/positions.h"
#include "kernels/cuda/unroll.h"
#include "kernels/kernel.h"
#include "kernels/matmul_problem.h"

// Products with rows that begin at no multiple of 16 bytes, such as those of 50,257 words: tensor cores are fed by
// loads of 16 bytes, and a library's kernels for other rows are several times slower. Such rows are copied to scratch,
// some at a time, where they begin at multiples of 64 bytes.
namespace sectionflow::gpu {

/// When rows are copied, and in how much scratch. By shapes alone: the algorithms of other parts give other bits.
struct PaddingRule {
  std::size_t most_part_bytes = std::size_t{64} << 20;  ///< of the copies of one part
  /// Less takes no longer than the launches of the copies.
  double least_work = 1e10;  ///< multiplications and additions
  /// A byte that is copied takes some 0.6 ps (read and written once each at 3.3 TB/s). 37.5 ms were measured for a step
  /// of a gpt in bf16, of which its 1.9e12 operations of unaligned rows took two fifths: 8 fs each, of which aligned
  /// ones take a quarter. So copies pay from 100 operations a byte on, and surely from twice as many.
  double least_work_of_byte = 200;
  /// What is not cut is copied whole, if that is at most so much of all operands.
  double most_of_operands = 1.0 / 8;
};

/// What a product has of a matrix that is stored row by row, when it is cut into parts.
struct PaddedOperand {
  enum class Cut { none, rows, columns };

  std::int64_t rows = 0, columns = 0;  ///< as it is stored, whole
  Cut cut = Cut::none;
  bool is_padded = false;

  std::int64_t rows_of(std::int64_t count) const { return cut == Cut::rows ? count : rows; }
  std::int64_t columns_of(std::int64_t count) const { return cut == Cut::columns ? count : columns; }
  /// Where the part lies that begins at `first` of the dimension that is cut, in elements.
  std::int64_t offset(std::int64_t first) const {
    return cut == Cut::rows ? first * columns : cut == Cut::columns ? first : 0;
  }
};

/// How a product is cut: into parts of so many of its rows or of its columns.
struct PaddedProduct {
  static constexpr std::int64_t kPitchBytes = 64;
  static constexpr std::int64_t kUnit = 64;  ///< rows or columns: parts of it begin at multiples of 64 bytes

  MatmulProblem whole{};
  std::size_t element_bytes = 0;
  bool cuts_rows = true;
  std::int64_t part = 0;                    ///< the last one may be smaller
  std::array<PaddedOperand, 3> operands{};  ///< a, b, y

  std::int64_t extent() const { return cuts_rows ? whole.rows : whole.columns; }
  std::int64_t num_parts() const { return (extent() + part - 1) / part; }
  std::int64_t count_of(std::int64_t number) const { return std::min(part, extent() - number * part); }
  /// From one row to the next, of the copy where there is one.
  std::int64_t pitch(const PaddedOperand& x) const {
    if (!x.is_padded) return x.columns;
    return static_cast<std::int64_t>(round_up(bytes_of(x.columns_of(part)), kPitchBytes) / element_bytes);
  }
  /// Of the copy of a part.
  std::size_t copy_bytes(const PaddedOperand& x) const {
    return x.is_padded ? round_up(bytes_of(x.rows_of(part) * pitch(x))) : 0;
  }
  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements) * element_bytes; }

  /// The product of a part with so many rows or columns.
  MatmulProblem problem_of(std::int64_t count) const {
    MatmulProblem problem = whole;
    (cuts_rows ? problem.rows : problem.columns) = count;
    return problem;
  }
  std::optional<Gemm> gemm_of(std::int64_t count) const {
    std::optional<Gemm> gemm = column_gemm(problem_of(count));
    if (!gemm) return gemm;
    gemm->first.pitch = pitch(operands[1]);
    gemm->second.pitch = pitch(operands[0]);
    gemm->result.pitch = pitch(operands[2]);
    return gemm;
  }

  /// Nothing where the rows of all matrices begin well, or copies do not pay.
  static std::optional<PaddedProduct> of(const MatmulProblem& p, std::size_t element_bytes, const PaddingRule& rule) {
    if (p.batch != 1 || p.rows < 1 || p.inner < 1 || p.columns < 1) return std::nullopt;
    PaddedProduct by_rows(p, element_bytes, true), by_columns(p, element_bytes, false);
    const PaddedProduct& best = by_columns.whole_copies() < by_rows.whole_copies() ? by_columns : by_rows;
    return best.cut_by(rule);
  }

  PaddedProduct(const MatmulProblem& p, std::size_t bytes, bool by_rows)
      : whole(p), element_bytes(bytes), cuts_rows(by_rows) {
    using Cut = PaddedOperand::Cut;
    const auto stored = [&](std::int64_t rows, std::int64_t columns, bool is_turned, bool is_cut) {
      // Turned over, the first dimension of the factor is that of its columns.
      const Cut cut = !is_cut ? Cut::none : cuts_rows != is_turned ? Cut::rows : Cut::columns;
      if (is_turned) std::swap(rows, columns);
      return PaddedOperand{rows, columns, cut, bytes_of(columns) % 16 != 0};
    };
    operands = {stored(p.rows, p.inner, p.transpose_a, cuts_rows),
                stored(p.inner, p.columns, p.transpose_b, !cuts_rows), stored(p.rows, p.columns, false, true)};
  }

 private:
  /// Of copies that no part makes smaller.
  std::size_t whole_copies() const {
    std::size_t bytes = 0;
    for (const PaddedOperand& x : operands) {
      if (x.is_padded && x.cut == PaddedOperand::Cut::none) bytes += bytes_of(x.rows * x.columns);
    }
    return bytes;
  }
  std::optional<PaddedProduct> cut_by(const PaddingRule& rule) const {
    double all = 0, copied = 0;
    std::size_t of_unit = 0;  // bytes of the copies of kUnit rows or columns
    for (const PaddedOperand& x : operands) {
      const auto bytes = static_cast<double>(bytes_of(x.rows * x.columns));
      all += bytes;
      if (!x.is_padded) continue;
      copied += bytes;
      const std::int64_t row = static_cast<std::int64_t>(round_up(bytes_of(x.columns), kPitchBytes));
      if (x.cut == PaddedOperand::Cut::rows) of_unit += static_cast<std::size_t>(kUnit * row);
      if (x.cut == PaddedOperand::Cut::columns) of_unit += bytes_of(x.rows * kUnit);
    }
    const double work =
        2.0 * static_cast<double>(whole.rows) * static_cast<double>(whole.inner) * static_cast<double>(whole.columns);
    const bool pays = copied > 0 && work >= rule.least_work && work >= rule.least_work_of_byte * copied;
    if (!pays || static_cast<double>(whole_copies()) > rule.most_of_operands * all) return std::nullopt;
    if (of_unit > rule.most_part_bytes) return std::nullopt;
    // Parts of about one size.
    const std::int64_t units = (extent() + kUnit - 1) / kUnit;
    const auto most = of_unit == 0 ? units : static_cast<std::int64_t>(rule.most_part_bytes / of_unit);
    const std::int64_t num_parts = (units + most - 1) / most;
    PaddedProduct cut = *this;
    cut.part = std::min((units + num_parts - 1) / num_parts * kUnit, extent());
    return cut;
  }
};

/// Moves rows between steps of any size. A block moves a piece of a row, whose elements neighbouring threads have side
/// by side; several loads of a thread are on the way together.
template <class Element>
struct CopyRows {
  static constexpr int kThreads = 256, kAtOnce = 8, kPiece = kThreads * kAtOnce;

  const Element* from;
  Element* to;
  std::int64_t columns, from_pitch, to_pitch;
  Divisor pieces;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    std::int64_t row = thread.block();
    const std::int64_t first = pieces.cut(row) * kPiece + thread.index();
    const Element* source = from + row * from_pitch + first;
    Element* target = to + row * to_pitch + first;
    Element held[kAtOnce] = {};
    SF_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads < columns) held[i] = source[i * kThreads];
    }
    SF_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads < columns) target[i * kThreads] = held[i];
    }
  }
};

/// A rectangle of elements, of 2 or 4 bytes, and the steps of both sides.
struct RowsToCopy {
  std::int64_t rows = 0, columns = 0, from_pitch = 0, to_pitch = 0;
};
template <class Element>
void copy_rows_of(void* queue, const RowsToCopy& rows, const void* from, void* to) {
  using Body = CopyRows<Element>;
  const std::int64_t pieces = blocks_for(rows.columns, Body::kPiece);
  launch_blocks(queue, {.blocks = rows.rows * pieces, .threads = Body::kThreads},
                Body{static_cast<const Element*>(from), static_cast<Element*>(to), rows.columns, rows.from_pitch,
                     rows.to_pitch, Divisor(pieces)});
}
inline void copy_rows(void* queue, const RowsToCopy& rows, std::size_t element_bytes, const void* from, void* to) {
  if (element_bytes == sizeof(std::uint16_t)) {
    copy_rows_of<std::uint16_t>(queue, rows, from, to);
  } else {
    copy_rows_of<std::uint32_t>(queue, rows, from, to);
  }
}

/// What the kernel of a part is asked. `a`, `b`: which inputs of the request are the factors.
inline KernelRequest request_of_part(const KernelRequest& request, const PaddedProduct& p, std::int64_t count,
                                     std::size_t a, std::size_t b) {
  KernelRequest part = request;
  const auto stored = [&](const PaddedOperand& x) { return Shape{x.rows_of(count), p.pitch(x)}; };
  part.inputs[a].shape = stored(p.operands[0]);
  part.inputs[b].shape = stored(p.operands[1]);
  part.outputs[0].shape = stored(p.operands[2]);
  return part;
}

/// Runs the kernels of the parts one after the other. With `adds` y = x + a b, and the inputs are x, a, b; the parts'
/// kernels are given x where y lies.
class PaddedProductKernel final : public Kernel {
 public:
  /// `last`: of a last part that is smaller, or null. `a`, `b`: which inputs are the factors, x not counted.
  PaddedProductKernel(const PaddedProduct& product, bool adds, std::size_t a, std::size_t b,
                      std::unique_ptr<Kernel> kernel, std::unique_ptr<Kernel> last)
      : product_(product), adds_(adds), input_of_{a, b}, kernel_(std::move(kernel)), last_(std::move(last)) {
    for (std::size_t i = 0; i < 3; ++i) {
      copies_at_[i] = workspace_bytes_;
      workspace_bytes_ += product_.copy_bytes(product_.operands[i]);
    }
    kernels_at_ = workspace_bytes_;
    workspace_bytes_ += std::max(kernel_->workspace_bytes(), last_ ? last_->workspace_bytes() : 0);
  }

  std::string implementation() const override {
    const std::string name = text_of(kernel_->implementation(), ", rows padded in scratch");
    const std::int64_t parts = product_.num_parts();
    return parts > 1 ? text_of(name, ", in ", parts, " parts") : name;
  }
  /// The copies of a part, behind them the kernels' own.
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::vector<InPlace> in_place() const override {
    return adds_ ? std::vector<InPlace>{{0, 0}} : std::vector<InPlace>{};
  }

  void launch(const KernelArguments& arguments) override {
    const PaddedOperand& y = product_.operands[2];
    if (adds_ && !y.is_padded) {
      gpu::copy_bytes(arguments.queue, arguments.outputs[0], arguments.inputs[0],
                      product_.bytes_of(y.rows * y.columns));
    }
    for (std::int64_t part = 0; part < product_.num_parts(); ++part) launch_part(arguments, part);
  }

 private:
  void launch_part(const KernelArguments& arguments, std::int64_t part) {
    const std::int64_t first = part * product_.part, count = product_.count_of(part);
    std::array<const void*, 3> inputs{};  // x, a, b, or a, b
    const std::size_t num_added = adds_ ? 1 : 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const PaddedOperand& operand = product_.operands[i];
      const std::size_t input = input_of_[i] + num_added;
      const void* lies = at(arguments.inputs[input], product_.bytes_of(operand.offset(first)));
      const bool is_there = operand.cut == PaddedOperand::Cut::none && part > 0;
      if (operand.is_padded && !is_there) copy(arguments, i, count, lies, copy_of(arguments, i), true);
      inputs[input] = operand.is_padded ? copy_of(arguments, i) : lies;
    }
    const PaddedOperand& y = product_.operands[2];
    const std::size_t y_offset = product_.bytes_of(y.offset(first));
    auto* y_lies = static_cast<std::byte*>(arguments.outputs[0]) + y_offset;
    void* result = y.is_padded ? copy_of(arguments, 2) : y_lies;
    if (adds_) {
      inputs[0] = result;
      if (y.is_padded) copy(arguments, 2, count, at(arguments.inputs[0], y_offset), result, true);
    }
    KernelArguments inner = arguments;
    inner.inputs = std::span<const void* const>(inputs).first(2 + num_added);
    inner.outputs = std::span<void* const>(&result, 1);
    inner.workspace = static_cast<std::byte*>(arguments.workspace) + kernels_at_;
    (count == product_.part ? kernel_ : last_)->launch(inner);
    if (y.is_padded) copy(arguments, 2, count, result, y_lies, false);
  }

  static const void* at(const void* base, std::size_t offset) { return static_cast<const std::byte*>(base) + offset; }
  void* copy_of(const KernelArguments& arguments, std::size_t operand) const {
    return static_cast<std::byte*>(arguments.workspace) + copies_at_[operand];
  }
  void copy(const KernelArguments& arguments, std::size_t operand, std::int64_t count, const void* from, void* to,
            bool to_scratch) const {
    const PaddedOperand& x = product_.operands[operand];
    const std::int64_t scratch = product_.pitch(x);
    copy_rows(arguments.queue,
              {.rows = x.rows_of(count),
               .columns = x.columns_of(count),
               .from_pitch = to_scratch ? x.columns : scratch,
               .to_pitch = to_scratch ? scratch : x.columns},
              product_.element_bytes, from, to);
  }

  PaddedProduct product_;
  bool adds_;
  std::array<std::size_t, 2> input_of_;
  std::unique_ptr<Kernel> kernel_, last_;
  std::array<std::size_t, 3> copies_at_{};
  std::size_t kernels_at_ = 0, workspace_bytes_ = 0;
};

}  // namespace sectionflow::gpu
