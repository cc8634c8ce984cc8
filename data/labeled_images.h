#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// Images with their classes, in host memory. Owns: both tensors.
struct LabeledImages {
  HostTensor images;  // u8 [N, H, W, C]
  HostTensor labels;  // i32 [N], each in [0, num_classes)
  int num_classes = 0;
  std::string name;
};

/// A data set in its two parts: to learn from, and to be judged by.
struct TrainTest {
  LabeledImages train;
  LabeledImages test;
};

/// Where Debian's package dataset-fashion-mnist keeps its files.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// MNIST, or a data set of its form such as Fashion-MNIST, from the four files `train-images-idx3-ubyte`,
/// `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`, each plain or with `.gz` (plain
/// first). Images keep their height and width and get one channel. The names are those of the folder and the part.
/// Throws: DataError naming every file that is missing, or the file that is damaged, of another shape, or whose
/// labels do not fit its images.
TrainTest load_mnist(const std::filesystem::path& folder, Where where = Where::here());

}  // namespace sectionflow
