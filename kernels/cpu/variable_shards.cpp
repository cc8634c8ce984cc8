#include "kernels/cpu/variable_shards.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
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

ShardLayout layout_of(const TensorType& whole, const ShardHolders& holders) {
  return {whole.shape.num_elements(), holders};
}

Communicator& communicator_of(const KernelArguments& arguments, const ShardHolders& holders) {
  return communicator_of(arguments, static_cast<int>(holders.ranks));
}

/// What of a shard this rank has room for is what its holders say. Throws: ArgumentError (SF-E036): a file may tell of
/// other holders than those of the shard that an operation is given.
void check_held(std::int64_t elements, const ShardLayout& layout, std::int64_t rank) {
  SF_CHECK_CODE(elements == layout.size_on(rank), ArgumentError, ErrorCode::ranks, "rank ", rank, " has ", elements,
                " elements of a shard of ", layout.elements, " that ", text_of_holders(layout.holders),
                " should hold; wanted ", layout.size_on(rank));
}

/// Behind what a rank has of a shard its place is 0.
void clear_pads(float* shard, const ShardLayout& layout, std::int64_t rank) {
  std::fill(shard + layout.elements_of(rank), shard + layout.size_on(rank), 0.0F);
}

std::span<const std::byte> bytes_of(const float* elements, std::int64_t count) {
  return std::as_bytes(std::span(elements, static_cast<std::size_t>(count)));
}
std::span<std::byte> bytes_of(float* elements, std::int64_t count) {
  return std::as_writable_bytes(std::span(elements, static_cast<std::size_t>(count)));
}

/// whole = the shards of all ranks.
void join_shards(const float* shard, float* whole, const ShardLayout& layout, Communicator& communicator) {
  const std::span<std::byte> all = bytes_of(whole, layout.elements);
  if (!layout.holders.has_server) {
    const std::span<const std::byte> mine = bytes_of(shard, layout.shard);
    return communicator.all_gather_shards(mine, all, mine.size());
  }
  if (communicator.rank() == layout.holders.server) copy_bytes(whole, shard, all.size());
  communicator.broadcast(all, static_cast<int>(layout.holders.server));
}

std::unique_ptr<Kernel> make_assign_shard(const KernelRequest& request) {
  const ShardLayout layout = layout_of(request.inputs[1], request.node.options<ShardHolders>());
  const std::int64_t room = request.inputs[0].shape.num_elements();
  return function_kernel([=](const KernelArguments& arguments) {
    const std::int64_t rank = communicator_of(arguments, layout.holders).rank(), count = layout.elements_of(rank);
    check_held(room, layout, rank);
    auto* shard = static_cast<float*>(arguments.updated[0]);
    if (count > 0) {
      copy_bytes(shard, input<float>(arguments, 1) + layout.begin_of(rank),
                 static_cast<std::size_t>(count) * sizeof(float));
    }
    clear_pads(shard, layout, rank);
  });
}

std::unique_ptr<Kernel> make_gathered_variable(const KernelRequest& request) {
  const ShardLayout layout = layout_of(request.outputs[0], request.node.options<GatheredVariableOptions>());
  const std::int64_t room = request.inputs[0].shape.num_elements();
  return function_kernel([=](const KernelArguments& arguments) {
    Communicator& communicator = communicator_of(arguments, layout.holders);
    check_held(room, layout, communicator.rank());
    join_shards(input<float>(arguments, 0), static_cast<float*>(arguments.outputs[0]), layout, communicator);
  });
}

std::unique_ptr<Kernel> make_refreshed_copy(const KernelRequest& request) {
  const ShardLayout layout = layout_of(request.inputs[0], request.node.options<ShardHolders>());
  const std::int64_t room = request.inputs[1].shape.num_elements();
  return function_kernel([=](const KernelArguments& arguments) {
    Communicator& communicator = communicator_of(arguments, layout.holders);
    check_held(room, layout, communicator.rank());
    join_shards(static_cast<const float*>(arguments.updated[1]), static_cast<float*>(arguments.updated[0]), layout,
                communicator);
  });
}

