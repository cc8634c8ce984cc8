// `sectionflow inspect` of HDF5 files in which not every dataset can be read.

#ifdef SF_HAS_HDF5C
#include <hdf5.h>

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A dataset f32 of these rows and columns in one chunk of the first row, which holds the bytes that are given, as if
/// they were compressed; of none the dataset has no chunk.
void add_dataset(hid_t file, const char* name, hsize_t rows, hsize_t columns, const std::string& chunk) {
  const hsize_t dims[] = {rows, columns}, chunk_dims[] = {1, columns}, first[] = {0, 0};
  const hid_t space = H5Screate_simple(2, dims, nullptr), settings = H5Pcreate(H5P_DATASET_CREATE);
  ASSERT_GE(H5Pset_chunk(settings, 2, chunk_dims), 0);
  ASSERT_GE(H5Pset_deflate(settings, 1), 0);
  const hid_t dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, settings, H5P_DEFAULT);
  ASSERT_GE(dataset, 0);
  if (!chunk.empty()) {
    ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, first, chunk.size(), chunk.data()), 0);
  }
  H5Dclose(dataset);
  H5Pclose(settings);
  H5Sclose(space);
}

TEST(InspectHdf5, ADatasetThatCannotBeReadHidesNoOther) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "features.h5").string();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  add_dataset(file, "damaged", 2, 3, "nothing that was compressed");
  add_dataset(file, "sound", 2, 3, {});
  add_dataset(file, "wide", 4, 100'000'000, {});
  H5Fclose(file);
  ASSERT_LT(std::filesystem::file_size(path), 100'000U) << "a small file may say that it has large rows";

  const auto datasets = json_of_tool("inspect " + path).at("datasets");
  ASSERT_EQ(datasets.size(), 3U);
  EXPECT_EQ(datasets.at(0).at("name"), "/damaged");
  EXPECT_THAT(datasets.at(0).at("problem").get<std::string>(), HasSubstr("cannot be read"));
  EXPECT_EQ(datasets.at(1).at("first_elements"), "0, 0, 0");
  EXPECT_FALSE(datasets.at(1).contains("problem"));
  EXPECT_EQ(datasets.at(2).at("shape"), (std::vector<std::int64_t>{4, 100'000'000}));
  EXPECT_THAT(datasets.at(2).at("problem").get<std::string>(), HasSubstr("rows have at most"));
  EXPECT_THAT(run_tool("inspect " + path).text, AllOf(HasSubstr("3 datasets"), HasSubstr("f32[4,100000000]")));
}

}  // namespace
}  // namespace sectionflow::tools
#endif
