#include "sources/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "tests/sources/pictures.h"
#include "tests/support/contains.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::jpeg_of;
using testing_support::png_of;
using testing_support::some_picture;

TEST(ImageFolder, ClassesAreFoldersByName) {
  const TemporaryFolder folder;
  for (const char* name : {"dog", "cat"}) std::filesystem::create_directory(folder.path() / name);
  const HostTensor first = some_picture(3, 4, 3), second = some_picture(5, 2, 3);
  folder.file("dog/b.PNG", png_of(first));
  folder.file("cat/a.png", png_of(second));
  folder.file("cat/0.jpeg", jpeg_of(first, 90));
  folder.file("cat/notes.txt", "none");
  folder.file("readme.png", "none");
  const ImageFolder found = image_folder(folder.path());
  EXPECT_EQ(found.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(found.files, (std::vector<std::string>{"cat/0.jpeg", "cat/a.png", "dog/b.PNG"}));
  ASSERT_EQ(found.source->size(), 3);
  EXPECT_TRUE(bitwise_equal(found.source->at(2).at("image"), first));
  EXPECT_EQ(found.source->at(2).at("label").item<std::int32_t>(), 1);
  EXPECT_TRUE(bitwise_equal(found.source->at(1).at("image"), second));
  EXPECT_THROW(found.source->at(3), ArgumentError);
  const ImageFolder files = image_folder(folder.path(), {.decode = false});
  EXPECT_TRUE(bitwise_equal(decode_image(files.source->at(1).at("image")), second));
  folder.file("cat/a.png", png_of(second).substr(0, 60));
  EXPECT_TRUE(contains(error_text<DataError>([&] { found.source->at(1); }), "cat/a.png': the PNG file is damaged"));
  std::filesystem::remove(folder.path() / "cat/a.png");
  EXPECT_THROW(found.source->at(1), DataError);
}

/// Seven pictures of two classes, of which three are damaged each in its own way.
ImageFolder partly_damaged(const TemporaryFolder& folder, ImageFolderOptions options = {}) {
  for (const char* name : {"cat", "dog"}) std::filesystem::create_directory(folder.path() / name);
  const std::string png = png_of(some_picture(6, 5, 3)), jpeg = jpeg_of(some_picture(6, 5, 3), 90);
  folder.file("cat/0.png", png);
  folder.file("cat/1-cut.png", png.substr(0, png.size() / 2));
  folder.file("cat/2.jpg", jpeg);
  folder.file("dog/0-empty.jpg", "");
  folder.file("dog/1.png", png);
  folder.file("dog/2-other.png", "GIF89a and so on");
  folder.file("dog/3.jpg", jpeg);
  return image_folder(folder.path(), options);
}

/// How many examples of each class a walk gives.
std::map<std::int32_t, int> classes_of(DatasetIterator& iterator) {
  std::map<std::int32_t, int> classes;
  while (const auto example = iterator.next()) {
    EXPECT_EQ(example->at("image").shape(), (Shape{6, 5, 3}));
    ++classes[example->at("label").item<std::int32_t>()];
  }
  return classes;
}

TEST(ImageFolder, TheFirstDamagedPictureFailsAndIsNamedBehindThoseBeforeIt) {
  const TemporaryFolder folder;
  DatasetIterator iterator = Dataset::from(partly_damaged(folder).source).iterate();
  EXPECT_TRUE(iterator.next().has_value());
  const std::string text = whole_error_text<DataError>([&] { iterator.next(); });
  EXPECT_TRUE(contains(text, "SF-E409")) << text;
  EXPECT_TRUE(contains(text, "cat/1-cut.png'")) << text;
  EXPECT_TRUE(contains(text, "1 of images in '")) << "the number of the example: " << text;
  EXPECT_EQ(iterator.statistics().examples, 1);
  EXPECT_EQ(iterator.statistics().skipped_records, 0);
}

TEST(ImageFolder, DamagedPicturesAreLeftOutAndCountedUnderBothPoliciesThatGoOn) {
  for (const ErrorPolicy policy : {ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
    // Decoded where they are read, or by a map of one and of several threads.
    for (const int threads : {0, 1, 3}) {
      const TemporaryFolder folder;
      const auto decode = [](Example example) {
        example.at("image") = decode_image(example.at("image"));
        return example;
      };
      Dataset pictures = Dataset::from(partly_damaged(folder, {.decode = threads == 0}).source);
      if (threads > 0) pictures = pictures.map({decode, "decode"}, {.threads = threads});
      DatasetIterator iterator = pictures.on_error(policy).iterate();
      EXPECT_EQ(classes_of(iterator), (std::map<std::int32_t, int>{{0, 2}, {1, 2}})) << threads;
      const DatasetStatistics statistics = iterator.statistics();
      EXPECT_EQ(statistics.examples, 4);
      EXPECT_EQ(statistics.skipped_records, 3);
      EXPECT_EQ(statistics.skipped_files, 0) << "a picture's file holds nothing else";
      EXPECT_TRUE(contains(statistics.last_skipped, "SF-E409")) << statistics.last_skipped;
      const bool is_named = contains(statistics.last_skipped, "dog/2-other.png'");
      EXPECT_TRUE(is_named || threads > 0) << statistics.last_skipped;
    }
  }
}

TEST(ImageFolder, APictureThatIsGoneIsLeftOutAsADamagedOneIs) {
  const TemporaryFolder folder;
  const ImageFolder found = partly_damaged(folder);
  std::filesystem::remove(folder.path() / "dog/3.jpg");
  DatasetIterator iterator = Dataset::from(found.source).on_error(ErrorPolicy::skip_record).iterate();
  EXPECT_EQ(classes_of(iterator), (std::map<std::int32_t, int>{{0, 2}, {1, 1}}));
  EXPECT_EQ(iterator.statistics().skipped_records, 4);
  EXPECT_TRUE(contains(iterator.statistics().last_skipped, "dog/3.jpg")) << iterator.statistics().last_skipped;
}

TEST(ImageFolder, NamesThatBeginWithADotArePassedOver) {
  const TemporaryFolder folder;
  for (const char* name : {"cat", ".ipynb_checkpoints"}) std::filesystem::create_directory(folder.path() / name);
  const std::string picture = png_of(some_picture(2, 2, 3));
  for (const char* name : {"cat/001.png", "cat/._001.png", ".ipynb_checkpoints/001.png"}) folder.file(name, picture);
  const ImageFolder found = image_folder(folder.path());
  EXPECT_EQ(found.classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(found.files, std::vector<std::string>{"cat/001.png"});
  std::filesystem::remove(folder.path() / "cat/001.png");
  EXPECT_THROW(image_folder(folder.path()), DataError);
}

TEST(ImageFolder, PicturesOfOtherKindsAreCountedAndNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "cat");
  for (const char* name : {"cat/b.gif", "cat/a.GIF", "cat/c.webp", "cat/d.txt"}) folder.file(name, "");
  const std::string text = whole_error_text<DataError>([&] { image_folder(folder.path()); });
  EXPECT_TRUE(contains(text, "but 3 of other kinds, as 'cat/a.GIF'")) << text;
  EXPECT_TRUE(contains(text, "mogrify -format png")) << text;
  folder.file("cat/e.png", png_of(some_picture(2, 2, 3)));
  const testing_support::LogLines log;
  EXPECT_EQ(image_folder(folder.path()).source->size(), 1);
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_TRUE(contains(log.lines[0], "left out 3 of other kinds")) << log.lines[0];
}

TEST(ImageFolder, PicturesThatAreInNoFolderOfAClassAreNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "cat" / "more");
  const std::string picture = png_of(some_picture(2, 2, 3));
  for (const char* name : {"top.png", "cat/0.png", "cat/more/1.png"}) folder.file(name, picture);
  std::filesystem::create_symlink("gone.png", folder.path() / "cat" / "2.png");
  const testing_support::LogLines log;
  EXPECT_EQ(image_folder(folder.path()).files, std::vector<std::string>{"cat/0.png"});
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_TRUE(contains(log.lines[0], "'top.png', 'cat/2.png', 'cat/more'")) << log.lines[0];
}

TEST(ImageFolder, CheckpointsOfATrainingAreNoClasses) {
  const TemporaryFolder folder;
  const std::string picture = png_of(some_picture(2, 2, 3));
  for (const char* name : {"cat", "step-3", "step-4.tmp", "step-5", "step-on"})
    std::filesystem::create_directory(folder.path() / name);
  folder.file("cat/0.png", picture);
  folder.file("step-3/manifest.json", R"({"format": "sectionflow-checkpoint", "version": 1})");
  folder.file("step-4.tmp/variables.safetensors", "");
  folder.file("step-5/0.png", picture);
  folder.file("step-5/manifest.json", R"({"format": "somebody's"})");
  folder.file("step-on/0.png", picture);
  const testing_support::LogLines log;
  EXPECT_EQ(image_folder(folder.path()).classes, (std::vector<std::string>{"cat", "step-5", "step-on"}));
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_TRUE(contains(log.lines[0], "'step-3', 'step-4.tmp'")) << log.lines[0];
}

TEST(ImageFolder, WithoutFoldersOrFilesIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(image_folder(folder.path()), DataError);
  EXPECT_THROW(image_folder(folder.path() / "none"), DataError);
  std::filesystem::create_directory(folder.path() / "class");
  EXPECT_THROW(image_folder(folder.path()), DataError);
}

TEST(ImageList, FilesAndLabelsComeInTheListsOrder) {
  const TemporaryFolder folder;
  const HostTensor picture = some_picture(3, 4, 3);
  folder.file("with space.png", png_of(picture));
  const auto list = folder.file("list.txt", "with space.png 7\r\n\nwith space.png\t0");
  const ImageFolder found = image_list(list, folder.path());
  ASSERT_EQ(found.source->size(), 2);
  EXPECT_TRUE(bitwise_equal(found.source->at(0).at("image"), picture));
  EXPECT_EQ(found.source->at(0).at("label").item<std::int32_t>(), 7);
  EXPECT_EQ(found.source->at(1).at("label").item<std::int32_t>(), 0);
  for (const char* line :
       {"a.png", "a.png -1", "a.png 1x", "7", "../a.png 1", "/a.png 1", "b/../../a.png 1", "a.png 99999999999"}) {
    const auto wrong = folder.file("wrong.txt", std::string("a.png 1\n") + line + "\n");
    EXPECT_TRUE(contains(error_text<DataError>([&] { image_list(wrong, folder.path()); }), "line 2: ")) << line;
  }
  EXPECT_THROW(image_list(folder.file("empty.txt", "\n"), folder.path()), DataError);
}

}  // namespace
}  // namespace sectionflow
