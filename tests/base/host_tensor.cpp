#include "base/host_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(HostTensor, NewTensorIsZeroAndAligned) {
  const HostTensor tensor(Dtype::f32, {3, 5});
  EXPECT_EQ(tensor.num_elements(), 15);
  EXPECT_EQ(tensor.num_bytes(), 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes()) % 64, 0U);
  for (float value : tensor.values<float>()) EXPECT_EQ(value, 0.0F);
}

TEST(HostTensor, DefaultTensorIsEmpty) {
  const HostTensor tensor;
  EXPECT_EQ(tensor.num_elements(), 0);
  EXPECT_EQ(tensor.num_bytes(), 0U);
  EXPECT_TRUE(tensor.values<float>().empty());
  EXPECT_TRUE(bitwise_equal(tensor.clone(), tensor));
}

TEST(HostTensor, InLentMemoryIsWhatTheBytesAreAndGivesThemBackBehindTheLastWhoHasThem) {
  int given_back = 0;
  alignas(64) std::byte memory[128]{};
  memory[4] = std::byte{7};
  const auto lent = [&] { return std::shared_ptr<std::byte[]>(memory, [&](std::byte*) { ++given_back; }); };
  HostTensor tensor({Dtype::u8, {8}}, lent());
  EXPECT_EQ(tensor.bytes(), memory);
  EXPECT_EQ(tensor.values<std::uint8_t>()[4], 7);
  const HostTensor copy = tensor.clone();
  EXPECT_NE(copy.bytes(), memory);
  EXPECT_TRUE(bitwise_equal(copy, tensor));
  HostTensor moved = std::move(tensor);
  EXPECT_EQ(given_back, 0);
  auto kept = moved.shared_bytes();
  moved = HostTensor();
  EXPECT_EQ(given_back, 0);
  kept.reset();
  EXPECT_EQ(given_back, 1);
}

TEST(HostTensor, RefusesLentMemoryThatItCannotLieIn) {
  alignas(64) std::byte memory[128]{};
  int given_back = 0;
  const auto lent = [&](std::size_t offset) {
    return std::shared_ptr<std::byte[]>(memory + offset, [&](std::byte*) { ++given_back; });
  };
  const TensorType type{Dtype::u8, {8}};
  EXPECT_THROW(HostTensor(type, nullptr), ArgumentError);
  EXPECT_THROW(HostTensor(type, lent(32)), ArgumentError);
  EXPECT_THROW(HostTensor({Dtype::u8, {kDynamic}}, lent(0)), ShapeError);
  EXPECT_EQ(given_back, 2);
}

TEST(HostTensor, ValuesAreRowMajor) {
  const HostTensor tensor = HostTensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.values<std::int32_t>()[3], 4);
  EXPECT_EQ(tensor.view().as<std::int32_t>()[5], 6);
  EXPECT_EQ(tensor.view().type, tensor.type());
}

TEST(HostTensor, NumberOfValuesMustBeThatOfTheShape) {
  const std::string text = error_text<ShapeError>([] { HostTensor::of<float>({2, 2}, {1, 2, 3}); });
  EXPECT_NE(text.find("3 values for the shape [2,2]"), std::string::npos) << text;
}

TEST(HostTensor, AccessAsAnotherTypeIsRefused) {
  HostTensor tensor(Dtype::f32, {2});
  const std::string text = error_text<ArgumentError>([&] { tensor.values<std::int32_t>(); });
  EXPECT_NE(text.find("f32[2] asked for as i32"), std::string::npos) << text;
}

TEST(HostTensor, ItemIsTheOnlyElement) {
  EXPECT_EQ(HostTensor::scalar(2.5).item<double>(), 2.5);
  EXPECT_TRUE(HostTensor::scalar(true).item<bool>());
  EXPECT_EQ(HostTensor::of<std::int64_t>({1, 1}, {7}).item<std::int64_t>(), 7);
  EXPECT_THROW(HostTensor(Dtype::f32, {2}).item<float>(), ShapeError);
  EXPECT_THROW(HostTensor::scalar(1.0F).item<double>(), ArgumentError);
}

TEST(HostTensor, CloneHasBytesOfItsOwn) {
  HostTensor tensor = HostTensor::of<float>({2}, {1, 2});
  const HostTensor copy = tensor.clone();
  tensor.values<float>()[0] = 9;
  EXPECT_EQ(copy.values<float>()[0], 1.0F);
}

TEST(HostTensor, MoveKeepsTheBytes) {
  HostTensor tensor = HostTensor::of<float>({2}, {1, 2});
  const std::byte* bytes = tensor.bytes();
  const HostTensor moved = std::move(tensor);
  EXPECT_EQ(moved.bytes(), bytes);
  EXPECT_EQ(moved.shape(), Shape{2});
}

TEST(HostTensor, UnknownAndOverflowingSizesAreRefused) {
  EXPECT_THROW(HostTensor(Dtype::f32, {kDynamic, 2}), ShapeError);
  EXPECT_THROW(HostTensor(Dtype::f64, {std::numeric_limits<std::int64_t>::max() / 2}), ShapeError);
}

TEST(HostTensor, EmptyTensorHasAnAddress) {
  EXPECT_NE(HostTensor(Dtype::f32, {0, 3}).bytes(), nullptr);
}

TEST(HostTensor, BitwiseEqualityComparesBitsAndTypes) {
  const auto of = [](float value) { return HostTensor::of<float>({1}, {value}); };
  EXPECT_TRUE(bitwise_equal(of(NAN), of(NAN)));
  EXPECT_FALSE(bitwise_equal(of(0.0F), of(-0.0F)));
  EXPECT_FALSE(bitwise_equal(of(0.0F), HostTensor(Dtype::i32, {1})));
  EXPECT_FALSE(bitwise_equal(HostTensor(Dtype::f32, {2, 1}), HostTensor(Dtype::f32, {1, 2})));
}

TEST(HostTensor, FirstDifferenceNamesTheElementAndItsBits) {
  const auto matrix = [](float last) { return HostTensor::of<float>({2, 2}, {1, 2, 3, last}); };
  EXPECT_EQ(first_difference(matrix(4), matrix(4)), "");
  EXPECT_EQ(first_difference(matrix(1.5F), matrix(2)), "at element [1,1]: 1.5 (0x3fc00000) and 2 (0x40000000)");
  EXPECT_EQ(first_difference(matrix(0), matrix(-0.0F)), "at element [1,1]: 0 (0x00000000) and -0 (0x80000000)");
  EXPECT_EQ(first_difference(matrix(NAN), matrix(NAN)), "");
  EXPECT_EQ(first_difference(HostTensor::scalar<std::int64_t>(-1), HostTensor::scalar<std::int64_t>(258)),
            "at element []: -1 (0xffffffffffffffff) and 258 (0x0000000000000102)");
  EXPECT_EQ(first_difference(HostTensor::scalar(0.5), HostTensor::scalar(1.0)),
            "at element []: 0.5 (0x3fe0000000000000) and 1 (0x3ff0000000000000)");
  EXPECT_EQ(first_difference(matrix(1), HostTensor(Dtype::i32, {2})), "types f32[2,2] and i32[2]");
}

TEST(HostTensor, TypeIsPrintedAsDtypeAndShape) {
  EXPECT_EQ((TensorType{Dtype::f32, {250, 10}}).text(), "f32[250,10]");
}

}  // namespace
}  // namespace sectionflow
