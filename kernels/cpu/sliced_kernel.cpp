#include "kernels/cpu/sliced_kernel.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "device/parallel.h"
#include "kernels/function_kernel.h"
#include "kernels/widened_kernel.h"

namespace sectionflow {
namespace {

void add(std::int64_t count, const float* from, float* to) {
  parallel_for(count, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] = to[i] + from[i];
  });
}

/// An operand of bf16, and its place in workspace as f32: of a slice, or all of it.
struct Operand {
  bool is_sliced = false;
  std::int64_t item = 0;  ///< elements of an item, or of all where it is not sliced
  std::size_t at = 0;
};

class SlicedKernel final : public Kernel {
 public:
  SlicedKernel(const KernelRequest& request, SlicedUse use, std::int64_t num_items, std::int64_t slice,
               std::unique_ptr<Kernel> of_slice, std::unique_ptr<Kernel> of_remainder)
      : num_items_(num_items), slice_(slice), of_slice_(std::move(of_slice)), of_remainder_(std::move(of_remainder)) {
    inputs_[0] = place(request.inputs[0], true);
    inputs_[1] = place(request.inputs[1], use != SlicedUse::each);
    output_ = place(request.outputs[0], use != SlicedUse::sum);
    if (!output_.is_sliced && slice < num_items) part_at_ = workspace_.add(bytes(output_.item));
    inner_at_ = workspace_.add(std::max(of_slice_->workspace_bytes(),
                                        of_remainder_ != nullptr ? of_remainder_->workspace_bytes() : std::size_t{0}));
    input_places_.resize(request.inputs.size());
  }

  std::string implementation() const override { return "f32 for slices of bf16: " + of_slice_->implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    return of_slice_->library_bytes() + (of_remainder_ != nullptr ? of_remainder_->library_bytes() : 0);
  }

  void launch(const KernelArguments& arguments) override {
    for (std::int64_t first = 0; first < num_items_; first += slice_) run(arguments, first);
    if (output_.is_sliced) return;
    conversions_.round(nullptr, output_.item, part(arguments, output_.at), arguments.outputs[0]);
  }

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }
  static float* part(const KernelArguments& arguments, std::size_t at) {
    return static_cast<float*>(workspace_part(arguments.workspace, at));
  }

  Operand place(const TensorType& type, bool is_sliced) {
    const std::int64_t count = type.shape.num_elements();
    const std::int64_t item = is_sliced ? count / num_items_ : count;
    return {is_sliced, item, workspace_.add(bytes(is_sliced ? item * slice_ : item))};
  }

  /// The items from `first` on.
  void run(const KernelArguments& arguments, std::int64_t first) {
    const std::int64_t count = std::min(slice_, num_items_ - first);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& input = inputs_[i];
      float* widened = part(arguments, input.at);
      input_places_[i] = widened;
      if (!input.is_sliced && first > 0) continue;
      const auto* from = static_cast<const BFloat16*>(arguments.inputs[i]);
      if (input.is_sliced) from += first * input.item;
      conversions_.widen(nullptr, input.is_sliced ? count * input.item : input.item, from, widened);
    }
    const bool is_added = !output_.is_sliced && first > 0;
    float* result = part(arguments, is_added ? part_at_ : output_.at);
    const std::array<void*, 1> outputs = {result};
    KernelArguments inner = arguments;
    inner.inputs = input_places_;
    inner.outputs = outputs;
    inner.workspace = workspace_part(arguments.workspace, inner_at_);
    (count == slice_ ? *of_slice_ : *of_remainder_).launch(inner);
    if (is_added) add(output_.item, result, part(arguments, output_.at));
    if (!output_.is_sliced) return;
    conversions_.round(nullptr, count * output_.item, result,
                       static_cast<BFloat16*>(arguments.outputs[0]) + first * output_.item);
  }

  const Bf16Conversions conversions_ = cpu_bf16_conversions();
  std::int64_t num_items_, slice_;
  std::unique_ptr<Kernel> of_slice_, of_remainder_;
  std::array<Operand, 2> inputs_;
  Operand output_;
  WorkspaceLayout workspace_;
  std::size_t part_at_ = 0, inner_at_ = 0;
  std::vector<const void*> input_places_;  // here, so that a launch allocates nothing
};

/// Items whose tensors of f32 are 16 MiB at most, or one; slices of nearly one size, which is a multiple of `step`
/// where it is that large.
std::int64_t items_of_a_slice(std::int64_t num_items, std::int64_t elements, std::int64_t step) {
  constexpr std::int64_t kSliceElements = std::int64_t{4} << 20;
  const std::int64_t count = std::clamp<std::int64_t>((elements + kSliceElements - 1) / kSliceElements, 1, num_items);
  const std::int64_t slice = (num_items + count - 1) / count;
  return slice < step ? slice : std::min(num_items, (slice + step - 1) / step * step);
}

}  // namespace

std::unique_ptr<Kernel> sliced_kernel(const KernelRequest& request, SlicedUse use, std::int64_t num_items,
                                      const MakeOfItems& make) {
  const std::int64_t first = request.inputs[0].shape.num_elements(), second = request.inputs[1].shape.num_elements(),
                     output = request.outputs[0].shape.num_elements();
  if (first == 0 || second == 0 || output == 0) return nullptr;
  std::int64_t elements = first;
  if (use != SlicedUse::each) elements += second;
  if (use != SlicedUse::sum) elements += output;
  // Each thread multiplies some matrices: where it has as many as the others, none is cut between two.
  const std::int64_t step = use == SlicedUse::pairs ? request.device.threads() : 1;
  const std::int64_t slice = items_of_a_slice(num_items, elements, step), remainder = num_items % slice;
  auto of_slice = make(slice);
  if (of_slice == nullptr) return nullptr;
  std::unique_ptr<Kernel> of_remainder;
  if (remainder > 0 && (of_remainder = make(remainder)) == nullptr) return nullptr;
  return std::make_unique<SlicedKernel>(request, use, num_items, slice, std::move(of_slice), std::move(of_remainder));
}

}  // namespace sectionflow
