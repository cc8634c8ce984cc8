#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sectionflow {

/// How far ahead of itself a loop asks for what it is going to read and write. A core that is full of operations which
/// wait for each other comes to its next loads and stores late, and what hardware asks for by itself is then not
/// enough: the loop takes the time of its arithmetic and that of memory one after the other. Measured: from 2 to 8 KiB
/// on, functions of 20 to 60 operations take the longer of both.
inline constexpr std::int64_t kBytesAhead = 4096;
inline constexpr std::int64_t kLineBytes = 64;

/// Into which cache lines are asked: the second takes more requests at a time, which is better for loops that do little
/// else than read.
enum class CacheLevel { first, second };

/// Asks for the lines of elements [0, count) of `elements`, to be read or written soon. Changes nothing, and may ask
/// for memory that there is not.
template <CacheLevel kLevel = CacheLevel::first, class T>
void ask_for_lines(const T* elements, std::int64_t count) {
  // By addresses, since there may be no such elements.
  const auto first = reinterpret_cast<std::uintptr_t>(elements);
  const auto num_bytes = static_cast<std::uintptr_t>(count) * sizeof(T);
  for (std::uintptr_t byte = 0; byte < num_bytes; byte += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(first + byte), 0, kLevel == CacheLevel::first ? 3 : 2);
  }
}

/// The same for the elements that lie `num_bytes` behind those.
template <CacheLevel kLevel = CacheLevel::first, class T>
void ask_ahead(const T* elements, std::int64_t count, std::int64_t num_bytes = kBytesAhead) {
  const auto first = reinterpret_cast<std::uintptr_t>(elements) + static_cast<std::uintptr_t>(num_bytes);
  ask_for_lines<kLevel>(reinterpret_cast<const T*>(first), count);
}

/// Elements of a step of `in_steps`.
inline constexpr std::int64_t kElementsAStep = 64;

/// Calls `body(first, count)` for neighbouring stretches that together are [begin, end), and asks ahead for each of
/// `operands`, by the same indices. All counts but that of the rest are the constant kElementsAStep, so that loops over
/// them become vectors without a rest of their own.
template <class Body, class... T>
void in_steps(std::int64_t begin, std::int64_t end, const Body& body, const T*... operands) {
  std::int64_t first = begin;
  for (; first + kElementsAStep <= end; first += kElementsAStep) {
    (ask_ahead(operands + first, kElementsAStep), ...);
    body(first, std::integral_constant<std::int64_t, kElementsAStep>());
  }
  if (first < end) body(first, end - first);
}

}  // namespace sectionflow
