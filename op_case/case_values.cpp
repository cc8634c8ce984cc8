#include "op_case/case_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace sectionflow::op_cases {
namespace {

template <class T>
void assign_values(HostTensor& tensor, const Doubles& values) {
  auto elements = tensor.values<T>();
  SF_CHECK(values.size() == elements.size(), ShapeError, values.size(), " values for ", tensor.type().text());
  std::transform(values.begin(), values.end(), elements.begin(), [](double value) { return static_cast<T>(value); });
}

}  // namespace

double uniform(std::mt19937& random, double low, double high) {
  return low + (high - low) * (random() * 0x1p-32);
}

Doubles drawn_values(const CaseInput& spec, std::mt19937& random) {
  if (!spec.values.empty()) return spec.values;
  Doubles values(static_cast<std::size_t>(spec.type.shape.num_elements()));
  if (spec.distinct) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    const double gap = (spec.high - spec.low) / static_cast<double>(std::max<std::size_t>(1, values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = spec.low + gap * (static_cast<double>(order[i]) + uniform(random, 0.25, 0.75));
    }
    return values;
  }
  SF_CHECK(spec.away_from_zero <= 0 || spec.away_from_zero < std::max(std::abs(spec.low), std::abs(spec.high)),
           ArgumentError, "CaseInput: no values from ", spec.low, " to ", spec.high, " are ", spec.away_from_zero,
           " away from 0");
  for (double& value : values) {
    if (is_floating(spec.type.dtype)) {
      do value = uniform(random, spec.low, spec.high);
      while (std::abs(value) < spec.away_from_zero);
    } else {
      value = std::floor(uniform(random, spec.low, spec.high + 1));
    }
  }
  return values;
}

HostTensor tensor_of(const TensorType& type, const Doubles& values) {
  HostTensor tensor(type);
  switch (type.dtype) {
    case Dtype::f32:
      assign_values<float>(tensor, values);
      break;
    case Dtype::f64:
      assign_values<double>(tensor, values);
      break;
    case Dtype::i32:
      assign_values<std::int32_t>(tensor, values);
      break;
    case Dtype::i64:
      assign_values<std::int64_t>(tensor, values);
      break;
    case Dtype::i8:
      assign_values<std::int8_t>(tensor, values);
      break;
    case Dtype::u8:
      assign_values<std::uint8_t>(tensor, values);
      break;
    case Dtype::boolean:
      assign_values<bool>(tensor, values);
      break;
    case Dtype::bf16:
      assign_values<BFloat16>(tensor, values);
      break;
  }
  return tensor;
}

}  // namespace sectionflow::op_cases
