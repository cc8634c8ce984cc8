#include "graph/nodes/update.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "device/parallel.h"
#include "kernels/communicator_of.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/variable_shards.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"
#include "kernels/update_family.h"

namespace sectionflow {
namespace {

template <class T>
const T* input(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const T*>(arguments.inputs[index]);
}

/// A kernel of `update(arguments)`, which happens where the input `gate` is true, or always where there is none.
template <class Update>
std::unique_ptr<Kernel> gated(int gate, Update update) {
  return function_kernel([gate, update](const KernelArguments& arguments) {
    if (gate < 0 || *input<bool>(arguments, static_cast<std::size_t>(gate))) update(arguments);
  });
}

/// A variable with its slots, and the gradient, which is stored as G.
template <int kStates, class G>
struct States {
  explicit States(const KernelArguments& arguments) : gradient(input<G>(arguments, kStates)) {
    for (std::size_t s = 0; s < kStates; ++s) states[s] = static_cast<float*>(arguments.updated[s]);
  }

  template <class Rule>
  void update(std::int64_t begin, std::int64_t end, const Rule& rule, const typename Rule::Step& step) const {
    const Rule of = rule;
    const typename Rule::Step by = step;
    float* to[kStates];
    std::copy_n(states, kStates, to);
    const G* g = gradient;
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      float elements[kStates];
      for (int s = 0; s < kStates; ++s) elements[s] = to[s][i];
      of(by, elements, stored<float>(g[i]));
      for (int s = 0; s < kStates; ++s) to[s][i] = elements[s];
    }
  }

  float* states[kStates];
  const G* gradient;
};

/// The kernels as loops over the elements.
struct LoopUpdates {
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) {
    return function_kernel([num_bytes](const KernelArguments& arguments) {
      copy_bytes(arguments.updated[0], arguments.inputs[1], num_bytes);
    });
  }

  template <class T, class Function>
  static std::unique_ptr<Kernel> map(std::int64_t num_elements, Function function, int gate) {
    return gated(gate, [=](const KernelArguments& arguments) {
      T* variable = static_cast<T*>(arguments.updated[0]);
      const T* x = input<T>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) variable[i] = function(variable[i], x[i]);
      });
    });
  }

  template <class Function>
  static std::unique_ptr<Kernel> map_rows(std::int64_t num_elements, std::int64_t rows, Function function) {
    return function_kernel([=](const KernelArguments& arguments) {
      auto* variable = static_cast<float*>(arguments.updated[0]);
      const float* x = input<float>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const float* of_row = x + row * num_elements;
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) variable[i] = function(variable[i], of_row[i]);
        }
      });
    });
  }

  template <class G, class Rule>
  static std::unique_ptr<Kernel> by_rule(std::int64_t num_elements, const Rule& rule, int gate) {
    return gated(gate, [num_elements, rule](const KernelArguments& arguments) {
      constexpr std::size_t kRate = Rule::kStates + 1;
      const std::int64_t steps = Rule::kCounts ? *input<std::int64_t>(arguments, kRate + 1) : 0;
      const auto step = rule.step(*input<float>(arguments, kRate), steps);
      const States<Rule::kStates, G> states(arguments);
      parallel_for(num_elements, kParallelGrain,
                   [&](std::int64_t begin, std::int64_t end) { states.update(begin, end, rule, step); });
    });
  }

  static std::unique_ptr<Kernel> average(std::int64_t num_elements, const WeightAverageOptions& options, int gate) {
    return gated(gate, [num_elements, options](const KernelArguments& arguments) {
      const formulas::WeightAverage next = formulas::weight_average(options, *input<std::int64_t>(arguments, 2));
      if (!next.is_taken) return;
      float* average = static_cast<float*>(arguments.updated[0]);
      const float* variable = input<float>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
        const formulas::WeightAverage taken = next;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) average[i] = taken(average[i], variable[i]);
      });
    });
  }

  static std::unique_ptr<Kernel> accumulated(std::int64_t num_elements) {
    const auto sum = [num_elements](const KernelArguments& arguments) {
      const formulas::Accumulated add{*input<std::int64_t>(arguments, 2) == 0};
      float* y = static_cast<float*>(arguments.outputs[0]);
      const float *before = input<float>(arguments, 0), *x = input<float>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = add(before[i], x[i]);
      });
    };
    return function_kernel(sum, {.in_place = {{1, 0}}});
  }
};

// What ranks have in common. On the thread of a lane, without the compute team.

