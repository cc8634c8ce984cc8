#pragma once

#include <cstdint>
#include <type_traits>

#include "device/instruction_set.h"
#include "kernels/stored_element.h"

namespace sectionflow {

#if defined(__x86_64__)
/// `loop()`, inlined into code for AVX-512: its loops become vectors of 512 bits.
template <class Loop>
[[gnu::flatten, gnu::noinline]]
#if defined(__clang__)
[[gnu::target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]]
#else
[[gnu::target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,prefer-vector-width=512")]]
#endif
void call_for_avx512(const Loop& loop) {
  loop();
}
#endif

/// Calls `loop()`, which neither allocates nor throws; where the machine has AVX-512 and SECTIONFLOW_MAX_ISA does not
/// forbid it, as compiled for that beside what SECTIONFLOW_MARCH says. For loops of long formulas, each operation of
/// which waits for the one before: a core holds so many operations that wait, and with vectors twice as long they are
/// of twice as many elements. The bits are the same, but for which NaN one is, since the same operations are rounded,
/// none of them fused; so it is not for sums whose order the compiler chooses.
template <class Loop>
void in_wide_vectors(const Loop& loop) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) {
    call_for_avx512(loop);
    return;
  }
#endif
  loop();
}

/// y[i] = of(i) for each i in [0, count), where `of` gives T, or floats that are stored as T, and reads of what lies
/// over y only what lies at i. Of a constant count four parts are computed side by side: operations of one wait for
/// each other, and a core finds those of the others only where they are near by. Which they are where the compiler
/// mixes them (kernels/CMakeLists.txt). Measured on Zen 5: gelu in two thirds of the time.
template <class T, class Count, class Of>
void write_elements(T* y, Count count, const Of& of) {
  // bf16 becomes f32, and f32 bf16, in vectors of all its elements.
  if constexpr (std::is_same_v<T, BFloat16>) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = stored<T>(of(i));
  } else if constexpr (std::is_same_v<Count, std::int64_t>) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = of(i);
  } else {
    constexpr std::int64_t kPart = Count::value / 4;
    static_assert(4 * kPart == Count::value);
#pragma omp simd
    for (std::int64_t i = 0; i < kPart; ++i) {
      // All four before the first is written: for all that a compiler knows, y is what the others read.
      const T first = of(i), second = of(i + kPart), third = of(i + 2 * kPart), fourth = of(i + 3 * kPart);
      y[i] = first;
      y[i + kPart] = second;
      y[i + 2 * kPart] = third;
      y[i + 3 * kPart] = fourth;
    }
  }
}

}  // namespace sectionflow
