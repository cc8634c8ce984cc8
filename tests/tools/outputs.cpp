// What `sectionflow` writes takes the place of nothing that the command reads, or writes besides.

#include <fstream>
#include <map>

#include "data/png_writer.h"
#include "swap/profile.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Outputs : testing::Test {
  std::string at(const std::string& name) const { return (folder.path() / name).string(); }
  /// Two pictures of each of two classes.
  std::string pictures() const {
    for (const std::string file : {"cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"}) {
      fs::create_directories((folder.path() / "pictures" / file).parent_path());
      write_png(folder.path() / "pictures" / file, HostTensor(Dtype::u8, {28, 28, 1}));
    }
    return "images:" + at("pictures");
  }
  /// Two pictures in each part, in the format of MNIST.
  std::string mnist() const {
    using std::string_literals::operator""s;
    fs::create_directories(folder.path() / "mnist");
    for (const std::string part : {"train", "t10k"}) {
      folder.file("mnist/" + part + "-images-idx3-ubyte",
                  "\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c"s + std::string(std::size_t{2} * 28 * 28, 'a'));
      folder.file("mnist/" + part + "-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x02\x01\x02"s);
    }
    return "mnist:" + at("mnist");
  }
  std::string converted(const std::string& kind) const {
    const std::string to = kind + ":" + at(kind);
    const Outcome outcome = run_tool("convert " + pictures() + " " + to + " --validation 50%");
    return outcome.status == 0 ? to : "";
  }
  void expect_kept(const std::string& command, const std::string& file, const testing::Matcher<std::string>& text) {
    const bool is_there = fs::exists(folder.path() / file);
    const std::string before = is_there ? bytes_of_file(at(file)) : "";
    expect_refused(command, text);
    ASSERT_EQ(fs::exists(folder.path() / file), is_there) << command;
    EXPECT_EQ(is_there ? bytes_of_file(at(file)) : "", before) << command;
  }

  TemporaryFolder folder;
  const std::string small = " --model mnist_cnn --width 2 --batch 2 ";
  const std::string train_small = "train --threads 1 --steps 2" + small;
};

TEST_F(Outputs, AreNotPutAmongTheDataOfTheTraining) {
  std::map<std::string, std::string> files = {{mnist(), "mnist/train-labels-idx1-ubyte"},
                                              {converted("tfrecord"), "tfrecord/train-00000.tfrecord"}};
  const std::string database = converted("lmdb");
  if (!database.empty()) files[database] = "lmdb/train/data.mdb";
  for (const auto& [data, file] : files) {
    for (const std::string option : {"--json", "--statistics"}) {
      expect_kept(train_small + "--data " + data + " " + option + " " + at(file), file,
                  AllOf(HasSubstr(option), HasSubstr("the folder of --data"), HasSubstr("give a folder beside it")));
    }
  }
  if (!database.empty()) {
    expect_refused(train_small + "--data " + database + " --checkpoints " + at("lmdb/train"),
                   HasSubstr("the folder of --"));
  }
  // Folders of their own beside records are no data.
  EXPECT_EQ(run_tool(train_small + "--data tfrecord:" + at("tfrecord") + " --checkpoints " + at("tfrecord/run")).status,
            0);
}

TEST_F(Outputs, AreNotPutWhereLinksAmongTheDataLead) {
  const std::string data = converted("tfrecord");
  const std::string file = "tfrecord/train-00000.tfrecord";
  fs::rename(at(file), at("elsewhere"));
  fs::create_symlink(at("elsewhere"), at(file));
  expect_kept(train_small + "--data " + data + " --json " + at("elsewhere"), "elsewhere",
              HasSubstr("is that of --data"));
  // A link to what is not there yet writes there.
  const std::string images = pictures();
  fs::create_symlink(fs::path("pictures") / "new", at("link"));
  expect_kept(train_small + "--data " + images + " --statistics " + at("link"), "pictures/new",
              HasSubstr("the folder of --data"));
}

TEST_F(Outputs, OfConvertReplaceNeitherSourceNorResult) {
  const std::string from = mnist(), images = pictures(), result = at("out/train-00000.tfrecord");
  const std::string convert = "convert " + from + " tfrecord:" + at("out");
  expect_kept(convert + " --json " + at("mnist/train-labels-idx1-ubyte"), "mnist/train-labels-idx1-ubyte",
              HasSubstr("the folder of FROM"));
  expect_kept(convert + " --json " + result, "out/train-00000.tfrecord", HasSubstr("the folder of TO"));
  expect_kept("convert " + images + " tfrecord:" + at("out") + " --json " + at("pictures/cat/0.png"),
              "pictures/cat/0.png", HasSubstr("the folder of FROM"));
  expect_refused("convert " + images + " lmdb:" + at("pictures/database"), HasSubstr("the folder of FROM"));
  EXPECT_EQ(run_tool(convert + " --json " + at("out.json")).status, 0);
}

