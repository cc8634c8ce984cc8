#include "autodiff/gradient_sums.h"

#include <algorithm>
#include <utility>

#include "graph/nodes/arithmetic.h"
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

}  // namespace

void GradientSums::contribute(const std::vector<Contribution>& contributions, GroupId group) {
  // All are known before any is added: whether one is passed on to several values decides when it is.
  for (const auto& [value, gradient] : contributions) {
    Sum& sum = sums_[value];
    sum.group = group;
    ++sum.received;
    sum.parts.push_back(gradient);
    hold({gradient}, 1);
  }
  for (const auto& [value, gradient] : contributions) {
    Sum& sum = sums_[value];
    if (!has_to_wait(value, sum)) add_parts(value, sum, sum.received == sum.expected);
  }
}

Value GradientSums::total(const Value& value) {
  const auto found = sums_.find(value);
  if (found == sums_.end() || found->second.parts.empty()) return {};
  Sum& sum = found->second;
  add_parts(value, sum, true);
  Value& result = sum.parts.front();
  // Carried in f32 for one that did not come.
  if (value.dtype() == Dtype::bf16 && result.dtype() == Dtype::f32) {
    const auto group = value.graph().enter_group(sum.group);
    result = cast(result, Dtype::bf16, value.node().where());
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

void GradientSums::add_parts(const Value& value, Sum& sum, bool is_last) {
  if (sum.parts.size() < 2) return;
  std::vector<Value> parts = sum.parts;
  if (value.dtype() == Dtype::bf16 && sum.expected > kMostThatWait) {
    while (parts.size() > 2) {
      parts[1] = added(value, sum, {parts[0], parts[1]}, Dtype::f32);
      parts.erase(parts.begin());
    }
    parts = {added(value, sum, parts, is_last ? Dtype::bf16 : Dtype::f32)};
  } else {
    parts = {added(value, sum, parts, value.dtype())};
  }
  hold(sum.parts, -1);
  sum.parts = std::move(parts);
  hold(sum.parts, 1);
}

Value GradientSums::added(const Value& value, const Sum& sum, const std::vector<Value>& parts, Dtype dtype) {
  Value& result = added_[parts];
  if (!result.valid() || result.dtype() != dtype) {
    const auto group = value.graph().enter_group(sum.group);
    const auto place = value.graph().enter_place(value.node().where());
    const bool is_carried = dtype != value.dtype() || parts[0].dtype() != dtype;
    result = is_carried ? accumulate(parts[0], parts[1], dtype) : sum_of(parts);
  }
  return result;
}

void GradientSums::hold(const std::vector<Value>& parts, int change) {
  for (const Value& part : parts) holders_[part] += change;
}

}  // namespace sectionflow
