#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/export.h"
#include "base/random.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// A number of epochs: there is always a next example.
inline constexpr std::int64_t kEndless = -1;

/// What becomes of an example whose reading, or whose map, throws a DataError. Where a file cannot be read for a reason
/// that may pass (SF-E411: too many open files, a disk that fails), the error comes out under every policy: nothing is
/// known to be damaged.
enum class ErrorPolicy : std::uint8_t {
  fail,         ///< the error comes out of next()
  skip_record,  ///< it is left out, and counted
  /// What is left of its file is left out too; where the data come by number, as examples in memory and folders do, it
  /// alone. An example whose map fails is left out alone: its file could be read.
  skip_file,
};

/// Where an example stands, and random words of its own: the same whatever the number of threads, after a restart, and
/// in whatever order examples are asked for. They follow from (seed of the map, place of the map in the pipeline,
/// epoch, index).
class MapContext {
 public:
  MapContext(std::uint64_t seed, std::uint32_t node, std::int64_t of_epoch, std::int64_t at)
      : epoch(of_epoch), index(at), address_{seed, node, static_cast<std::uint32_t>(of_epoch)} {}

  const std::int64_t epoch;  ///< the repetition that stands around the map
  const std::int64_t index;  ///< among the examples that reach the map in this epoch

  /// Uniform random bits, by their number from 0 to 2^26 - 1.
  std::uint32_t word(std::uint64_t number) const;
  /// Uniform in [0, 1), from one word.
  float uniform(std::uint64_t number) const { return uniform_from_word(word(number)); }
  /// Uniform in [0, bound), from one word. Throws: ArgumentError for a bound outside 1 to 2^32.
  std::int64_t below(std::int64_t bound, std::uint64_t number) const;
  /// The words from 0 on: the fast way to many.
  void fill(std::span<std::uint32_t> words) const;

 private:
  std::uint64_t first_block(std::uint64_t num_words) const;
  RandomAddress address_;
};

/// What a map does to each example: a function of the example, or of the example and its MapContext. It may be called
/// by several threads at once where the map has several.
class MapFunction {
 public:
  /// The name stands in texts and in positions, which tell pipelines apart by it.
  template <class Function>
  requires(std::is_invocable_r_v<Example, Function&, Example> &&
           !std::same_as<std::remove_cvref_t<Function>, MapFunction>)
      MapFunction(Function function, std::string name = "")  // NOLINT: meant to convert
      : name_(std::move(name)) {
    std::function<Example(Example)> plain(std::move(function));
    if (plain) {
      function_ = [plain = std::move(plain)](Example example, const MapContext&) { return plain(std::move(example)); };
    }
  }
  /// One that draws random numbers, or wants to know where its example stands.
  template <class Function>
  requires(std::is_invocable_r_v<Example, Function&, Example, const MapContext&> &&
           !std::same_as<std::remove_cvref_t<Function>, MapFunction>)
      MapFunction(Function function, std::string name = "")  // NOLINT: meant to convert
      : function_(std::move(function)), name_(std::move(name)), is_seeded_(true) {}

  /// False for one made of an empty std::function or a null pointer.
  bool valid() const { return function_ != nullptr; }
  const std::string& name() const { return name_; }
  bool is_seeded() const { return is_seeded_; }
  Example apply(Example example, const MapContext& context) const { return function_(std::move(example), context); }

 private:
  std::function<Example(Example, const MapContext&)> function_;
  std::string name_;
  bool is_seeded_ = false;
};

/// Whether an example stays.
using FilterFunction = std::function<bool(const Example&)>;

/// How a map is carried out. Nothing of it but the seed changes what is delivered.
struct MapOptions {
  /// Workers that call the function; with 1 the caller of next() or the thread of a prefetch calls it.
  int threads = 1;
  std::uint64_t seed = 0;  ///< of the words of MapContext
  /// Results that wait for an earlier one may take so many bytes; one result a thread may come on top.
  std::size_t max_bytes = 64_MiB;
};

/// An order of examples that follows from (seed, epoch).
struct ShuffleOptions {
  std::uint64_t seed = 0;
  /// Data by number are permuted as a whole, which takes 4 bytes an example: a larger order is refused. Of data that
  /// come one after the other so many bytes of examples are held, and the next is drawn from them; one example may come
  /// on top. An example counts as the bytes of its tensors, and 160 for each.
  std::size_t buffer_bytes = 256_MiB;
};

/// What of the examples is kept apart, to be judged by.
struct SplitOptions {
  double validation = 0.1;  ///< its share, above 0 and below 1; of whole examples the nearest number, one at least
  std::uint64_t seed = 0;   ///< which examples they are follows from it and from how many there are
};

/// How examples become batches. A tensor [d0, d1, ...] of each example becomes one [B, d0, d1, ...].
struct BatchOptions {
  std::int64_t size = 32;       ///< examples in a batch; the last one may hold fewer
  bool drop_remainder = false;  ///< leaves out batches that would be smaller
  /// Tensors of different sizes become as long, along each axis, as the longest of the batch; elements that are missing
  /// get the tensor's value of `pad_values`, or 0.
  bool pad = false;
  std::map<std::string, double> pad_values = {};
  /// A tensor of a batch may take so many bytes by padding; one giant example makes all others as long. More is an
  /// error (SF-E406).
  std::size_t max_padded_bytes = 1_GiB;
  /// Examples of about the same length come together: one batch is collected for each range of lengths below the first
  /// boundary, from the first to below the second, and so on, and delivered when it is full. What is left at the end
  /// comes from the shortest range to the longest.
  std::vector<std::int64_t> bucket_boundaries = {};
  std::string bucket_by = {};  ///< the tensor whose first dimension is the length
};

/// What is dealt out to several readers in turn.
struct ShardOptions {
  /// Leaves out the last round where it does not reach all readers, so that each gets as many: for ranks that train
  /// together.
  bool drop_remainder = false;
};

/// How far a pipeline works ahead on a thread of its own. Does not change what is delivered.
struct PrefetchOptions {
  int batches = 2;  ///< what is made ahead, counted as it comes: batches after batch()
  /// What is made ahead may take so many bytes; the one being made comes on top.
  std::size_t max_bytes = 1_GiB;
};

}  // namespace sectionflow
