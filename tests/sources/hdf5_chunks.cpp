// Rows of datasets in chunks: how often the library expands one. Files are written by the library itself, with a filter
// that counts.

#ifdef SF_HAS_HDF5C
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "sources/hdf5.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

constexpr hsize_t kRows = 64, kRowElements = 16, kChunkRows = 8;
constexpr std::size_t kBytes = kRows * kRowElements * sizeof(float);
constexpr int kNumChunks = kRows / kChunkRows;
constexpr H5Z_filter_t kCountingFilter = 40000;  // of those for private use

int expanded_chunks = 0;

std::size_t count_expanded(unsigned flags, std::size_t, const unsigned*, std::size_t num_bytes, std::size_t*, void**) {
  if ((flags & H5Z_FLAG_REVERSE) != 0) ++expanded_chunks;
  return num_bytes;
}

/// Row i of dataset "x" has the elements 16 i, 16 i + 1, ...
std::filesystem::path chunked_file(const TemporaryFolder& folder, bool is_filtered) {
  const H5Z_class2_t counting = {H5Z_CLASS_T_VERS, kCountingFilter, 1, 1, "count", nullptr, nullptr, count_expanded};
  EXPECT_GE(H5Zregister(&counting), 0);
  const std::filesystem::path path = folder.path() / "chunked.h5";
  const hsize_t extent[] = {kRows, kRowElements}, chunk[] = {kChunkRows, kRowElements};
  std::vector<float> elements(kRows * kRowElements);
  std::iota(elements.begin(), elements.end(), 0.0F);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, extent, nullptr), how = H5Pcreate(H5P_DATASET_CREATE);
  EXPECT_GE(H5Pset_chunk(how, 2, chunk), 0);
  if (is_filtered) {
    EXPECT_GE(H5Pset_filter(how, kCountingFilter, H5Z_FLAG_MANDATORY, 0, nullptr), 0);
  }
  const hid_t group = H5Gcreate2(file, "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t dataset = H5Dcreate2(group, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, how, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()), 0);
  const hid_t words = H5Dcreate2(file, "words", H5T_C_S1, H5Screate(H5S_SCALAR), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dclose(words);
  EXPECT_GE(H5Lcreate_soft("/train/x", file, "link", H5P_DEFAULT, H5P_DEFAULT), 0);
  H5Dclose(dataset);
  H5Gclose(group);
  H5Pclose(how);
  H5Sclose(space);
  EXPECT_GE(H5Fclose(file), 0);
  return path;
}

/// Reads every row in an order of chance, checks it, and tells how many chunks were expanded.
int chunks_expanded_by_all_rows(const std::filesystem::path& path, std::size_t cache_bytes) {
  const auto source = hdf5_source(path, {{"x", "/train/x"}}, {.cache_bytes = cache_bytes});
  std::vector<std::int64_t> order(kRows);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  expanded_chunks = 0;
  for (const std::int64_t row : order) {
    const HostTensor x = std::move(source->at(row).at("x"));
    for (std::size_t i = 0; i < kRowElements; ++i) {
      EXPECT_EQ(x.values<float>()[i], static_cast<float>(static_cast<std::size_t>(row) * kRowElements + i)) << row;
    }
  }
  return expanded_chunks;
}

TEST(Hdf5Chunks, EachIsExpandedOnceWhateverTheOrderOfRowsWhereAllAreKept) {
  const TemporaryFolder folder;
  const auto path = chunked_file(folder, true);
  EXPECT_EQ(chunks_expanded_by_all_rows(path, 256_MiB), kNumChunks);
  EXPECT_EQ(chunks_expanded_by_all_rows(path, kBytes), kNumChunks) << "the bound is exact";
}

TEST(Hdf5Chunks, ASmallerBoundIsKeptAndCostsTime) {
  const TemporaryFolder folder;
  const auto path = chunked_file(folder, true);
  EXPECT_EQ(chunks_expanded_by_all_rows(path, 0), static_cast<int>(kRows)) << "one for each row";
  const int with_half = chunks_expanded_by_all_rows(path, kBytes / 2);
  EXPECT_GT(with_half, kNumChunks);
  EXPECT_LT(with_half, static_cast<int>(kRows));
}

TEST(Hdf5Chunks, RowsOfADatasetThatIsNotCompressedAreTheSameUnderEveryBound) {
  const TemporaryFolder folder;
  const auto path = chunked_file(folder, false);
  for (const std::size_t bound : {std::size_t{0}, std::size_t{100}, kBytes - 1, kBytes, std::size_t{256_MiB}}) {
    EXPECT_EQ(chunks_expanded_by_all_rows(path, bound), 0) << bound;
  }
}

TEST(Hdf5List, NamesDatasetsOfAllGroupsAndWhatCannotBeRead) {
  const TemporaryFolder folder;
  const std::vector<Hdf5Dataset> datasets = list_hdf5(chunked_file(folder, false));
  ASSERT_EQ(datasets.size(), 2U) << "the link is left out";
  EXPECT_EQ(datasets[0].name, "/train/x");
  EXPECT_EQ(datasets[0].type, (TensorType{Dtype::f32, {std::int64_t{kRows}, std::int64_t{kRowElements}}}));
  EXPECT_EQ(datasets[0].problem, "");
  EXPECT_EQ(datasets[1].name, "/words");
  EXPECT_TRUE(testing_support::contains(datasets[1].problem, "elements of 1 bytes that are not read"));
  EXPECT_THROW(list_hdf5(folder.file("text.h5", "no HDF5")), DataError);
  EXPECT_THROW(list_hdf5(folder.path() / "gone.h5"), DataError);
}

TEST(Hdf5Chunks, OfMoreThanTheLimitAreRefusedWhereTheyAreExpandedAsAWhole) {
  constexpr std::size_t kChunkBytes = kChunkRows * kRowElements * sizeof(float);
  const TemporaryFolder filtered, plain;
  const auto path = chunked_file(filtered, true);
  EXPECT_EQ(hdf5_source(path, {{"x", "/train/x"}}, {.max_chunk_bytes = kChunkBytes})->size(), kRows);
  const std::string text = whole_error_text<DataError>([&] {
    (void)hdf5_source(path, {{"x", "/train/x"}}, {.max_chunk_bytes = kChunkBytes - 1});
  });
  EXPECT_TRUE(testing_support::contains(text, "compressed in chunks of 512 B; wanted at most 511 B")) << text;
  EXPECT_TRUE(testing_support::contains(text, "max_chunk_bytes")) << text;
  EXPECT_EQ(hdf5_source(chunked_file(plain, false), {{"x", "/train/x"}}, {.max_chunk_bytes = 0})->size(), kRows);
}

}  // namespace
}  // namespace sectionflow
#endif
