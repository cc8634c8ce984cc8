#pragma once

#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

/// What the CPU's kernels may use, each with all before it. Which of them are used decides bits, not only speed.
enum class InstructionSet {
  sse41,
  avx2,
  avx512,       ///< AVX-512 with its parts for bytes, double words, quad words and vectors of any length
  avx512_bf16,  ///< and products of bf16 with sums of f32
  amx           ///< and those by tiles, where the kernel of the system grants them
};

/// The best that this machine has and oneDNN knows, or less where the environment variable SECTIONFLOW_MAX_ISA holds it
/// down, to one of `sse41`, `avx2`, `avx512`, `avx512_bf16`, `amx`. Read once, before anything is computed. It is about
/// code that is made at run time, and about loops of the library's own that there are for wide vectors too
/// (kernels/cpu/wide_vectors.h), with the same bits; for which machine all else was compiled is SECTIONFLOW_MARCH's.
/// Throws: ArgumentError for another text.
InstructionSet instruction_set();

/// "avx512_bf16"
std::string to_string(InstructionSet set);

/// Whether products of bf16 run on instructions for them. Where not, they run on f32, of pieces that are widened.
bool multiplies_bf16();

}  // namespace sectionflow
