#include "graph/ops/eight_bit_update.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "device/parallel.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/eight_bit_update.h"
#include "kernels/formulas/update.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

using WholeBlock = std::integral_constant<std::int64_t, kSlotBlock>;

/// A slot in blocks, and a block of it in f32.
template <class Code>
class CodedSlot {
 public:
  CodedSlot(void* codes, void* scales)
      : codes_(static_cast<std::uint8_t*>(codes)), scales_(static_cast<float*>(scales)) {}

  template <class Count>
  void decode(std::int64_t block, Count count, float* x) const {
    const std::uint8_t* codes = codes_ + block * kSlotBlock;
    ask_ahead(codes, count);
    const float scale = scales_[block];
    std::int32_t wide[kSlotBlock];
    std::copy_n(codes, count, wide);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) x[i] = scale * Code::decoded(wide[i]);
  }
  /// Of x [kSlotBlock]: zeros behind the block's end.
  float write_scale(std::int64_t block, const float* x) const {
    std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < kSlotBlock; ++i) largest = std::max(largest, formulas::LargerMagnitude::bits(x[i]));
    return scales_[block] = std::bit_cast<float>(largest);
  }
  void encode(std::int64_t block, std::int64_t count, const float* x, float scale) const {
    const float divisor = formulas::divisor_of(scale);
    std::int32_t codes[kSlotBlock];
#pragma omp simd
    for (std::int64_t i = 0; i < kSlotBlock; ++i) codes[i] = formulas::encoded<Code>(x[i], divisor);
    std::copy_n(codes, count, codes_ + block * kSlotBlock);
  }

 private:
  std::uint8_t* codes_;
  float* scales_;
};

/// Inputs: variable, m_codes, m_scales, root_codes, root_scales, gradient, learning_rate, steps.
template <class Options, class G>
void update_by_bytes(const KernelArguments& arguments, const Options& options, std::int64_t num_elements) {
  const auto scaled = formulas::adam_step(options, *static_cast<const float*>(arguments.inputs[6]),
                                          *static_cast<const std::int64_t*>(arguments.inputs[7]));
  const formulas::Average first{options.beta1, 1.0F - options.beta1}, second{options.beta2, 1.0F - options.beta2};
  const CodedSlot<formulas::SignedCode> m_slot(arguments.updated[1], arguments.updated[2]);
  const CodedSlot<formulas::RootCode> root_slot(arguments.updated[3], arguments.updated[4]);
  auto* all = static_cast<float*>(arguments.updated[0]);
  const auto* slopes = static_cast<const G*>(arguments.inputs[5]);
  const std::int64_t blocks = (num_elements + kSlotBlock - 1) / kSlotBlock, whole = num_elements / kSlotBlock;
  const auto update = [&](std::int64_t block, auto count) {
    float* variable = all + block * kSlotBlock;
    const G* gradient = slopes + block * kSlotBlock;
    ask_ahead(variable, count);
    ask_ahead(gradient, count);
    float m[kSlotBlock], root[kSlotBlock];
    std::fill(m + count, m + kSlotBlock, 0.0F);
    std::fill(root + count, root + kSlotBlock, 0.0F);
    m_slot.decode(block, count, m);
    root_slot.decode(block, count, root);
    const auto slope = [=](std::int64_t i) { return stored<float>(gradient[i]); };
    write_elements(m, count, [=, &m](std::int64_t i) { return first(m[i], slope(i)); });
    write_elements(root, count, [=, &root](std::int64_t i) {
      return formulas::held_finite(std::sqrt(second(root[i] * root[i], slope(i) * slope(i))));
    });
    // Both before the variable's elements, which take no notice of how long a maximum takes.
    const float m_scale = m_slot.write_scale(block, m), root_scale = root_slot.write_scale(block, root);
    write_elements(variable, count, [=, &m, &root](std::int64_t i) { return scaled(variable[i], m[i], root[i]); });
    m_slot.encode(block, count, m, m_scale);
    root_slot.encode(block, count, root, root_scale);
  };
  parallel_for(blocks, kParallelGrain / kSlotBlock, [&](std::int64_t begin, std::int64_t end) {
    in_wide_vectors([&] {
      for (std::int64_t block = begin; block < std::min(end, whole); ++block) update(block, WholeBlock());
      if (end > whole) update(whole, num_elements - whole * kSlotBlock);
    });
  });
}

template <class Options>
std::unique_ptr<Kernel> make_adam_8bit(const KernelRequest& request) {
  constexpr std::size_t kGate = 9;  // behind the condition
  const auto options = request.node.options<Options>();
  const std::int64_t count = request.inputs[0].shape.num_elements();
  const bool has_gate = request.inputs.size() > kGate;
  return with_stored_type(request.inputs[5].dtype, [&](auto g) -> std::unique_ptr<Kernel> {
    return function_kernel([=](const KernelArguments& arguments) {
      if (has_gate && !*static_cast<const bool*>(arguments.inputs[kGate])) return;
      update_by_bytes<Options, decltype(g)>(arguments, options, count);
    });
  });
}

}  // namespace

void add_eight_bit_update_cpu_kernels(KernelRegistry& registry) {
  registry.add("apply_adam_8bit", make_adam_8bit<AdamOptions>, Bf16::native);
  registry.add("apply_adam_w_8bit", make_adam_8bit<AdamWOptions>, Bf16::native);
}

}  // namespace sectionflow
