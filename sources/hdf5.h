#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/export.h"
#include "base/host_tensor.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// A whole dataset of an HDF5 file, of elements f32, f64, i32, i64 or u8 in either byte order; `dataset` is its path,
/// as in "features" or "/train/features". Datasets whose bytes are in other files, and links to other files, are
/// refused, and no plugin is loaded. What stands in the file is read by the HDF5 library, which does not withstand
/// every forged file: take HDF5 files from those you trust, and TFRecord, npy or safetensors from others. Throws:
/// DataError naming file and dataset; for more than `max_bytes`; (SF-E408) where the HDF5 library is absent.
HostTensor read_hdf5(const std::filesystem::path& path, const std::string& dataset, std::size_t max_bytes = 4_GiB);

/// Examples in datasets of an HDF5 file, one row each, by the names that the tensors are to have: {{"features",
/// "/features"}, {"label", "/labels"}}. Rows are read where they are asked for; the file must stay as it is.
/// Owns: the open file. Threads: any number, which take turns, since the library does not run on several.
/// Throws: like read_hdf5; DataError for datasets of rank 0 and of different lengths.
std::shared_ptr<const IndexedSource> hdf5_source(const std::filesystem::path& path,
                                                 const std::map<std::string, std::string>& datasets);

/// Writes tensors as datasets of an HDF5 file, row after row, such as the features of a data set, batch by batch. All
/// is in memory until finish(), by which the file appears whole; write_npy and NpyWriter write larger ones. Owns: the
/// datasets. Threads: one at a time.
class Hdf5Writer {
 public:
  /// Throws: DataError where the file cannot be written; (SF-E408) where the HDF5 library is absent.
  explicit Hdf5Writer(std::filesystem::path path);
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;
  ~Hdf5Writer();

  /// The next rows of a dataset at the file's root, whose type the first ones decide, but for the first dimension.
  /// Throws: ShapeError for a scalar, and for rows of another type than those before; ArgumentError for boolean and
  /// bf16, and for a name that is empty or has a `/` in it.
  void append(const std::string& dataset, const HostTensor& rows);
  /// To be called once. Throws: DataError when the disk refuses.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow
