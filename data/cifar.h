#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/export.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// Which of the two data sets files are of: it decides how long their records are.
enum class Cifar : std::uint8_t { cifar10, cifar100 };

/// The two parts of a CIFAR data set.
struct CifarData {
  std::shared_ptr<const IndexedSource> train;
  std::shared_ptr<const IndexedSource> test;
};

/// Images of CIFAR's binary files, one file behind the other: {"image": u8 [32,32,3], "label": i32 []}, of CIFAR-100
/// also "coarse_label": i32 []. Files are read where an example is asked for; they must stay as they are. Owns: their
/// descriptors. Throws: DataError naming the file, when it is missing or not of whole records; at() also for labels out
/// of range; ArgumentError for no files.
/// Source: Krizhevsky 2009, The CIFAR-10 dataset ("binary version").
std::shared_ptr<const IndexedSource> cifar_source(Cifar kind, const std::vector<std::filesystem::path>& files);

/// The data set in a folder: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or `train.bin` and
/// `test.bin`. Throws: DataError naming every file that is missing.
CifarData load_cifar(Cifar kind, const std::filesystem::path& folder);

}  // namespace sectionflow
