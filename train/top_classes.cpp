#include "train/top_classes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>

namespace sectionflow {
namespace {

template <class Logit>
std::vector<ClassShare> top_of_row(std::span<const Logit> row, std::int64_t number, std::int64_t count) {
  const auto logit = [&](std::int64_t label) {
    return static_cast<double>(static_cast<float>(row[static_cast<std::size_t>(label)]));
  };
  std::vector<std::int64_t> labels(row.size());
  std::iota(labels.begin(), labels.end(), 0);
  for (const std::int64_t label : labels) {
    SF_CHECK(!std::isnan(logit(label)), ArgumentError, "top_classes: row ", number, " of the logits has a NaN",
             hint("Session::set_value_checks tells which operation makes it"));
  }
  const auto kept = labels.begin() + std::min(count, static_cast<std::int64_t>(labels.size()));
  std::partial_sort(labels.begin(), kept, labels.end(),
                    [&](std::int64_t a, std::int64_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  const double largest = logit(labels.front());
  SF_CHECK(std::isfinite(largest), ArgumentError, "top_classes: the largest logit of row ", number, " is ", largest,
           "; wanted a finite one, to which the others can be compared");
  double sum = 0;
  for (const std::int64_t label : labels) sum += std::exp(logit(label) - largest);
  std::vector<ClassShare> top;
  for (auto label = labels.begin(); label != kept; ++label) {
    top.push_back({.label = *label, .share = std::exp(logit(*label) - largest) / sum});
  }
  return top;
}

template <class Logit>
std::vector<std::vector<ClassShare>> top_of_rows(const HostTensor& logits, std::int64_t count) {
  const auto classes = static_cast<std::size_t>(logits.shape()[-1]);
  const auto values = logits.values<Logit>();
  std::vector<std::vector<ClassShare>> rows;
  for (std::size_t at = 0; at < values.size(); at += classes) {
    rows.push_back(
        top_of_row(std::span<const Logit>(values.subspan(at, classes)), static_cast<std::int64_t>(rows.size()), count));
  }
  return rows;
}

}  // namespace

std::vector<std::vector<ClassShare>> top_classes(const HostTensor& logits, std::int64_t count, Where where) {
  return call_at(where, [&] {
    SF_CHECK(count >= 1, ArgumentError, "top_classes: ", count, " classes; wanted at least 1");
    SF_CHECK(logits.dtype() == Dtype::f32 || logits.dtype() == Dtype::bf16, ArgumentError, "top_classes: logits are ",
             logits.type().text(), "; wanted f32 or bf16");
    SF_CHECK(logits.shape().rank() > 0 && logits.shape()[-1] > 0, ShapeError, "top_classes: logits are ",
             logits.type().text(), "; wanted [..., C] with a class at least");
    return logits.dtype() == Dtype::f32 ? top_of_rows<float>(logits, count) : top_of_rows<BFloat16>(logits, count);
  });
}

}  // namespace sectionflow
