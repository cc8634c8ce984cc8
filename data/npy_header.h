#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/host_tensor.h"

namespace sectionflow {

/// What stands before the elements in a file of NumPy's.
struct NpyHeader {
  TensorType type;
  bool big_endian = false;
  bool fortran_order = false;
  std::size_t num_bytes = 0;  // of the header, which the elements follow
};

/// Longer headers are refused; NumPy's own have some 128 bytes.
inline constexpr std::size_t kNpyMaxHeaderBytes = 65536;

/// From the first bytes of a file, up to kNpyMaxHeaderBytes of them or all that it has. `where` begins every error.
/// Throws: DataError.
NpyHeader parse_npy_header(std::string_view bytes, const std::string& where);

/// The header of a file of format 1.0. Throws: ArgumentError for bf16.
std::string npy_header_of(const TensorType& type);

}  // namespace sectionflow
