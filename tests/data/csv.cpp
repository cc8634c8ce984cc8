#include "data/csv.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

const std::vector<CsvTensor>& flower_tensors() {
  static const std::vector<CsvTensor> tensors = {
      {.name = "features", .columns = {"width", "height"}},
      {.name = "label", .columns = {"species"}, .dtype = Dtype::i32, .words = {"setosa", "a, \"b\""}}};
  return tensors;
}
constexpr const char* kFlowers =
    "\xEF\xBB\xBFheight,species,width\r\n"
    "1.5,setosa, -2e-3 \r\n"
    "\r\n"
    "+3,\"a, \"\"b\"\"\",4\n"
    "5,setosa,6";

TEST(Csv, ColumnsBecomeTensorsByName) {
  const TemporaryFolder folder;
  const auto source = csv_source(folder.file("flowers.csv", kFlowers), flower_tensors());
  for (int reading = 0; reading < 2; ++reading) {
    const auto stream = source->open();
    const auto first = stream->next();
    EXPECT_TRUE(bitwise_equal(first->at("features"), HostTensor::of<float>({2}, {-2e-3F, 1.5F})));
    EXPECT_TRUE(bitwise_equal(first->at("label"), HostTensor::scalar<std::int32_t>(0)));
    const auto second = stream->next();
    EXPECT_TRUE(bitwise_equal(second->at("features"), HostTensor::of<float>({2}, {4, 3})));
    EXPECT_EQ(second->at("label").item<std::int32_t>(), 1);
    EXPECT_TRUE(stream->next().has_value());
    EXPECT_FALSE(stream->next().has_value());
    EXPECT_FALSE(stream->next().has_value());
  }
  const auto stream = source->open();
  EXPECT_EQ(stream->skip(2), 2);
  EXPECT_EQ(stream->skip(2), 1);
}

TEST(Csv, WithoutAFirstLineOfNamesColumnsAreNumbers) {
  const TemporaryFolder folder;
  const auto stream = csv_source(folder.file("plain.csv", "1;2;'x\ny;'\n3;4;'x\ny;'"),
                                 {{.name = "a", .columns = {"1"}, .dtype = Dtype::u8},
                                  {.name = "b", .columns = {"0"}, .dtype = Dtype::i64},
                                  {.name = "c", .columns = {"2"}, .dtype = Dtype::f64, .words = {"x\ny;"}}},
                                 {.separator = ';', .quote = '\'', .has_header = false})
                          ->open();
  EXPECT_EQ(stream->next()->at("a").item<std::uint8_t>(), 2);
  const auto second = stream->next();
  EXPECT_EQ(second->at("b").item<std::int64_t>(), 3);
  EXPECT_EQ(second->at("c").item<double>(), 0.0);
  EXPECT_FALSE(stream->next().has_value());
}

TEST(Csv, CompressedFilesAreRead) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "flowers.csv.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, kFlowers);
  gzclose(file);
  EXPECT_EQ(csv_source(path, flower_tensors())->open()->skip(10), 3);
  // Damage ends the reading, however often it is asked.
  const std::string bytes = bytes_of_file(path);
  const auto cut = folder.file("cut.csv.gz", bytes.substr(0, bytes.size() - 8));
  const auto stream = csv_source(cut, flower_tensors())->open();
  int errors = 0, examples = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      examples += stream->next().has_value() ? 1 : 0;
    } catch (const DataError&) {
      ++errors;
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_LE(examples, 3);
}

TEST(Csv, AnErrorNamesItsLineAndTheNextCallGoesOn) {
  const TemporaryFolder folder;
  const auto file = folder.file(
      "bad.csv", "width,height,species\n1,2,setosa\n1,x,setosa\n1,2\n1,2,rosa\n1,2e99,setosa\n3,4,setosa\n5,\"6");
  const auto stream = csv_source(file, flower_tensors())->open();
  const std::vector<std::string> wanted = {"",
                                           "line 3: column 'height' has 'x'; wanted a number of f32",
                                           "line 4: has 2 fields, the first line 3",
                                           "line 5: column 'species' has 'rosa'; wanted one of the 2 words of 'label'",
                                           "line 6: column 'height' has '2e99'",
                                           "",
                                           "line 8: the file ends within quotes"};
  for (const std::string& text : wanted) {
    if (text.empty()) {
      EXPECT_TRUE(stream->next().has_value());
      continue;
    }
    const std::string error = error_text<DataError>([&] { stream->next(); });
    EXPECT_TRUE(contains(error, "bad.csv': " + text)) << error;
  }
  EXPECT_FALSE(stream->next().has_value());
}

