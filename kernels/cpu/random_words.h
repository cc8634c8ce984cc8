#pragma once

#include <cstdint>

#include "base/random.h"

namespace sectionflow {

/// fill_random_words (base/random.h), the same words, by AVX-512 where instruction_set() has it.
void fill_random_words_in_vectors(const RandomAddress& address, std::uint64_t first_block, std::int64_t num_blocks,
                                  std::uint32_t* words);

}  // namespace sectionflow
