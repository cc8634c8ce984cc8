#include "autodiff/gradient_sums.h"

#include <algorithm>
#include <utility>

#include "graph/nodes/arithmetic.h"
#include "graph/nodes/control.h"
#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

constexpr int kMostThatWait = 3;

/// Of parts of one dtype. What a cast has widened, as the gradient of a variable's cast, is added as it was before.
Value sum_of(const std::vector<Value>& parts) {
  if (parts.size() != 2 || parts[0].dtype() != Dtype::f32) return add_n(parts);
  const Value a = before_widening(parts[0]), b = before_widening(parts[1]);
  if (b.dtype() == Dtype::bf16) return accumulate(a, b, Dtype::f32);
  return a.dtype() == Dtype::bf16 ? accumulate(b, a, Dtype::f32) : add_n(parts);
}

Branch sibling(Branch branch) {
  return {branch.choice, !branch.when};
}

}  // namespace

/// A reader that is not within the value's own branch is what leaves that, and contributes to it as it is.
GradientSums::Place GradientSums::place_of(const Value& value, Branch reader) {
  const Branch own = value.node().branch();
  return {value, reader.is_within(own) ? reader : own};
}

void GradientSums::expect(const Value& value, Branch reader) {
  Place place = place_of(value, reader);
  while (++sums_[place].expected == 1 && place.branch != value.node().branch()) {
    // Both branches of a choice leave as one.
    if (sums_.contains({value, sibling(place.branch)})) return;
    place.branch = place.branch.around();
  }
}

Value GradientSums::open_sum(const Value& value, Branch reader) const {
  const Place place = place_of(value, reader);
  const auto found = sums_.find(place);
  if (found == sums_.end() || found->second.parts.size() != 1) return {};
  const Value& sum = found->second.parts.front();
  const bool is_f32 = value.dtype() == Dtype::f32 && before_widening(sum).dtype() == Dtype::f32;
  return is_f32 && place.branch == reader ? sum : Value();
}

void GradientSums::contribute(const std::vector<Contribution>& contributions, ContributorPlace reader) {
  // All are known before any is added: whether one is passed on to several values decides when it is.
  for (const auto& [value, gradient, has_sum] : contributions) {
    take(place_of(value, reader.branch), gradient, reader.group, has_sum);
  }
  for (const Contribution& contribution : contributions) {
    const Value& value = contribution.value;
    const Place place = place_of(value, reader.branch);
    Sum& sum = sums_[place];
    if (!has_to_wait(value, sum)) add_parts(place, sum, sum.is_complete());
  }
  for (const Contribution& contribution : contributions) leave(place_of(contribution.value, reader.branch), false);
}

void GradientSums::take(const Place& place, const Value& part, GroupId group, bool has_sum) {
  Sum& sum = sums_[place];
  sum.group = group;
  ++sum.received;
  if (has_sum) {
    hold(sum.parts, -1);
    sum.parts.clear();
  }
  sum.parts.push_back(part);
  hold({part}, 1);
}

/// Passes a sum of a branch on to that around it, once nothing more will come to it, nor to that of the other branch.
void GradientSums::leave(const Place& place, bool is_last) {
  const auto& [value, branch] = place;
  if (branch == value.node().branch()) return;
  const Place other{value, sibling(branch)};
  const auto waits = [&](const Place& side) {
    const auto found = sums_.find(side);
    return found != sums_.end() && !found->second.is_complete() && !is_last;
  };
  if (waits(place) || waits(other)) return;
  const Value own = finished(place);
  if (!own.valid()) return;
  const Value others = finished(other);
  const Place outside{value, branch.around()};
  const GroupId group = sums_[place].group;
  take(outside, passed_on(place, own, others, group), group);
  sums_[place].parts.clear();
  if (others.valid()) sums_[other].parts.clear();
  Sum& sum = sums_[outside];
  if (!has_to_wait(value, sum)) add_parts(outside, sum, sum.is_complete());
  leave(outside, false);
}

