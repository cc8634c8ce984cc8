#include "kernels/cpu/sliced_convolution.h"

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
  std::int64_t image = 0;  ///< elements of an image, or of all where it is not sliced
  std::size_t at = 0;
};

TensorType with_images(const TensorType& type, std::int64_t images) {
  std::vector<std::int64_t> dims = type.shape.dims();
  dims[0] = images;
  return {type.dtype, Shape(std::move(dims))};
}

class SlicedConvolution final : public Kernel {
 public:
  SlicedConvolution(const KernelRequest& request, SlicedUse use, std::int64_t images, std::int64_t slice,
                    std::unique_ptr<Kernel> of_slice, std::unique_ptr<Kernel> of_remainder)
      : images_(images), slice_(slice), of_slice_(std::move(of_slice)), of_remainder_(std::move(of_remainder)) {
    inputs_[0] = place(request.inputs[0], true);
    inputs_[1] = place(request.inputs[1], use == SlicedUse::sum);
    output_ = place(request.outputs[0], use == SlicedUse::each);
    if (!output_.is_sliced && slice < images) part_at_ = workspace_.add(bytes(output_.image));
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
    for (std::int64_t first = 0; first < images_; first += slice_) run(arguments, first);
    if (output_.is_sliced) return;
    conversions_.round(nullptr, output_.image, part(arguments, output_.at), arguments.outputs[0]);
  }

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }
  static float* part(const KernelArguments& arguments, std::size_t at) {
    return static_cast<float*>(workspace_part(arguments.workspace, at));
  }

  Operand place(const TensorType& type, bool is_sliced) {
    const std::int64_t count = type.shape.num_elements();
    const std::int64_t image = is_sliced ? count / images_ : count;
    return {is_sliced, image, workspace_.add(bytes(is_sliced ? image * slice_ : image))};
  }

  /// The images from `first` on.
  void run(const KernelArguments& arguments, std::int64_t first) {
    const std::int64_t count = std::min(slice_, images_ - first);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& input = inputs_[i];
      float* widened = part(arguments, input.at);
      input_places_[i] = widened;
      if (!input.is_sliced && first > 0) continue;
      const auto* from = static_cast<const BFloat16*>(arguments.inputs[i]);
      if (input.is_sliced) from += first * input.image;
      conversions_.widen(nullptr, input.is_sliced ? count * input.image : input.image, from, widened);
    }
    const bool is_added = !output_.is_sliced && first > 0;
    float* result = part(arguments, is_added ? part_at_ : output_.at);
    const std::array<void*, 1> outputs = {result};
    KernelArguments inner = arguments;
    inner.inputs = input_places_;
    inner.outputs = outputs;
    inner.workspace = workspace_part(arguments.workspace, inner_at_);
    (count == slice_ ? *of_slice_ : *of_remainder_).launch(inner);
    if (is_added) add(output_.image, result, part(arguments, output_.at));
    if (!output_.is_sliced) return;
    conversions_.round(nullptr, count * output_.image, result,
                       static_cast<BFloat16*>(arguments.outputs[0]) + first * output_.image);
  }

  const Bf16Conversions conversions_ = cpu_bf16_conversions();
  std::int64_t images_, slice_;
  std::unique_ptr<Kernel> of_slice_, of_remainder_;
  std::array<Operand, 2> inputs_;
  Operand output_;
  WorkspaceLayout workspace_;
  std::size_t part_at_ = 0, inner_at_ = 0;
  std::vector<const void*> input_places_;  // here, so that a launch allocates nothing
};

/// The kernel of f32 for so many images.
std::unique_ptr<Kernel> kernel_of_images(const KernelRequest& request, KernelFactory make, SlicedUse use,
                                         std::int64_t images) {
  KernelRequest of_f32 = widened_request(request);
  of_f32.inputs[0] = with_images(of_f32.inputs[0], images);
  if (use == SlicedUse::sum) of_f32.inputs[1] = with_images(of_f32.inputs[1], images);
  if (use == SlicedUse::each) {
    of_f32.outputs[0] = with_images(of_f32.outputs[0], images);
    // The gradient of x has x for its shape alone.
    if (of_f32.inputs.size() > 2) of_f32.inputs[2] = with_images(of_f32.inputs[2], images);
  }
  return make(of_f32);
}

/// Images whose tensors of f32 are 16 MiB at most, or one; slices of nearly one size.
std::int64_t images_of_a_slice(std::int64_t images, std::int64_t elements) {
  constexpr std::int64_t kSliceElements = std::int64_t{4} << 20;
  const std::int64_t count = std::clamp<std::int64_t>((elements + kSliceElements - 1) / kSliceElements, 1, images);
  return (images + count - 1) / count;
}

}  // namespace

std::unique_ptr<Kernel> sliced_convolution(const KernelRequest& request, KernelFactory make, SlicedUse use) {
  const Shape& first = request.inputs[0].shape;
  const Shape& second = use == SlicedUse::sum ? request.inputs[1].shape : request.outputs[0].shape;
  const std::int64_t images = first[0], elements = first.num_elements() + second.num_elements();
  if (first.num_elements() == 0 || second.num_elements() == 0) return nullptr;
  const std::int64_t slice = images_of_a_slice(images, elements);
  auto of_slice = kernel_of_images(request, make, use, slice);
  if (of_slice == nullptr) return nullptr;
  std::unique_ptr<Kernel> of_remainder;
  if (images % slice > 0 && (of_remainder = kernel_of_images(request, make, use, images % slice)) == nullptr)
    return nullptr;
  return std::make_unique<SlicedConvolution>(request, use, images, slice, std::move(of_slice), std::move(of_remainder));
}

}  // namespace sectionflow