int ranks_of(const KernelRequest& request) {
  return static_cast<int>(request.node.options<RanksOptions>().ranks);
}

/// Several values one behind the other, to be summed at once.
class Bucket {
 public:
  explicit Bucket(const std::vector<TensorType>& types) {
    for (const TensorType& type : types) bytes_.push_back(type.bytes());
  }

  std::int64_t elements() const {
    return static_cast<std::int64_t>(std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0}) / sizeof(float));
  }
  /// `from`: where each value lies.
  void pack(std::span<const void* const> from, void* bucket) const {
    auto* place = static_cast<std::byte*>(bucket);
    for (std::size_t i = 0; i < bytes_.size(); place += bytes_[i++]) {
      if (bytes_[i] > 0) std::memcpy(place, from[i], bytes_[i]);
    }
  }
  void unpack(const void* bucket, std::span<void* const> to) const {
    const auto* place = static_cast<const std::byte*>(bucket);
    for (std::size_t i = 0; i < bytes_.size(); place += bytes_[i++]) {
      if (bytes_[i] > 0) std::memcpy(to[i], place, bytes_[i]);
    }
  }

 private:
  std::vector<std::size_t> bytes_;
};

/// Inputs: xs; or as many accumulators, the xs, and the micro-batch, of which the first begins anew. Of one value the
/// sum is taken where it lies, several go through the workspace.
std::unique_ptr<Kernel> make_all_reduced(const KernelRequest& request) {
  const std::size_t values = request.outputs.size();
  const bool accumulates = request.inputs.size() > values;
  const std::size_t first = accumulates ? values : 0;
  const int ranks = ranks_of(request);
  const Bucket bucket(request.outputs);
  const std::int64_t count = bucket.elements();
  const auto reduce = [=](const KernelArguments& arguments) {
    Communicator& communicator = communicator_of(arguments, ranks);
    const bool begins = !accumulates || *input<std::int64_t>(arguments, 2 * values) == 0;
    if (values == 1) {
      communicator.all_reduce_sum(input<float>(arguments, first), begins ? nullptr : input<float>(arguments, 0),
                                  static_cast<float*>(arguments.outputs[0]), count, arguments.workspace);
      return;
    }
    auto* const sum = static_cast<float*>(arguments.workspace);
    float* const start = sum + count;
    const std::span<const void* const> inputs(arguments.inputs);
    bucket.pack(inputs.subspan(first, values), sum);
    if (!begins) bucket.pack(inputs.first(values), start);
    communicator.all_reduce_sum(sum, begins ? nullptr : start, sum, count, accumulates ? start + count : start);
    bucket.unpack(sum, arguments.outputs);
  };
  const std::int64_t packed = values == 1 ? 0 : accumulates ? 2 * count : count;
  std::vector<InPlace> in_place;
  for (std::size_t i = 0; i < values; ++i) in_place.push_back({static_cast<int>(first + i), static_cast<int>(i)});
  return function_kernel(reduce, {.workspace_bytes = static_cast<std::size_t>(packed) * sizeof(float) +
                                                     Communicator::reduce_workspace(count, ranks),
                                  .in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_all_gathered(const KernelRequest& request) {
  const std::size_t mine = request.inputs[0].bytes(), all = request.outputs[0].bytes();
  return function_kernel([mine, all, ranks = ranks_of(request)](const KernelArguments& arguments) {
    communicator_of(arguments, ranks)
        .all_gather({input<std::byte>(arguments, 0), mine}, {static_cast<std::byte*>(arguments.outputs[0]), all});
  });
}

std::unique_ptr<Kernel> make_of_last_rank(const KernelRequest& request) {
  const std::size_t num_bytes = request.outputs[0].bytes();
  return function_kernel(
      [num_bytes, ranks = ranks_of(request)](const KernelArguments& arguments) {
        if (num_bytes > 0) std::memmove(arguments.outputs[0], arguments.inputs[0], num_bytes);
        communicator_of(arguments, ranks)
            .broadcast({static_cast<std::byte*>(arguments.outputs[0]), num_bytes}, ranks - 1);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace

void add_update_cpu_kernels(KernelRegistry& registry) {
  UpdateFamily<LoopUpdates>::add_to(registry);
  registry.add("all_reduced", make_all_reduced);
  registry.add("all_gathered", make_all_gathered, Bf16::native);
  registry.add("of_last_rank", make_of_last_rank, Bf16::native);
  add_shard_cpu_kernels(registry);
}

}  // namespace sectionflow
