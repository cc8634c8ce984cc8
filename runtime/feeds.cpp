#include "runtime/feeds.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace sectionflow {
namespace {

/// The number in bf16, rounded once. By way of f32 it would be rounded twice: what f32 puts in the middle of two
/// numbers of bf16 may have been on either side of it.
BFloat16 narrowed(double number) {
  const auto nearest = static_cast<float>(number);
  const bool is_middle = (std::bit_cast<std::uint32_t>(nearest) & 0xFFFFU) == 0x8000U;
  if (!is_middle || static_cast<double>(nearest) == number) return BFloat16(nearest);
  return BFloat16(std::nextafter(nearest, number < nearest ? -HUGE_VALF : HUGE_VALF));
}

}  // namespace

FeedData::FeedData(Dtype dtype, const void* value, std::size_t num_bytes) : type_{dtype, {}} {
  std::memcpy(scalar_.data(), value, num_bytes);
}

FeedData FeedData::rounded_to(Dtype dtype) const {
  if (!is_number_ || (dtype != Dtype::f32 && dtype != Dtype::bf16)) return *this;
  const double number = *this->number();
  const auto rounded = static_cast<float>(number);
  const BFloat16 narrow = narrowed(number);
  const bool holds = dtype == Dtype::f32 ? std::isfinite(rounded) : std::isfinite(static_cast<float>(narrow));
  if (std::isfinite(number) && !holds) return *this;
  return dtype == Dtype::f32 ? FeedData(rounded) : FeedData(Dtype::bf16, &narrow, sizeof(narrow));
}

std::optional<double> FeedData::number() const {
  if (!is_number_) return std::nullopt;
  double number = 0;
  std::memcpy(&number, scalar_.data(), sizeof(number));
  return number;
}

FeedTypes types_of(const Feeds& feeds) {
  FeedTypes types;
  for (const Feed& feed : feeds) {
    if (feed.data.type() == TensorType{Dtype::boolean, {}}) {
      types.push_back({feed.value, *feed.data.bytes() != std::byte{0}});
    } else {
      types.push_back({feed.value, feed.data.type().shape});
    }
  }
  return types;
}

}  // namespace sectionflow