/// Inputs: a shard, of which nothing is read, and x; or an accumulator, x and the micro-batch, of which the first
/// begins anew.
std::unique_ptr<Kernel> make_reduced_shard(const KernelRequest& request) {
  const ShardLayout layout = layout_of(request.inputs[1], request.node.options<ShardHolders>());
  const bool accumulates = request.inputs.size() > 2;
  const std::int64_t sums = request.outputs[0].shape.num_elements(), ranks = layout.holders.ranks;
  const auto reduce = [=](const KernelArguments& arguments) {
    Communicator& communicator = communicator_of(arguments, layout.holders);
    check_held(sums, layout, communicator.rank());
    const bool begins = !accumulates || *input<std::int64_t>(arguments, 2) == 0;
    const auto *x = input<float>(arguments, 1), *start = begins ? nullptr : input<float>(arguments, 0);
    auto* shard = static_cast<float*>(arguments.outputs[0]);
    if (layout.holders.has_server) {
      return communicator.reduce_sum(x, start, shard, layout.elements, static_cast<int>(layout.holders.server),
                                     arguments.workspace);
    }
    communicator.reduce_scatter_shards(x, start, shard, layout.elements, layout.shard, arguments.workspace);
    clear_pads(shard, layout, communicator.rank());
  };
  // Room for what others send is needed where the sum is.
  return function_kernel(reduce,
                         {.workspace_bytes = Communicator::reduce_workspace(sums * ranks, static_cast<int>(ranks))});
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
/// it where they do not, and nothing where one rank has it.
struct NormPart {
  ShardLayout layout;
  std::int64_t room = 0;  ///< elements that the program has of the shard
  bool has_sums() const { return layout.ends_blocks; }
  std::int64_t sums_of_shard() const { return layout.shard / kNormBlock; }
  bool has_gathered() const { return !has_sums() && !layout.holders.has_server; }
  std::size_t workspace_bytes() const {
    const auto sums = static_cast<std::size_t>(has_sums() ? layout.holders.ranks * sums_of_shard()
                                                          : BlockSums::count(layout.elements));
    return sums * sizeof(double) + (has_gathered() ? static_cast<std::size_t>(layout.elements) * sizeof(float) : 0);
  }
};

/// The sum of squares of one value, from block to block; on the server alone where there is one.
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
  } else if (part.has_gathered()) {
    auto* const whole = reinterpret_cast<float*>(sums + num_sums);
    join_shards(shard, whole, part.layout, communicator);
    blocks.run(whole, part.layout.elements, sums);
  } else {
    blocks.run(shard, part.layout.elements, sums);
  }
  double total = sums[0];
  for (std::int64_t block = 1; block < num_sums; ++block) total += sums[block];
  return total;
}

std::unique_ptr<Kernel> make_norm_of_shards(const KernelRequest& request) {
  const auto& options = request.node.options<NormOfShardsOptions>();
  const ShardHolders holders = options;
  std::vector<NormPart> parts;
  std::size_t workspace_bytes = 0;
  for (std::size_t i = 0; i < options.elements.size(); ++i) {
    parts.push_back({ShardLayout(options.elements[i], holders), request.inputs[i].shape.num_elements()});
    workspace_bytes = std::max(workspace_bytes, parts.back().workspace_bytes());
  }
  return function_kernel(
      [=, parts = std::move(parts), blocks = BlockSums()](const KernelArguments& arguments) {
        Communicator& communicator = communicator_of(arguments, holders);
        const bool has_parts = !holders.has_server || communicator.rank() == holders.server;
        for (const NormPart& part : parts) check_held(part.room, part.layout, communicator.rank());
        auto* const norm = static_cast<float*>(arguments.outputs[0]);
        double squares = 0;
        for (std::size_t i = 0; has_parts && i < parts.size(); ++i) {
          squares += sum_of_squares(parts[i], blocks, input<float>(arguments, i), arguments.workspace, communicator);
        }
        *norm = static_cast<float>(std::sqrt(squares));
        if (holders.has_server) communicator.broadcast(bytes_of(norm, 1), static_cast<int>(holders.server));
      },
      {.workspace_bytes = workspace_bytes});
}

}  // namespace

void add_shard_cpu_kernels(KernelRegistry& registry) {
  registry.add("assign_shard", make_assign_shard);
  registry.add("gathered_variable", make_gathered_variable);
  registry.add("refreshed_copy", make_refreshed_copy);
  registry.add("reduced_shard", make_reduced_shard);
  registry.add("norm_of_shards", make_norm_of_shards);
}

}  // namespace sectionflow
