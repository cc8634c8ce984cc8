// Two element-wise operations in one launch, by the kernels of CUDA: on the machine's first GPU where
// SECTIONFLOW_TEST_DEVICE is `cuda`, otherwise on an emulated one, where launches are counted too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "device/device_queues.h"
#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/unary.h"
#include "kernels/kernel_registry.h"
#include "runtime/engine.h"
#include "schedule/chained_steps.h"
#include "tests/support/counting_queue.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_device.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Makes a value from one of that shape and others of its own.
using Make = std::function<Value(Graph&, Value)>;

Value input(Graph& graph, const Shape& shape, Dtype dtype = Dtype::f32) {
  return placeholder(graph, "input", shape, dtype);
}
Value like(Graph& graph, Value x) {
  return input(graph, x.type().shape, x.dtype());
}
Value biased(Graph& graph, Value x, DataFormat format) {
  return bias_add(x, input(graph, {x.type().shape[format == DataFormat::nhwc ? -1 : 1]}, x.dtype()), {format});
}

struct NamedMake {
  std::string name;
  int operand;  ///< which input of the made value is the given one
  Make make;
};

std::vector<NamedMake> sums() {
  return {{"add", 0, [](Graph& g, Value x) { return add(x, like(g, x)); }},
          {"add_n", 0,
           [](Graph& g, Value x) {
             return add_n({x, like(g, x)});
           }},
          {"bias_add nhwc", 0, [](Graph& g, Value x) { return biased(g, x, DataFormat::nhwc); }},
          {"bias_add nchw", 0, [](Graph& g, Value x) { return biased(g, x, DataFormat::nchw); }}};
}

std::vector<NamedMake> followers() {
  std::vector<NamedMake> all = sums();
  all.push_back({"add on the right", 1, [](Graph& g, Value x) { return add(like(g, x), x); }});
  all.push_back({"add_n on the right", 1, [](Graph& g, Value x) { return add_n({like(g, x), x}); }});
  all.push_back({"relu", 0, [](Graph&, Value x) { return relu(x); }});
  all.push_back({"relu_grad of dy", 0, [](Graph& g, Value x) { return relu_grad(x, like(g, x)); }});
  all.push_back({"relu_grad of y", 1, [](Graph& g, Value x) { return relu_grad(like(g, x), x); }});
  all.push_back({"tanh", 0, [](Graph&, Value x) { return tanh(x); }});
  all.push_back({"sigmoid", 0, [](Graph&, Value x) { return sigmoid(x); }});
  all.push_back({"silu", 0, [](Graph&, Value x) { return silu(x); }});
  all.push_back({"gelu", 0, [](Graph&, Value x) { return gelu(x); }});
  all.push_back({"gelu of tanh", 0, [](Graph&, Value x) { return gelu(x, {Gelu::tanh}); }});
  return all;
}

class Chains : public testing::Test {
 protected:
  Chains() {
    if (!tests_run_on_a_gpu()) emulated_.emplace(EmulatedOptions{});
    device_ = make_device(cuda(), 1);
  }

  std::unique_ptr<Kernel> kernel_of(Value value) {
    const Node& node = value.node();
    KernelRequest request{.node = node,
                          .inputs = {},
                          .outputs = {value.type()},
                          .host_booleans = std::vector<std::optional<bool>>(node.inputs().size()),
                          .device = *device_};
    for (const Value& of : node.inputs()) request.inputs.push_back(of.type());
    return kernel_registry(DeviceKind::cuda).make(request);
  }

  bool chains(Value first, Value second, int operand) {
    return kernel_of(first)->chains_into(*kernel_of(second), operand);
  }

  /// Places in device memory, one a value; the result's may be that of another value.
  using Places = std::map<Value, std::size_t>;

  /// All bytes after the two kernels were launched.
  std::vector<std::byte> launched(
      Value first, Value second, const Places& places,
      const std::function<void(Kernel&, const KernelArguments&, const ChainedKernel&)>& launch, int& launches) {
    device_->copy_from_host(memory_->data(), content_.data(), content_.size());
    DeviceQueues& queues = *device_->queues();
    std::optional<CountingQueue> counting;
    void* queue = queues.native(Queue::compute);
    if (!tests_run_on_a_gpu()) queue = static_cast<gpu::HostQueue*>(&counting.emplace(queue));
    const auto place_of = [&](Value value) -> void* { return memory_->data() + places.at(value); };
    std::vector<const void*> inputs[2];
    void* outputs[2] = {place_of(first), place_of(second)};
    KernelArguments arguments[2];
    for (int k = 0; k < 2; ++k) {
      for (const Value& of : (k == 0 ? first : second).node().inputs()) inputs[k].push_back(place_of(of));
      arguments[k].inputs = inputs[k];
      arguments[k].outputs = {&outputs[k], 1};
      arguments[k].queue = queue;
      arguments[k].random_state = queues.random_state();
    }
    const auto first_kernel = kernel_of(first), second_kernel = kernel_of(second);
    const auto& of_second = second.node().inputs();
    const auto operand = static_cast<int>(std::find(of_second.begin(), of_second.end(), first) - of_second.begin());
    launch(*first_kernel, arguments[0], {*second_kernel, arguments[1], operand, stores_});
    queues.synchronize();
    launches = counting ? counting->launches : 0;
    std::vector<std::byte> after(content_.size());
    device_->copy_to_host(after.data(), memory_->data(), after.size());
    return after;
  }

  /// Chains the kernels, with the result in the place of `over` (the result: its own); expects the bytes of one after
  /// the other, each in a place of its own.
  void expect_chained(Value first, Value second, const Places& own, Value over, bool stores) {
    stores_ = stores;
    int alone_launches = 0, launches = 0;
    const auto alone = launched(
        first, second, own,
        [](Kernel& kernel, const KernelArguments& arguments, const ChainedKernel& next) {
          kernel.launch(arguments);
          next.kernel.launch(next.arguments);
        },
        alone_launches);
    Places places = own;
    places[second] = own.at(over);
    const auto chained = launched(
        first, second, places,
        [](Kernel& kernel, const KernelArguments& arguments, const ChainedKernel& next) {
          kernel.launch_chain(arguments, next);
        },
        launches);
    const std::size_t bytes = second.type().bytes();
    // What must be in memory: the inputs and the guards as they were, the result, and what is in between if stored.
    std::vector<std::byte> wanted = content_;
    const auto copy = [&](std::size_t to, const std::vector<std::byte>& from, std::size_t at) {
      if (bytes > 0) std::memcpy(wanted.data() + to, from.data() + at, bytes);
    };
    if (stores) copy(own.at(first), alone, own.at(first));
    copy(places.at(second), alone, own.at(second));
    EXPECT_TRUE(chained == wanted);
    if (tests_run_on_a_gpu()) return;
    EXPECT_EQ(launches, bytes > 0 ? 1 : 0);
    EXPECT_EQ(alone_launches, bytes > 0 ? 2 : 0);
  }

  Places places_of(const std::vector<Value>& values) {
    Places places;
    std::size_t end = 0;
    for (const Value& value : values) {
      if (!places.try_emplace(value, end).second) continue;
      // Multiples of 64, of which every other one is none of 128.
      end += round_up(value.type().bytes() + 4, std::size_t{64});
    }
    memory_ = device_->allocate(end);
    content_.resize(end);
    fill_randomly<BFloat16>(values[0].dtype() == Dtype::bf16);
    fill_randomly<float>(values[0].dtype() != Dtype::bf16);
    return places;
  }

  template <class T>
  void fill_randomly(bool is_wanted) {
    std::mt19937 random(7);
    for (std::size_t i = 0; i < content_.size() && is_wanted; i += sizeof(T)) {
      const auto number = static_cast<T>(-3.0F + static_cast<float>(random() % 6000) * 1e-3F);
      std::memcpy(content_.data() + i, &number, sizeof(number));
    }
  }

  void expect_all_placements(const NamedMake& sum, const NamedMake& follower, const Shape& shape,
                             Dtype dtype = Dtype::f32) {
    SCOPED_TRACE(testing::Message() << sum.name << " > " << follower.name << ", " << shape.num_elements()
                                    << " elements of " << dtype_name(dtype));
    Graph graph;
    const Value first = sum.make(graph, input(graph, shape, dtype)), second = follower.make(graph, first);
    ASSERT_TRUE(chains(first, second, follower.operand));
    std::vector<Value> values = first.node().inputs();
    for (const Value& of : second.node().inputs()) values.push_back(of);
    values.push_back(second);
    const Places own = places_of(values);
    std::vector<Value> in_place;
    for (const Value& value : values) {
      if (value != first && value.type().shape == shape) in_place.push_back(value);
    }
    for (const Value& over : in_place) {
      for (const bool stores : {false, true}) expect_chained(first, second, own, over, stores);
    }
    expect_chained(first, second, own, first, false);
  }

 private:
  std::optional<EmulatedCuda> emulated_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::byte> content_;
  bool stores_ = false;
};

TEST_F(Chains, GiveTheBytesOfOneAfterTheOtherForEveryPairWhereverTheResultLies) {
  for (const NamedMake& sum : sums()) {
    for (const NamedMake& follower : followers()) {
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        expect_all_placements(sum, follower, {3, 7}, dtype);
        expect_all_placements(sum, follower, {2, 8, 2, 4}, dtype);
      }
    }
  }
}

TEST_F(Chains, OfAnyNumberOfElementsAndChannels) {
  const std::vector<NamedMake> all = sums();
  const std::vector<Shape> shapes = {{0, 4},    {1, 1},     {1, 3},    {5, 1},       {257, 4},
                                     {9, 1023}, {33, 1024}, {4, 3, 5}, {2, 6, 5, 3}, {3, 5, 8, 8}};
  for (const Shape& shape : shapes) {
    for (const NamedMake& sum : all) {
      for (const NamedMake& follower : {all[0], all[2], all[3]}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) expect_all_placements(sum, follower, shape, dtype);
      }
    }
  }
}

TEST_F(Chains, AreSumsAndWhatTakesOneElementOfThemForEachOfItsOwn) {
  Graph graph;
  const Value x = input(graph, {4, 4}), row = input(graph, {4});
  const Value sum = add(x, input(graph, {4, 4}));
  EXPECT_TRUE(chains(sum, relu(sum), 0));
  EXPECT_FALSE(chains(relu(x), add(relu(x), x), 0)) << "no sum";
  EXPECT_FALSE(chains(mul(x, x), relu(mul(x, x)), 0)) << "no sum";
  EXPECT_FALSE(chains(sum, mul(sum, x), 0)) << "no formula of chains";
  EXPECT_FALSE(chains(add(x, row), relu(x), 0)) << "one that repeats a row";
  EXPECT_FALSE(chains(sum, add(sum, row), 0)) << "one that repeats a row";
  EXPECT_FALSE(chains(add_n({x, sum, x}), relu(x), 0)) << "three terms";
  const Value one_row = input(graph, {1, 4}), of_row = add(row, row);
  EXPECT_TRUE(chains(of_row, bias_add(one_row, of_row), 0));
  EXPECT_FALSE(chains(of_row, bias_add(one_row, of_row), 1)) << "the bias";
  const Value whole = input(graph, {4}, Dtype::i64);
  EXPECT_FALSE(chains(add(whole, whole), add(add(whole, whole), whole), 0)) << "integers";
  const Value narrow = input(graph, {4, 4}, Dtype::bf16);
  EXPECT_FALSE(chains(add(narrow, narrow), relu(sum), 0)) << "of another type";
}

