#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "data/source.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"

namespace SF_API sectionflow {

/// The tensors of the tf.train.Examples in TFRecord files, plain or compressed, file after file in the order given.
/// Nothing is read before the source is opened. A stream that has thrown (SF-E407, SF-E410, naming file, record and
/// offset) goes on behind the damaged record, or with the next file where that one cannot be read any further.
/// Throws: ArgumentError for no files, or a schema that check_schema refuses; DataError for a file that is not there.
std::shared_ptr<const StreamSource> tfrecord_source(std::vector<std::filesystem::path> files, FeatureSchema schema,
                                                    RecordOptions options = {});

/// The files of a folder whose names end in `ending`, by name: the shards of a data set.
/// Throws: DataError when there is none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            const std::string& ending = ".tfrecord");

/// How a TfrecordWriter cuts a data set into files.
struct TfrecordWriterOptions {
  /// A file that has as many bytes of records, before they are compressed, is followed by another.
  std::size_t shard_bytes = 100'000'000;
  Compression compression = Compression::none;
};

/// Writes records into files `<folder>/<prefix>-00000.tfrecord`, `-00001` and so on. Each appears whole when it is full
/// or by finish(); the one that is being written when the writer goes is not left behind.
/// Owns: the open file and 256 KiB. Threads: one at a time.
class TfrecordWriter {
 public:
  /// Makes the folder where it is not there. Throws: DataError where files cannot be written; ArgumentError for shards
  /// of no bytes.
  TfrecordWriter(std::filesystem::path folder, std::string prefix, TfrecordWriterOptions options = {});
  TfrecordWriter(const TfrecordWriter&) = delete;
  TfrecordWriter& operator=(const TfrecordWriter&) = delete;
  ~TfrecordWriter();

  /// Throws: DataError when the disk refuses.
  void write(std::string_view record);
  /// As a tf.train.Example; see serialize_tf_example.
  void write(const Example& example);
  /// Ends the last file; a writer that has got no record makes one file without any. Returns the files. To be called
  /// once, at the end.
  std::vector<std::filesystem::path> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow
