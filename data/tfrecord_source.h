#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "data/source.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"

namespace SF_API sectionflow {

/// Makes of a record's tensors what the source gives. `where` names file, record and offset, for errors to begin with.
using RecordMap = std::function<Example(Example record, const std::string& where)>;

/// The tensors of the tf.train.Examples in TFRecord files, plain or compressed, file after file in the order given.
/// Nothing is read before the source is opened. A stream that has thrown (SF-E407, SF-E410, naming file, record and
/// offset) goes on behind the damaged record, or with the next file where that one cannot be read any further.
/// Throws: ArgumentError for no files, or a schema that check_schema refuses; DataError for a file that is not there.
std::shared_ptr<const StreamSource> tfrecord_source(std::vector<std::filesystem::path> files, FeatureSchema schema,
                                                    RecordOptions options = {}, RecordMap map = {});

/// The files of a folder whose names end in `ending`, by name: the shards of a data set.
/// Throws: DataError when there is none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            const std::string& ending = ".tfrecord");

/// The files of a folder that a TfrecordWriter with this prefix writes, by number: none where the folder is not there.
/// Throws: DataError where it cannot be read.
std::vector<std::filesystem::path> shards_in(const std::filesystem::path& folder, const std::string& prefix);

/// How a TfrecordWriter cuts a data set into files.
struct TfrecordWriterOptions {
  /// A file that has as many bytes of records, before they are compressed, is followed by another.
  std::size_t shard_bytes = 100'000'000;
  Compression compression = Compression::none;
  /// Replaces the shards of this prefix that are there, once all new ones are complete; false refuses them.
  bool overwrite = false;
};

/// Writes records into files `<folder>/<prefix>-00000.tfrecord`, `-00001` and so on. They appear by finish(), whole and
/// all of them; until then they have names that end in `.new-<pid>`, nothing that was there is touched, and a writer
/// that goes takes them with it. finish() leaves no shards of another data set under the prefix, which would be read as
/// one with them. Owns: the open file, 256 KiB, and what is not in place. Threads: one at a time.
class TfrecordWriter {
 public:
  /// Makes the folder where it is not there. Throws: DataError where files cannot be written; ArgumentError for shards
  /// of no bytes, and where shards of this prefix are there already, unless they are to be overwritten.
  TfrecordWriter(std::filesystem::path folder, std::string prefix, TfrecordWriterOptions options = {});
  TfrecordWriter(const TfrecordWriter&) = delete;
  TfrecordWriter& operator=(const TfrecordWriter&) = delete;
  ~TfrecordWriter();

  /// Throws: DataError when the disk refuses.
  void write(std::string_view record);
  /// As a tf.train.Example; see serialize_tf_example.
  void write(const Example& example);
  /// Ends the last file, puts all in place and then removes what else is there of the prefix; a writer that has got no
  /// record makes one file without any. Returns the files. To be called once, at the end. Throws: DataError.
  std::vector<std::filesystem::path> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow
