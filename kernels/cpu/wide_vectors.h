#pragma once

#include "device/instruction_set.h"

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

}  // namespace sectionflow