TEST_F(Outputs, OfInspectReplaceNothingThatIsInspected) {
  ASSERT_NE(converted("tfrecord"), "");
  ASSERT_EQ(run_tool(train_small + "--data synthetic --checkpoints " + at("run")).status, 0);
  for (const auto& [inspected, file] :
       std::map<std::string, std::string>{{"tfrecord", "tfrecord/train-00000.tfrecord"},
                                          {"run", "run/latest"},
                                          {"run/step-2", "run/step-2/manifest.json"},
                                          {"run/step-2/variables.safetensors", "run/step-2/manifest.json"}}) {
    expect_kept("inspect " + at(inspected) + " --json " + at(file), file, HasSubstr("--json"));
  }
  EXPECT_EQ(run_tool("inspect " + at("run") + " --json " + at("run/inspected.json")).status, 0);
}

TEST_F(Outputs, LeaveTheProfileThatIsRead) {
  Profile::nominal().save(at("profile"));
  for (const std::string& command : {train_small, "plan" + small, "compare --steps 2" + small}) {
    expect_kept(command + " --profile " + at("profile") + " --json " + at("profile"), "profile",
                HasSubstr("is that of --profile too"));
  }
  expect_kept("compare --steps 2" + small + "--profile " + at("new") + " --json " + at("new"), "new",
              HasSubstr("--profile"));
  expect_kept("compare --steps 2" + small + "--report " + at("page") + " --json " + at("page/index.html"),
              "page/index.html", HasSubstr("is that of --"));
}

TEST_F(Outputs, LeaveThePlanThatIsReadOrMade) {
  const std::string by_search = small + "--strategy auto ";
  for (const std::string& command :
       {"train --threads 1 --steps 1" + by_search + "--plan ", "plan" + by_search + "--save-plan "}) {
    expect_kept(command + at("plan") + " --json " + at("plan"), "plan", HasSubstr("is that of --"));
  }
  ASSERT_EQ(run_tool("plan" + by_search + "--save-plan " + at("plan")).status, 0);
  for (const std::string& command :
       {"train --threads 1 --steps 1" + by_search, "compare --steps 2 --strategies auto" + small}) {
    expect_kept(command + "--plan " + at("plan") + " --json " + at("plan"), "plan", HasSubstr("is that of --plan too"));
  }
}

TEST_F(Outputs, HaveNoNameOfTheCheckpointsBesideThem) {
  const std::string train = train_small + "--data synthetic --checkpoints " + at("run");
  for (const std::string file : {"run/latest", "run/step-2", "run/step-2/results"}) {
    expect_kept(train + " --json " + at(file), file, HasSubstr("a name of the checkpoints in"));
  }
  expect_refused(train + " --tensorboard " + at("run/step-2"), HasSubstr("a name of the checkpoints in"));
  ASSERT_EQ(run_tool(train + " --statistics " + at("run/step-times.csv") + " --json " + at("run/results.json")).status,
            0);
  // Nor what is read, which would give way to theirs.
  fs::create_directories(folder.path() / "other");
  Profile::nominal().save(at("other/latest"));
  const std::string before = bytes_of_file(at("other/latest"));
  expect_refused(train_small + "--data synthetic --checkpoints " + at("other") + " --profile " + at("other/latest"),
                 HasSubstr("a name of the checkpoints in"));
  EXPECT_EQ(bytes_of_file(at("other/latest")), before);
  // Of another command's, too.
  expect_kept("plan" + small + "--json " + at("run/latest"), "run/latest", HasSubstr("the latest"));
  expect_kept("plan" + small + "--json " + at("run/step-2/manifest.json"), "run/step-2/manifest.json",
              HasSubstr("is a file of a checkpoint"));
}

TEST_F(Outputs, EventFilesMayLieAmongCheckpoints) {
  const std::string train = "train --threads 1" + small + "--checkpoints " + at("run") + " --tensorboard " + at("run");
  const Outcome begun = run_tool(train + " --steps 2");
  ASSERT_EQ(begun.status, 0) << begun.text;
  EXPECT_EQ(json_of_tool(train + " --steps 3 --resume").at("steps"), 1);
  EXPECT_GE(inspected(at("run")).at("num_event_files"), 1);
}

TEST_F(Outputs, DoNotLieInOneAnother) {
  expect_refused(train_small + "--json " + at("x") + " --tensorboard " + at("x/board"),
                 AllOf(HasSubstr("--tensorboard"), HasSubstr("which is the file of --json")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace sectionflow::tools