TEST(Csv, WhatIsNotFiniteIsRefusedWithLineAndColumnUnlessItIsAllowed) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"nan", "NaN", " -nan ", "nan(7)", "inf", "+Inf", "-infinity"};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const std::vector<CsvTensor> tensors = {{.name = "x", .columns = {"b"}, .dtype = dtype}};
    for (const std::string& text : texts) {
      const auto file = folder.file("text.csv", "a,b\n1,2\n1," + text + "\n1,3\n");
      const auto stream = csv_source(file, tensors)->open();
      EXPECT_TRUE(stream->next().has_value());
      const std::string error = error_text<DataError>([&] { stream->next(); });
      EXPECT_TRUE(contains(error, "line 3: column 'b' has '" + text + "', which is not finite")) << error;
      EXPECT_TRUE(stream->next().has_value()) << "the next call goes on";
      const auto any = csv_source(file, tensors, {.allow_not_finite = true})->open();
      EXPECT_EQ(any->skip(1), 1);
      const auto example = any->next();
      const HostTensor& x = example->at("x");
      EXPECT_FALSE(std::isfinite(dtype == Dtype::f32 ? static_cast<double>(x.item<float>()) : x.item<double>()));
    }
  }
  const std::vector<CsvTensor> whole = {{.name = "x", .columns = {"a"}, .dtype = Dtype::i32}};
  EXPECT_THROW(csv_source(folder.file("i.csv", "a\nnan\n"), whole, {.allow_not_finite = true})->open()->next(),
               DataError);
}

TEST(Csv, AColumnThatIsNotThereIsRefusedWithThoseThatAre) {
  const TemporaryFolder folder;
  const auto file = folder.file("flowers.csv", "width,height\n1,2\n");
  const std::string text =
      whole_error_text<DataError>([&] { (void)csv_source(file, {{.name = "x", .columns = {"hieght"}}}); });
  EXPECT_TRUE(contains(text, "there is no column 'hieght' for the tensor 'x' among 2: 'height', 'width'")) << text;
  EXPECT_TRUE(contains(text, "is 'height' the one that is meant?")) << text;
}

TEST(Csv, AnEmptyFieldIsNoNumberAndAWordOnlyWhereItIsOne) {
  const TemporaryFolder folder;
  for (const std::string gap : {"", "  ", "\"\""}) {
    const auto file = folder.file("gaps.csv", "a,b\n1," + gap + "\n1,2\n");
    for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
      const auto stream = csv_source(file, {{.name = "x", .columns = {"a", "b"}, .dtype = dtype}})->open();
      const std::string error = error_text<DataError>([&] { stream->next(); });
      EXPECT_TRUE(contains(error, "line 2: column 'b' is empty; wanted a number")) << error;
      EXPECT_TRUE(stream->next().has_value());
    }
  }
  const auto file = folder.file("words.csv", "a,b\n1,\n");
  const auto words = [&](std::vector<std::string> list) {
    return csv_source(file, {{.name = "x", .columns = {"b"}, .dtype = Dtype::i32, .words = std::move(list)}})->open();
  };
  EXPECT_EQ(words({"yes", ""})->next()->at("x").item<std::int32_t>(), 1);
  EXPECT_THROW(words({"yes", "no"})->next(), DataError);
}

