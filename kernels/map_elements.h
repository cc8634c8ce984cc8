#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/export.h"
#include "kernels/function_kernel.h"

namespace SF_API sectionflow {

// Loops of kernels from outside: they need no OpenMP of the program's.

/// One thread's part of a loop that is cut: `body` for the elements from `begin` up to but not including `end`.
using LoopPart = void (*)(const void* body, std::int64_t begin, std::int64_t end);

/// Calls `part(body, begin, end)` on parts of [0, count) that together cover it, on the session's compute team.
void call_in_parts(std::int64_t count, const void* body, LoopPart part);

/// Calls `body(begin, end)` on parts of [0, count) that together cover it, on the session's compute team; a short loop
/// is one part. Which thread gets which part must not matter to the result: a body writes only what its own indices
/// name, and does not allocate or throw.
template <class Body>
void for_each_part(std::int64_t count, const Body& body) {
  call_in_parts(count, &body, [](const void* of_type, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(of_type))(begin, end);
  });
}

/// As below, for inputs with these numbers.
template <class Function, std::size_t... k>
std::unique_ptr<Kernel> map_elements(const KernelRequest& request, Function function, std::index_sequence<k...>) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const std::array<const float*, sizeof...(k)> inputs = {static_cast<const float*>(arguments.inputs[k])...};
        float* y = static_cast<float*>(arguments.outputs[0]);
        for_each_part(num_elements, [&](std::int64_t begin, std::int64_t end) {
          [=](auto... x) {
      // y is one of the inputs or lies apart from them all, so that no element waits for another's.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
            for (std::int64_t i = begin; i < end; ++i) y[i] = function(x[i]...);
          }(inputs[k]...);
        });
      },
      {.in_place = {{.input = static_cast<int>(k), .output = 0}...}});
}

/// The kernel of y[i] = function(x[i]...) for f32 tensors of one shape; `function` takes one, two or three floats, one
/// an input, and is held by value. y may lie over any of the inputs. Arithmetic without branches becomes vectors; so do
/// the functions of kernels/vector_math.h, which give the same bits on every machine, as those of cmath need not.
template <class Function>
std::unique_ptr<Kernel> map_elements(const KernelRequest& request, Function function) {
  if constexpr (std::is_invocable_v<Function, float>) {
    return map_elements(request, function, std::make_index_sequence<1>());
  } else if constexpr (std::is_invocable_v<Function, float, float>) {
    return map_elements(request, function, std::make_index_sequence<2>());
  } else {
    return map_elements(request, function, std::make_index_sequence<3>());
  }
}

}  // namespace sectionflow
