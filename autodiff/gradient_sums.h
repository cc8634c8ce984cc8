#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {

/// A part of the gradient of `value`.
struct Contribution {
  Value value, gradient;
  bool has_sum = false;  ///< it is the sum so far (GradientSums::open_sum) with the part
};

/// Where the node stands that contributes to the gradients of its inputs.
struct ContributorPlace {
  GroupId group = kNoGroup;
  Branch branch{};
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
///
/// What readers in a branch contribute to a value outside of it is a sum of its own, made in the branch, that leaves as
/// one contribution when it is complete: where both branches of a choice contribute, as one or the other; where one
/// does, as that or zeros. So nothing of it is computed where the branch is not taken.
class GradientSums {
 public:
  /// Says that one more contribution to the gradient of `value` is to come, of a reader in this branch.
  void expect(const Value& value, Branch reader);
  bool expects(const Value& value) const { return sums_.contains({value, value.node().branch()}); }

  /// The sum so far to which a reader in this branch may add its part itself; invalid where nothing has come yet, where
  /// parts wait, and of bf16.
  Value open_sum(const Value& value, Branch reader) const;

  /// Adds what a reader contributes to the gradients of its inputs, in their order.
  void contribute(const std::vector<Contribution>& contributions, ContributorPlace reader);

  /// The gradient of `value`, when nothing more will be contributed, be it less than was expected. Invalid where
  /// nothing has been.
  Value total(const Value& value);

 private:
  struct ByCreation {
    bool operator()(const std::vector<Value>& a, const std::vector<Value>& b) const {
      return std::ranges::lexicographical_compare(a, b, is_before);
    }
  };
  /// Of what a sum is, and where it is made: in the value's own branch, or in one within that.
  struct Place {
    Value value;
    Branch branch{};

    /// Branches of lower numbers are around those of higher ones, or apart; to be in none comes first.
    std::pair<NodeId, bool> branch_number() const {
      return {branch.exists() ? branch.choice->id() : -1, branch.exists() && branch.when};
    }
    friend bool operator<(const Place& a, const Place& b) {
      if (a.value != b.value) return is_before(a.value, b.value);
      return a.branch_number() < b.branch_number();
    }
  };
  struct Sum {
    int expected = 0;
    int received = 0;
    GroupId group = kNoGroup;  ///< of the latest contribution's reader
    std::vector<Value> parts;  ///< still to be added up; the first may be a sum already

    bool is_complete() const { return received == expected; }
  };

  static Place place_of(const Value& value, Branch reader);
  void take(const Place& place, const Value& part, GroupId group, bool has_sum = false);
  void leave(const Place& place, bool is_last);
  static Value passed_on(const Place& place, const Value& own, const Value& others, GroupId group);
  Value finished(const Place& place);
  bool has_to_wait(const Value& value, const Sum& sum) const;
  void add_parts(const Place& place, Sum& sum, bool is_last);
  Value added(const Place& place, const Sum& sum, const std::vector<Value>& parts, Dtype dtype);
  void hold(const std::vector<Value>& parts, int change);

  std::map<Place, Sum> sums_;
  std::map<Value, int> holders_;  ///< of each part, how often sums still have it
  /// What has been added up, by the branch in which it was and its parts.
  std::map<std::pair<NodeId, bool>, std::map<std::vector<Value>, Value, ByCreation>> added_;
};

}  // namespace sectionflow
