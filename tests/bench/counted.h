#pragma once

#include <vector>

namespace sectionflow::bench {

/// A number that counts what is done with it: additions, subtractions, multiplications, divisions, comparisons and
/// elementary functions, one each. Its value does not matter.
class Counted {
 public:
  static inline double operations = 0;

  friend Counted operator+(Counted, Counted) { return counted(); }
  friend Counted operator-(Counted, Counted) { return counted(); }
  friend Counted operator*(Counted, Counted) { return counted(); }
  friend Counted operator/(Counted, Counted) { return counted(); }
  friend Counted operator-(Counted) { return counted(); }
  Counted& operator+=(Counted other) { return *this = *this + other; }
  friend bool operator<(Counted, Counted) {
    counted();
    return false;
  }
  /// e^x, ln, tanh, erf, a root.
  friend Counted function(Counted) { return counted(); }
  friend Counted larger(Counted a, Counted b) { return a < b ? b : a; }

 private:
  static Counted counted() {
    ++operations;
    return {};
  }
};

/// What `loops` count.
template <class Loops>
double operations_of(const Loops& loops) {
  Counted::operations = 0;
  loops();
  return Counted::operations;
}

}  // namespace sectionflow::bench
