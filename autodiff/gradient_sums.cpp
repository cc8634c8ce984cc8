#include "autodiff/gradient_sums.h"

#include "graph/ops/arithmetic.h"
#include "graph/ops/cast.h"

namespace sectionflow {
namespace {

constexpr int kMostThatWait = 3;

}  // namespace

void GradientSums::contribute(const Value& value, Value contribution, GroupId group) {
  Sum& sum = sums_[value];
  sum.group = group;
  sum.parts.push_back(contribution);
  add_parts(value, sum, ++sum.received == sum.expected);
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
  return result;
}

void GradientSums::add_parts(const Value& value, Sum& sum, bool is_last) {
  std::vector<Value>& parts = sum.parts;
  if (parts.size() < 2) return;
  const bool is_bf16 = value.dtype() == Dtype::bf16;
  const bool is_carried = is_bf16 && sum.expected > kMostThatWait;
  if (is_bf16 && !is_carried && !is_last) return;
  Value& added = added_[parts];
  const Dtype dtype = is_carried && !is_last ? Dtype::f32 : value.dtype();
  if (!added.valid() || added.dtype() != dtype) {
    const auto group = value.graph().enter_group(sum.group);
    const auto place = value.graph().enter_place(value.node().where());
    added = is_carried ? accumulate(parts[0], parts[1], dtype) : add_n(parts);
  }
  parts = {added};
}

}  // namespace sectionflow