TEST(Csv, NumbersNearerToZeroThanAnyOfTheDtypeAreZeroAndTooLargeOnesRefused) {
  const TemporaryFolder folder;
  const std::vector<std::string> small = {"1e-50",
                                          "-1e-50",
                                          "0.0" + std::string(500, '0') + "7",
                                          "123456789e-400",
                                          "-3e-99999999999999999999",
                                          "-0." + std::string(400, '0') + "1e5"};
  const std::vector<std::string> large = {"1e50", "-1" + std::string(400, '0') + ".5", "3e+99999999999999999999",
                                          "0.001e400"};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const std::vector<CsvTensor> tensors = {{.name = "x", .columns = {"x"}, .dtype = dtype}};
    for (const std::string& text : small) {
      const auto example = csv_source(folder.file("small.csv", "x\n" + text + "\n"), tensors)->open()->next();
      const HostTensor& x = example->at("x");
      const double number = dtype == Dtype::f32 ? static_cast<double>(x.item<float>()) : x.item<double>();
      const bool is_of_f64 = dtype == Dtype::f64 && text.ends_with("1e-50");
      EXPECT_EQ(number, is_of_f64 ? std::stod(text) : 0) << text;
      EXPECT_EQ(std::signbit(number), text.starts_with('-')) << text;
    }
    for (const std::string& text : large) {
      const auto stream = csv_source(folder.file("large.csv", "x\n" + text + "\n"), tensors)->open();
      if (dtype == Dtype::f64 && text == "1e50") {
        EXPECT_EQ(stream->next()->at("x").item<double>(), 1e50);
      } else {
        EXPECT_THROW(stream->next(), DataError) << text;
      }
    }
  }
  // The nearest number where that is not 0.
  const auto subnormal = csv_source(folder.file("s.csv", "x\n1e-45\n"), {{.name = "x", .columns = {"x"}}});
  EXPECT_EQ(subnormal->open()->next()->at("x").item<float>(), std::numeric_limits<float>::denorm_min());
}

TEST(Csv, AColumnWhoseNameIsThereTwiceIsRefusedWhereItIsAskedFor) {
  const TemporaryFolder folder;
  const auto file = folder.file("twice.csv", "a,b, a\n1,2,3\n");
  const std::string error = error_text<DataError>([&] { csv_source(file, {{.name = "x", .columns = {"a"}}}); });
  EXPECT_TRUE(contains(error, "line 1: more than one column is called 'a'")) << error;
  EXPECT_EQ(csv_source(file, {{.name = "x", .columns = {"b"}}})->open()->next()->at("x").item<float>(), 2.0F);
}

TEST(Csv, LinesWithoutEndAreRefused) {
  const TemporaryFolder folder;
  const auto file =
      folder.file("long.csv", "width,height,species\n1,\"" + std::string(5000, 'x') + "\n2,3,setosa\n4,5,setosa\n");
  const auto stream = csv_source(file, flower_tensors(), {.max_line_bytes = 100})->open();
  EXPECT_TRUE(contains(error_text<DataError>([&] { stream->next(); }), "line 2: has more than 100 bytes"));
  EXPECT_EQ(stream->next()->at("features").values<float>()[0], 2.0F);
}

TEST(Csv, WhatCannotBeIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const auto file = folder.file("flowers.csv", kFlowers);
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { csv_source(file, {{.name = "x", .columns = {"depth"}}}); }), "'depth'"));
  EXPECT_THROW(csv_source(folder.path() / "gone", flower_tensors()), DataError);
  EXPECT_THROW(csv_source(file, {}), ArgumentError);
  EXPECT_THROW(csv_source(file, {{.name = "x"}}), ArgumentError);
  EXPECT_THROW(csv_source(file, {flower_tensors()[0], flower_tensors()[0]}), ArgumentError);
  EXPECT_THROW(csv_source(file, {{.name = "x", .columns = {"width"}, .dtype = Dtype::bf16}}), ArgumentError);
  EXPECT_THROW(csv_source(file, flower_tensors(), {.separator = '"'}), ArgumentError);
  EXPECT_THROW(csv_source(folder.file("empty.csv", ""), flower_tensors()), DataError);
  EXPECT_FALSE(csv_source(folder.file("none.csv", ""), {{.name = "x", .columns = {"0"}}}, {.has_header = false})
                   ->open()
                   ->next());
}

TEST(Csv, DamagedFilesAreReadOrRefused) {
  const TemporaryFolder folder;
  testing_support::expect_read_or_refused(kFlowers, [&](const std::string& damaged) {
    std::filesystem::remove(folder.path() / "damaged.csv");
    const auto stream = csv_source(folder.file("damaged.csv", damaged), flower_tensors())->open();
    for (int i = 0; i < 100 && stream->next().has_value(); ++i) continue;
  });
}

}  // namespace
}  // namespace sectionflow
