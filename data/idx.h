#pragma once

#include <cstddef>
#include <filesystem>

#include "base/bytes.h"
#include "base/host_tensor.h"

namespace sectionflow {

/// The most bytes that read_idx expands from one file unless the caller says otherwise.
inline constexpr std::size_t kIdxMaxBytes = 4_GiB;

/// The tensor of an IDX file (the format of MNIST), gzip-compressed or plain, in the byte order of this machine.
/// Element types u8, i32, f32 and f64. The file is read twice, so that nothing is allocated before the bytes are
/// known to exist: a small file that declares a large tensor costs no more than the buffers. What follows the end of a
/// gzip stream and is not gzip is ignored, as gzip(1) does. Throws: DataError naming the file when it is missing,
/// damaged, truncated, longer than its header declares, of an element type outside this list, or larger than
/// `max_bytes` of elements. Source: LeCun, Cortes and Burges, The MNIST database of handwritten digits ("file
/// formats").
HostTensor read_idx(const std::filesystem::path& path, std::size_t max_bytes = kIdxMaxBytes);

}  // namespace sectionflow
