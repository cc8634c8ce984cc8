#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

/// A dataset of an HDF5 file, by its path: "/train/features".
struct Hdf5Dataset {
  std::string name{};
  TensorType type{};
  std::string problem{};  ///< why it cannot be read, and its type is not known; empty: it can be
};

/// All datasets of an HDF5 file, in groups too, by name. What links lead to is left out. Throws: DataError for a file
/// that cannot be read, and for more than 100,000 of them; (SF-E408) where the HDF5 library is absent.
std::vector<Hdf5Dataset> list_hdf5(const std::filesystem::path& path);

/// What reading rows may take. A small file may say that it has large rows and chunks.
struct Hdf5SourceOptions {
  std::size_t cache_bytes = 256_MiB;      ///< chunks that are kept, of all datasets together
  std::size_t max_row_bytes = 256_MiB;    ///< of a row
  std::size_t max_chunk_bytes = 256_MiB;  ///< of a compressed chunk, which is expanded as a whole for any of its rows
};

/// Examples in datasets of an HDF5 file, one row each, by the names that the tensors are to have: {{"features",
/// "/features"}, {"label", "/labels"}}. Rows are read where they are asked for; the file must stay as it is.
///
/// Datasets that are compressed, or stored in chunks at all, are read chunk by chunk. The chunks that were used last
/// are kept, of all datasets together no more than `cache_bytes`, each dataset's share going by its size; of a dataset
/// that is not compressed and larger than its share none are, and rows alone are read. In any other order than the
/// file's a row of a compressed dataset that is larger than its share costs a whole chunk: give it more, or chunks of
/// few rows. While a chunk is expanded it comes on top.
/// Owns: the open file, and those chunks. Threads: any number, which take turns, since the library does not run on
/// several. Throws: like read_hdf5; DataError for datasets of rank 0 and of different lengths, for rows of more than
/// `max_row_bytes`, and for compressed chunks of more than `max_chunk_bytes`.
std::shared_ptr<const IndexedSource> hdf5_source(const std::filesystem::path& path,
                                                 const std::map<std::string, std::string>& datasets,
                                                 const Hdf5SourceOptions& options = {});

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
