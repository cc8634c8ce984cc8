// `sectionflow convert` where something is there already: what stays, what goes, and what a failure leaves.

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// CIFAR's files with two examples each, of the classes 3 and 9.
fs::path small_cifar(const TemporaryFolder& folder, const std::string& names = {}) {
  const fs::path path = folder.path() / "cifar";
  fs::create_directories(path);
  std::string records;
  for (const int label : {3, 9}) records += static_cast<char>(label) + std::string(3072, static_cast<char>(label * 20));
  for (int i = 1; i <= 5; ++i) std::ofstream(path / ("data_batch_" + std::to_string(i) + ".bin")) << records;
  std::ofstream(path / "test_batch.bin") << records;
  if (!names.empty()) std::ofstream(path / "batches.meta.txt") << names;
  return path;
}

/// A name with the number of no process.
constexpr const char* kDead = "999999999";

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_built_with_lmdb(const Outcome& outcome) {
  return outcome.text.find("SF-E408") == std::string::npos;
}

TEST(ConvertReplaces, EveryPartAndTheNamesOfAnotherDataSet) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  const std::string names = "a\nb\nc\ncat\ne\nf\ng\nh\ni\ntruck\n";
  const fs::path cifar = small_cifar(folder, names);
  const std::string convert = "convert cifar10:" + cifar.string() + " tfrecord:" + to.string();
  ASSERT_EQ(run_tool(convert + " --validation 20%").status, 0);
  std::ofstream(to / "all-00000.tfrecord") << "of an image folder";
  std::ofstream(to / "notes.txt") << "of somebody";
  fs::remove(to / "train-00000.tfrecord");
  fs::remove(to / "test-00000.tfrecord");
  // None of the parts that are to be written is there, and what is there would be read with them.
  expect_refused(convert, AllOf(HasSubstr("all-00000.tfrecord"), HasSubstr("--overwrite")));
  fs::remove(to / "all-00000.tfrecord");
  expect_refused(convert, HasSubstr("validation-00000.tfrecord"));
  fs::remove(to / "validation-00000.tfrecord");
  expect_refused(convert, HasSubstr("labels.txt"));

  std::ofstream(to / "all-00000.tfrecord") << "of an image folder";
  std::ofstream(to / "validation-00000.tfrecord") << "of another data set";
  fs::remove(cifar / "batches.meta.txt");
  ASSERT_EQ(run_tool(convert + " --overwrite").status, 0);
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"notes.txt", "test-00000.tfrecord", "train-00000.tfrecord"}));
}

TEST(ConvertReplaces, NothingWhereTheNewDataSetCannotBeWritten) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records", photos = folder.path() / "photos";
  ASSERT_EQ(run_tool("convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string()).status, 0);
  const std::vector<std::string> before = names_in(to);
  const std::string train = bytes_of_file(to / "train-00000.tfrecord");
  fs::create_directories(photos / "cat");
  std::ofstream(photos / "cat" / "a.png") << "no picture";
  const Outcome outcome =
      run_tool("convert images:" + photos.string() + " tfrecord:" + to.string() + " --decode --overwrite");
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("a.png"));
  EXPECT_EQ(names_in(to), before);
  EXPECT_EQ(bytes_of_file(to / "train-00000.tfrecord"), train);
}

TEST(ConvertReplaces, NothingWhereAFolderHasTheNameOfAFile) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string();
  ASSERT_EQ(run_tool(convert).status, 0);
  const std::string train = bytes_of_file(to / "train-00000.tfrecord");
  fs::create_directory(to / "validation-00000.tfrecord");
  expect_refused(convert + " --overwrite --validation 50%", AllOf(HasSubstr("validation-00000"), HasSubstr("folder")));
  EXPECT_EQ(bytes_of_file(to / "train-00000.tfrecord"), train);
}

TEST(ConvertReplaces, NoDatabaseByTheDatabasesOfParts) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "database";
  fs::create_directory(to);
  std::ofstream(to / "data.mdb") << "of somebody";
  const Outcome outcome =
      run_tool("convert cifar10:" + small_cifar(folder).string() + " lmdb:" + to.string() + " --overwrite");
  if (!is_built_with_lmdb(outcome)) GTEST_SKIP() << "built without liblmdb";
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("a database itself"));
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"data.mdb"}));
}

