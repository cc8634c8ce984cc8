// Partial loads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "tests/support/contains.h"
#include "tests/support/log_lines.h"
#include "tests/support/resumable_training.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

using Variables = std::map<std::string, HostTensor>;

/// A training whose variables were saved after three steps, and another one to load them into.
class PartialLoad : public testing::Test {
 protected:
  PartialLoad() {
    saved_.train(3);
    save_variables(*saved_.session, path_);
    for (auto& [name, tensor] : read_variables(*saved_.session)) tensors_.push_back({name, std::move(tensor)});
  }
  static Variables values(ResumableTraining& training) { return read_variables(*training.session); }
  static void expect_set(const Variables& before, const Variables& after, const Variables& file,
                         const std::vector<std::string>& loaded) {
    for (const auto& [name, tensor] : after) {
      const bool is_loaded = std::find(loaded.begin(), loaded.end(), name) != loaded.end();
      EXPECT_TRUE(bitwise_equal(tensor, (is_loaded ? file : before).at(name))) << name;
    }
  }
  /// A load that must throw, say this, and change nothing.
  template <class Wanted>
  void expect_refused(ResumableTraining& into, const LoadOptions& options, const std::vector<std::string>& words) {
    const TrainingState before = into.state();
    const std::uint64_t cycles = into.session->completed_cycles();
    try {
      (void)load_variables(*into.session, path_, options);
      ADD_FAILURE() << "was not refused";
    } catch (const Wanted& error) {
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
      EXPECT_NE(error.fact("hint"), "");
      EXPECT_THAT(error.fact("where"), HasSubstr("load_variables.cpp"));
    }
    EXPECT_EQ(first_difference(before, into.state()), "");
    EXPECT_EQ(into.session->completed_cycles(), cycles);
  }
  void write_file(const Metadata& metadata = {}) { write_safetensors(path_, views_of(tensors_), metadata); }

  TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "model.safetensors").string();
  ResumableTraining saved_{Way::whole};
  std::vector<NamedTensor> tensors_;
};

TEST_F(PartialLoad, OfEverythingReportsThat) {
  ResumableTraining other(Way::sections);
  const LoadReport report = load_variables(*other.session, path_);
  EXPECT_EQ(report.loaded.size(), tensors_.size());
  EXPECT_THAT(report.kept, IsEmpty());
  EXPECT_THAT(report.unused, IsEmpty());
  EXPECT_EQ(report.completed_cycles, 3U);
  EXPECT_EQ(report.text(), text_of("loaded ", tensors_.size(), " variables; 3 completed cycles"));
}

TEST_F(PartialLoad, OfOneScopeLeavesAllOthers) {
  ResumableTraining other(Way::whole, {.seed = 1});
  const Variables before = values(other);
  const LoadReport report = load_variables(*other.session, path_, {.only = {"conv2d/*"}});
  EXPECT_THAT(report.loaded, Contains("conv2d/kernel"));
  EXPECT_THAT(report.loaded, Contains("conv2d/kernel/adam_m")) << "slots are below their variables";
  EXPECT_THAT(report.loaded, Not(Contains("conv2d_1/kernel")));
  EXPECT_THAT(report.kept, Contains("conv2d_1/kernel"));
  EXPECT_EQ(report.loaded.size() + report.kept.size(), before.size());
  EXPECT_EQ(report.unused.size(), report.kept.size());
  EXPECT_EQ(report.completed_cycles, std::nullopt);
  EXPECT_EQ(other.session->completed_cycles(), 0U);
  expect_set(before, values(other), values(saved_), report.loaded);
  EXPECT_THAT(report.text(), AllOf(HasSubstr("; kept "), HasSubstr("; not used: "), HasSubstr("...")));
}