/// What three steps of a small network on an emulated GPU leave behind, and how many chains its program has.
TrainingState train(std::uint64_t seed, EmulatedKernels kernels, bool traced, bool records, std::size_t& num_chains) {
  const EmulatedCuda gpu({.kernels = kernels, .seed = seed});
  TrainableRandomModel t({.seed = seed});
  Session session(t.graph,
                  {.device = cuda(), .device_memory = 8_MiB, .record_cycles = records, .check_schedules = true});
  session.initialize();
  const FeedTypes types = random_batch(t.model, 2, 0).types(t.model);
  const Program& program = engine(session).whole_program({t.model.loss}, types, t.training);
  num_chains += chain_steps(program.schedule, program.kernels, program.storage, program.plan).size();
  Trace trace;
  if (traced) session.set_trace(&trace);
  for (std::uint64_t step = 0; step < 3; ++step) {
    (void)session.run(t.model.loss, random_batch(t.model, 2, step).feeds(t.model), t.training);
  }
  session.set_trace(nullptr);
  return {read_variables(session), {}};
}

TEST(ChainedTraining, GivesTheBytesOfStepsOneByOne) {
  for (const EmulatedKernels kernels : {EmulatedKernels::cuda, EmulatedKernels::cpu}) {
    std::size_t num_chains = 0, ignored = 0;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(seed);
      const TrainingState wanted = train(seed, kernels, true, false, ignored);
      for (const bool records : {false, true}) {
        EXPECT_EQ(first_difference(wanted, train(seed, kernels, false, records, num_chains)), "");
      }
    }
    EXPECT_GT(num_chains, 10U);
  }
}

/// y = other + (a + b), where the sum lies over neither of its terms, which are read once more, and could leave its
/// result to the other operand. `others_alive`: tensors that are there meanwhile.
void expect_planned_peak(bool is_on_the_right, bool sum_comes_first, int others_alive) {
  SCOPED_TRACE(testing::Message() << is_on_the_right << sum_comes_first << others_alive);
  const EmulatedCuda gpu({.seed = 5});
  Graph graph;
  const Value p = placeholder(graph, "p", {64, 300}), a = tanh(p), b = sigmoid(p);
  std::vector<Value> alive = {a, b};
  for (int i = 0; i < others_alive; ++i) alive.push_back(gelu(alive.back()));
  Value sum = sum_comes_first ? add(a, b) : Value(), other = silu(p);
  if (!sum.valid()) sum = add(a, b);
  const Value y = is_on_the_right ? add_n({other, sum}) : add_n({sum, other});
  std::vector<Value> fetches = {y, a, b};
  for (const Value& value : alive) fetches.push_back(mul(value, y));
  Session session(graph, {.device = cuda(), .device_memory = 8_MiB});
  session.initialize();
  session.set_measuring(true);
  HostTensor feed(Dtype::f32, {64, 300});
  std::span<float> numbers = feed.values<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 101) * 0.01F;
  const std::vector<HostTensor> fetched = session.run(fetches, {{p, feed}});
  const Program& program = *engine(session).latest_program();
  EXPECT_THAT(chain_steps(program.schedule, program.kernels, program.storage, program.plan),
              testing::Contains(testing::Field(&ChainedSteps::stores, false)));
  EXPECT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes);
  for (std::size_t i = 0; i < numbers.size(); i += 997) {
    const float x = numbers[i], terms = fetched[1].values<float>()[i] + fetched[2].values<float>()[i];
    EXPECT_FLOAT_EQ(fetched[0].values<float>()[i], terms + x / (1 + std::exp(-x)));
  }
}

TEST(ChainedTraining, ASumThatIsNotStoredTakesNoBytesOfThePlan) {
  for (const bool is_on_the_right : {true, false}) {
    for (const bool sum_comes_first : {true, false}) {
      for (const int others_alive : {0, 1, 2, 3}) expect_planned_peak(is_on_the_right, sum_comes_first, others_alive);
    }
  }
}

}  // namespace
}  // namespace sectionflow