TEST(ConvertReplaces, WhatKilledCallsHaveLeft) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records", left = to / ("records.new-" + std::string(kDead)),
                 kept = to / "records.new-1";
  fs::create_directories(left);
  fs::create_directories(kept);  // of a process that runs
  std::ofstream(left / ("train-00000.tfrecord.new-" + std::string(kDead))) << "half a data set";
  ASSERT_EQ(run_tool("convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string()).status, 0);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(kept));
}

TEST(ConvertReplaces, ADatabaseWhateverIsBesideIt) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "database", left = to / ("train.new-" + std::string(kDead)),
                 half = to / ("train.new-" + std::string(kDead) + ".tmp-" + kDead),
                 foreign = to / ("test.new-" + std::string(kDead));
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " lmdb:" + to.string();
  const Outcome outcome = run_tool(convert);
  if (!is_built_with_lmdb(outcome)) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  for (const fs::path& each : {left, half, foreign, to / "train.old", to / "train.new"}) fs::create_directories(each);
  std::ofstream(left / "data.mdb") << "half a database";
  std::ofstream(half / "data.mdb") << "half a database";
  std::ofstream(foreign / "notes.txt") << "of somebody";
  std::ofstream(to / "train.old" / "notes.txt") << "of somebody";
  const std::string old = bytes_of_file(to / "train" / "data.mdb");
  std::ofstream(folder.path() / "cifar" / "data_batch_5.bin") << static_cast<char>(1) + std::string(3072, 'x');
  const Outcome again = run_tool(convert + " --overwrite");
  ASSERT_EQ(again.status, 0) << again.text;
  EXPECT_NE(bytes_of_file(to / "train" / "data.mdb"), old);
  EXPECT_EQ(json_of_tool("inspect " + (to / "train").string()).at("records"), 9);
  EXPECT_EQ(names_in(to),
            (std::vector<std::string>{"test", foreign.filename().string(), "train", "train.new", "train.old"}));
  EXPECT_EQ(bytes_of_file(foreign / "notes.txt"), "of somebody");
}

TEST(ConvertReplaces, IsKnownForUnfinishedUntilAllFilesHaveTheirPlaces) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string(),
                    train =
                        "train --model resnet18 --width 2 --image 32 --classes 10 --batch 4 --threads 1 --steps 1 "
                        "--data tfrecord:" +
                        to.string();
  ASSERT_EQ(run_tool(convert + " --validation 20%").status, 0);
  ASSERT_EQ(names_in(to).size(), 3U) << "nothing else stays";
  // As a kill amid the renames leaves it.
  std::ofstream(to / "convert.unfinished") << "of a call that was killed\n";
  for (const std::string& reader : {train, "inspect " + to.string()}) {
    expect_refused(reader, AllOf(HasSubstr("convert.unfinished"), HasSubstr("again, with --overwrite")));
  }
  ASSERT_EQ(run_tool(convert + " --overwrite").status, 0);
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"test-00000.tfrecord", "train-00000.tfrecord"}));
  EXPECT_EQ(run_tool(train).status, 0);
}

/// What appears in a folder (+name) and goes from it (-name) while a command runs, as far as names tell of finished
/// data sets.
std::vector<std::string> changes_of_names(const fs::path& folder, const std::string& command) {
  const int queue = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  EXPECT_GE(queue, 0);
  EXPECT_GE(inotify_add_watch(queue, folder.c_str(), IN_MOVED_TO | IN_DELETE | IN_CREATE), 0);
  const Outcome outcome = run_tool(command);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  std::vector<std::string> changes;
  alignas(inotify_event) std::array<char, 64 << 10> buffer{};
  for (ssize_t got = read(queue, buffer.data(), buffer.size()); got > 0;
       got = read(queue, buffer.data(), buffer.size())) {
    for (const char* at = buffer.data(); at < buffer.data() + got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      const std::string name = event->len > 0 ? event->name : "";
      if (name.find(".new-") != std::string::npos || name.find(".tmp-") != std::string::npos) continue;
      const std::string change = ((event->mask & IN_DELETE) != 0 ? "-" : "+") + name;
      if (changes.empty() || changes.back() != change) changes.push_back(change);
    }
  }
  close(queue);
  return changes;
}

TEST(ConvertReplaces, FilesWhileAMarkStandsBesideThem) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string();
  ASSERT_EQ(run_tool(convert + " --validation 20%").status, 0);
  const std::vector<std::string> changes = changes_of_names(to, convert + " --overwrite");
  EXPECT_EQ(changes, (std::vector<std::string>{"+convert.unfinished", "+train-00000.tfrecord", "+test-00000.tfrecord",
                                               "-validation-00000.tfrecord", "-convert.unfinished"}));
}

TEST(ConvertReplaces, DatabasesOfPartsThatTheNewDataSetDoesNotHave) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "databases", elsewhere = folder.path() / "elsewhere";
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " lmdb:" + to.string();
  const Outcome outcome = run_tool(convert + " --validation 20%");
  if (!is_built_with_lmdb(outcome)) GTEST_SKIP() << "built without liblmdb";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  ASSERT_EQ(names_in(to), (std::vector<std::string>{"test", "train", "validation"}));
  fs::remove_all(to / "train");
  fs::remove_all(to / "test");
  expect_refused(convert, AllOf(HasSubstr("validation'"), HasSubstr("--overwrite")));
  std::ofstream(to / "validation" / "notes.txt") << "of somebody";
  expect_refused(convert + " --overwrite", HasSubstr("notes.txt"));
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"validation"})) << "refused before anything is written";
  fs::remove(to / "validation" / "notes.txt");
  fs::create_directories(to / "all");  // no database
  ASSERT_EQ(run_tool(convert + " --overwrite").status, 0);
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"all", "test", "train"}));
  fs::rename(to / "test", elsewhere);
  fs::create_directory_symlink(elsewhere, to / "validation");
  ASSERT_EQ(run_tool(convert + " --overwrite").status, 0);
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"all", "test", "train"}));
  EXPECT_EQ(json_of_tool("inspect " + elsewhere.string()).at("records"), 2) << "what a link names stays";
  std::ofstream(to / "convert.unfinished") << "of a call that was killed\n";
  expect_refused("inspect " + (to / "train").string() + "/", HasSubstr("convert.unfinished"));
}

TEST(ConvertReplaces, TheDatabaseThatALinkNames) {
  const TemporaryFolder folder;
  const fs::path real = folder.path() / "real", link = folder.path() / "link";
  const std::string convert = "convert cifar10:" + small_cifar(folder).string() + " lmdb:";
  const Outcome outcome = run_tool(convert + real.string());
  if (!is_built_with_lmdb(outcome)) GTEST_SKIP() << "built without liblmdb";
  fs::create_directories(link);
  fs::create_directory_symlink(real / "train", link / "train");
  ASSERT_EQ(run_tool(convert + link.string() + " --overwrite").status, 0);
  EXPECT_TRUE(fs::is_symlink(link / "train"));
  EXPECT_EQ(json_of_tool("inspect " + (real / "train").string()).at("records"), 10);
  EXPECT_EQ(names_in(real), (std::vector<std::string>{"test", "train"}));
  EXPECT_EQ(names_in(link), (std::vector<std::string>{"test", "train"}));
}

TEST(Convert, ASeedThatIsNoneIsRefused) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  const std::string convert =
      "convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string() + " --validation 20% --seed=";
  for (const std::string seed : {"-1", "99999999999999999999", "1e3"}) expect_refused(convert + seed, HasSubstr(seed));
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(run_tool(convert + "18446744073709551615").status, 0);
}

TEST(Train, RefusesAFolderWithTheRecordsOfTwoDataSets) {
  const TemporaryFolder folder;
  const fs::path to = folder.path() / "records";
  ASSERT_EQ(run_tool("convert cifar10:" + small_cifar(folder).string() + " tfrecord:" + to.string()).status, 0);
  fs::copy_file(to / "train-00000.tfrecord", to / "all-00000.tfrecord");
  expect_refused("train --model mnist_cnn --width 2 --batch 4 --threads 1 --epochs 1 --data tfrecord:" + to.string(),
                 AllOf(HasSubstr("all-00000.tfrecord"), HasSubstr("beside train-")));
}

}  // namespace
}  // namespace sectionflow::tools