TEST_F(PartialLoad, OfWeightsAloneGoesIntoAnotherOptimizerAndIntoANetworkWithoutOne) {
  for (const std::optional<Optimizer>& optimizer :
       {std::optional<Optimizer>(Sgd{}), std::optional<Optimizer>(Momentum{}), std::optional<Optimizer>()}) {
    ResumableTraining other(Way::whole, {.optimizer = optimizer, .seed = 1});
    expect_refused<DataError>(other, {}, {"SF-E424", "difference", "only slots of optimizers differ: .weights_only"});
    const Variables before = values(other);
    const LoadReport report = load_variables(*other.session, path_, {.weights_only = true});
    EXPECT_THAT(report.loaded, Contains("conv2d/kernel"));
    EXPECT_THAT(report.loaded, Contains("batch_norm/moving_mean")) << "statistics belong to the model";
    EXPECT_THAT(report.unused, Contains("adam_steps"));
    EXPECT_EQ(report.completed_cycles, std::nullopt);
    expect_set(before, values(other), values(saved_), report.loaded);
    ResumableTraining wanted(Way::whole);
    load_variables(*wanted.session, path_);
    EXPECT_TRUE(bitwise_equal(other.evaluate(), wanted.evaluate())) << "inference needs no more";
  }
}

TEST_F(PartialLoad, OfWeightsAloneLeavesTheSlotsOfTheSameOptimizer) {
  ResumableTraining other(Way::whole);
  other.train(1);
  const Variables before = values(other);
  const LoadReport report = load_variables(*other.session, path_, {.weights_only = true});
  EXPECT_THAT(report.kept, Contains("adam_steps"));
  EXPECT_EQ(other.session->completed_cycles(), 1U);
  expect_set(before, values(other), values(saved_), report.loaded);
  // Of a file that does not tell which tensors are slots, too.
  write_file();
  EXPECT_EQ(load_variables(*other.session, path_, {.weights_only = true}).loaded, report.loaded);
}

TEST_F(PartialLoad, RenamesTensorsOfTheFile) {
  for (NamedTensor& each : tensors_) each.name = "old/" + each.name;
  write_file();
  ResumableTraining other(Way::whole, {.seed = 1});
  expect_refused<DataError>(other, {}, {"SF-E424", "differences", "is missing"});
  const LoadReport report = load_variables(*other.session, path_, {.rename = {{"old/*", "*"}}});
  EXPECT_EQ(report.loaded.size(), tensors_.size());
  expect_set({}, values(other), values(saved_), report.loaded);
  // The first renaming that fits is taken; what a name is in the graph decides for `only`.
  const LoadReport one =
      load_variables(*other.session, path_,
                     {.only = {"conv2d/kernel"}, .rename = {{"old/conv2d_1/kernel", "elsewhere"}, {"old/*", "*"}}});
  EXPECT_THAT(one.loaded, ElementsAre("conv2d/kernel"));
  expect_refused<DataError>(other, {.rename = {{"old/conv2d_1/kernel", "conv2d/kernel"}, {"old/*", "*"}}},
                            {"would both be 'conv2d/kernel'"});
}

TEST_F(PartialLoad, MissingAndExtraTensorsAreRefusedUnlessAllowed) {
  const std::string missing = tensors_.front().name;
  tensors_.erase(tensors_.begin());
  tensors_.push_back({"stranger", HostTensor(Dtype::f32, {2})});
  write_file({{"completed_cycles", "9"}});
  ResumableTraining other(Way::whole, {.seed = 1});
  const Variables before = values(other);
  expect_refused<DataError>(other, {}, {"2 differences", "'" + missing + "' is missing", "'stranger' is no variable"});
  expect_refused<DataError>(other, {.allow_missing = true}, {"1 difference\n", "'stranger'"});
  expect_refused<DataError>(other, {.allow_extra = true}, {"1 difference\n", "'" + missing + "'"});
  const LoadReport report = load_variables(*other.session, path_, {.allow_missing = true, .allow_extra = true});
  EXPECT_THAT(report.kept, ElementsAre(missing));
  EXPECT_THAT(report.unused, ElementsAre("stranger"));
  EXPECT_EQ(report.completed_cycles, 9U);
  expect_set(before, values(other), values(saved_), report.loaded);
}

TEST_F(PartialLoad, OtherTypesAreRefusedWhateverIsAllowed) {
  for (NamedTensor& each : tensors_) each.tensor = HostTensor(Dtype::f64, {3});
  write_file();
  ResumableTraining other(Way::whole);
  expect_refused<DataError>(other, {.allow_missing = true, .allow_extra = true},
                            {text_of(tensors_.size(), " differences"), "is f64[3]; wanted"});
  // What is not asked for may be as it likes.
  tensors_[0].tensor = saved_.session->read(saved_.graph.find(tensors_[0].name).output());
  write_file();
  EXPECT_THAT(load_variables(*other.session, path_, {.only = {tensors_[0].name}}).loaded,
              ElementsAre(tensors_[0].name));
}

TEST_F(PartialLoad, PatternsThatFitNothingAreRefused) {
  ResumableTraining other(Way::whole);
  expect_refused<ArgumentError>(other, {.only = {"conv2d/kernel", "conv2d/kernal"}},
                                {"'conv2d/kernal' fits no variable", "did you mean 'conv2d/kernel'?"});
  expect_refused<ArgumentError>(other, {.only = {"covn2d/*"}}, {"did you mean 'conv2d/*'?"});
  expect_refused<ArgumentError>(other, {.rename = {{"nothing/*", "*"}}}, {"'nothing/*' fits no tensor of '" + path_});
  expect_refused<ArgumentError>(other, {.rename = {{"*/a/*", "*"}}}, {"cannot rename '*/a/*' to '*'"});
  expect_refused<ArgumentError>(other, {.rename = {{"*", "all"}}}, {"cannot rename"});
  expect_refused<ArgumentError>(other, {.rename = {{"", ""}}}, {"cannot rename"});
}

TEST_F(PartialLoad, ThatSetsNothingWarns) {
  for (NamedTensor& each : tensors_) each.name = "old/" + each.name;
  write_file();
  ResumableTraining other(Way::whole);
  const LogLines log;
  EXPECT_THAT(load_variables(*other.session, path_, {.allow_missing = true, .allow_extra = true}).loaded, IsEmpty());
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("has set no variable"), HasSubstr("loaded 0 variables"))));
}

TEST_F(PartialLoad, DamagedSlotsAreRefused) {
  ResumableTraining other(Way::whole);
  for (const char* slots : {"", "{}", "[1]", "[\"a\"", "[[\"a\"]]"}) {
    write_file({{"slots", slots}});
    expect_refused<DataError>(other, {}, {"the slots in '" + path_ + "' are no list of names"});
  }
  write_file({{"slots", std::string(100'000, '[')}});
  expect_refused<DataError>(other, {}, {"the slots in"});
  write_file({{"slots", "[\"who is not there\"]"}});
  EXPECT_NO_THROW(load_variables(*other.session, path_));
}

TEST_F(PartialLoad, WorksFromACheckpointsFolderAndAsItIsRestored) {
  Checkpoints checkpoints((folder_.path() / "run").string());
  ASSERT_TRUE(checkpoints.save(*saved_.session, {.step = 3}));
  ResumableTraining other(Way::whole, {.optimizer = Sgd{}, .seed = 1});
  const auto restored = checkpoints.restore_latest(*other.session, {.weights_only = true});
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->report.unused, Contains("adam_steps"));
  const std::string step = (folder_.path() / "run" / "step-3").string();
  EXPECT_THAT(whole_error_text<DataError>([&] { load_variables(*other.session, (folder_.path() / "run").string()); }),
              AllOf(HasSubstr("is a folder of 1 checkpoints, and none itself"), HasSubstr(step)));
  EXPECT_THAT(load_variables(*other.session, step, {.only = {"conv2d/*"}, .weights_only = true}).loaded,
              ElementsAre("conv2d/kernel"));
}

}  // namespace
}  // namespace sectionflow
