#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which of the arithmetic types that an object may convert to is chosen for it, and whether bool is not narrower.
struct NumberChoice {
  static std::true_type is_boolean(bool);
  static std::false_type is_boolean(std::int32_t);
  static std::false_type is_boolean(std::int64_t);
  static std::false_type is_boolean(double);
  static std::true_type is_whole(bool);
};
/// Converts to bool rather than to another number.
template <class Object>
concept ChoosesBoolean = decltype(NumberChoice::is_boolean(std::declval<const Object&>()))::value;
/// Converts to bool without narrowing.
template <class Object>
concept KeepsBoolean = decltype(NumberChoice::is_whole({std::declval<const Object&>()}))::value;

/// An enumeration of booleans, `enum Mode : bool`. For some compilers it is as near to int as to bool.
template <class Object>
concept EnumeratesBooleans =
    std::is_enum_v<Object> && std::convertible_to<const Object&, bool> && std::same_as < std::underlying_type_t<Object>,
bool > ;

/// What converts to bool as it is, and neither to another number nor to a shape: a bool, an element of a
/// std::vector<bool> or std::bitset, std::true_type, std::atomic<bool>, an enumeration of booleans. No number, other
/// enumeration, pointer or function does.
template <class Object>
concept StandsForBoolean = EnumeratesBooleans<Object> ||
    (ChoosesBoolean<Object>&& KeepsBoolean<Object> && !std::convertible_to<const Object&, Shape>);

/// The content of a feed: a tensor, whose bytes live as long as its feeds do, or a scalar held here. Feeds may so be
/// made by a function from tensors of its own. Nothing is copied: what is written into the tensor before the run is
/// fed. A TensorView is a view here too: who gives one keeps the bytes until the call returns.
class FeedData {
 public:
  FeedData(const HostTensor& tensor)  // NOLINT: meant to convert
      : type_(tensor.type()), shared_(tensor.shared_bytes()), tensor_(shared_.get()) {}
  FeedData(const TensorView& view) : type_(view.type), tensor_(static_cast<const std::byte*>(view.data)) {}  // NOLINT
  FeedData(bool value) : FeedData(Dtype::boolean, &value, sizeof(value)) {}                                  // NOLINT
  FeedData(float value) : FeedData(Dtype::f32, &value, sizeof(value)) {}                                     // NOLINT
  FeedData(std::int32_t value) : FeedData(Dtype::i32, &value, sizeof(value)) {}                              // NOLINT
  FeedData(std::int64_t value) : FeedData(Dtype::i64, &value, sizeof(value)) {}                              // NOLINT
  /// An object that stands for a boolean.
  template <StandsForBoolean Boolean>
  FeedData(const Boolean& boolean) : FeedData(static_cast<bool>(boolean)) {}  // NOLINT
  /// A number, written out (0.001) or a variable: a Feed rounds it to its placeholder's f32 or bf16. Otherwise f64.
  FeedData(double value) : FeedData(Dtype::f64, &value, sizeof(value)) { is_number_ = true; }  // NOLINT
  FeedData(const void*) = delete;  ///< an address is no boolean: feed a TensorView of it

  const TensorType& type() const { return type_; }
  const std::byte* bytes() const { return tensor_ != nullptr ? tensor_ : scalar_.data(); }
  /// A number as a scalar of that dtype, rounded to nearest, where the dtype is a float's that can hold it; all else as
  /// it is.
  FeedData rounded_to(Dtype dtype) const;
  /// The number as it is written, where it was; with more digits than any placeholder's float.
  std::optional<double> number() const;

 private:
  FeedData(Dtype dtype, const void* value, std::size_t num_bytes);

  TensorType type_;
  std::shared_ptr<const std::byte[]> shared_;
  const std::byte* tensor_ = nullptr;
  bool is_number_ = false;
  std::array<std::byte, 8> scalar_{};
};

/// What a placeholder holds during one run.
struct Feed {
  Feed(Value placeholder, const FeedData& given)
      : value(placeholder), data(placeholder.valid() ? given.rounded_to(placeholder.dtype()) : given) {}

  Value value;
  FeedData data;
};
using Feeds = std::vector<Feed>;

/// The type with which a placeholder will be fed, for planning; booleans that choose kernels need their value.
struct FeedType {
  FeedType(Value placeholder, Shape given) : value(placeholder), shape(std::move(given)) {}
  /// The type of a tensor, as HostTensor::type() tells it. Throws: ArgumentError (SF-E304) for another dtype than the
  /// placeholder's.
  template <std::same_as<TensorType> Type>
  FeedType(Value placeholder, const Type& given) : FeedType(placeholder, given.shape) {
    SF_CHECK_CODE(!placeholder.valid() || given.dtype == placeholder.dtype(), ArgumentError, ErrorCode::feed_dtype,
                  "feed type of '", placeholder.name(), "' is ", given.text(), ", the placeholder ",
                  placeholder.type().text());
  }
  /// A boolean alone: a list of dimensions, {1}, is a shape.
  template <StandsForBoolean Boolean>
  FeedType(Value placeholder, const Boolean& given) : value(placeholder), boolean(static_cast<bool>(given)) {}

  Value value;
  Shape shape;
  std::optional<bool> boolean;
};
using FeedTypes = std::vector<FeedType>;
/// What planning needs to know of feeds.
FeedTypes types_of(const Feeds& feeds);

}  // namespace sectionflow
