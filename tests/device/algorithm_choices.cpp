#include "device/algorithm_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/choice_store.h"
#include "device/device.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::LogLines;

/// A library that offers some algorithms and chooses the first.
class Library final : public AlgorithmChooser {
 public:
  explicit Library(std::vector<std::string> algorithms) : algorithms_(std::move(algorithms)) {}
  bool offers(const std::string& algorithm) override {
    ++num_asked;
    return std::find(algorithms_.begin(), algorithms_.end(), algorithm) != algorithms_.end();
  }
  std::string choose() override {
    ++num_asked;
    SF_CHECK(!algorithms_.empty(), DeviceError, "a failure of the moment");
    return algorithms_.front();
  }

  std::atomic<int> num_asked = 0;

 private:
  std::vector<std::string> algorithms_;
};

const AlgorithmChoices kSome{{{"lib 1 on gpu: 2x3 by 3x4", "1f 2 3"}, {"lib 1 on gpu: \"quoted\" \\", "none"}}};

TEST(AlgorithmChoices, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "choices.json").string();
  for (const AlgorithmChoices& choices : {AlgorithmChoices{}, kSome}) {
    choices.save(path);
    EXPECT_EQ(AlgorithmChoices::load(path), choices);
    EXPECT_EQ(AlgorithmChoices::from_json(choices.json(), ""), choices);
  }
  EXPECT_EQ(folder.num_files(), 1u) << "nothing else is left behind";
}

TEST(AlgorithmChoices, WhatCannotBeReadOrWrittenIsADataErrorWithItsPath) {
  const TemporaryFolder folder;
  const std::string absent = (folder.path() / "absent.json").string(),
                    damaged = (folder.path() / "damaged.json").string();
  EXPECT_THAT([&] { AlgorithmChoices::load(absent); }, ThrowsMessage<DataError>(HasSubstr(absent)));
  EXPECT_THROW(kSome.save((folder.path() / "no folder" / "a.json").string()), DataError);
  std::ofstream(damaged) << "{";
  EXPECT_THAT([&] { AlgorithmChoices::load(damaged); },
              ThrowsMessage<DataError>(AllOf(HasSubstr(damaged), HasSubstr("no JSON"))));
}

