// By what `sectionflow train --resume` knows its data again: what they are, not how their path is written.

#include "data/png_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kTrain = "train --model mnist_cnn --width 2 --batch 2 --threads 1 ";

/// Three pictures a class, those of the second of more bytes.
fs::path pictures_in(const TemporaryFolder& folder) {
  const fs::path pictures = folder.path() / "pictures";
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(pictures / name);
    for (const std::string number : {"0", "1", "2"}) {
      HostTensor picture(Dtype::u8, {28, 28, 1});
      for (std::size_t i = 0; name == "dog" && i < picture.num_bytes(); ++i)
        picture.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * i >> 3);
      write_png(pictures / name / (number + ".png"), picture);
    }
  }
  return pictures;
}

struct ResumedData : testing::Test {
  void begin(const std::string& data) { ASSERT_EQ(train(data, 1).status, 0) << train(data, 1).text; }
  Outcome train(const std::string& data, int steps) const {
    return run_tool(command(data) + " --steps " + std::to_string(steps));
  }
  std::string command(const std::string& data) const {
    return kTrain + "--resume --checkpoints '" + (folder.path() / "run").string() + "' --data '" + data + "'";
  }
  void expect_other(const std::string& data, const std::string& what) const {
    expect_refused(command(data) + " --steps 2", AllOf(HasSubstr("SF-E403"), HasSubstr(what)));
  }

  TemporaryFolder folder;
};

TEST_F(ResumedData, TheSamePicturesUnderAnotherSpellingOfTheirPathGoOn) {
  const fs::path pictures = pictures_in(folder);
  begin("images:" + pictures.string());
  const fs::path moved = folder.path() / "moved";
  EXPECT_EQ(train("images:" + pictures.string() + "/", 2).status, 0);
  EXPECT_EQ(train("images:" + (pictures / ".." / "pictures").string(), 3).status, 0);
  fs::rename(pictures, moved);
  EXPECT_EQ(train("images:" + moved.string(), 4).status, 0);
}

TEST_F(ResumedData, AnotherDataOptionThatIsTakenIsTold) {
  const fs::path pictures = pictures_in(folder);
  begin("images:" + pictures.string());
  EXPECT_THAT(train("images:" + pictures.string(), 2).text, testing::Not(HasSubstr("from here on")));
  EXPECT_THAT(train("images:" + pictures.string() + "/", 3).text, testing::Not(HasSubstr("from here on")));
  const fs::path moved = folder.path() / "moved";
  fs::rename(pictures, moved);
  EXPECT_THAT(train("images:" + moved.string(), 4).text,
              HasSubstr("--data: images:" + moved.string() + " from here on; it was images:" + pictures.string()));
}

TEST_F(ResumedData, OtherPicturesAreRefused) {
  const fs::path pictures = pictures_in(folder);
  const std::string data = "images:" + pictures.string();
  begin(data);
  fs::rename(pictures / "cat" / "0.png", pictures / "cat" / "9.png");
  expect_other(data, "images of 'cat', 'dog' (names and sizes ");
  fs::rename(pictures / "cat" / "9.png", pictures / "cat" / "0.png");
  fs::rename(pictures / "cat", pictures / "swapped");
  fs::rename(pictures / "dog", pictures / "cat");
  fs::rename(pictures / "swapped", pictures / "dog");
  expect_other(data, "images of 'cat', 'dog' (names and sizes ");
  fs::rename(pictures / "dog", pictures / "wolf");
  expect_other(data, "images of 'cat', 'wolf' (names and sizes ");
}

TEST_F(ResumedData, RecordsThatAreConvertedAnewAreRefusedAndThoseThatAreMovedGoOn) {
  const fs::path pictures = pictures_in(folder), records = folder.path() / "records", moved = folder.path() / "moved";
  const std::string convert = "convert images:" + pictures.string() + " tfrecord:" + records.string() + " --overwrite";
  ASSERT_EQ(run_tool(convert).status, 0);
  begin("tfrecord:" + records.string());
  fs::rename(records, moved);
  EXPECT_EQ(train("tfrecord:" + moved.string() + "/", 2).status, 0);
  fs::rename(moved, records);
  // The same sizes, other classes.
  fs::rename(pictures / "dog", pictures / "ape");
  ASSERT_EQ(run_tool(convert).status, 0);
  expect_other("tfrecord:" + records.string(), "'all-00000.tfrecord' (names and sizes ");
}

}  // namespace
}  // namespace sectionflow::tools
