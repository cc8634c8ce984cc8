#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace sectionflow {

/// {"id": i64 [], "row": u8 [1 + id mod 5], each element the id}
inline Example numbered_example(std::int64_t id) {
  Example example;
  example.insert_or_assign("id", HostTensor::scalar(id));
  HostTensor row(Dtype::u8, {1 + id % 5});
  for (std::uint8_t& element : row.values<std::uint8_t>()) element = static_cast<std::uint8_t>(id);
  example.insert_or_assign("row", std::move(row));
  return example;
}

/// Examples 0 to size - 1 by number; counts how many were made. Those of `damaged` throw.
class NumberedSource : public IndexedSource {
 public:
  explicit NumberedSource(std::int64_t size, std::set<std::int64_t> damaged = {})
      : size_(size), damaged_(std::move(damaged)) {}
  std::string name() const override { return "numbers"; }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    EXPECT_TRUE(index >= 0 && index < size_) << index;
    ++made;
    if (damaged_.contains(index)) throw DataError(text_of("numbers.bin: record at offset ", 8 * index, " is damaged"));
    return numbered_example(index);
  }
  mutable std::atomic<std::int64_t> made = 0;

 private:
  const std::int64_t size_;
  const std::set<std::int64_t> damaged_;
};

/// The same one after the other, in files of `file_size` examples.
class NumberedStream : public StreamSource {
 public:
  explicit NumberedStream(std::int64_t size, std::set<std::int64_t> damaged = {}, std::int64_t file_size = 1 << 30)
      : size_(size), damaged_(std::move(damaged)), file_size_(file_size) {}
  std::string name() const override { return "stream of numbers"; }
  std::unique_ptr<ExampleStream> open() const override {
    ++opened;
    return std::make_unique<Stream>(*this);
  }
  mutable std::atomic<std::int64_t> made = 0, opened = 0;

 private:
  class Stream : public ExampleStream {
   public:
    explicit Stream(const NumberedStream& source) : source_(source) {}
    std::optional<Example> next() override {
      if (next_ >= source_.size_) return std::nullopt;
      ++source_.made;
      const std::int64_t id = next_++;
      if (source_.damaged_.contains(id)) {
        throw DataError(text_of("numbers-", id / source_.file_size_, ".bin: record at offset ", 8 * id, " is damaged"));
      }
      return numbered_example(id);
    }
    std::int64_t skip(std::int64_t count) override {
      const std::int64_t skipped = std::min(count, source_.size_ - next_);
      next_ += skipped;
      return skipped;
    }
    bool skip_file() override {
      next_ = ((next_ - 1) / source_.file_size_ + 1) * source_.file_size_;
      return next_ < source_.size_;
    }

   private:
    const NumberedStream& source_;
    std::int64_t next_ = 0;
  };
  const std::int64_t size_;
  const std::set<std::int64_t> damaged_;
  const std::int64_t file_size_;
};

inline Dataset numbers(std::int64_t size, std::set<std::int64_t> damaged = {}) {
  return Dataset::from(
      std::shared_ptr<const IndexedSource>(std::make_shared<NumberedSource>(size, std::move(damaged))));
}
inline Dataset number_stream(std::int64_t size, std::set<std::int64_t> damaged = {}, std::int64_t file_size = 1 << 30) {
  return Dataset::from(
      std::shared_ptr<const StreamSource>(std::make_shared<NumberedStream>(size, std::move(damaged), file_size)));
}

/// The ids of an example or a batch.
inline std::vector<std::int64_t> ids_of(const Example& example) {
  const auto ids = example.at("id").values<std::int64_t>();
  return {ids.begin(), ids.end()};
}
using Ids = std::vector<std::vector<std::int64_t>>;

/// The ids of what is left, item by item.
inline Ids drain(DatasetIterator& iterator) {
  Ids ids;
  while (const auto example = iterator.next()) ids.push_back(ids_of(*example));
  return ids;
}
inline Ids drain(const Dataset& dataset) {
  DatasetIterator iterator = dataset.iterate();
  return drain(iterator);
}
/// The same one after the other.
inline std::vector<std::int64_t> flat(const Ids& ids) {
  std::vector<std::int64_t> all;
  for (const auto& item : ids) all.insert(all.end(), item.begin(), item.end());
  return all;
}

/// Two examples with the same tensors.
inline bool same_example(const Example& a, const Example& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && bitwise_equal(x.second, y.second);
  });
}

/// Ids that a map has changed: id * 1000 + a random number below 1000.
inline Example scrambled(Example example, const MapContext& context) {
  for (std::int64_t& id : example.at("id").values<std::int64_t>()) id = id % 1000 * 1000 + context.below(1000, 0);
  return example;
}

}  // namespace sectionflow