TEST(AlgorithmChoices, ATextThatIsNoneIsRefusedWithTheReason) {
  const std::string head = R"({"format":"sectionflow algorithms","version":1,"algorithms":)";
  struct Case {
    std::string text, reason;
  };
  for (const Case& c : {Case{"", "no JSON"},
                        {"[]", "no choices"},
                        {"{}", "no choices"},
                        {std::string(100'000, '['), "no JSON"},
                        {R"({"format":"sectionflow profile"})", "no choices"},
                        {R"({"format":"sectionflow algorithms"})", "version null; wanted 1"},
                        {R"({"format":"sectionflow algorithms","version":2})", "version 2; wanted 1"},
                        {R"({"format":"sectionflow algorithms","version":1})", "no object"},
                        {head + "[]}", "no object"},
                        {head + R"({"a":1}})", "problem 0"},
                        {head + R"({"a":null}})", "problem 0"},
                        {head + R"({"a":"x","b":""}})", "problem 1"},
                        {head + R"({"":"x"}})", "problem 0"},
                        {head + R"({"a":"line\nbreak"}})", "problem 0"},
                        {head + R"({"umlaut ä":"x"}})", "problem 0"},
                        {head + R"({"a":")" + std::string(1025, 'x') + R"("}})", "problem 0"}}) {
    EXPECT_THAT([&] { AlgorithmChoices::from_json(c.text, "the file: "); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("the file: "), HasSubstr(c.reason))))
        << c.text.substr(0, 200);
  }
}

TEST(AlgorithmChoices, DamagedTextsAreRefusedOrAreChoices) {
  std::mt19937 random(7);
  const std::string good = kSome.json();
  int num_refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t place = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[place] = static_cast<char>(random());
          break;
        case 1:
          text.erase(place, 1 + random() % 8);
          break;
        default:
          text.insert(place, text.substr(random() % text.size(), random() % 8));
      }
      if (text.empty()) break;
    }
    try {
      const AlgorithmChoices read = AlgorithmChoices::from_json(text, "");
      EXPECT_EQ(AlgorithmChoices::from_json(read.json(), ""), read);
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 10'000);
}

TEST(ChoiceStore, TheFirstChoiceIsUsedEverAfter) {
  ChoiceStore store;
  Library first({"a", "b"}), second({"b"}), empty({});
  EXPECT_THROW((void)store.algorithm_for("p", empty), DeviceError) << "and nothing is chosen";
  EXPECT_EQ(store.algorithm_for("p", first), "a");
  EXPECT_EQ(store.algorithm_for("p", second), "a");
  EXPECT_EQ(second.num_asked, 0);
  EXPECT_EQ(store.algorithm_for("q", second), "b");
}

TEST(ChoiceStore, WhatAFileSaysIsTakenIfItIsOffered) {
  ChoiceStore store;
  EXPECT_TRUE(store.add({{{"p", "b"}, {"q", "gone"}}}).empty());
  Library library({"a", "b"});
  EXPECT_EQ(store.algorithm_for("p", library), "b");
  const LogLines log;
  EXPECT_EQ(store.algorithm_for("q", library), "a");
  EXPECT_EQ(store.algorithm_for("q", library), "a");
  EXPECT_THAT(log.lines, ElementsAre(AllOf(HasSubstr("'q'"), HasSubstr("none that the library offers"))));
}

TEST(ChoiceStore, WhatIsInUseStays) {
  ChoiceStore store;
  Library library({"a"});
  EXPECT_EQ(store.algorithm_for("p", library), "a");
  EXPECT_THAT(store.add({{{"p", "b"}, {"q", "b"}}}), ElementsAre("p"));
  EXPECT_TRUE(store.add({{{"p", "a"}, {"q", "a"}}}).empty()) << "a later file's word counts while nobody runs it";
  EXPECT_EQ(store.algorithm_for("p", library), "a");
  EXPECT_EQ(store.algorithm_for("q", library), "a");
}

TEST(ChoiceStore, ThreadsThatAskTogetherGetOneAnswer) {
  ChoiceStore store;
  std::vector<std::string> answers(8);
  std::atomic<int> num_chosen = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      Library library({std::to_string(i)});
      answers[i] = store.algorithm_for("p", library);
      num_chosen += library.num_asked;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_chosen, 1);
  for (const std::string& answer : answers) EXPECT_EQ(answer, answers[0]);
}

TEST(DeviceChoices, KnowWhatTheirDeviceRunsAndWhatItWasGiven) {
  const auto store = std::make_shared<ChoiceStore>();
  DeviceChoices one, other;
  one.share(store);
  other.share(store);
  Library library({"a"});
  EXPECT_EQ(one.algorithm_for("p", library), "a");
  EXPECT_THAT(other.add({{{"p", "b"}, {"q", "b"}}}), ElementsAre("p"));
  EXPECT_EQ(one.known(), (AlgorithmChoices{{{"p", "a"}}}));
  EXPECT_EQ(other.known(), (AlgorithmChoices{{{"q", "b"}}}));
  EXPECT_EQ(other.algorithm_for("p", library), "a");
  EXPECT_EQ(other.known(), (AlgorithmChoices{{{"p", "a"}, {"q", "b"}}}));
}

TEST(DeviceChoices, OfOneProcessAreShared) {
  const auto one = make_device(cpu(), 1), other = make_device(cpu(), 1);
  Library first({"a"}), second({"b"});
  EXPECT_EQ(one->choices().algorithm_for("DeviceChoices.OfOneProcessAreShared", first), "a");
  EXPECT_EQ(other->choices().algorithm_for("DeviceChoices.OfOneProcessAreShared", second), "a");
}

TEST(CudaOptions, AreThoseOfTheDevice) {
  const DeviceSpec plain = cuda(2), rounded = cuda(1, true), tuned = cuda(1, {.autotune = true}),
                   both = cuda(0, CudaOptions{.allow_tf32 = true, .autotune = true});
  EXPECT_TRUE(plain.kind == DeviceKind::cuda && plain.ordinal == 2 && !plain.allow_tf32 && !plain.autotune);
  EXPECT_TRUE(rounded.ordinal == 1 && rounded.allow_tf32 && !rounded.autotune);
  EXPECT_TRUE(tuned.ordinal == 1 && !tuned.allow_tf32 && tuned.autotune);
  EXPECT_TRUE(both.allow_tf32 && both.autotune);
}

}  // namespace
}  // namespace sectionflow
