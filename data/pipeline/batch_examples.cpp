#include "data/pipeline/batch_examples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"

namespace sectionflow {
namespace {

std::string names_text(const Example& example) {
  std::string text;
  for (const auto& [name, tensor] : example) text += (text.empty() ? "" : ", ") + text_of("'", name, "'");
  return text.empty() ? "no tensor" : text;
}

void check_same_names(const Example& first, const Example& other, std::size_t place) {
  const bool same = std::equal(first.begin(), first.end(), other.begin(), other.end(),
                               [](const auto& a, const auto& b) { return a.first == b.first; });
  SF_CHECK_CODE(same, ShapeError, ErrorCode::uneven_batch, "Dataset::batch: example ", place, " of the batch has ",
                names_text(other), ", the first has ", names_text(first),
                hint("maps::select gives all examples the same tensors"));
}

/// Throws unless a tensor of example `place` can lie beside that of the first.
void check_fits(const std::string& name, const TensorType& first, const TensorType& other, std::size_t place,
                bool pad) {
  const bool fits =
      first.dtype == other.dtype && (pad ? first.shape.rank() == other.shape.rank() : first.shape == other.shape);
  SF_CHECK_CODE(fits, ShapeError, ErrorCode::uneven_batch, "Dataset::batch: '", name, "' of example ", place,
                " of the batch is ", other.text(), ", that of the first ", first.text(),
                hint(pad ? "padding wants the same dtype and as many axes"
                         : "give batch .pad = true, or have a map make them one size"));
}

template <class T>
void fill(HostTensor& tensor, double value, const std::string& name) {
  T as{};
  if constexpr (std::is_integral_v<T>) {
    // Compared as doubles, of which 2^63 is one and the largest i64 is not.
    const double low = static_cast<double>(std::numeric_limits<T>::min());
    const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);
    SF_CHECK(value >= low && value < high && value == std::floor(value), ArgumentError, "Dataset::batch: pad_values['",
             name, "'] is ", value, ", which a tensor of ", dtype_name(tensor.dtype()), " cannot hold");
    as = static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    as = BFloat16(static_cast<float>(value));
  } else {
    as = static_cast<T>(value);
  }
  const auto values = tensor.values<T>();
  std::fill(values.begin(), values.end(), as);
}

void fill_with(HostTensor& tensor, double value, const std::string& name) {
  switch (tensor.dtype()) {
    case Dtype::f32:
      return fill<float>(tensor, value, name);
    case Dtype::f64:
      return fill<double>(tensor, value, name);
    case Dtype::i32:
      return fill<std::int32_t>(tensor, value, name);
    case Dtype::i64:
      return fill<std::int64_t>(tensor, value, name);
    case Dtype::i8:
      return fill<std::int8_t>(tensor, value, name);
    case Dtype::u8:
      return fill<std::uint8_t>(tensor, value, name);
    case Dtype::boolean:
      return fill<bool>(tensor, value, name);
    case Dtype::bf16:
      return fill<BFloat16>(tensor, value, name);
  }
}

/// Copies a row-major block of shape `from` into the corner of one of shape `to`.
void copy_corner(const std::byte* source, std::span<const std::int64_t> from, std::byte* target,
                 std::span<const std::int64_t> to, std::size_t element_bytes) {
  if (from.size() <= 1) {
    const std::size_t elements = from.empty() ? 1 : static_cast<std::size_t>(from[0]);
    if (elements > 0) std::memcpy(target, source, elements * element_bytes);
    return;
  }
  const auto bytes_of = [&](std::span<const std::int64_t> dims) {
    std::size_t bytes = element_bytes;
    for (std::int64_t dim : dims.subspan(1)) bytes *= static_cast<std::size_t>(dim);
    return bytes;
  };
  for (std::int64_t i = 0; i < from[0]; ++i) {
    copy_corner(source + static_cast<std::size_t>(i) * bytes_of(from), from.subspan(1),
                target + static_cast<std::size_t>(i) * bytes_of(to), to.subspan(1), element_bytes);
  }
}

/// Throws: ShapeError where padding takes more than it may.
void check_padded(const std::string& name, const TensorType& type, std::size_t most_bytes) {
  std::size_t bytes = dtype_bytes(type.dtype);
  bool fits = true;
  for (const std::int64_t dim : type.shape.dims()) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes);
  }
  SF_CHECK_CODE(fits && bytes <= most_bytes, ShapeError, ErrorCode::uneven_batch, "Dataset::batch: '", name,
                "', with padding ", type.text(), ", takes ", fits ? bytes_text(bytes) : "more than can be counted",
                "; max_padded_bytes is ", bytes_text(most_bytes),
                hint("bucket examples by length, leave the longest out by a filter or crop them, or raise "
                     "BatchOptions::max_padded_bytes"));
}

