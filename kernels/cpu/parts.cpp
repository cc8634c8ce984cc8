#include "graph/ops/parts.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/joined_parts.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  return strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<SliceOptions>().begin, request.outputs[0].shape));
}

std::unique_ptr<Kernel> make_slice_grad(const KernelRequest& request) {
  return bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = request.node.options<SliceOptions>().begin});
}

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const auto& options = request.node.options<PadOptions>();
  return bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = options.before, .value = options.value});
}

std::unique_ptr<Kernel> make_pad_grad(const KernelRequest& request) {
  return strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<PadOptions>().before, request.outputs[0].shape));
}

using Part = JoinedParts::Part;

/// A walk over joined parts.
class JoinedRows {
 public:
  explicit JoinedRows(const JoinedParts& joined)
      : num_rows_(joined.num_rows), row_bytes_(joined.row_bytes), parts_(joined.parts) {}

  std::int64_t row_bytes() const { return row_bytes_; }

  /// Calls `body(part, first_row, num_rows, begin, num_bytes)` on the compute team for pieces that together cover the
  /// joined tensor: bytes [begin, begin + num_bytes) of the part in each of the rows.
  template <class Body>
  void for_each_piece(const Body& body) const {
    if (row_bytes_ == 0) return;
    if (row_bytes_ > kGrainBytes) {
      parallel_for(num_rows_ * row_bytes_, kGrainBytes,
                   [&](std::int64_t begin, std::int64_t end) { cut_rows(begin, end, body); });
      return;
    }
    // As many rows as stay in cache while the parts are taken one after the other.
    const std::int64_t rows_together = kGrainBytes / row_bytes_;
    parallel_for(num_rows_, rows_together, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; row += rows_together) {
        for (const Part& part : parts_) body(part, row, std::min(rows_together, end - row), 0, part.bytes);
      }
    });
  }

 private:
  template <class Body>
  void cut_rows(std::int64_t begin, std::int64_t end, const Body& body) const {
    while (begin < end) {
      const std::int64_t row = begin / row_bytes_;
      const std::int64_t row_begin = row * row_bytes_;
      const std::int64_t row_end = std::min(end, row_begin + row_bytes_);
      for (const Part& part : parts_) {
        const std::int64_t from = std::max(begin - row_begin, part.offset);
        const std::int64_t to = std::min(row_end - row_begin, part.offset + part.bytes);
        if (from < to) body(part, row, 1, from - part.offset, to - from);
      }
      begin = row_end;
    }
  }

  static constexpr std::int64_t kGrainBytes = std::int64_t{1} << 17;

  std::int64_t num_rows_, row_bytes_;
  std::vector<Part> parts_;
};

template <std::int64_t kBytes>
void copy_short_rows(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
                     std::int64_t num_rows) {
  for (std::int64_t row = 0; row < num_rows; ++row) std::memcpy(to + row * to_step, from + row * from_step, kBytes);
}

void copy_rows(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
               std::int64_t num_rows, std::int64_t num_bytes) {
  // A call of memcpy costs more than such a row.
  if (num_bytes == 4) return copy_short_rows<4>(to, to_step, from, from_step, num_rows);
  if (num_bytes == 8) return copy_short_rows<8>(to, to_step, from, from_step, num_rows);
  if (num_bytes == 16) return copy_short_rows<16>(to, to_step, from, from_step, num_rows);
  if (num_bytes == 0) return;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::memcpy(to + row * to_step, from + row * from_step, static_cast<std::size_t>(num_bytes));
  }
}

/// Output 0 from its parts, which are the inputs from `first_input` on.
std::unique_ptr<Kernel> make_join(const JoinedParts& parts, std::size_t first_input) {
  return function_kernel([rows = JoinedRows(parts), first_input](const KernelArguments& arguments) {
    auto* y = static_cast<std::byte*>(arguments.outputs[0]);
    rows.for_each_piece(
        [&](const Part& part, std::int64_t row, std::int64_t num_rows, std::int64_t begin, std::int64_t num_bytes) {
          std::byte* to = y + row * rows.row_bytes() + part.offset + begin;
          if (part.tensor != JoinedParts::kNoTensor) {
            const auto* x =
                static_cast<const std::byte*>(arguments.inputs[first_input + static_cast<std::size_t>(part.tensor)]);
            copy_rows(to, rows.row_bytes(), x + row * part.bytes + begin, part.bytes, num_rows, num_bytes);
            return;
          }
          for (std::int64_t i = 0; i < num_rows; ++i) {
            std::memset(to + i * rows.row_bytes(), 0, static_cast<std::size_t>(num_bytes));
          }
        });
  });
}

/// The outputs from input 0, of which they are parts.
std::unique_ptr<Kernel> make_cut(const JoinedParts& parts) {
  return function_kernel([rows = JoinedRows(parts)](const KernelArguments& arguments) {
    const auto* x = static_cast<const std::byte*>(arguments.inputs[0]);
    rows.for_each_piece(
        [&](const Part& part, std::int64_t row, std::int64_t num_rows, std::int64_t begin, std::int64_t num_bytes) {
          if (part.tensor == JoinedParts::kNoTensor) return;
          auto* y = static_cast<std::byte*>(arguments.outputs[static_cast<std::size_t>(part.tensor)]);
          copy_rows(y + row * part.bytes + begin, part.bytes, x + row * rows.row_bytes() + part.offset + begin,
                    rows.row_bytes(), num_rows, num_bytes);
        });
  });
}

}  // namespace

void add_parts_cpu_kernels(KernelRegistry& registry) {
  registry.add("slice", make_slice, Bf16::native);
  registry.add("slice_grad", make_slice_grad, Bf16::native);
  registry.add("pad", make_pad, Bf16::native);
  registry.add("pad_grad", make_pad_grad, Bf16::native);
  add_joined_kernels<make_join, make_cut, copy_kernel>(registry);
}

}  // namespace sectionflow
