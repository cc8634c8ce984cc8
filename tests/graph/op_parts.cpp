#include <gtest/gtest.h>

#include <string>

#include "graph/graph.h"
#include "graph/nodes/matmul.h"
#include "graph/nodes/parts.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/ctc_loss.h"
#include "graph/ops/dropout.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

std::string uses_text(const std::vector<PartUse>& uses) {
  std::string text;
  for (PartUse use : uses) {
    text += text.empty() ? "" : " ";
    text += use == PartUse::rows ? "rows" : use == PartUse::whole ? "whole" : "sum";
  }
  return text;
}

/// "rows whole -> rows", with the block where it is more than a row; "none".
std::string parts_text(Value y) {
  const Node& node = y.node();
  if (!node.op().parts) return "none";
  std::vector<TensorType> inputs;
  for (const Value& input : node.inputs()) inputs.push_back(input.type());
  const auto parts = node.op().parts({inputs, node.output_types(), {}, node.any_options()});
  if (!parts) return "none";
  const std::string block = parts->block == 1 ? "" : ", blocks of " + std::to_string(parts->block);
  return uses_text(parts->inputs) + " -> " + uses_text(parts->outputs) + block;
}

class OpParts : public testing::Test {
 protected:
  Value in(Shape shape, Dtype dtype = Dtype::f32) { return placeholder(graph, "x", std::move(shape), dtype); }

  Graph graph;
};

TEST_F(OpParts, OfElementsAreTheRowsOfTheResult) {
  EXPECT_EQ(parts_text(in({6, 5}) + in({6, 5})), "rows rows -> rows");
  EXPECT_EQ(parts_text(in({6, 5}) * in({6, 1})), "rows rows -> rows");
  EXPECT_EQ(parts_text(in({6, 5}) * in({1, 5})), "rows whole -> rows");
  EXPECT_EQ(parts_text(in({6, 6}) * in({6})), "rows whole -> rows");
  EXPECT_EQ(parts_text(in({1, 5}) * in({6, 1})), "whole rows -> rows");
  EXPECT_EQ(parts_text(in({6, 5}) * in({})), "rows whole -> rows");
  EXPECT_EQ(parts_text(in({}) * in({})), "none");
  EXPECT_EQ(parts_text(select(less(in({6, 5}), in({5})), in({6, 1}), in({5}))), "rows rows whole -> rows");
  EXPECT_EQ(parts_text(relu(in({6}))), "rows -> rows");
  EXPECT_EQ(parts_text(cast(in({6, 5}), Dtype::bf16)), "rows -> rows");
  EXPECT_EQ(parts_text(dropout(in({6, 5}), {.rate = 0.5F})), "none");
}

TEST_F(OpParts, OfRowsHaveAllButWhatIsForEveryRow) {
  EXPECT_EQ(parts_text(softmax(in({6, 5}))), "rows -> rows");
  EXPECT_EQ(parts_text(softmax(in({6}))), "none");
  EXPECT_EQ(parts_text(bias_add(in({6, 5}), in({5}))), "rows whole -> rows");
  EXPECT_EQ(parts_text(bias_add(in({5}), in({5}))), "none");
  EXPECT_EQ(parts_text(bias_add(in({6, 5, 4}), in({5}), {.format = DataFormat::nchw})), "rows whole -> rows");
  EXPECT_EQ(parts_text(layer_norm(in({6, 5}), in({5}), in({5}))), "rows whole whole -> rows rows rows");
  EXPECT_EQ(parts_text(rms_norm(in({6, 5}), in({5}))), "rows whole -> rows rows");
  const Value lengths = in({6}, Dtype::i32);
  EXPECT_EQ(parts_text(ctc_loss(in({6, 4, 5}), in({6, 2}, Dtype::i32), lengths, lengths)),
            "rows rows rows rows -> rows rows");
  EXPECT_EQ(parts_text(group_norm(in({6, 4, 5}), in({5}), in({5}), {.groups = 5})),
            "rows whole whole -> rows rows rows");
  const Value labels = in({6}, Dtype::i32);
  EXPECT_EQ(parts_text(softmax_cross_entropy(in({6, 5}), labels)), "rows rows -> rows rows");
  EXPECT_EQ(parts_text(softmax_cross_entropy(in({6, 5}), labels, {.class_weights = in({5})})),
            "rows rows whole -> rows rows");
}

