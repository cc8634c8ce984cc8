// A siamese net: two towers with the same variables learn which pairs of images are of one class. It is trained in
// sections, and evaluated by averages of its weights.

#include <iostream>
#include <map>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status = answer_arguments(
          argc, argv, "Trains a siamese net in sections, and evaluates it by averages of its weights."))
    return *status;
  start_logging("07_siamese");
  const TrainTest data = synthetic_mnist({.train_size = 2000});
  BatchLoader lefts(data.train, {.batch = 50, .seed = 1, .epochs = 3});
  BatchLoader rights(data.train, {.batch = 50, .seed = 2, .epochs = 3});

  Graph graph;
  GraphSectionManager manager(graph);
  const Value left = placeholder(graph, "left", {kDynamic, 28, 28, 1});
  const Value right = placeholder(graph, "right", {kDynamic, 28, 28, 1});
  const Value left_class = placeholder(graph, "left_class", {kDynamic}, Dtype::i32);
  const Value right_class = placeholder(graph, "right_class", {kDynamic}, Dtype::i32);
  const Value same = cast(equal(left_class, right_class), Dtype::f32);

  // docs/layers.md shows the lines from here on.
  SharedVariables encoder(graph, "encoder");
  const auto layers = [](Value x) {
    x = max_pool2d(relu(conv2d(x, {.features = 8, .stride = 2, .bias = true})));
    return dense(flatten(x), {.features = 8});
  };
  const auto encode = [&](Value x) {
    const auto scope = encoder.scope();  // the first makes the variables, the second finds them
    return layers(x);
  };
  // Pairs of one class are to lie together, others at least 1 apart.
  const auto distance = [](Value a, Value b) { return reduce_mean(square(a - b), {.axes = {1}}); };
  Value a, b, loss;
  {
    auto section = manager.new_section("left");
    a = encode(left);
  }
  {
    auto section = manager.new_section("right");
    b = encode(right);
  }
  {
    auto section = manager.new_section("loss");
    const Value apart = distance(a, b);
    loss = mean(same * apart + (1.0F - same) * relu(1.0F - apart));
  }

  std::map<Value, Value> averages;
  for (const Value& weight : encoder.variables()) {
    const Value average = variable("average/" + weight.name(), initial_value_of(weight), {.trainable = false});
    graph.add_to_collection(kUpdateOperations, update_moving_average(average, weight, 0.9F));
    averages[weight] = average;
  }
  const auto encode_by_averages = [&](Value x) {
    const auto scope = encoder.scope([&](Value weight) {
      const auto average = averages.find(weight);
      return average == averages.end() ? weight : average->second;
    });
    return layers(x);
  };
  const Value apart = distance(encode_by_averages(left), encode_by_averages(right));
  // Here the lines end.
  const Value of_same = reduce_sum(same * apart) / reduce_sum(same);
  const Value of_others = reduce_sum((1.0F - same) * apart) / reduce_sum(1.0F - same);

  manager.add_training_ops(Adam{.learning_rate = 1e-2}, loss);
  manager.prepare_training();
  Session session(graph, {.device_memory = 4_MiB});
  session.initialize();
  Feeds feeds;
  Batch left_batch, right_batch;
  for (int step = 1;; ++step) {
    auto next_left = lefts.next(), next_right = rights.next();
    if (!next_left || !next_right) break;
    left_batch = std::move(*next_left);
    right_batch = std::move(*next_right);
    feeds = {{left, left_batch.images},
             {right, right_batch.images},
             {left_class, left_batch.labels},
             {right_class, right_batch.labels}};
    const auto [value] = manager.run_full_cycle(session, {loss}, feeds);
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << value.item<float>() << "\n";
  }
  const auto [near, far] = session.run({of_same, of_others}, feeds);
  std::cout << "distance of one class " << near.item<float>() << ", of two " << far.item<float>() << "\n";
  return near.item<float>() * 2 < far.item<float>() ? 0 : 1;
}
