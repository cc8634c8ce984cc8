// What a manifest says, and every way in which one may be damaged.

#include "train/checkpoint_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_writer.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

CheckpointManifest small_manifest() {
  return {.step = 7,
          .sequence = 3,
          .completed_cycles = 8,
          .seed = std::numeric_limits<std::uint64_t>::max(),
          .data_position = "epoch 1",
          .metrics = {{"loss", 0.25}},
          .optimizers = {"apply_sgd"},
          .file_bytes = 90,
          .hashes = {{"w", "0123456789abcdef"}}};
}

/// A text of these bytes with the hash that is theirs.
std::string with_hash(std::string body) {
  return body + ",\n \"xxh3\": \"" + text_hash(body) + "\"\n}\n";
}
std::string body_of(const std::string& text) {
  return text.substr(0, text.rfind(",\n \"xxh3\""));
}
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(CheckpointManifest, ComesBackFromItsText) {
  const std::string text = manifest_text(small_manifest());
  EXPECT_EQ(manifest_text(parse_manifest(text, "test: ")), text);
  EXPECT_THAT(text, AllOf(HasSubstr("\"seed\": 18446744073709551615"), HasSubstr("\"loss\": 0.25")));
}

TEST(CheckpointManifest, OfRandomContentComesBack) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::uint64_t block = 0;
    const auto word = [&] { return random_words({.seed = seed}, block++)[0]; };
    const auto text = [&] {
      const std::vector<std::string> letters = {"a", "\"", "\\", "\n", "ö", "/", "\x7f", "", "\t", "𝄞"};
      std::string made;
      for (std::uint32_t i = word() % 12; i > 0; --i) made += letters[word() % letters.size()];
      return made;
    };
    const double numbers[] = {0, -0.0, 1e-320, NAN, INFINITY, -INFINITY, 0.1, std::numeric_limits<double>::max()};
    CheckpointManifest manifest{.step = static_cast<std::int64_t>(word()),
                                .sequence = word(),
                                .completed_cycles = word() * std::uint64_t{word()},
                                .seed = word() * std::uint64_t{word()},
                                .data_position = text(),
                                .strategy = text(),
                                .device = text(),
                                .file_bytes = word()};
    for (std::uint32_t i = word() % 5; i > 0; --i) manifest.metrics[text()] = numbers[word() % 8];
    for (std::uint32_t i = word() % 3; i > 0; --i) manifest.optimizers.push_back(text());
    for (std::uint32_t i = word() % 9; i > 0; --i) manifest.hashes[text()] = text_hash(text());
    if (word() % 2 == 0) manifest.profile = Profile::nominal();
    if (word() % 2 == 0) manifest.algorithms.algorithms[text_of("problem ", word())] = "an algorithm";
    for (std::uint32_t i = word() % 4; i > 0; --i) manifest.kept[text()] = text();
    const std::string written = manifest_text(manifest);
    const CheckpointManifest read = parse_manifest(written, "test: ");
    EXPECT_EQ(manifest_text(read), written);
    EXPECT_EQ(read.data_position, manifest.data_position);
    EXPECT_EQ(read.hashes, manifest.hashes);
    EXPECT_EQ(read.profile, manifest.profile);
    EXPECT_EQ(read.algorithms, manifest.algorithms);
    EXPECT_EQ(read.kept, manifest.kept);
    EXPECT_EQ(read.completed_cycles, manifest.completed_cycles);
  }
}

TEST(CheckpointManifest, EveryTruncationAndEveryFlippedBitIsRefused) {
  const std::string good = manifest_text(small_manifest());
  const auto refused = [](const std::string& text) {
    try {
      (void)parse_manifest(text, "test: ");
      return false;
    } catch (const DataError& error) {
      return error.code() == ErrorCode::checkpoint_damaged &&
             std::string(error.what()).find("test: ") != std::string::npos;
    }
  };
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_TRUE(refused(good.substr(0, length))) << length;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(refused(damaged)) << "bit " << bit;
  }
  EXPECT_TRUE(refused(good + "\n"));
  EXPECT_TRUE(refused(std::string(1000, '\0')));
}

