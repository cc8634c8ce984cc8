#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {

/// A part of the gradient of `value`.
struct Contribution {
  Value value, gradient;
};

/// The gradients of values that are read several times: sums of what their readers' inputs contribute. They are added
/// up in the order in which contribute() is called, which is that of the backward pass: by falling readers, and each
/// reader's inputs in turn. So the graph alone decides the order. Each contribution is added as soon as it is there, by
/// a node in its reader's group; that node can write over the sum so far, so that any number of contributions needs no
/// more memory than two.
///
/// A gradient may be passed on, as it is, to several values. Sums that so have the same parts are made once. The first
/// two parts wait for a third, or for the end, while other sums hold both: there would be nothing to write over.
///
/// A sum of bf16 values is rounded once. Up to three of them wait for each other: they take no more memory than a sum
/// of two in f32 and the third. More are carried in f32 up to the last one.
class GradientSums {
 public:
  /// Says that one more contribution to the gradient of `value` is to come.
  void expect(const Value& value) { ++sums_[value].expected; }
  bool expects(const Value& value) const { return sums_.contains(value); }

  /// Adds what a reader of group `group` contributes to the gradients of its inputs, in their order.
  void contribute(const std::vector<Contribution>& contributions, GroupId group);

  /// The gradient of `value`, when nothing more will be contributed, be it less than was expected. Invalid where
  /// nothing has been.
  Value total(const Value& value);

 private:
  struct ByCreation {
    bool operator()(const std::vector<Value>& a, const std::vector<Value>& b) const {
      return std::ranges::lexicographical_compare(a, b, is_before);
    }
  };
  struct Sum {
    int expected = 0;
    int received = 0;
    GroupId group = kNoGroup;  ///< of the latest contribution's reader
    std::vector<Value> parts;  ///< still to be added up; the first may be a sum already
  };

  bool has_to_wait(const Value& value, const Sum& sum) const;
  void add_parts(const Value& value, Sum& sum, bool is_last);
  Value added(const Value& value, const Sum& sum, const std::vector<Value>& parts, Dtype dtype);
  void hold(const std::vector<Value>& parts, int change);

  std::map<Value, Sum> sums_;
  std::map<Value, int> holders_;                           ///< of each part, how often sums still have it
  std::map<std::vector<Value>, Value, ByCreation> added_;  ///< what has been added up, by its parts
};

}  // namespace sectionflow
