#include "kernels/widened_kernel.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/parallel.h"
#include "graph/op_def.h"
#include "kernels/convert_element.h"

namespace sectionflow {
namespace {

bool is_bf16(const TensorType& type) {
  return type.dtype == Dtype::bf16;
}

/// An operand that is f32 in workspace, from `offset` on.
struct Widened {
  std::size_t operand = 0;
  std::size_t offset = 0;
  std::int64_t count = 0;
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const KernelRequest& request, std::unique_ptr<Kernel> kernel, const Bf16Conversions& conversions)
      : kernel_(std::move(kernel)),
        conversions_(conversions),
        input_places_(request.inputs.size()),
        output_places_(request.outputs.size()) {
    const auto uses = request.node.op().input_uses(request.inputs.size(), request.host_booleans);
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      if (is_bf16(request.inputs[i]) && uses[i] == InputUse::data) inputs_.push_back(place(i, request.inputs[i]));
    }
    std::vector<bool> is_taken(request.inputs.size(), false);
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      if (!is_bf16(request.outputs[i])) continue;
      const auto over = input_under(i, is_taken);
      outputs_.push_back(over ? Widened{i, over->offset, over->count} : place(i, request.outputs[i]));
      for (const Widened& input : inputs_) {
        if (request.inputs[input.operand].bytes() == request.outputs[i].bytes()) {
          in_place_.push_back({static_cast<int>(input.operand), static_cast<int>(i)});
        }
      }
    }
  }

  std::string implementation() const override { return "f32 for bf16: " + kernel_->implementation(); }
  std::size_t workspace_bytes() const override { return copies_bytes_ + kernel_->workspace_bytes(); }
  std::size_t library_bytes() const override { return kernel_->library_bytes(); }
  std::vector<InPlace> in_place() const override { return in_place_; }

  void launch(const KernelArguments& arguments) override {
    std::copy(arguments.inputs.begin(), arguments.inputs.end(), input_places_.begin());
    std::copy(arguments.outputs.begin(), arguments.outputs.end(), output_places_.begin());
    std::byte* workspace = static_cast<std::byte*>(arguments.workspace);
    for (const Widened& input : inputs_) {
      float* copy = reinterpret_cast<float*>(workspace + input.offset);
      conversions_.widen(arguments.queue, input.count, arguments.inputs[input.operand], copy);
      input_places_[input.operand] = copy;
    }
    for (const Widened& output : outputs_) output_places_[output.operand] = workspace + output.offset;
    KernelArguments inner = arguments;
    inner.inputs = input_places_;
    inner.outputs = output_places_;
    inner.workspace = workspace + copies_bytes_;
    kernel_->launch(inner);
    for (const Widened& output : outputs_) {
      conversions_.round(arguments.queue, output.count, workspace + output.offset, arguments.outputs[output.operand]);
    }
  }

 private:
  Widened place(std::size_t operand, const TensorType& type) {
    const Widened widened{operand, copies_bytes_, type.shape.num_elements()};
    copies_bytes_ += round_up(static_cast<std::size_t>(widened.count) * sizeof(float), kBufferAlignment);
    return widened;
  }

  /// A widened input over which the kernel of f32 can write this output, and no other output is written.
  std::optional<Widened> input_under(std::size_t output, std::vector<bool>& is_taken) const {
    for (const InPlace& pair : kernel_->in_place()) {
      if (pair.output != static_cast<int>(output) || is_taken[static_cast<std::size_t>(pair.input)]) continue;
      for (const Widened& input : inputs_) {
        if (input.operand != static_cast<std::size_t>(pair.input)) continue;
        is_taken[input.operand] = true;
        return input;
      }
    }
    return std::nullopt;
  }

  std::unique_ptr<Kernel> kernel_;
  Bf16Conversions conversions_;
  std::size_t copies_bytes_ = 0;
  std::vector<Widened> inputs_, outputs_;
  std::vector<InPlace> in_place_;
  // What the kernel is launched with; here, so that a launch allocates nothing.
  std::vector<const void*> input_places_;
  std::vector<void*> output_places_;
};

template <class From, class To>
void convert(void*, std::int64_t count, const void* from, void* to) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  parallel_for(count, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = convert_element<To>(x[i]);
  });
}

}  // namespace

Bf16Conversions cpu_bf16_conversions() {
  return {.widen = convert<BFloat16, float>, .round = convert<float, BFloat16>};
}

bool has_bf16(const KernelRequest& request) {
  return std::any_of(request.inputs.begin(), request.inputs.end(), is_bf16) ||
         std::any_of(request.outputs.begin(), request.outputs.end(), is_bf16);
}

bool can_be_widened(const KernelRequest& request) {
  return request.node.op().updated_inputs.empty();
}

KernelRequest widened_request(const KernelRequest& request) {
  KernelRequest of_f32 = request;
  for (auto* types : {&of_f32.inputs, &of_f32.outputs}) {
    for (TensorType& type : *types) {
      if (is_bf16(type)) type.dtype = Dtype::f32;
    }
  }
  return of_f32;
}

std::unique_ptr<Kernel> widened_kernel(const KernelRequest& request, std::unique_ptr<Kernel> kernel,
                                       const Bf16Conversions& conversions) {
  for (int kept : request.node.op().kept_outputs) {
    SF_CHECK(!is_bf16(request.outputs[static_cast<std::size_t>(kept)]), InternalError, request.node.label(),
             ": the kept output ", kept, " is bf16; wanted f32");
  }
  return std::make_unique<WidenedKernel>(request, std::move(kernel), conversions);
}

}  // namespace sectionflow
