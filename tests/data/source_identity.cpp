#include "data/source_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/csv.h"
#include "data/dataset.h"
#include "data/text.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const StreamSource> csv_of(const std::filesystem::path& path) {
  return csv_source(path, {{.name = "x", .columns = {"x"}}});
}

TEST(SourceIdentity, DependsOnNamesAndSizesAndNotOnFolders) {
  const TemporaryFolder folder, other;
  const auto a = folder.file("a.csv", "x\n1\n2\n"), same = other.file("a.csv", "x\n1\n2\n");
  EXPECT_EQ(csv_of(a)->identity(), csv_of(same)->identity());
  EXPECT_EQ(csv_of(a)->identity(), csv_of(folder.path() / "." / "a.csv")->identity());
  EXPECT_NE(csv_of(a)->identity(), csv_of(folder.file("b.csv", "x\n1\n2\n"))->identity());
  EXPECT_NE(csv_of(a)->identity(), csv_of(other.file("a.csv", "x\n1\n2\n3\n"))->identity());
  EXPECT_NE(csv_of(a)->identity(), csv_of(other.file("a.csv", "x\n1\n3\n"))->identity()) << "a file's last bytes";
  EXPECT_THAT(csv_of(a)->name(), HasSubstr(a.string())) << "errors tell where it lies";
}

TEST(SourceIdentity, OfTextIsThatOfItsTokens) {
  const TemporaryFolder folder;
  const auto source = [&](const std::string& name, const std::string& text) {
    return text_source({folder.file(name, text)}, Vocabulary::of_bytes(), {.window = 2});
  };
  EXPECT_EQ(source("a", "some text")->identity(), source("b", "some text")->identity());
  EXPECT_NE(source("a", "some text")->identity(), source("b", "same text")->identity());
}

TEST(SourceIdentity, APositionGoesOnWhereTheFilesHaveMoved) {
  const TemporaryFolder folder, other;
  const auto walk = Dataset::from(csv_of(folder.file("a.csv", "x\n1\n2\n"))).iterate();
  const std::string position = walk.position();
  EXPECT_NO_THROW((void)Dataset::from(csv_of(other.file("a.csv", "x\n1\n2\n"))).iterate(position));
  EXPECT_THROW((void)Dataset::from(csv_of(other.file("a.csv", "x\n1\n"))).iterate(position), ArgumentError);
}

TEST(SourceIdentity, OfManyNamesShowsSomeAndDependsOnAll) {
  EXPECT_EQ(identity_of_names({"cat", "dog"}), "'cat', 'dog'");
  std::vector<std::string> names(20, "n");
  const std::string before = identity_of_names(names);
  EXPECT_THAT(before, HasSubstr("20 names"));
  names.back() = "m";
  EXPECT_NE(identity_of_names(names), before);
}

}  // namespace
}  // namespace sectionflow
