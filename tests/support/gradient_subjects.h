#pragma once

#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::testing_support {

/// What random values are drawn from.
struct DrawnRange {
  double low = -1.5, high = 1.5;
  double away_from_zero = 0;
  bool distinct = false;  ///< any two differ by at least (high - low) / (2 count)
};

/// A function of random sources that is being built: an operation under random shapes and options.
class SubjectBuilder {
 public:
  explicit SubjectBuilder(std::uint64_t seed) : random_(static_cast<std::mt19937::result_type>(seed)) {}

  /// Whole numbers from `low` to `high`, both possible.
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return random_() % 2 == 0; }
  /// std distributions differ between libraries; this does not.
  double real(double low, double high) { return low + (high - low) * (random_() * 0x1p-32); }
  /// `rank` dimensions of 1 to `most`.
  Shape shape(int rank, std::int64_t most = 4);
  /// One that broadcasts to `shape`, with or without its first dimensions.
  Shape broadcast_part(const Shape& shape);

  /// A placeholder of random f32 numbers of which derivatives are taken; now and then one that counts as constant.
  Value source(Shape shape, DrawnRange range = {});
  /// A placeholder of numbers that are constant.
  Value data(Shape shape, DrawnRange range = {});
  /// Random whole numbers from `low` to `high`, i32 or i64.
  Value whole_numbers(Shape shape, std::int64_t low, std::int64_t high);
  /// A boolean that the host knows.
  Value flag(bool value);
  /// y is a result: the function depends on it.
  void result(Value y) { results.push_back(y); }

  Graph graph;
  Feeds feeds;
  std::vector<Value> sources, results;
  double epsilon = kF32Epsilon;  ///< by which tolerances are counted; larger where bf16 takes part

 private:
  std::vector<float> drawn(std::int64_t count, const DrawnRange& range);

  std::mt19937 random_;
};

/// An operation, or several options of one, by name.
struct GradientSubject {
  std::string name;
  void (*build)(SubjectBuilder&);
  friend void PrintTo(const GradientSubject& subject, std::ostream* stream) { *stream << subject.name; }
};

/// Every operation whose derivative is not zero everywhere; gradient operations come in by the second derivatives.
std::vector<GradientSubject> gradient_subjects();
void add_elementwise_subjects(std::vector<GradientSubject>& subjects);
void add_moving_subjects(std::vector<GradientSubject>& subjects);
void add_layer_subjects(std::vector<GradientSubject>& subjects);

}  // namespace sectionflow::testing_support
