// Somebody else's program: trains a tiny network in two sections with the installed library, and checks what crosses
// the library's border: values, exceptions, types, the rounding mode. Its only line of output are the bits of the
// results, which every way of linking must give alike.

#include <bit>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "graph/graph.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

int num_failures = 0;
void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cerr << "failed: " << claim << "\n";
  ++num_failures;
}

std::vector<std::uint32_t> train(bool in_sections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = images, loss;
  {
    auto section = manager.new_section();
    x = relu(conv2d(x, {.features = 8}));
  }
  {
    auto section = manager.new_section();
    loss = mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 2}), labels));
  }
  manager.add_training_ops(Adam{.learning_rate = 5e-2F}, loss);
  manager.prepare_training();
  Session session(graph, {.device_memory = 4_MiB, .threads = 2, .seed = 7});
  session.initialize();

  // Class 1 is brighter.
  HostTensor batch(Dtype::f32, {16, 8, 8, 1}), classes(Dtype::i32, {16});
  for (std::size_t i = 0; i < 16; ++i) {
    classes.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 2);
    for (std::size_t k = 0; k < 64; ++k) {
      batch.values<float>()[64 * i + k] = static_cast<float>(i % 2) + 0.01F * static_cast<float>((7 * k + i) % 13);
    }
  }
  std::vector<std::uint32_t> bits;
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Feeds feeds = {{images, batch}, {labels, classes}};
    const auto [value] = in_sections ? manager.run_full_cycle(session, {loss}, feeds)
                                     : session.run({loss}, feeds, {.targets = manager.training_operations()});
    last = value.item<float>();
    if (step == 0) first = last;
    bits.push_back(std::bit_cast<std::uint32_t>(last));
  }
  expect(last < 0.5F * first, "the loss falls to less than a half");
  return bits;
}

void errors_keep_their_types() {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, 3}), b = placeholder(graph, "b", {4, 5});
  bool caught = false;
  try {
    matmul(a, b);
  } catch (const ShapeError& error) {
    caught = typeid(error) == typeid(ShapeError) && error.code() == ErrorCode::shape &&
             std::string(error.what()).find("SF-E") == 0;
  }
  expect(caught, "a ShapeError thrown inside is caught as one outside");

  caught = false;
  Session session(graph, {.device_memory = 64});
  session.initialize();
  try {
    session.run({a + 1.0F}, {{a, HostTensor(Dtype::f32, {2, 3})}});
  } catch (const Error& error) {
    const auto* budget = dynamic_cast<const BudgetError*>(&error);
    caught = budget != nullptr && budget->minimum_bytes > 64;
  }
  expect(caught, "a BudgetError tells its bytes through the base class");

  caught = false;
  try {
    call_at(Where::here(), [] { throw ArgumentError("made outside"); });
  } catch (const Error& error) {
    caught = typeid(error) == typeid(ArgumentError) && error.fact("where").find("consumer.cpp:") == 0;
  }
  expect(caught, "an error made outside is one inside");
}

/// A GPU is asked for in one word; without one the error says what is missing, whatever has been installed.
void a_gpu_is_there_or_refused() {
  Graph graph;
  const Value two = fill(graph, {3}, 2.0F);
  try {
    Session session(graph, {.device = cuda(0), .device_memory = 1_MiB});
    session.initialize();
    expect(session.run(two * 3.0F).values<float>()[2] == 6, "the GPU computes");
  } catch (const DeviceError& error) {
    expect(std::string(error.what()).find("cuda: ") != std::string::npos, "a missing GPU is refused by name");
  }
  Session session(graph, {.device = best_device(), .device_memory = 1_MiB});
  session.initialize();
  expect(session.run(two * 3.0F).values<float>()[2] == 6, "the best device computes");
}

void denormals_are_flushed_inside_alone() {
  Graph graph;
  const Value a = placeholder(graph, "a", {4}), b = placeholder(graph, "b", {4});
  Session session(graph, {.device_memory = 1_MiB});
  session.initialize();
  const auto [product] = session.run({a * b}, {{a, HostTensor::of<float>({4}, {1e-30F, 1e-30F, 1, 2})},
                                               {b, HostTensor::of<float>({4}, {1e-10F, 1e-10F, 3, 4})}});
  expect(product.values<float>()[0] == 0 && product.values<float>()[3] == 8, "a session flushes denormals to zero");
  volatile float small = 1e-30F;
  expect(small * 1e-10F != 0, "the program's own denormals stay");
}

}  // namespace

int main() {
  const std::vector<std::uint32_t> cut = train(true), whole = train(false);
  expect(cut == whole, "sections give the bits of the whole graph");
  errors_keep_their_types();
  denormals_are_flushed_inside_alone();
  a_gpu_is_there_or_refused();
  for (const std::uint32_t bits : cut) std::printf("%08x", bits);
  std::printf("\n");
  return num_failures == 0 ? 0 : 1;
}
