#include "graph/ops/dropout.h"

#include <algorithm>

#include "base/random.h"
#include "device/parallel.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/random_words.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// y = x where kept, else 0. Element e reads word e % 4 of block e / 4; y may be x.
template <class T>
void drop_elements(const formulas::Drop& drop, const RandomAddress& address, const T* x, T* y, std::int64_t count) {
  constexpr std::int64_t kGrain = 1024;
  constexpr std::int64_t kPiece = 128;  // elements whose words lie on the stack
  parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
    in_wide_vectors([=] {
      std::uint32_t words[kPiece];
      for (std::int64_t first = begin; first < end; first += kPiece) {
        const std::int64_t length = std::min(kPiece, end - first);
        ask_ahead(x + first, length);
        ask_ahead(y + first, length);
        fill_random_words_in_vectors(address, static_cast<std::uint64_t>(first) / 4, (length + 3) / 4, words);
        const formulas::Drop of = drop;  // a copy, which does not change below the loop
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i) y[first + i] = stored<T>(of(x[first + i], words[i]));
      }
    });
  });
}

/// x and y are stored as T.
template <class T>
std::unique_ptr<Kernel> drop_kernel(float rate, std::uint32_t ordinal, std::int64_t count) {
  return function_kernel(
      [drop = formulas::Drop(rate), ordinal, count](const KernelArguments& arguments) {
        RandomAddress address = arguments.random;
        address.node = ordinal;
        drop_elements(drop, address, static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0]),
                      count);
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

std::unique_ptr<Kernel> make_of(const KernelRequest& request, float rate, std::uint32_t ordinal) {
  const TensorType& y = request.outputs[0];
  if (!host_boolean(request, 1)) return copy_kernel(y.bytes());
  return with_stored_type(
      y.dtype, [&](auto element) { return drop_kernel<decltype(element)>(rate, ordinal, y.shape.num_elements()); });
}

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  return make_of(request, request.node.options<DropoutOptions>().rate, request.node.random_ordinal());
}

std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request) {
  const auto& options = request.node.options<DropoutGradOptions>();
  return make_of(request, options.rate, options.ordinal);
}

}  // namespace

void add_dropout_cpu_kernels(KernelRegistry& registry) {
  registry.add("dropout", make_dropout, Bf16::native);
  registry.add("dropout_grad", make_dropout_grad, Bf16::native);
}

}  // namespace sectionflow
