#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/export.h"
#include "base/host_tensor.h"
#include "data/batch_memory.h"

namespace SF_API sectionflow {

/// One thing to learn from, or a batch of them: tensors by name, as in {"image": u8 [28,28,1], "label": i32 []}.
using Example = std::map<std::string, HostTensor>;
/// Is shown a tensor of an example, with its name, that stays somebody else's. To keep the bytes: shared_bytes().
using LookAtTensor = std::function<void(const std::string& name, const HostTensor& tensor)>;

/// Examples that can be had by their number, in any order: tensors in memory, files of records of one size, folders.
/// Threads: any number at once.
class IndexedSource {
 public:
  virtual ~IndexedSource() = default;
  /// For errors and reports: what it reads and where from, as in "CIFAR-10 '/data/cifar-10-batches-bin'".
  virtual std::string name() const = 0;
  /// By which a position knows the data: it is refused where they have another. Not where they lie, which has many
  /// spellings, but what they are; of files names and sizes.
  virtual std::string identity() const { return name(); }
  virtual std::int64_t size() const = 0;
  /// Throws: DataError for an example that is damaged.
  virtual Example at(std::int64_t index) const = 0;
};

/// One reading of a StreamSource, from its first example on. Threads: one at a time.
class ExampleStream {
 public:
  virtual ~ExampleStream() = default;
  /// The next example, or nothing after the last one. Throws: DataError; a later call goes on behind what was damaged
  /// where the format allows that, and otherwise gives nothing.
  virtual std::optional<Example> next() = 0;
  /// Leaves out so many examples, and tells how many there were: fewer at the end. Costs less than reading them where
  /// the format allows that.
  virtual std::int64_t skip(std::int64_t count) = 0;
  /// Called after next() has thrown a DataError, or has given an example that could not be read when it was read first:
  /// leaves out what is left of the file, so that the next example is the first of the next file. False where there is
  /// no next file that could be read: this was the last.
  virtual bool skip_file() { return false; }
};

/// Examples that come one after the other: files of records, text, a generator. Threads: any number at once.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  /// For errors and reports: what it reads and where from.
  virtual std::string name() const = 0;
  /// As of an IndexedSource.
  virtual std::string identity() const { return name(); }
  /// How many examples there are, where that is known without reading them.
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
  virtual std::unique_ptr<ExampleStream> open() const = 0;
};

}  // namespace sectionflow
