// What an error says of the line of the user's call.

#include <gtest/gtest.h>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/unary.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

std::string here(int line) {
  return "places.cpp:" + std::to_string(line);
}

TEST(Places, ANodeKnowsTheLineOfTheCallThatMadeIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = relu(x);
  EXPECT_EQ(y.node().where().text(), here(__LINE__ - 1));
  const Value z = y * 2.0F;
  EXPECT_EQ(z.node().where().text(), here(__LINE__ - 1));
  EXPECT_EQ(z.node().inputs()[1].node().where().text(), here(__LINE__ - 2));
}

TEST(Places, ARefusedCallNamesItsGroupItsLineAndItsInputs) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const auto group = graph.enter_group(graph.new_group("section 0 'head'"));
  const Value w = variable("w", fill(graph, {4, 5}, 0));
  const std::string text = error_text<ShapeError>([&] { (void)matmul(x, w); });
  EXPECT_NE(text.find("\n  where:   section 0 'head', " + here(__LINE__ - 1)), std::string::npos) << text;
  EXPECT_NE(text.find("\n  inputs:  'x' f32[2,3] (placeholder), 'w' f32[4,5] (variable)"), std::string::npos) << text;
}

TEST(Places, AnOperatorSignNamesItsLine) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, 3}), b = placeholder(graph, "b", {4});
  const std::string text = error_text<ShapeError>([&] { (void)(a + b); });
  EXPECT_NE(text.find(here(__LINE__ - 1)), std::string::npos) << text;
}

TEST(Places, WhatALayerMakesOrRefusesIsOfTheLayersLine) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = dense(x, {.features = 4});
  for (const Value& variable : graph.values(kVariables)) EXPECT_EQ(variable.node().where().text(), here(__LINE__ - 1));
  EXPECT_EQ(y.node().where().text(), here(__LINE__ - 2));
  const std::string text = error_text<ArgumentError>([&] { (void)dense(x, {.features = 0}); });
  EXPECT_NE(text.find(here(__LINE__ - 1)), std::string::npos) << text;
}

}  // namespace
}  // namespace sectionflow