/// What leaves the branch of a place: its sum, or that of the other branch, where there is one.
Value GradientSums::passed_on(const Place& place, const Value& own, const Value& others, GroupId group) {
  const auto& [value, branch] = place;
  Graph& graph = value.graph();
  const auto in_group = graph.enter_group(group);
  const auto in_branch = graph.enter_branch(branch.around());
  const auto at = graph.enter_place(value.node().where());
  const Value left = value_in(own, branch);
  if (!others.valid()) return leave_branch(left, value, branch.flag(), branch.when);
  const Value right = value_in(others, sibling(branch));
  return merge_branches(branch.when ? left : right, branch.when ? right : left, branch.flag());
}

Value GradientSums::total(const Value& value) {
  const Branch own = value.node().branch();
  // What fewer have contributed to than was expected has not left its branch: the innermost first.
  std::vector<Place> within;
  for (auto sum = sums_.lower_bound({value, {}}); sum != sums_.end() && sum->first.value == value; ++sum) {
    if (sum->first.branch != own) within.push_back(sum->first);
  }
  std::ranges::reverse(within);
  for (const Place& place : within) leave(place, true);
  return finished({value, own});
}

/// All that has come to a sum; invalid where nothing has, or what has come has left.
Value GradientSums::finished(const Place& place) {
  const auto found = sums_.find(place);
  if (found == sums_.end() || found->second.parts.empty()) return {};
  Sum& sum = found->second;
  add_parts(place, sum, true);
  Value& result = sum.parts.front();
  // Carried in f32 for one that did not come.
  if (place.value.dtype() == Dtype::bf16 && result.dtype() == Dtype::f32) {
    const auto group = place.value.graph().enter_group(sum.group);
    const auto branch = place.value.graph().enter_branch(place.branch);
    result = cast(result, Dtype::bf16, place.value.node().where());
  }
  hold(sum.parts, -1);
  return result;
}

bool GradientSums::has_to_wait(const Value& value, const Sum& sum) const {
  if (value.dtype() == Dtype::bf16) return sum.expected <= kMostThatWait && sum.received < sum.expected;
  // The end of a variable's sum is that of the whole pass.
  if (value.node().inputs().empty() || sum.parts.size() != 2) return false;
  const auto is_held_elsewhere = [&](const Value& part) {
    return holders_.at(part) > std::count(sum.parts.begin(), sum.parts.end(), part);
  };
  return std::all_of(sum.parts.begin(), sum.parts.end(), is_held_elsewhere);
}

void GradientSums::add_parts(const Place& place, Sum& sum, bool is_last) {
  if (sum.parts.size() < 2) return;
  const Value& value = place.value;
  std::vector<Value> parts = sum.parts;
  if (value.dtype() == Dtype::bf16 && sum.expected > kMostThatWait) {
    while (parts.size() > 2) {
      parts[1] = added(place, sum, {parts[0], parts[1]}, Dtype::f32);
      parts.erase(parts.begin());
    }
    parts = {added(place, sum, parts, is_last ? Dtype::bf16 : Dtype::f32)};
  } else {
    parts = {added(place, sum, parts, value.dtype())};
  }
  hold(sum.parts, -1);
  sum.parts = std::move(parts);
  hold(sum.parts, 1);
}

Value GradientSums::added(const Place& place, const Sum& sum, const std::vector<Value>& parts, Dtype dtype) {
  const Value& value = place.value;
  Value& result = added_[place.branch_number()][parts];
  if (!result.valid() || result.dtype() != dtype) {
    const auto group = value.graph().enter_group(sum.group);
    const auto branch = value.graph().enter_branch(place.branch);
    const auto at = value.graph().enter_place(value.node().where());
    const bool is_carried = dtype != value.dtype() || parts[0].dtype() != dtype;
    result = is_carried ? accumulate(parts[0], parts[1], dtype) : sum_of(parts);
  }
  return result;
}

void GradientSums::hold(const std::vector<Value>& parts, int change) {
  for (const Value& part : parts) holders_[part] += change;
}

}  // namespace sectionflow