TEST_F(OpParts, OfMovesAreThoseBesideTheFirstAxis) {
  EXPECT_EQ(parts_text(transpose(in({6, 5, 4}), {0, 2, 1})), "rows -> rows");
  EXPECT_EQ(parts_text(transpose(in({6, 5, 4}), {-3, 2, 1})), "rows -> rows");
  EXPECT_EQ(parts_text(transpose(in({6, 5}), {1, 0})), "none");
  EXPECT_EQ(parts_text(slice(in({6, 5}), {.begin = {0, 1}, .size = {-1, 2}})), "rows -> rows");
  EXPECT_EQ(parts_text(slice(in({6, 5}), {.begin = {1, 0}, .size = {5, 5}})), "none");
  EXPECT_EQ(parts_text(slice_grad(in({6, 2}), in({6, 5}), {.begin = {0, 1}, .size = {6, 2}})), "rows whole -> rows");
  EXPECT_EQ(parts_text(pad(in({6, 5}), {.before = {0, 1}, .after = {0, 0}})), "rows -> rows");
  EXPECT_EQ(parts_text(pad(in({6, 5}), {.before = {0, 1}, .after = {1, 0}})), "none");
  EXPECT_EQ(parts_text(concat({in({6, 5}), in({6, 2})}, 1)), "rows rows -> rows");
  EXPECT_EQ(parts_text(concat({in({6, 5}), in({6, 5})}, 0)), "none");
  EXPECT_EQ(parts_text(stack({in({6, 5}), in({6, 5})}, -1)), "rows rows -> rows");
  EXPECT_EQ(parts_text(stack({in({6, 5}), in({6, 5})}, 0)), "none");
  EXPECT_EQ(parts_text(split(in({6, 4}), 2, 1)[0]), "rows -> rows rows");
  EXPECT_EQ(parts_text(split(in({6, 4}), 2, -2)[0]), "none");
  EXPECT_EQ(parts_text(concat_grad(in({6, 7}), {in({6, 5}), in({6, 2})}, {.axis = 1}, {true, false})[0]),
            "rows whole whole -> rows");
  EXPECT_EQ(parts_text(split_grad(in({6, 4}), {in({6, 2}), Value()}, {.axis = 1, .parts = 2})), "whole rows -> rows");
}

TEST_F(OpParts, OfWideProductsAreBlocksOfRows) {
  EXPECT_EQ(parts_text(matmul(in({1024, 768}), in({50257, 768}), {.transpose_b = true})),
            "rows whole -> rows, blocks of 256");
  EXPECT_EQ(parts_text(matmul(in({1024, 50257}), in({50257, 768}))), "rows whole -> rows, blocks of 256");
  EXPECT_EQ(parts_text(matmul(in({1024, 50257}), in({1024, 768}), {.transpose_a = true})),
            "rows rows -> sum, blocks of 256");
  // Rows of all leading dimensions are laid below each other: a part has whole entries of the first.
  EXPECT_EQ(parts_text(matmul(in({8, 128, 768}), in({768, 50257}))), "rows whole -> rows, blocks of 2");
  EXPECT_EQ(parts_text(matmul(in({4, 512, 768}), in({768, 50257}))), "rows whole -> rows");
  EXPECT_EQ(parts_text(matmul_over_rows(in({4, 512, 768}), in({4, 512, 50257}))), "rows rows -> sum");
  EXPECT_EQ(parts_text(matmul(in({1000, 768}), in({768, 50257}))), "rows whole -> rows, blocks of 250");
  EXPECT_EQ(parts_text(matmul(in({256, 768}), in({768, 50257}))), "rows whole -> rows, blocks of 128");
  EXPECT_EQ(parts_text(matmul(in({1023, 768}), in({768, 50257}))), "rows whole -> rows, blocks of 341");
}

TEST_F(OpParts, OfProductsThatBlocksWouldSlowDownAreNone) {
  EXPECT_EQ(parts_text(matmul(in({1024, 768}), in({768, 3072}))), "none");
  EXPECT_EQ(parts_text(matmul(in({200, 768}), in({768, 50257}))), "none") << "no two blocks";
  EXPECT_EQ(parts_text(matmul(in({1021, 768}), in({768, 50257}))), "none") << "a prime number of rows";
  EXPECT_EQ(parts_text(matmul(in({2, 1024, 768}), in({2, 768, 50257}))), "none") << "a matrix for each of a batch";
  EXPECT_EQ(parts_text(matmul(in({1024, 768}), in({50257, 1024}), {.transpose_a = true, .transpose_b = true})), "none");
}

TEST_F(OpParts, OfSumsAreThoseOfF32) {
  const auto rows = [&](std::int64_t width) { return in({1024, width}, Dtype::bf16); };
  EXPECT_EQ(parts_text(matmul_over_rows(rows(50257), rows(768))), "none");
  EXPECT_EQ(parts_text(matmul(rows(50257), rows(768), {.transpose_a = true})), "none");
  EXPECT_EQ(parts_text(matmul(rows(768), in({768, 50257}, Dtype::bf16))), "rows whole -> rows, blocks of 256");
}

}  // namespace
}  // namespace sectionflow
