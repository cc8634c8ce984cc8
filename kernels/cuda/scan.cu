#include "graph/ops/scan.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/scan.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using formulas::RunningSum;
using formulas::ScanLines;

/// A line a thread, one element after the other.
template <class T>
struct SumLine {
  ScanLines lines;
  gpu::Divisor inner;
  const T* x;
  T* y;

  SF_HOST_DEVICE void operator()(std::int64_t line) const {
    const std::int64_t column = inner.cut(line);
    const std::int64_t first = line * lines.length * lines.inner + column;
    RunningSum<T> sum{};
    for (std::int64_t step = 0; step < lines.length; ++step) {
      const std::int64_t at = first + lines.place(step) * lines.inner;
      const RunningSum<T> with = sum + static_cast<RunningSum<T>>(x[at]);
      y[at] = formulas::stored_sum<T>(lines.sums.exclusive ? sum : with);
      sum = with;
    }
  }
};

/// A line a block, by stretches of an element a thread, whose sums are carried on from stretch to stretch. Within a
/// stretch each thread adds what lies 1, 2, 4, ... places before it. Source: Hillis and Steele 1986, Data parallel
/// algorithms.
template <class T>
struct SumLineByBlock {
  ScanLines lines;
  const T* x;
  T* y;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    using Sum = RunningSum<T>;
    const int count = thread.block_size(), own = thread.index();
    auto sums = thread.template shared<Sum>(0, 2 * count);  // what is read in a round, and what is written
    const std::int64_t first = thread.block() / lines.inner * lines.length * lines.inner + thread.block() % lines.inner;
    Sum carried{};
    for (std::int64_t begin = 0; begin < lines.length; begin += count) {
      const std::int64_t step = begin + own, at = first + lines.place(step) * lines.inner;
      int from = 0;
      sums[own] = step < lines.length ? static_cast<Sum>(x[at]) : Sum{};
      thread.barrier();
      for (int reach = 1; reach < count; reach *= 2) {
        Sum sum = sums[from + own];
        if (own >= reach) {
          const Sum before = sums[from + own - reach];
          sum = before + sum;
        }
        from = count - from;
        sums[from + own] = sum;
        thread.barrier();
      }
      Sum sum{};
      if (!lines.sums.exclusive) {
        sum = sums[from + own];
      } else if (own > 0) {
        sum = sums[from + own - 1];
      }
      if (step < lines.length) y[at] = formulas::stored_sum<T>(carried + sum);
      const Sum whole = sums[from + count - 1];
      carried = carried + whole;
      thread.barrier();
    }
  }
};

/// Long lines get a block each, where they are too few for a thread each, or do not lie side by side.
bool goes_by_block(const ScanLines& lines) {
  constexpr std::int64_t kLong = 64, kSideBySide = 32, kManyLines = 1 << 15;
  return lines.length >= kLong && (lines.inner < kSideBySide || lines.outer * lines.inner < kManyLines);
}

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  constexpr int kThreads = 256;
  const ScanLines lines(request.inputs[0].shape, request.node.options<CumsumNodeOptions>());
  return formulas::with_summed_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [=](const KernelArguments& arguments) {
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          T* y = static_cast<T*>(arguments.outputs[0]);
          const std::int64_t num_lines = lines.outer * lines.inner;
          if (goes_by_block(lines)) {
            gpu::launch_blocks(
                arguments.queue,
                {.blocks = num_lines, .threads = kThreads, .shared_bytes = 2 * kThreads * sizeof(RunningSum<T>)},
                SumLineByBlock<T>{lines, x, y});
          } else {
            gpu::launch_each(arguments.queue, num_lines, SumLine<T>{lines, gpu::Divisor(lines.inner), x, y});
          }
        },
        {.in_place = {{0, 0}}});
  });
}

}  // namespace

void add_scan_cuda_kernels(KernelRegistry& registry) {
  registry.add("cumsum", make_cumsum, Bf16::native);
}

}  // namespace sectionflow
