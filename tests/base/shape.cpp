#include "base/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kLargestDim = std::numeric_limits<std::int64_t>::max();

TEST(Shape, DimensionsCountFromBothEnds) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape.dim(-3), 2);
  EXPECT_THROW(shape.dim(3), ShapeError);
  EXPECT_THROW(shape.dim(-4), ShapeError);
}

TEST(Shape, ScalarHasOneElementAndAnEmptyTensorNone) {
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ((Shape{3, 0, 2}).num_elements(), 0);
  EXPECT_EQ((Shape{3, 4, 2}).num_elements(), 24);
}

TEST(Shape, OverflowOfElementsIsRefused) {
  EXPECT_EQ((Shape{kLargestDim}).num_elements(), kLargestDim);
  EXPECT_THROW((Shape{kLargestDim, 2}).num_elements(), ShapeError);
  EXPECT_THROW((Shape{1LL << 32, 1LL << 31}).num_elements(), ShapeError);
}

TEST(Shape, UnknownDimensionHasNoNumberOfElements) {
  const Shape shape{kDynamic, 28};
  EXPECT_FALSE(shape.is_static());
  EXPECT_THROW(shape.num_elements(), ShapeError);
  EXPECT_EQ(shape.text(), "[?,28]");
}

TEST(Shape, TextIsInBrackets) {
  EXPECT_EQ((Shape{250, 28, 28, 1}).text(), "[250,28,28,1]");
  EXPECT_EQ(Shape{}.text(), "[]");
  std::ostringstream stream;
  stream << Shape{7};
  EXPECT_EQ(stream.str(), "[7]");
}

TEST(Shape, NegativeDimensionsAndHighRanksAreRefused) {
  EXPECT_NE(error_text<ShapeError>([] { Shape{3, -2}; }).find("-2"), std::string::npos);
  EXPECT_EQ(Shape(std::vector<std::int64_t>(16, 1)).rank(), 16);
  EXPECT_NE(error_text<ShapeError>([] { Shape(std::vector<std::int64_t>(17, 1)); }).find("rank 17"), std::string::npos);
}

TEST(Shape, DeclaredUnknownsMatchAnything) {
  EXPECT_TRUE(matches({5, 28}, {kDynamic, 28}));
  EXPECT_TRUE(matches({0, 28}, {kDynamic, 28}));
  EXPECT_FALSE(matches({5, 27}, {kDynamic, 28}));
  EXPECT_FALSE(matches({5}, {kDynamic, 28}));
  EXPECT_FALSE(matches({kDynamic, 28}, {5, 28}));
}

TEST(Shape, BroadcastAlignsTrailingDimensions) {
  EXPECT_EQ(broadcast_shapes({2, 3, 4}, {4}, "add"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}, "add"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {5}, "add"), (Shape{5}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "add"), (Shape{0}));
  EXPECT_EQ(broadcast_shapes({kDynamic, 4}, {1, 4}, "add"), (Shape{kDynamic, 4}));
  EXPECT_EQ(broadcast_shapes({kDynamic}, {kDynamic}, "add"), (Shape{kDynamic}));
}

TEST(Shape, ShapesThatDoNotBroadcastAreRefusedNamingTheAxis) {
  const std::string text = error_text<ShapeError>([] { broadcast_shapes({2, 3, 4}, {2, 4}, "add 'x'"); });
  EXPECT_EQ(text.find("add 'x'"), 0U) << text;
  EXPECT_NE(text.find("dimension -2 is 3 against 2"), std::string::npos) << text;
  EXPECT_EQ(error_text<ShapeError>([] {
              broadcast_shapes({kDynamic, 2}, {3, 2}, "add");
            }),
            "add: shapes [?,2] and [3,2] do not broadcast: dimension -2 is ? against 3, wanted equal or 1");
}

TEST(Shape, AxesAreCountedFromTheFront) {
  EXPECT_EQ(normalized_axis(-1, 4, "mean"), 3);
  EXPECT_EQ(normalized_axis(0, 4, "mean"), 0);
  EXPECT_NE(error_text<ShapeError>([] { normalized_axis(4, 4, "mean 'm'"); }).find("mean 'm': axis 4"),
            std::string::npos);
  EXPECT_THROW(normalized_axis(0, 0, "mean"), ShapeError);
}

}  // namespace
}  // namespace sectionflow
