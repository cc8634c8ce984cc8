#include "tests/support/gradient_subjects.h"

#include <cmath>
#include <numeric>

#include "graph/ops/basic.h"

namespace sectionflow::testing_support {

Shape SubjectBuilder::shape(int rank, std::int64_t most) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(number(1, most));
  return Shape(std::move(dims));
}

Shape SubjectBuilder::broadcast_part(const Shape& shape) {
  std::vector<std::int64_t> dims(shape.dims().begin() + number(0, shape.rank()), shape.dims().end());
  for (std::int64_t& dim : dims) dim = number(0, 2) == 0 ? 1 : dim;
  return Shape(std::move(dims));
}

std::vector<float> SubjectBuilder::drawn(std::int64_t count, const DrawnRange& range) {
  std::vector<float> values;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
  const double gap = (range.high - range.low) / static_cast<double>(std::max<std::int64_t>(1, count));
  for (std::int64_t place : order) {
    double value = range.low + gap * (static_cast<double>(place) + real(0.25, 0.75));
    if (!range.distinct) {
      do value = real(range.low, range.high);
      while (std::abs(value) < range.away_from_zero);
    }
    values.push_back(static_cast<float>(value));
  }
  return values;
}

Value SubjectBuilder::data(Shape shape, DrawnRange range) {
  const Value value = placeholder(graph, "data", shape);
  std::vector<float> numbers = drawn(shape.num_elements(), range);
  feeds.emplace(value, HostTensor::of<float>(std::move(shape), numbers));
  return value;
}

Value SubjectBuilder::source(Shape shape, DrawnRange range) {
  const Value value = data(std::move(shape), range);
  if (sources.empty() || number(0, 4) > 0) sources.push_back(value);
  return value;
}

Value SubjectBuilder::whole_numbers(Shape shape, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(shape.num_elements()));
  for (std::int64_t& value : numbers) value = number(low, high);
  if (coin()) return constant(graph, HostTensor::of<std::int64_t>(std::move(shape), numbers));
  return constant(
      graph, HostTensor::of<std::int32_t>(std::move(shape), std::vector<std::int32_t>(numbers.begin(), numbers.end())));
}

Value SubjectBuilder::flag(bool value) {
  return constant(graph, HostTensor::scalar(value));
}

std::vector<GradientSubject> gradient_subjects() {
  std::vector<GradientSubject> subjects;
  add_elementwise_subjects(subjects);
  add_moving_subjects(subjects);
  add_layer_subjects(subjects);
  return subjects;
}

}  // namespace sectionflow::testing_support
