#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

#include "device/tf32.h"
#include "kernels/attention_geometry.h"
#include "kernels/cuda/attention_general.h"
#include "kernels/cuda/attention_tensor_core.h"
#include "kernels/cuda/attention_tensor_core_grad.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/tensor_core_tf32.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

namespace on_tensor_cores = gpu::attention_tensor_core;
using namespace gpu::attention_general;

gpu::LaunchShape shape_of(std::int64_t blocks) {
  return {.blocks = blocks, .threads = kThreads, .shared_bytes = kSharedBytes};
}

constexpr int kWidest = 128;  // columns of a block
int columns_of(const AttentionGeometry& g) {
  return g.width <= 64 ? 64 : kWidest;
}

/// What a kernel is about.
struct AttentionOnGpu {
  AttentionGeometry g;
  AttentionLimits limits;
  AttentionDrop drop;
  bool replay, wants_dmask;

  /// Whether something counts but `causal` and groups of heads.
  bool has_more() const { return limits.any() || drop.drops || g.window > 0; }
  template <bool kAll>
  Sight<kAll> sight(const KernelArguments& arguments) const {
    return {g, limits.of(arguments), drop, arguments.random_state};
  }
};

/// A block must write over nothing that another still reads: columns of a head's rows lie in one block each, or no
/// output lies over an input.
std::vector<InPlace> pairs_of(const KernelRequest& request, const AttentionOnGpu& of, std::initializer_list<int> inputs,
                              int keys) {
  return of.g.width <= kWidest ? attention_pairs(request.node, inputs, keys, of.limits.at.mask)
                               : std::vector<InPlace>{};
}

/// function(columns, all): the columns of a block, and whether all counts that a node may have, as constants.
template <class Function>
void with_choices(const AttentionOnGpu& of, const Function& function) {
  const auto with_columns = [&](auto all) {
    columns_of(of.g) == 64 ? function(std::integral_constant<int, 64>(), all)
                           : function(std::integral_constant<int, kWidest>(), all);
  };
  of.has_more() ? with_columns(std::true_type()) : with_columns(std::false_type());
}

template <class T>
void attend(const AttentionOnGpu& of, const KernelArguments& arguments) {
  const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
  with_choices(of, [&](auto columns, auto all) {
    constexpr int kColumns = decltype(columns)::value;
    constexpr bool kAll = decltype(all)::value;
    const Blocks blocks(of.g.heads, of.g.queries, of.g.width, kColumns);
    gpu::launch_blocks(arguments.queue, shape_of(blocks.count()),
                       Attend<T, kColumns, kAll>{of.sight<kAll>(arguments), blocks, input(0), input(1), input(2),
                                                 static_cast<T*>(arguments.outputs[0]),
                                                 static_cast<float*>(arguments.outputs[1]), of.replay});
  });
}

template <class T>
void differentiate(const AttentionOnGpu& of, const KernelArguments& arguments) {
  const AttentionGeometry& g = of.g;
  const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
  const auto output = [&](int index) { return static_cast<T*>(arguments.outputs[index]); };
  with_choices(of, [&](auto columns, auto all) {
    constexpr int kColumns = decltype(columns)::value;
    constexpr bool kAll = decltype(all)::value;
    const GradientInputs<T, kAll> in{of.sight<kAll>(arguments),
                                     input(0),
                                     input(1),
                                     input(2),
                                     input(3),
                                     static_cast<const float*>(arguments.inputs[4]),
                                     static_cast<float*>(arguments.workspace)};
    const Blocks of_means(g.heads, g.queries, g.width, static_cast<int>(g.width)),
        of_queries(g.heads, g.queries, g.width, kColumns), of_keys(g.key_heads(), g.keys, g.width, kColumns);
    gpu::launch_blocks(arguments.queue, shape_of(of_means.count()), WriteMeans<T, kAll>{in, of_means});
    gpu::launch_blocks(arguments.queue, shape_of(of_keys.count()),
                       KeyGradient<T, kColumns, kAll>{in, of_keys, output(1), output(2)});
    if constexpr (kAll) {
      if (of.wants_dmask) {
        const MaskGradient<T> of_mask(in, static_cast<float*>(arguments.outputs[3]));
        gpu::launch_blocks(arguments.queue, shape_of(of_mask.count()), of_mask);
      }
    }
    // Last, as dq may lie over dy or q.
    gpu::launch_blocks(arguments.queue, shape_of(of_queries.count()),
                       QueryGradient<T, kColumns, kAll>{in, of_queries, output(0)});
  });
}

