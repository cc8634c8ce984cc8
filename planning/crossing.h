#pragma once

#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// What the first execution of one operation divides: values that are made before it and read after it.
struct Crossing {
  int operation = -1;
  double forced = 0;          // bytes that are in device memory while it is executed, whatever the plan, unless it
                              // writes over what has to come back
  double seconds_before = 0;  // of all operations that may come before it
  std::vector<int> wanted;    // values that are needed after it, beside its own inputs and outputs
  std::vector<char> own;      // for each value: whether it is an input or output of the operation
  double bytes_of_wanted = 0;
  std::vector<int> comes_back;  // inputs that it may write over, and that are wanted after it
  double more_overwritten = 0;  // by how much `forced` is less where it writes over these too, at most
  int made_again = -1;          // a wanted value that cannot have been kept
};

/// Finds crossings of one problem, which has to outlive this.
class Crossings {
 public:
  explicit Crossings(const Problem& problem);
  void find(int operation, Crossing& crossing);

 private:
  using Neighbours = std::vector<std::vector<int>>;
  bool is_wanted_after(int value) const;
  void find_overwritten(const Operation& operation, Crossing& crossing) const;
  const Problem& problem_;
  const std::vector<std::vector<int>> readers_;
  // Operations whose first executions come before those of others, whatever the plan: the nearest of them.
  Neighbours before_, after_;
  double seconds_ = 0;  // of all operations
  std::vector<char> is_before_, is_after_;
};

/// The same where the operation writes over this value of `comes_back`, and perhaps over others. In every plan it
/// writes over one of them, or over none.
Crossing with_overwritten(const Problem& problem, const Crossing& crossing, int value);

/// Whether losing a value loses it for good, but for a copy in host memory.
bool must_be_kept(const Problem& problem, int value);

/// The fractional knapsack at a crossing: what has to be executed again after it for wanted values that are not held,
/// wanted values of one producer being one item.
class Knapsack {
 public:
  Knapsack(const Problem& problem, const Crossing& crossing);
  /// Seconds with so many bytes, a byte more being had for `most_price` seconds.
  double seconds(double capacity, double most_price) const;

 private:
  struct Item {
    double seconds = 0, bytes = 0, density = 0;
  };
  std::vector<double> must_be_kept_;  // bytes
  std::vector<Item> items_;           // the densest first
};

}  // namespace sectionflow::planning
