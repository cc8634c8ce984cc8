#include "graph/ops/scan.h"

#include <algorithm>
#include <type_traits>

#include "device/parallel.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/scan.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

using formulas::RunningSum;
using formulas::ScanLines;

/// Rows of neighbouring elements, side by side: each sum waits for the one before it, and for none of another row. They
/// go on from the sums so far.
template <class T, int kRows, bool kExclusive>
void sum_rows(const ScanLines& lines, const T* x, T* y, RunningSum<T> (&so_far)[kRows]) {
  RunningSum<T> sums[kRows];
  std::copy_n(so_far, kRows, sums);
  for (std::int64_t step = 0; step < lines.length; ++step) {
    const std::int64_t place = lines.place(step);
    for (int row = 0; row < kRows; ++row) {
      const std::int64_t at = row * lines.length + place;
      const RunningSum<T> with = sums[row] + static_cast<RunningSum<T>>(x[at]);
      y[at] = formulas::stored_sum<T>(kExclusive ? sums[row] : with);
      sums[row] = with;
    }
  }
  std::copy_n(sums, kRows, so_far);
}

/// So many sums side by side hide how long each takes; but of long rows no more than caches have places for lines that
/// lie as far apart as rows.
constexpr std::int64_t kRowsAtOnce = 4, kShortRowsAtOnce = 8, kShortRow = 512;

/// The same of bf16, which is converted in vectors on either side of the sums.
template <int kRows, bool kExclusive>
void sum_bf16_rows(const ScanLines& lines, const BFloat16* x, BFloat16* y) {
  constexpr std::int64_t kStretch = 512;
  ScanLines part = lines;
  float numbers[kRows * kStretch], carried[kRows] = {};
  for (std::int64_t done = 0; done < lines.length; done += part.length) {
    part.length = std::min(kStretch, lines.length - done);
    const std::int64_t begin = lines.sums.reverse ? lines.length - done - part.length : done;
    for (int row = 0; row < kRows; ++row) {
      convert_row(numbers + row * part.length, x + row * lines.length + begin, part.length);
    }
    sum_rows<float, kRows, kExclusive>(part, numbers, numbers, carried);
    for (int row = 0; row < kRows; ++row) {
      convert_row(y + row * lines.length + begin, numbers + row * part.length, part.length);
    }
  }
}

template <class T, int kRows, bool kExclusive>
void sum_stored_rows(const ScanLines& lines, const T* x, T* y) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    sum_bf16_rows<kRows, kExclusive>(lines, x, y);
  } else {
    RunningSum<T> sums[kRows] = {};
    sum_rows<T, kRows, kExclusive>(lines, x, y, sums);
  }
}

template <class T, int kRows, bool kExclusive>
void sum_all_rows(const ScanLines& lines, const T* x, T* y) {
  const std::int64_t groups = (lines.outer + kRows - 1) / kRows;
  const std::int64_t work = std::max<std::int64_t>(1, kRows * lines.length);
  parallel_for(groups, std::max<std::int64_t>(1, kParallelGrain / work), [=](std::int64_t begin, std::int64_t end) {
    std::int64_t row = begin * kRows;
    const std::int64_t end_row = std::min(lines.outer, end * kRows);
    for (; row + kRows <= end_row; row += kRows) {
      if (lines.length <= kShortRow) {
        ask_ahead(x + row * lines.length, work);
        ask_ahead(y + row * lines.length, work);
      }
      sum_stored_rows<T, kRows, kExclusive>(lines, x + row * lines.length, y + row * lines.length);
    }
    for (; row < end_row; ++row) {
      sum_stored_rows<T, 1, kExclusive>(lines, x + row * lines.length, y + row * lines.length);
    }
  });
}

/// Their sums stay in the second-level cache, while memory is read and written in stretches that are worth prefetching.
template <class T>
constexpr std::int64_t kColumnsAtOnce = 65536 / sizeof(RunningSum<T>);
/// Of few rows, beside which sums take as long: in the first-level cache.
template <class T>
std::int64_t columns_at_once(std::int64_t rows) {
  return rows < 64 ? kColumnsAtOnce<T> / 4 : kColumnsAtOnce<T>;
}

/// `count` columns, whose neighbours lie beside them and whose next elements lie `inner` behind.
template <class T, bool kExclusive>
void sum_columns(const ScanLines& lines, const T* x, T* y, std::int64_t count) {
  RunningSum<T> sums[kColumnsAtOnce<T>];
  std::fill_n(sums, count, RunningSum<T>{});
  for (std::int64_t step = 0; step < lines.length; ++step) {
    const T* from = x + lines.place(step) * lines.inner;
    T* to = y + lines.place(step) * lines.inner;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      const RunningSum<T> with = sums[c] + static_cast<RunningSum<T>>(from[c]);
      to[c] = formulas::stored_sum<T>(kExclusive ? sums[c] : with);
      sums[c] = with;
    }
  }
}

template <class T, bool kExclusive>
void sum_all_columns(const ScanLines& lines, const T* x, T* y) {
  // So few columns, of all planes, are worth a thread; 64 are a whole number of cache lines.
  const std::int64_t grain = std::max<std::int64_t>(64, kParallelGrain / std::max<std::int64_t>(1, lines.length));
  parallel_for(lines.outer * lines.inner, grain, [=](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t column = begin % lines.inner;
      const std::int64_t first = begin / lines.inner * lines.length * lines.inner + column;
      const std::int64_t count = std::min({columns_at_once<T>(lines.length), lines.inner - column, end - begin});
      sum_columns<T, kExclusive>(lines, x + first, y + first, count);
      begin += count;
    }
  });
}

template <class T, bool kExclusive>
std::unique_ptr<Kernel> make_sums(const ScanLines& lines) {
  return function_kernel(
      [lines](const KernelArguments& arguments) {
        const T* x = static_cast<const T*>(arguments.inputs[0]);
        T* y = static_cast<T*>(arguments.outputs[0]);
        if (lines.inner == 1 && lines.length <= kShortRow) {
          sum_all_rows<T, kShortRowsAtOnce, kExclusive>(lines, x, y);
        } else if (lines.inner == 1) {
          sum_all_rows<T, kRowsAtOnce, kExclusive>(lines, x, y);
        } else {
          sum_all_columns<T, kExclusive>(lines, x, y);
        }
      },
      {.in_place = {{0, 0}}});
}

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  const ScanLines lines(request.inputs[0].shape, request.node.options<CumsumNodeOptions>());
  return formulas::with_summed_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return lines.sums.exclusive ? make_sums<T, true>(lines) : make_sums<T, false>(lines);
  });
}

}  // namespace

void add_scan_cpu_kernels(KernelRegistry& registry) {
  registry.add("cumsum", make_cumsum, Bf16::native);
}

}  // namespace sectionflow