/// A text whose hash is right says something that it may not.
TEST(CheckpointManifest, ThatIsForgedIsRefused) {
  const std::string good = body_of(manifest_text(small_manifest()));
  const auto expect_refused = [](const std::string& body, const std::string& why) {
    EXPECT_THAT(
        [&] { parse_manifest(with_hash(body), "test: "); },
        ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E422 DataError: test: "), HasSubstr(why), HasSubstr("hint:"))));
  };
  const auto expect_changed_refused = [&](const std::string& what, const std::string& by, const std::string& why) {
    expect_refused(replaced(good, what, by), why);
  };
  EXPECT_NO_THROW(parse_manifest(with_hash(good), "test: "));
  expect_changed_refused("\"version\": 1", "\"version\": 2",
                         "has version 2; this SectionFlow reads version 1; try a newer one");
  expect_changed_refused("\"version\": 1", "\"version\": -1", "wanted a whole number");
  expect_changed_refused("sectionflow-checkpoint", "sectionflow-graph", "is no manifest");
  expect_changed_refused("\"step\": 7", "\"step\": \"7\"", "the manifest.step is string");
  expect_changed_refused("\"step\": 7", "\"step\": 7.5", "wanted a whole number");
  expect_changed_refused("\"step\": 7", "\"step\": 9223372036854775808", "63 bits");
  expect_changed_refused("\"sequence\": 3", "\"sequence\": 18446744073709551615", "63 bits");
  expect_changed_refused("\"sequence\": 3", "\"sequence\": 9223372036854775808", "63 bits");
  expect_changed_refused("\"step\": 7", "\"step\": 7,\n \"step\": 8", "twice");
  expect_changed_refused("\"step\": 7", "\"steps\": 7", "unknown member 'steps'");
  expect_changed_refused(" \"step\": 7,\n", "", "wanted one with 'step'");
  expect_changed_refused("\"loss\": 0.25", "\"loss\": \"much\"", "wanted a number");
  expect_changed_refused("\"loss\": 0.25", "\"loss\": [1]", "wanted a text");
  expect_changed_refused("0123456789abcdef", "012345678", "wanted 16 digits");
  expect_changed_refused("\"apply_sgd\"", "7", "wanted a text");
  const std::string file = " \"file\": {";
  expect_changed_refused(file, " \"kept\": {\"plan\": 7}," + file, "the manifest.kept.'plan' is number; wanted a text");
  expect_changed_refused(file, " \"kept\": \"plan\"," + file, "the manifest.kept is string; wanted an object");
  for (const char* name : {"../x", "/x", "a/b", "..", ".", "", "a\\\\b", "a\\u0000b"})
    expect_changed_refused("variables.safetensors", name, "wanted a name in its own folder");
  expect_refused("{\n \"format\": " + std::string(100'000, '['), "");
  expect_refused(std::string(2'000'000, '['), "");
  expect_refused("", "");
  expect_refused("[1", "");
  expect_changed_refused("\"metrics\": {",
                         "\"metrics\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {}}}}}}}}, ",
                         "deeper than 8 levels");
}

TEST(CheckpointManifest, BehindTheLastSequenceNoCheckpointIsWrittenNorDeleted) {
  const TemporaryFolder folder;
  const auto write = [&](std::uint64_t sequence) {
    CheckpointManifest manifest = small_manifest();
    manifest.sequence = sequence;
    std::filesystem::create_directories(folder.path() / "step-7");
    std::ofstream(folder.path() / "step-7" / kManifestName, std::ios::binary) << manifest_text(manifest);
  };
  const auto save = [&] {
    CheckpointWriter writer(folder.path(), {.keep = 1});
    CheckpointJob job{.manifest = small_manifest(), .metadata = {}, .types = {}, .tensor_of = {}};
    job.manifest.step = 8;
    (void)writer.write(std::move(job));
  };
  write(std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(save, ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E422"), HasSubstr("another folder"))));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-7"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "step-8"));
  // One that is damaged does not count: the new one is not the oldest.
  write(std::numeric_limits<std::uint64_t>::max());
  save();
  EXPECT_EQ(read_checkpoint_manifest(folder.path() / "step-8").sequence, 1U);
}

TEST(CheckpointManifest, WithADamagedProfileOrAlgorithmsIsRefused) {
  CheckpointManifest manifest = small_manifest();
  manifest.profile = Profile::nominal();
  manifest.algorithms.algorithms["problem"] = "algorithm";
  const std::string good = body_of(manifest_text(manifest));
  EXPECT_THAT([&] { parse_manifest(with_hash(replaced(good, "sectionflow profile", "somebody's profile")), "test: "); },
              ThrowsMessage<DataError>(HasSubstr("test: the profile: ")));
  EXPECT_THAT([&] { parse_manifest(with_hash(replaced(good, "problem", "\\")), "test: "); },
              ThrowsMessage<DataError>(HasSubstr("test: ")));
}

}  // namespace
}  // namespace sectionflow
