// The checks of SectionFlow's own operations, on one of one's own.

#include <cmath>
#include <iostream>

#include "examples/no_arguments.h"
#include "op_case/op_case.h"
#include "swish.h"

namespace {

using namespace sectionflow;
using op_cases::Doubles;
using op_cases::OpCase;

OpCase swish_case(const std::string& name, Shape shape, float slope) {
  return {.name = name,
          .inputs = {op_cases::input(std::move(shape), -4, 4)},
          .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{acme::swish(in[0], {slope})}; },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y = in[0];
                for (double& value : y) value /= 1 + std::exp(-slope * value);
                return std::vector<Doubles>{y};
              },
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = sectionflow::answer_arguments(
          argc, argv, "Checks an operation of its own as the library checks its own: values, gradients, bits."))
    return *status;
  acme::register_swish();
  int num_failures = 0;
  for (const OpCase& in_f32 :
       {swish_case("none", {0, 4}, 1), swish_case("odd", {3, 7}, 1.5F), swish_case("large", {151, 333}, 0.5F)}) {
    for (const OpCase& op_case : {in_f32, in_bf16(in_f32)}) {
      for (const std::string& failure : failures_of(op_case)) {
        std::cout << failure << "\n";
        ++num_failures;
      }
    }
  }
  std::cout << "swish: " << num_failures << " failures\n";
  return num_failures == 0 ? 0 : 1;
}
