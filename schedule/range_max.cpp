#include "schedule/range_max.h"

#include <algorithm>

namespace sectionflow {

RangeMax::RangeMax(std::span<const std::int64_t> values) {
  const std::size_t num_blocks = (values.size() + kBlock - 1) / kBlock;
  // Numbers beyond the row are less than all others of their block.
  values_.assign(num_blocks * kBlock, -1);
  std::copy(values.begin(), values.end(), values_.begin());
  added_.assign(num_blocks, 0);
  for (std::size_t block = 0; block < num_blocks; ++block) {
    const int first = static_cast<int>(block) * kBlock;
    maxima_.push_back(max_within(first, first + kBlock - 1));
    max_ = std::max(max_, maxima_.back());
  }
}

std::int64_t RangeMax::max_within(int first, int last) const {
  std::int64_t max = -1;
  for (int i = first; i <= last; ++i) max = std::max(max, values_[i]);
  return max;
}

void RangeMax::add_within(int block, int first, int last, std::int64_t amount) {
  const int begin = block * kBlock;
  if (first == begin && last == begin + kBlock - 1) {
    added_[block] += amount;
    maxima_[block] += amount;
  } else {
    for (int i = first; i <= last; ++i) values_[i] += amount;
    maxima_[block] = std::max(maxima_[block], max_within(first, last) + added_[block]);
  }
  max_ = std::max(max_, maxima_[block]);
}

void RangeMax::add(int first, int last, std::int64_t amount) {
  const int last_block = last / kBlock;
  for (int block = first / kBlock; block <= last_block; ++block) {
    add_within(block, std::max(first, block * kBlock), std::min(last, block * kBlock + kBlock - 1), amount);
  }
}

int RangeMax::position_of_max(int first, int last) const {
  const int first_block = first / kBlock, last_block = last / kBlock;
  const auto of_block = [&](int block) {
    const int begin = std::max(first, block * kBlock), end = std::min(last, block * kBlock + kBlock - 1);
    return end - begin + 1 == kBlock ? maxima_[block] : max_within(begin, end) + added_[block];
  };
  int best = first_block;
  std::int64_t max = of_block(first_block);
  for (int block = first_block + 1; block <= last_block; ++block) {
    const std::int64_t candidate = of_block(block);
    if (candidate > max) {
      max = candidate;
      best = block;
    }
  }
  const auto begin = values_.begin() + std::max(first, best * kBlock);
  return static_cast<int>(std::find(begin, values_.end(), max - added_[best]) - values_.begin());
}

}  // namespace sectionflow
