#include "kernels/cpu/variable_shards.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "graph/nodes/shards.h"
#include "kernels/communicator_of.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class T>
const T* input(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const T*>(arguments.inputs[index]);
}

ShardLayout layout_of(const TensorType& whole, std::int64_t ranks) {
  return {whole.shape.num_elements(), ranks};
}

/// Behind what a rank has of a shard its place is 0.
void clear_pads(float* shard, const ShardLayout& layout, std::int64_t count) {
  std::fill(shard + count, shard + layout.shard, 0.0F);
}

std::unique_ptr<Kernel> make_assign_shard(const KernelRequest& request) {
  const auto ranks = static_cast<int>(request.node.options<RanksOptions>().ranks);
  const ShardLayout layout = layout_of(request.inputs[1], ranks);
  return function_kernel([=](const KernelArguments& arguments) {
    const std::int64_t rank = communicator_of(arguments, ranks).rank(), count = layout.elements_of(rank);
    auto* shard = static_cast<float*>(arguments.updated[0]);
    if (count > 0) {
      copy_bytes(shard, input<float>(arguments, 1) + rank * layout.shard,
                 static_cast<std::size_t>(count) * sizeof(float));
    }
    clear_pads(shard, layout, count);
  });
}

std::unique_ptr<Kernel> make_gathered_variable(const KernelRequest& request) {
  const auto ranks = static_cast<int>(request.node.options<GatheredVariableOptions>().ranks);
  const std::size_t shard = request.inputs[0].bytes(), whole = request.outputs[0].bytes();
  return function_kernel([=](const KernelArguments& arguments) {
    communicator_of(arguments, ranks)
        .all_gather_shards({input<std::byte>(arguments, 0), shard},
                           {static_cast<std::byte*>(arguments.outputs[0]), whole}, shard);
  });
}

/// Inputs: x; or an accumulator, x and the micro-batch, of which the first begins anew.
std::unique_ptr<Kernel> make_reduced_shard(const KernelRequest& request) {
  const auto ranks = static_cast<int>(request.node.options<RanksOptions>().ranks);
  const bool accumulates = request.inputs.size() > 1;
  const std::size_t x = accumulates ? 1 : 0;
  const ShardLayout layout = layout_of(request.inputs[x], ranks);
  const auto reduce = [=](const KernelArguments& arguments) {
    Communicator& communicator = communicator_of(arguments, ranks);
    const bool begins = !accumulates || *input<std::int64_t>(arguments, 2) == 0;
    auto* shard = static_cast<float*>(arguments.outputs[0]);
    communicator.reduce_scatter_shards(input<float>(arguments, x), begins ? nullptr : input<float>(arguments, 0), shard,
                                       layout.elements, layout.shard, arguments.workspace);
    clear_pads(shard, layout, layout.elements_of(communicator.rank()));
  };
  return function_kernel(reduce, {.workspace_bytes = Communicator::reduce_workspace(layout.shard * ranks, ranks)});
}

/// The sums of squares of blocks, as global_norm's kernel takes them.
class BlockSums {
 public:
  BlockSums() : whole_block_({kNormBlock}, {true}) {}

  static std::int64_t count(std::int64_t elements) {
    return std::max<std::int64_t>(1, (elements + kNormBlock - 1) / kNormBlock);
  }

  /// sums: [count(elements)]
  void run(const float* x, std::int64_t elements, double* sums) const {
    for (std::int64_t block = 0; block < count(elements); ++block) {
      const std::int64_t begin = block * kNormBlock, size = std::min(kNormBlock, elements - begin);
      const auto store = [&](std::int64_t, double sum) { sums[block] = sum; };
      // A block has no parts of its own.
      if (size == kNormBlock) {
        whole_block_.run(x + begin, nullptr, formulas::SquareReducer(), store);
      } else {
        ReducePlan({size}, {true}).run(x + begin, nullptr, formulas::SquareReducer(), store);
      }
    }
  }

 private:
  ReducePlan whole_block_;
};

/// What of a value the ranks tell each other for its norm: the sums of its blocks where shards end with these, all of
/// it where they do not.
struct NormPart {
  ShardLayout layout;
  bool has_sums() const { return layout.ends_blocks; }
  std::int64_t sums_of_shard() const { return layout.shard / kNormBlock; }
  std::size_t workspace_bytes(std::int64_t ranks) const {
    const auto sums =
        static_cast<std::size_t>(has_sums() ? ranks * sums_of_shard() : BlockSums::count(layout.elements));
    return sums * sizeof(double) + (has_sums() ? 0 : static_cast<std::size_t>(layout.elements) * sizeof(float));
  }
};

/// The sum of squares of one value, from block to block.
double sum_of_squares(const NormPart& part, const BlockSums& blocks, const float* shard, void* workspace,
                      Communicator& communicator) {
  auto* sums = static_cast<double*>(workspace);
  std::int64_t num_sums = BlockSums::count(part.layout.elements);
  if (part.has_sums()) {
    const std::int64_t each = part.sums_of_shard();
    num_sums = each * communicator.size();
    double* const own = sums + communicator.rank() * each;
    blocks.run(shard, part.layout.shard, own);
    communicator.all_gather(std::as_bytes(std::span(own, static_cast<std::size_t>(each))),
                            std::as_writable_bytes(std::span(sums, static_cast<std::size_t>(num_sums))));
  } else {
    auto* const whole = reinterpret_cast<float*>(sums + num_sums);
    communicator.all_gather_shards(
        std::as_bytes(std::span(shard, static_cast<std::size_t>(part.layout.shard))),
        std::as_writable_bytes(std::span(whole, static_cast<std::size_t>(part.layout.elements))),
        static_cast<std::size_t>(part.layout.shard) * sizeof(float));
    blocks.run(whole, part.layout.elements, sums);
  }
  double total = sums[0];
  for (std::int64_t block = 1; block < num_sums; ++block) total += sums[block];
  return total;
}

std::unique_ptr<Kernel> make_norm_of_shards(const KernelRequest& request) {
  const auto& options = request.node.options<NormOfShardsOptions>();
  const auto ranks = static_cast<int>(options.ranks);
  std::vector<NormPart> parts;
  std::size_t workspace_bytes = 0;
  for (const std::int64_t elements : options.elements) {
    parts.push_back({ShardLayout(elements, ranks)});
    workspace_bytes = std::max(workspace_bytes, parts.back().workspace_bytes(ranks));
  }
  return function_kernel(
      [=, parts = std::move(parts), blocks = BlockSums()](const KernelArguments& arguments) {
        Communicator& communicator = communicator_of(arguments, ranks);
        double squares = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          squares += sum_of_squares(parts[i], blocks, input<float>(arguments, i), arguments.workspace, communicator);
        }
        *static_cast<float*>(arguments.outputs[0]) = static_cast<float>(std::sqrt(squares));
      },
      {.workspace_bytes = workspace_bytes});
}

}  // namespace

void add_shard_cpu_kernels(KernelRegistry& registry) {
  registry.add("assign_shard", make_assign_shard);
  registry.add("gathered_variable", make_gathered_variable);
  registry.add("reduced_shard", make_reduced_shard);
  registry.add("norm_of_shards", make_norm_of_shards);
}

}  // namespace sectionflow