/// Throws: ShapeError where padding asks for more memory than there is, though the examples have room.
HostTensor new_batch(const std::string& name, const TensorType& type, bool same_shape, BatchMemory* memory) {
  try {
    return unfilled_tensor(type, memory);
  } catch (const std::bad_alloc&) {
    if (same_shape) throw;
    throw ShapeError(
        error_text_of("Dataset::batch: '", name, "', with padding ", type.text(), ", takes ", bytes_text(type.bytes()),
                      ", for which there is no memory", hint("bucket examples by length, or crop the longest")),
        ErrorCode::uneven_batch);
  }
}

/// The tensors of one name as one.
HostTensor stacked(const std::string& name, const std::vector<Example>& examples, const BatchOptions& options,
                   BatchMemory* memory) {
  const TensorType& first = examples[0].find(name)->second.type();
  std::vector<std::int64_t> largest = first.shape.dims();
  bool same_shape = true;
  for (std::size_t i = 1; i < examples.size(); ++i) {
    const TensorType& type = examples[i].find(name)->second.type();
    check_fits(name, first, type, i, options.pad);
    same_shape = same_shape && type.shape == first.shape;
    for (std::size_t axis = 0; axis < largest.size(); ++axis) {
      largest[axis] = std::max(largest[axis], type.shape.dims()[axis]);
    }
  }
  std::vector<std::int64_t> dims = largest;
  dims.insert(dims.begin(), static_cast<std::int64_t>(examples.size()));
  const TensorType type{first.dtype, Shape(dims)};
  if (!same_shape) check_padded(name, type, options.max_padded_bytes);
  HostTensor batch = new_batch(name, type, same_shape, memory);
  const auto value = options.pad_values.find(name);
  if (value != options.pad_values.end()) {
    // Filled for its checks too: a value that does not fit is found in the first batch, not in the first uneven one.
    fill_with(batch, value->second, name);
  } else if (!same_shape && batch.num_bytes() > 0) {
    std::memset(batch.bytes(), 0, batch.num_bytes());
  }
  std::byte* target = batch.bytes();
  const std::size_t stride = batch.num_bytes() / examples.size();
  for (const Example& example : examples) {
    const HostTensor& tensor = example.find(name)->second;
    if (same_shape) {
      if (stride > 0) std::memcpy(target, tensor.bytes(), stride);
    } else {
      copy_corner(tensor.bytes(), tensor.shape().dims(), target, largest, dtype_bytes(first.dtype));
    }
    target += stride;
  }
  return batch;
}

}  // namespace

Example batch_of(std::vector<Example> examples, const BatchOptions& options, BatchMemory* memory) {
  for (const auto& [name, value] : options.pad_values)
    (void)tensor_named(examples[0], name, "pad_values of Dataset::batch");
  for (std::size_t i = 1; i < examples.size(); ++i) check_same_names(examples[0], examples[i], i);
  Example batch;
  for (const auto& [name, tensor] : examples[0])
    batch.emplace_hint(batch.end(), name, stacked(name, examples, options, memory));
  return batch;
}

std::size_t bucket_of(const Example& example, const BatchOptions& options) {
  const HostTensor& tensor = tensor_named(example, options.bucket_by, "bucket_by of Dataset::batch");
  SF_CHECK_CODE(tensor.shape().rank() >= 1, ShapeError, ErrorCode::uneven_batch, "Dataset::batch: bucket_by '",
                options.bucket_by, "' is ", tensor.type().text(), ", which has no length; wanted one axis or more");
  const auto& boundaries = options.bucket_boundaries;
  return static_cast<std::size_t>(std::upper_bound(boundaries.begin(), boundaries.end(), tensor.shape()[0]) -
                                  boundaries.begin());
}

const HostTensor& tensor_named(const Example& example, const std::string& name, const std::string& who) {
  const auto found = example.find(name);
  if (found != example.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, tensor] : example) names.push_back(other);
  const auto nearest = nearest_spelling(name, names);
  ErrorText text = error_text_of(who, " asks for the tensor '", name, "'; the example has ", names_text(example));
  if (nearest) text.facts.push_back(hint("did you mean '", *nearest, "'?"));
  throw ArgumentError(std::move(text));
}

HostTensor& tensor_named(Example& example, const std::string& name, const std::string& who) {
  return const_cast<HostTensor&>(tensor_named(std::as_const(example), name, who));
}

}  // namespace sectionflow
