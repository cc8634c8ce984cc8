#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/value.h"

namespace SF_API sectionflow {

// Fetches may be nested: a Value, or vectors, arrays, pairs, tuples and maps of fetches, to any depth. What comes back
// has the same shape with a HostTensor in the place of each Value.

template <class Fetches>
struct FetchStructure;

/// The type that comes back for fetches of type `Fetches`.
template <class Fetches>
using Fetched = typename FetchStructure<Fetches>::Result;

/// A value comes back as a tensor.
template <>
struct FetchStructure<Value> {
  using Result = HostTensor;
  static void flatten(const Value& value, std::vector<Value>& flat) { flat.push_back(value); }
  static Result rebuild(const Value&, std::vector<HostTensor>& flat, std::size_t& next) {
    return std::move(flat[next++]);
  }
};

/// A vector comes back as a vector.
template <class Inner>
struct FetchStructure<std::vector<Inner>> {
  using Result = std::vector<Fetched<Inner>>;
  static void flatten(const std::vector<Inner>& fetches, std::vector<Value>& flat) {
    for (const Inner& inner : fetches) FetchStructure<Inner>::flatten(inner, flat);
  }
  static Result rebuild(const std::vector<Inner>& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    Result result;
    for (const Inner& inner : fetches) result.push_back(FetchStructure<Inner>::rebuild(inner, flat, next));
    return result;
  }
};

/// A map comes back as a map with the same keys.
template <class Key, class Inner>
struct FetchStructure<std::map<Key, Inner>> {
  using Result = std::map<Key, Fetched<Inner>>;
  static void flatten(const std::map<Key, Inner>& fetches, std::vector<Value>& flat) {
    for (const auto& [key, inner] : fetches) FetchStructure<Inner>::flatten(inner, flat);
  }
  static Result rebuild(const std::map<Key, Inner>& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    Result result;
    for (const auto& [key, inner] : fetches) result.emplace(key, FetchStructure<Inner>::rebuild(inner, flat, next));
    return result;
  }
};

/// Arrays, pairs and tuples.
template <class Tuple, class... Inner>
struct TupleFetchStructure {
  static void flatten(const Tuple& fetches, std::vector<Value>& flat) {
    std::apply([&](const Inner&... inner) { (FetchStructure<Inner>::flatten(inner, flat), ...); }, fetches);
  }
  template <class Result>
  static Result rebuild_as(const Tuple& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    return std::apply(
        [&](const Inner&... inner) {
          // Braces: the elements are evaluated from left to right.
          return Result{FetchStructure<Inner>::rebuild(inner, flat, next)...};
        },
        fetches);
  }
};

/// A tuple comes back as a tuple.
template <class... Inner>
struct FetchStructure<std::tuple<Inner...>> : TupleFetchStructure<std::tuple<Inner...>, Inner...> {
  using Result = std::tuple<Fetched<Inner>...>;
  static Result rebuild(const std::tuple<Inner...>& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    return FetchStructure::template rebuild_as<Result>(fetches, flat, next);
  }
};

/// A pair comes back as a pair.
template <class First, class Second>
struct FetchStructure<std::pair<First, Second>> : TupleFetchStructure<std::pair<First, Second>, First, Second> {
  using Result = std::pair<Fetched<First>, Fetched<Second>>;
  static Result rebuild(const std::pair<First, Second>& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    return FetchStructure::template rebuild_as<Result>(fetches, flat, next);
  }
};

/// An array comes back as an array.
template <class Inner, std::size_t Count>
struct FetchStructure<std::array<Inner, Count>> {
  using Result = std::array<Fetched<Inner>, Count>;
  static void flatten(const std::array<Inner, Count>& fetches, std::vector<Value>& flat) {
    for (const Inner& inner : fetches) FetchStructure<Inner>::flatten(inner, flat);
  }
  static Result rebuild(const std::array<Inner, Count>& fetches, std::vector<HostTensor>& flat, std::size_t& next) {
    return rebuild_each(fetches, flat, next, std::make_index_sequence<Count>());
  }

 private:
  /// Made of what is moved in: elements that are made first and assigned afterwards would allocate.
  template <std::size_t... Index>
  static Result rebuild_each(const std::array<Inner, Count>& fetches, std::vector<HostTensor>& flat, std::size_t& next,
                             std::index_sequence<Index...>) {
    (void)fetches, (void)flat, (void)next;  // of no use to an empty array
    // Braces: the elements are evaluated from left to right.
    return Result{FetchStructure<Inner>::rebuild(fetches[Index], flat, next)...};
  }
};

/// All values of nested fetches, in order.
template <class Fetches>
std::vector<Value> flatten_fetches(const Fetches& fetches) {
  std::vector<Value> flat;
  FetchStructure<Fetches>::flatten(fetches, flat);
  return flat;
}

/// The tensors of the flattened fetches, nested again.
template <class Fetches>
Fetched<Fetches> rebuild_fetches(const Fetches& fetches, std::vector<HostTensor> flat) {
  std::size_t next = 0;
  return FetchStructure<Fetches>::rebuild(fetches, flat, next);
}

/// The array behind a braced list `{loss, accuracy}`, so that the result can be bound by `auto [loss, accuracy] = ...`.
template <std::size_t Count>
std::array<Value, Count> fetch_array(const Value (&fetches)[Count]) {
  std::array<Value, Count> result;
  for (std::size_t i = 0; i < Count; ++i) result[i] = fetches[i];
  return result;
}

}  // namespace sectionflow
