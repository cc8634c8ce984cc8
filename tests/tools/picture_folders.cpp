// Folders of pictures, and records made of them, that are not what `sectionflow` takes them for.

#include <fstream>

#include "data/png_writer.h"
#include "data/tfrecord_source.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTrainOn = "train --model mnist_cnn --width 2 --batch 2 --threads 1 --epochs 1 --data ";

void write_pictures(const fs::path& folder) {
  fs::create_directories(folder);
  for (const char* name : {"0.png", "1.png"}) write_png(folder / name, HostTensor(Dtype::u8, {28, 28, 1}));
}

TEST(PictureFolders, WhereThePicturesAreOneFolderFurtherDownThatOneIsNamed) {
  const TemporaryFolder folder;
  for (const std::string part : {"test", "train"}) write_pictures(folder.path() / part / "cat");
  expect_refused(
      kTrainOn + "images:" + folder.path().string(),
      AllOf(HasSubstr("the 2 folders in '"), HasSubstr("meant '" + (folder.path() / "test").string() + "' or '" +
                                                       (folder.path() / "train").string() + "'?")));
  const TemporaryFolder empty;
  fs::create_directories(empty.path() / "cat" / "none");
  expect_refused(kTrainOn + "images:" + empty.path().string(), Not(HasSubstr("meant")));
}

TEST(PictureFolders, AClassWithoutAPictureIsWarnedOf) {
  const TemporaryFolder folder;
  write_pictures(folder.path() / "cat");
  EXPECT_THAT(run_tool(kTrainOn + "images:" + folder.path().string()).text, Not(HasSubstr("without a picture")));
  fs::create_directories(folder.path() / "dog");
  const Outcome outcome = run_tool(kTrainOn + "images:" + folder.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("classes without a picture: 'dog'"));
}

TEST(PictureFolders, ADamagedPictureOfARecordIsNamedByFileAndRecord) {
  const TemporaryFolder folder;
  write_pictures(folder.path());
  const std::string whole = bytes_of_file(folder.path() / "0.png");
  TfrecordWriter writer(folder.path() / "records", "all");
  for (const std::string& bytes : {whole, whole.substr(0, 50), whole}) {
    Example example;
    HostTensor picture(Dtype::u8, {static_cast<std::int64_t>(bytes.size())});
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(picture.bytes()));
    example.emplace("image/encoded", std::move(picture));
    example.emplace("image/class/label", HostTensor::scalar<std::int64_t>(1));
    writer.write(example);
  }
  writer.finish();
  const std::string train = kTrainOn + "tfrecord:" + (folder.path() / "records").string();
  expect_refused(train, AllOf(HasSubstr("SF-E409"), HasSubstr("all-00000.tfrecord': record 1 at byte ")));
  const auto json = json_of_tool(train + " --on-error skip_record");
  EXPECT_EQ(json.at("examples"), 2);
  EXPECT_THAT(json.at("skipped").at("train").at("last").get<std::string>(), HasSubstr("record 1 at byte "));
}

}  // namespace
}  // namespace sectionflow::tools
