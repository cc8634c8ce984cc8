#pragma once

#include <cstdint>
#include <vector>

namespace sectionflow::planning {

/// A value of a forward pass, as who cuts the pass into sections sees it. Places are those of its operations, in order.
struct PlacedValue {
  int made = 0;
  int last_use = 0;         ///< the highest place whose operation, or whose gradient, reads it
  int first_gradient = -1;  ///< the lowest place whose gradient reads it; -1: no gradient does
  std::int64_t bytes = 0;

  bool crosses(int border) const { return made < border && last_use >= border; }
};

/// A training graph as a row of operations to be cut. A border stands before the place of its number.
struct CutProblem {
  std::vector<PlacedValue> values{};
  // One a place.
  std::vector<std::int64_t> forward_bytes{};   ///< taken where it is computed, beside values that gradients read
  std::vector<std::int64_t> gradient_bytes{};  ///< taken by its gradient, beside the same
  std::vector<double> forward_seconds{};
  std::vector<std::vector<int>> inputs{};  ///< the places that it reads

  int num_places() const { return static_cast<int>(forward_bytes.size()); }
};

/// Borders, each higher than the one before, of which there may be none.
using Borders = std::vector<int>;

/// Equal parts by operations. `sections`: from 1 to the number of places.
Borders equal_parts(int num_places, int sections);

/// Cuts a problem by what it is going to take: what crosses borders is kept until its last reader's section is run
/// backward, all else is dropped behind the forward pass and computed again, but for the last section. Bytes and
/// seconds are estimates. Deterministic.
class Cutter {
 public:
  explicit Cutter(const CutProblem& problem);

  /// Where borders may stand: where less crosses than before and behind, as at articulation points and small vertex
  /// cuts.
  const std::vector<int>& places() const { return places_; }
  /// The lowest peak of so many sections, of which there must be no more than places and one. With `slack` that of the
  /// cuts whose peak is no more than this share higher which keeps least at its borders: the estimate may be wrong.
  Borders lowest_peak(int sections, double slack = 0) const;
  /// The least time computed again, and of that the fewest bytes, in so many bytes; whether there is such a cut.
  bool quickest(std::int64_t capacity, Borders& borders) const;
  /// Peak of a cut whose borders are of places(), and how long it computes again.
  std::int64_t peak_of(const Borders& borders) const;
  double again_seconds_of(const Borders& borders) const;
  /// The lowest peak of any number of sections.
  Borders lowest_peak() const;

 private:
  struct Stretch {
    std::int64_t peak = 0;     // of the section by itself
    std::int64_t border = 0;   // what it makes that crosses its end
    double again_seconds = 0;  // computed again
  };
  const Stretch& stretch(std::size_t from, std::size_t to) const { return stretches_[from * ends_.size() + to]; }
  std::vector<const Stretch*> stretches_of(const Borders& borders) const;
  void find_places(const CutProblem& problem);
  void add_borders(const CutProblem& problem);
  void add_gradients(const CutProblem& problem);
  static std::vector<char> places_again(const CutProblem& problem, int end);
  void add_recomputation(const CutProblem& problem);
  bool is_within(std::int64_t capacity, int sections, Borders& borders) const;

  std::vector<int> places_;
  std::vector<int> ends_;  // 0, places_, the number of places
  std::vector<Stretch> stretches_;
};

}  // namespace sectionflow::planning