/// Whether tensor cores multiply it: heads of some widths, causal or not, in groups or not, and nothing more. Lengths,
/// windows, masks and dropout are for the general kernels, in bf16 as well.
bool on_tensor_cores_alone(const KernelRequest& request, const AttentionOnGpu& of) {
  if (of.has_more() || !on_tensor_cores::serves(of.g)) return false;
  if (request.outputs[0].dtype == Dtype::bf16) return true;
  // As TF32 heads of more than 64 channels would want more shared memory or registers than there are.
  const auto* choice = dynamic_cast<const Tf32Choice*>(&request.device);
  return choice != nullptr && choice->allow_tf32() && columns_of(of.g) == 64;
}

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const AttentionOnGpu of{
      AttentionGeometry(request.inputs[0].shape, request.inputs[1].shape, request.node.options<AttentionNodeOptions>()),
      AttentionLimits(request, 3), AttentionDrop(request, 3, request.node.random_ordinal()), request.replay, false};
  const FunctionKernelOptions options{.in_place = pairs_of(request, of, {0}, 1)};
  const Dtype dtype = request.outputs[0].dtype;
  if (on_tensor_cores_alone(request, of)) {
    return function_kernel(
        [of, dtype](const KernelArguments& arguments) {
          if (dtype != Dtype::bf16) {
            on_tensor_cores::attend<gpu::Tf32Factors, 64>(of.g, of.replay, arguments);
          } else {
            columns_of(of.g) == 64 ? on_tensor_cores::attend<gpu::Bf16Factors, 64>(of.g, of.replay, arguments)
                                   : on_tensor_cores::attend<gpu::Bf16Factors, kWidest>(of.g, of.replay, arguments);
          }
        },
        options);
  }
  return with_stored_type(dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return function_kernel([of](const KernelArguments& arguments) { attend<decltype(element)>(of, arguments); },
                           options);
  });
}

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const auto& node_options = request.node.options<AttentionNodeOptions>();
  const AttentionOnGpu of{AttentionGeometry(request.inputs[1].shape, request.inputs[2].shape, node_options),
                          AttentionLimits(request, 5), AttentionDrop(request, 5, node_options.ordinal), false,
                          node_options.mask_gradient};
  const FunctionKernelOptions options{
      .workspace_bytes = static_cast<std::size_t>(of.g.heads * of.g.queries) * sizeof(float),
      .in_place = pairs_of(request, of, {0, 1}, 2)};
  const Dtype dtype = request.outputs[0].dtype;
  if (on_tensor_cores_alone(request, of)) {
    return function_kernel(
        [of, dtype](const KernelArguments& arguments) {
          if (dtype != Dtype::bf16) {
            on_tensor_cores::differentiate<gpu::Tf32Factors, 64>(of.g, arguments);
          } else {
            columns_of(of.g) == 64 ? on_tensor_cores::differentiate<gpu::Bf16Factors, 64>(of.g, arguments)
                                   : on_tensor_cores::differentiate<gpu::Bf16Factors, kWidest>(of.g, arguments);
          }
        },
        options);
  }
  return with_stored_type(dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return function_kernel([of](const KernelArguments& arguments) { differentiate<decltype(element)>(of, arguments); },
                           options);
  });
}

}  // namespace

void add_attention_cuda_kernels(KernelRegistry& registry) {
  for (const char* op : {"attention", "attention_dropout"}) registry.add(op, make_attention, Bf16::native);
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    registry.add(op, make_attention_grad, Bf16::native);
  }
}

}  // namespace sectionflow
