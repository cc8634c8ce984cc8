#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/host_tensor.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// The array of a file of NumPy's, as numpy.save writes them, of element types f4, f8, i4, i8, u1 and b1 in either byte
/// order, and in the order of Fortran as well, which is undone. No other objects: nothing in a file is ever executed.
/// Throws: DataError naming the file when it is missing, damaged, of another length than its header says, or of an
/// element type outside this list.
/// Source: numpy/lib/format.py.
HostTensor read_npy(const std::filesystem::path& path);

/// Writes a tensor as numpy.load reads it (format 1.0); the file appears whole or not at all.
/// Throws: ArgumentError for bf16, which NumPy does not have; DataError when the file cannot be written.
void write_npy(const std::filesystem::path& path, const HostTensor& tensor);

/// The same for the bytes of such a file; `where` begins every error.
HostTensor parse_npy(std::string_view bytes, const std::string& where);
/// The bytes that write_npy writes. Throws: ArgumentError for bf16.
std::string npy_bytes(const HostTensor& tensor);

/// Examples in files of NumPy's, one row each: {{"image", "images.npy"}, {"label", "labels.npy"}}. Rows are read where
/// they are asked for; the files must stay as they are. Owns: their descriptors. Throws: like read_npy; DataError for
/// arrays of rank 0, of different lengths, or of two and more dimensions in the order of Fortran.
std::shared_ptr<const IndexedSource> npy_source(const std::map<std::string, std::filesystem::path>& files);

/// Writes an array row after row, such as the features of a data set, batch by batch. The file appears by finish().
/// Owns: the file. Threads: one at a time.
class NpyWriter {
 public:
  /// The whole array's type, the number of rows included. Throws: like write_npy; ShapeError for a scalar.
  NpyWriter(std::filesystem::path path, TensorType type);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();

  /// The next rows: a tensor of the array's dtype and shape but for the first dimension.
  /// Throws: ShapeError for others, and for more rows than the array has; DataError when the disk refuses.
  void append(const HostTensor& rows);
  /// Throws: ArgumentError while rows are missing; DataError.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow
