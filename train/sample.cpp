#include "train/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace sectionflow {
namespace {

void check_options(const SampleOptions& options) {
  SF_CHECK(options.temperature >= 0 && std::isfinite(options.temperature), ArgumentError, "sample: temperature is ",
           options.temperature, "; wanted a finite number of at least 0");
  SF_CHECK(options.top_k >= 0, ArgumentError, "sample: top_k is ", options.top_k, "; wanted at least 0",
           hint("0 draws of all classes"));
  SF_CHECK(options.top_p > 0 && options.top_p <= 1, ArgumentError, "sample: top_p is ", options.top_p,
           "; wanted more than 0, up to 1", hint("1 draws of all classes"));
}

/// Uniform in [0, 1), with 53 random bits. Blocks of the upper half are none that a session's random nodes take.
double uniform(const SampleOptions& options, std::int64_t row, std::uint64_t draw) {
  const RandomAddress address{
      .seed = options.seed, .node = static_cast<std::uint32_t>(row), .step = static_cast<std::uint32_t>(draw)};
  const auto words = random_words(address, (std::uint64_t{1} << 63) | (draw >> 32));
  return static_cast<double>((std::uint64_t{words[0]} << 21) ^ (words[1] >> 11)) * 0x1p-53;
}

/// One row of logits, and the classes of it that may be drawn.
class Row {
 public:
  Row(std::vector<float> logits, std::int64_t number) : logits_(std::move(logits)) {
    for (const float x : logits_) {
      SF_CHECK(!std::isnan(x), ArgumentError, "sample: row ", number, " of the logits has a NaN",
               hint("Session::set_value_checks tells which operation makes it"));
      largest_ = std::max(largest_, x);
    }
    SF_CHECK(largest_ > -std::numeric_limits<float>::infinity(), ArgumentError, "sample: row ", number,
             " of the logits is -infinity throughout; wanted a class that is possible");
  }

  std::int32_t drawn(const SampleOptions& options, double share) const {
    if (options.temperature == 0) return first_of_largest();
    std::vector<std::int32_t> classes(logits_.size());
    std::iota(classes.begin(), classes.end(), 0);
    const auto count = static_cast<std::int64_t>(classes.size());
    const bool is_cut = options.top_k > 0 && options.top_k < count;
    if (is_cut || options.top_p < 1) keep_largest(classes, is_cut ? options.top_k : count);
    std::vector<double> sums;  // of weights up to each class
    double sum = 0;
    for (const std::int32_t each : classes) sums.push_back(sum += weight(each, options.temperature));
    if (options.top_p < 1) {
      const auto enough = std::lower_bound(sums.begin(), sums.end(), options.top_p * sum);
      sums.erase(std::min(enough + 1, sums.end()), sums.end());
      sum = sums.back();
    }
    // The first whose sum is beyond the share: one of weight 0 never is. Rounding may leave none.
    const auto found = std::upper_bound(sums.begin(), sums.end(), share * sum);
    const auto place = found != sums.end() ? found : std::lower_bound(sums.begin(), sums.end(), sum);
    return classes[static_cast<std::size_t>(place - sums.begin())];
  }

 private:
  std::int32_t first_of_largest() const {
    return static_cast<std::int32_t>(std::find(logits_.begin(), logits_.end(), largest_) - logits_.begin());
  }

  /// So many, the largest first.
  void keep_largest(std::vector<std::int32_t>& classes, std::int64_t count) const {
    const auto is_larger = [&](std::int32_t a, std::int32_t b) {
      const float x = logits_[static_cast<std::size_t>(a)], y = logits_[static_cast<std::size_t>(b)];
      return x > y || (x == y && a < b);
    };
    std::partial_sort(classes.begin(), classes.begin() + count, classes.end(), is_larger);
    classes.resize(static_cast<std::size_t>(count));
  }

  double weight(std::int32_t each, double temperature) const {
    const float x = logits_[static_cast<std::size_t>(each)];
    return x == largest_ ? 1 : std::exp((static_cast<double>(x) - static_cast<double>(largest_)) / temperature);
  }

  std::vector<float> logits_;
  float largest_ = -std::numeric_limits<float>::infinity();
};

/// The elements of one row in f32.
std::vector<float> row_of(const HostTensor& logits, std::int64_t row, std::int64_t classes) {
  const auto begin = static_cast<std::size_t>(row * classes), count = static_cast<std::size_t>(classes);
  if (logits.dtype() == Dtype::f32) {
    const auto values = logits.values<float>().subspan(begin, count);
    return {values.begin(), values.end()};
  }
  const auto values = logits.values<BFloat16>().subspan(begin, count);
  return {values.begin(), values.end()};
}

}  // namespace

HostTensor sample(const HostTensor& logits, const SampleOptions& options, std::uint64_t draw) {
  check_options(options);
  SF_CHECK(logits.dtype() == Dtype::f32 || logits.dtype() == Dtype::bf16, ArgumentError, "sample: logits are ",
           logits.type().text(), "; wanted f32 or bf16");
  const Shape& shape = logits.shape();
  SF_CHECK(shape.rank() > 0 && shape[-1] > 0, ShapeError, "sample: logits are ", logits.type().text(),
           "; wanted [..., C] with a class at least");
  HostTensor classes(Dtype::i32, Shape(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end() - 1)));
  for (std::int64_t row = 0; row < classes.shape().num_elements(); ++row) {
    classes.values<std::int32_t>()[static_cast<std::size_t>(row)] =
        Row(row_of(logits, row, shape[-1]), row).drawn(options, uniform(options, row, draw));
  }
  return classes;
}

}  // namespace sectionflow
