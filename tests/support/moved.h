#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {

/// Every dtype: what only moves elements must take them all.
inline constexpr Dtype kAllDtypes[] = {Dtype::f32, Dtype::f64,     Dtype::i32,  Dtype::i64,
                                       Dtype::u8,  Dtype::boolean, Dtype::bf16, Dtype::i8};

/// An input of any dtype: small whole numbers where it is not f32.
inline CaseInput moved_input(Dtype dtype, Shape shape) {
  CaseInput spec = input(std::move(shape));
  spec.type.dtype = dtype;
  if (dtype != Dtype::f32) spec.low = 0, spec.high = dtype == Dtype::boolean ? 1 : 100;
  return spec;
}

/// An op that only moves elements: nothing is rounded.
inline OpCase moving_case(std::string name, std::vector<CaseInput> inputs, decltype(OpCase::build) build,
                          decltype(OpCase::reference) reference) {
  // Gradients may be sums: in bf16 they are rounded once.
  const bool is_bf16 = !inputs.empty() && inputs[0].type.dtype == Dtype::bf16;
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .build = std::move(build),
          .reference = std::move(reference),
          .tolerance = {.relative = 0, .absolute = 0},
          .gradient_tolerance = {.relative = is_bf16 ? 1.002 * 0x1p-8 / kF32Epsilon : 32},
          .same_bits_for_any_threads = true};
}

/// Expects an error of the type whose text starts with `start` and has all `parts`.
template <class Wanted, class Call>
void expect_refused(const Call& call, const std::string& start, const std::vector<std::string>& parts) {
  const std::string text = error_text<Wanted>(call);
  EXPECT_EQ(text.find(start), 0U) << text;
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "wanted " << part << " in: " << text;
}

}  // namespace sectionflow::testing_support
