// Maps for tensors of any form.

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "data/maps.h"
#include "data/pipeline/batch_examples.h"

namespace sectionflow::maps {
namespace {

/// Calls `call` with a value of the dtype's type.
template <class Call>
decltype(auto) with_type_of(Dtype dtype, Call&& call) {
  switch (dtype) {
    case Dtype::f32:
      return call(float());
    case Dtype::f64:
      return call(double());
    case Dtype::i32:
      return call(std::int32_t());
    case Dtype::i64:
      return call(std::int64_t());
    case Dtype::i8:
      return call(std::int8_t());
    case Dtype::u8:
      return call(std::uint8_t());
    case Dtype::boolean:
      return call(bool());
    case Dtype::bf16:
      return call(BFloat16());
  }
  throw InternalError("a dtype that is none");
}

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_integral_v<From>) {
    if (std::cmp_less(x, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(x, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    const auto wide = static_cast<double>(x);
    // 2^digits, a double, is the first number above the range; the largest i64 is no double.
    constexpr double kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double kAbove = static_cast<double>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    if (wide != wide) return 0;
    if (wide <= kLow) return std::numeric_limits<To>::min();
    if (wide >= kAbove) return std::numeric_limits<To>::max();
    return static_cast<To>(wide);
  }
}
template <>
bool converted<bool, BFloat16>(BFloat16 x) {
  return static_cast<float>(x) != 0;
}
template <class To>
To converted_from_bool(bool x) {
  return converted<To>(static_cast<std::uint8_t>(x));
}

template <class To, class From>
void convert_all(std::span<const From> from, std::span<To> to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if constexpr (std::is_same_v<From, bool>) {
      to[i] = converted_from_bool<To>(from[i]);
    } else {
      to[i] = converted<To>(from[i]);
    }
  }
}

HostTensor cast_tensor(const HostTensor& tensor, Dtype dtype) {
  HostTensor cast(dtype, tensor.shape());
  with_type_of(tensor.dtype(), [&]<class From>(From) {
    with_type_of(dtype, [&]<class To>(To) { convert_all<To, From>(tensor.values<From>(), cast.values<To>()); });
  });
  return cast;
}

std::string numbers_text(const std::vector<float>& numbers) {
  std::string text;
  for (float number : numbers) text += text_of(text.empty() ? "" : ",", number);
  return "{" + text + "}";
}

/// Throws unless there is one number for all channels, one each, or none.
void check_channels(const std::vector<float>& numbers, const char* what, const HostTensor& tensor,
                    std::int64_t channels) {
  SF_CHECK(numbers.size() <= 1 || static_cast<std::int64_t>(numbers.size()) == channels, ShapeError,
           "maps::normalize: ", what, " has ", numbers.size(), " numbers, the tensor is ", tensor.type().text(),
           "; wanted one number, or one for each of the last axis");
}

/// The arithmetic of normalize for one channel.
struct ChannelNormal {
  float divisor, mean, deviation;
  bool subtracts, divides;

  float operator()(float x) const {
    // Divided, not multiplied by a reciprocal: level / 255 rounded once is what every other loader gives.
    float y = x / divisor;
    if (subtracts) y -= mean;
    if (divides) y /= deviation;
    return y;
  }
};

ChannelNormal normal_of(const NormalizeOptions& options, std::size_t channel) {
  const auto of = [channel](const std::vector<float>& numbers) {
    return numbers.empty() ? 0.0F : numbers[numbers.size() == 1 ? 0 : channel];
  };
  return {options.divisor, of(options.mean), of(options.deviation), !options.mean.empty(), !options.deviation.empty()};
}

HostTensor normalized(const HostTensor& tensor, const NormalizeOptions& options) {
  const Shape& shape = tensor.shape();
  SF_CHECK(tensor.dtype() == Dtype::u8 || tensor.dtype() == Dtype::f32, ShapeError, "maps::normalize: '",
           options.tensor, "' is ", tensor.type().text(), "; wanted u8 or f32");
  const std::int64_t all_channels = shape.rank() == 0 ? 1 : shape[-1];
  check_channels(options.mean, "mean", tensor, all_channels);
  check_channels(options.deviation, "deviation", tensor, all_channels);
  const std::size_t channels =
      options.mean.size() > 1 || options.deviation.size() > 1 ? static_cast<std::size_t>(all_channels) : std::size_t{1};
  HostTensor out(Dtype::f32, shape);
  const auto y = out.values<float>();
  for (std::size_t channel = 0; channel < channels && !y.empty(); ++channel) {
    const ChannelNormal normal = normal_of(options, channel);
    if (tensor.dtype() == Dtype::f32) {
      const auto x = tensor.values<float>();
      for (std::size_t i = channel; i < y.size(); i += channels) y[i] = normal(x[i]);
    } else if (y.size() < 256 * channels) {
      const auto x = tensor.values<std::uint8_t>();
      for (std::size_t i = channel; i < y.size(); i += channels) y[i] = normal(static_cast<float>(x[i]));
    } else {
      std::array<float, 256> of_level{};
      for (std::size_t level = 0; level < 256; ++level) of_level[level] = normal(static_cast<float>(level));
      const auto x = tensor.values<std::uint8_t>();
      for (std::size_t i = channel; i < y.size(); i += channels) y[i] = of_level[x[i]];
    }
  }
  return out;
}

HostTensor one_hot_of(const HostTensor& tensor, const std::string& name, std::int64_t classes) {
  const Dtype dtype = tensor.dtype();
  SF_CHECK(dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8, ShapeError, "maps::one_hot: '", name,
           "' is ", tensor.type().text(), "; wanted i32, i64 or u8");
  std::vector<std::int64_t> dims = tensor.shape().dims();
  dims.push_back(classes);
  HostTensor out(Dtype::f32, Shape(dims));
  float* row = out.values<float>().data();
  const HostTensor wide = cast_tensor(tensor, Dtype::i64);
  for (std::int64_t label : wide.values<std::int64_t>()) {
    SF_CHECK(label >= 0 && label < classes, DataError, "maps::one_hot: '", name, "' has the class ", label,
             "; wanted 0 to ", classes - 1);
    row[label] = 1;
    row += classes;
  }
  return out;
}

}  // namespace

MapFunction cast(std::string tensor, Dtype dtype) {
  std::string name = text_of("cast ", tensor, " to ", dtype_name(dtype));
  return {[tensor = std::move(tensor), dtype](Example example) {
            HostTensor& found = tensor_named(example, tensor, "maps::cast");
            found = cast_tensor(found, dtype);
            return example;
          },
          std::move(name)};
}

MapFunction normalize(NormalizeOptions options) {
  const auto is_zero = [](float number) { return number == 0; };
  SF_CHECK(options.divisor != 0 && std::none_of(options.deviation.begin(), options.deviation.end(), is_zero),
           ArgumentError, "maps::normalize: a divisor or deviation is 0");
  std::string name = text_of("normalize ", options.tensor, " by ", options.divisor, ", mean ",
                             numbers_text(options.mean), ", deviation ", numbers_text(options.deviation));
  return {[options = std::move(options)](Example example) {
            HostTensor& found = tensor_named(example, options.tensor, "maps::normalize");
            found = normalized(found, options);
            return example;
          },
          std::move(name)};
}

MapFunction one_hot(std::string tensor, std::int64_t classes) {
  SF_CHECK(classes >= 1, ArgumentError, "maps::one_hot: classes is ", classes, "; wanted 1 or more");
  std::string name = text_of("one_hot ", tensor, " of ", classes);
  return {[tensor = std::move(tensor), classes](Example example) {
            HostTensor& found = tensor_named(example, tensor, "maps::one_hot");
            found = one_hot_of(found, tensor, classes);
            return example;
          },
          std::move(name)};
}

MapFunction select(std::vector<std::string> tensors) {
  std::string name = "select";
  for (const std::string& tensor : tensors) name += " " + tensor;
  return {[tensors = std::move(tensors)](Example example) {
            Example selected;
            for (const std::string& tensor : tensors) {
              selected.insert_or_assign(tensor, std::move(tensor_named(example, tensor, "maps::select")));
              example.erase(tensor);
            }
            return selected;
          },
          std::move(name)};
}

MapFunction rename(std::map<std::string, std::string> names) {
  std::string name = "rename";
  std::set<std::string> later;
  for (const auto& [before, now] : names) {
    name += text_of(" ", before, " to ", now);
    SF_CHECK(later.insert(now).second, ArgumentError, "maps::rename: two tensors would be named '", now, "'");
  }
  return {[names = std::move(names)](Example example) {
            // All are taken out before any is put back, so that two may exchange their names.
            Example renamed;
            for (const auto& [before, now] : names) {
              renamed.insert_or_assign(now, std::move(tensor_named(example, before, "maps::rename")));
            }
            for (const auto& [before, now] : names) example.erase(before);
            for (const auto& [now, tensor] : renamed) {
              SF_CHECK(!example.contains(now), ArgumentError, "maps::rename: the example has a tensor '", now,
                       "' already");
            }
            example.merge(renamed);
            return example;
          },
          std::move(name)};
}

}  // namespace sectionflow::maps
