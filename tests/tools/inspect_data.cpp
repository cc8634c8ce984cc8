// `sectionflow inspect`: data in other people's formats.

#include "data/npy.h"
#include "data/tfrecord.h"
#include "sources/hdf5.h"
#include "sources/npz.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Whether what `write` needs was there when this was built.
template <class Write>
bool is_written(const Write& write) {
  try {
    write();
  } catch (const DataError& error) {
    if (error.code() == ErrorCode::missing_library) return false;
    throw;
  }
  return true;
}

TEST(InspectData, ArraysShowTheirFirstElements) {
  const TemporaryFolder folder;
  write_npy(folder.path() / "a.npy", HostTensor::of<float>({5}, {0.5F, 1, 2, 3, 4}));
  EXPECT_THAT(run_tool("inspect " + (folder.path() / "a.npy").string()).text,
              HasSubstr("npy: f32[5], 20 B: 0.5, 1, 2, 3, ...\n"));
}

TEST(InspectData, EveryArrayOfANumpyArchiveIsListed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a";  // a name that says nothing
  Example arrays;
  arrays.emplace("labels", HostTensor::of<std::uint8_t>({2}, {65, 7}));
  arrays.emplace("x", HostTensor::of<double>({2, 1}, {0.25, 2}));
  if (!is_written([&] { write_npz(path, arrays); })) GTEST_SKIP() << "built without libzip";
  const auto json = json_of_tool("inspect " + path.string());
  EXPECT_EQ(json.at("kind"), "npz");
  ASSERT_EQ(json.at("arrays").size(), 2U);
  EXPECT_EQ(json.at("arrays").at(0).at("first_elements"), "65, 7");
  EXPECT_EQ(json.at("arrays").at(1).at("dtype"), "f64");
  EXPECT_EQ(json.at("arrays").at(1).at("shape"), nlohmann::json::array({2, 1}));
  std::string bytes = bytes_of_file(path);
  bytes.resize(bytes.size() - 5);
  expect_refused("inspect " + folder.file("cut.npz", bytes).string(), HasSubstr("SF-E4"));
}

TEST(InspectData, CompressedRecordsAreKnownHoweverLongTheFirstIs) {
  const TemporaryFolder folder;
  for (const Compression compression : {Compression::gzip, Compression::zlib}) {
    std::string bytes;
    RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); }, compression);
    writer.write(std::string(3'000'000, 'x'));
    writer.write("short");
    writer.finish();
    const auto path = folder.file("a", bytes);  // a name that says nothing
    EXPECT_THAT(run_tool("inspect " + path.string()).text, HasSubstr("tfrecord"));
    EXPECT_EQ(inspected(path).at("records"), 2);
  }
}

TEST(InspectData, EveryDatasetOfAnHdf5FileIsListedWithItsFirstRow) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a";
  const bool is_there = is_written([&] {
    Hdf5Writer writer(path);
    writer.append("features", HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
    writer.append("labels", HostTensor::of<std::int32_t>({2}, {7, 8}));
    writer.finish();
  });
  if (!is_there) GTEST_SKIP() << "built without the HDF5 library";
  const auto json = json_of_tool("inspect " + path.string());
  EXPECT_EQ(json.at("kind"), "hdf5");
  ASSERT_EQ(json.at("datasets").size(), 2U);
  EXPECT_EQ(json.at("datasets").at(0).at("name"), "/features");
  EXPECT_EQ(json.at("datasets").at(0).at("first_elements"), "1, 2, 3");
  EXPECT_EQ(json.at("datasets").at(1).at("dtype"), "i32");
  EXPECT_EQ(json.at("datasets").at(1).at("first_elements"), "7");
  EXPECT_THAT(run_tool("inspect " + path.string()).text, AllOf(HasSubstr("f32[2,3]"), HasSubstr("2 datasets")));
}

}  // namespace
}  // namespace sectionflow::tools
