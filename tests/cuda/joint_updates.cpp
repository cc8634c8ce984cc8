// Updates of variables in one launch, by the kernels of CUDA: on the machine's first GPU where SECTIONFLOW_TEST_DEVICE
// is `cuda`, otherwise on an emulated one, where launches are counted too.

#include <gtest/gtest.h>

#include <any>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "device/device_queues.h"
#include "graph/nodes/update.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "kernels/kernel_registry.h"
#include "runtime/device_bytes.h"
#include "runtime/engine.h"
#include "tests/cuda/named_updates.h"
#include "tests/support/counting_queue.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_device.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// An update of the graph's, with its kernel.
struct Update {
  std::unique_ptr<Kernel> kernel;
  std::vector<std::size_t> places;  // one an input, in the bytes of all
  std::vector<const void*> inputs;
  std::vector<void*> updated;
};

class JointUpdates : public testing::Test {
 protected:
  JointUpdates() {
    if (!tests_run_on_a_gpu()) emulated_.emplace(EmulatedOptions{});
    device_ = make_device(cuda(), 1);
  }

  /// Kernels of `updates`, whose operands lie one behind the other with guards in between.
  void prepare(const std::vector<Operation>& operations) {
    updates_.clear();
    std::size_t end = 0;
    for (Operation operation : operations) {
      const Node& node = operation.node();
      KernelRequest request{.node = node,
                            .inputs = {},
                            .outputs = {},
                            .host_booleans = std::vector<std::optional<bool>>(node.inputs().size()),
                            .device = *device_};
      Update update;
      for (const Value& input : node.inputs()) {
        request.inputs.push_back(input.type());
        if (input.dtype() == Dtype::boolean) request.host_booleans[update.places.size()] = true;
        update.places.push_back(end);
        // Multiples of 64, of which every other one is none of 128.
        end += round_up(input.type().bytes() + 4, std::size_t{64});
      }
      update.kernel = kernel_registry(DeviceKind::cuda).make(request);
      updates_.push_back(std::move(update));
    }
    memory_ = device_->allocate(end);
    content_.resize(end);
    std::mt19937 random(5);
    // Numbers of which a root can be taken, that make small steps, and none of which is a pattern.
    for (std::size_t i = 0; i < end; i += sizeof(float)) {
      const float number = 0.01F + static_cast<float>(random() % 1000) * 1e-3F;
      std::memcpy(content_.data() + i, &number, sizeof(number));
    }
    for (std::size_t k = 0; k < updates_.size(); ++k) {
      const Node& node = operations[k].node();
      for (std::size_t i = 0; i < node.inputs().size(); ++i) {
        // Of gates every other one is shut.
        if (node.inputs()[i].dtype() == Dtype::boolean) content_[updates_[k].places[i]] = std::byte(k % 2);
        if (node.inputs()[i].dtype() != Dtype::i64) continue;
        const auto count = static_cast<std::int64_t>(node.inputs()[i].type().bytes() / sizeof(std::int64_t));
        for (std::int64_t j = 0; j < count; ++j) {
          const std::int64_t number = (std::int64_t{1} << 33) * (count > 1 ? j : 0) + static_cast<std::int64_t>(k);
          std::memcpy(content_.data() + updates_[k].places[i] + 8 * j, &number, sizeof(number));
        }
      }
    }
    for (std::size_t k = 0; k < updates_.size(); ++k) {
      Update& update = updates_[k];
      for (std::size_t place : update.places) update.inputs.push_back(memory_->data() + place);
      for (int index : operations[k].node().op().updated_inputs) {
        update.updated.push_back(memory_->data() + update.places[static_cast<std::size_t>(index)]);
      }
    }
  }

  /// All bytes after `launch(kernels, arguments)`, and how often it launched (0 on a GPU).
  template <class Launch>
  std::vector<std::byte> launched(const Launch& launch, int& launches) {
    DeviceQueues& queues = *device_->queues();
    device_->copy_from_host(memory_->data(), content_.data(), content_.size());
    std::optional<CountingQueue> counting;
    void* queue = queues.native(Queue::compute);
    if (!tests_run_on_a_gpu()) queue = static_cast<gpu::HostQueue*>(&counting.emplace(queue));
    std::vector<Kernel*> kernels;
    std::vector<KernelArguments> arguments;
    for (Update& update : updates_) {
      kernels.push_back(update.kernel.get());
      KernelArguments& of_one = arguments.emplace_back();
      of_one.inputs = update.inputs;
      of_one.updated = update.updated;
      of_one.queue = queue;
      of_one.random_state = queues.random_state();
    }
    launch(kernels, arguments);
    queues.synchronize();
    launches = counting ? counting->launches : 0;
    std::vector<std::byte> after(content_.size());
    device_->copy_to_host(after.data(), memory_->data(), after.size());
    return after;
  }

  /// Launches the updates together; expects the bytes of launching one after the other, and that many launches.
  void expect_joint(const std::string& what, int wanted_launches) {
    SCOPED_TRACE(what);
    for (Update& update : updates_) {
      ASSERT_NE(update.kernel->joint_kind(), nullptr);
      ASSERT_EQ(update.kernel->joint_kind(), updates_[0].kernel->joint_kind());
      ASSERT_EQ(update.kernel->workspace_bytes(), 0U);
    }
    int alone_launches = 0, launches = 0;
    const auto alone = launched(
        [](auto& kernels, auto& arguments) {
          for (std::size_t i = 0; i < kernels.size(); ++i) kernels[i]->launch(arguments[i]);
        },
        alone_launches);
    const auto together =
        launched([](auto& kernels, auto& arguments) { kernels[0]->launch_joint(kernels, arguments); }, launches);
    EXPECT_TRUE(alone == together);
    EXPECT_FALSE(std::memcmp(alone.data(), content_.data(), alone.size()) == 0) << "nothing was updated";
    if (tests_run_on_a_gpu()) return;
    EXPECT_EQ(launches, wanted_launches);
    EXPECT_GE(alone_launches, launches);
  }

  std::unique_ptr<Kernel> kernel_of(Operation operation) {
    prepare({operation});
    return std::move(updates_[0].kernel);
  }

 private:
  std::optional<EmulatedCuda> emulated_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::byte> content_;
  std::vector<Update> updates_;
};

TEST_F(JointUpdates, GiveTheBytesOfOneAfterTheOtherForEveryUpdate) {
  for (const NamedUpdate& update : all_updates()) {
    Graph graph;
    std::vector<Operation> operations;
    for (std::int64_t count : {0, 1, 3, 4, 5, 1000, 0, 1023, 1024, 1025, 4096, 4097, 20011, 7, 0}) {
      operations.push_back(update.make(graph, count));
    }
    prepare(operations);
    expect_joint(update.name, 1);
  }
}

TEST_F(JointUpdates, WithGatesGiveTheBytesOfOneAfterTheOther) {
  const std::map<std::string, std::any> ops = {{"assign_add", {}},
                                               {"apply_sgd", {}},
                                               {"apply_momentum", MomentumOptions{}},
                                               {"apply_adagrad", AdagradOptions{}},
                                               {"apply_rms_prop", RmsPropOptions{}},
                                               {"apply_lion", LionOptions{}},
                                               {"apply_adam", AdamOptions{}},
                                               {"apply_adam_w", AdamWOptions{}},
                                               {"average_weights", WeightAverageOptions{}}};
  for (const auto& [op, options] : ops) {
    Graph graph;
    std::vector<Operation> operations;
    for (std::int64_t count : {0, 1, 1000, 1023, 4097, 20011}) {
      const OpDef& definition = op_registry().at(op);
      std::vector<Value> inputs;
      for (std::size_t i = 0; i < definition.updated_inputs.size(); ++i) inputs.push_back(state(graph, count));
      if (op != "average_weights") inputs.push_back(slope(graph, count));
      if (op.starts_with("apply_")) inputs.push_back(rate(graph));
      if (static_cast<int>(inputs.size()) < definition.inputs.least) inputs.push_back(steps(graph));
      operations.push_back(
          conditional_update(op, inputs, options, {.gate = placeholder(graph, "gate", {}, Dtype::boolean)}));
    }
    prepare(operations);
    expect_joint(op, 1);
  }
}

TEST_F(JointUpdates, OfMoreThanATableHoldsTakeAsManyLaunchesAsTables) {
  for (const NamedUpdate& update : all_updates()) {
    for (const int more : {0, 1}) {
      Graph graph;
      std::vector<Operation> operations;
      for (int i = 0; i < 2 * update.entries + more; ++i) operations.push_back(update.make(graph, 1 + i % 9));
      prepare(operations);
      expect_joint(update.name, 2 + more);
    }
  }
}

TEST_F(JointUpdates, OfNothingLaunchNothing) {
  Graph graph;
  prepare({assign_add(state(graph, 0), slope(graph, 0)), assign_add(state(graph, 1), slope(graph, 1)),
           assign_add(state(graph, 0), slope(graph, 0))});
  expect_joint("one that is not empty", 1);
}

TEST_F(JointUpdates, EachHasItsOwnOptionsRateAndSteps) {
  Graph graph;
  std::vector<Operation> operations;
  for (int i = 0; i < 20; ++i) {
    const float beta = 0.5F + 0.02F * static_cast<float>(i);
    operations.push_back(apply_adam(state(graph, 33), state(graph, 33), state(graph, 33), slope(graph, 33), rate(graph),
                                    steps(graph), {.beta1 = beta, .beta2 = beta / 2}));
  }
  prepare(operations);
  expect_joint("adam", 1);
}

TEST_F(JointUpdates, KindsAreWhatOneLaunchCanServe) {
  Graph graph;
  const auto updates = all_updates();
  std::vector<const void*> kinds;
  for (const NamedUpdate& update : updates) kinds.push_back(kernel_of(update.make(graph, 3))->joint_kind());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // Adagrad and RMSprop are one formula with other numbers.
      const bool one =
          std::string(updates[i].name) == "apply_rms_prop" && std::string(updates[j].name) == "apply_adagrad";
      EXPECT_EQ(kinds[i] == kinds[j], one) << updates[i].name << ", " << updates[j].name;
    }
  }
  EXPECT_EQ(kernel_of(assign(state(graph, 3), slope(graph, 3)))->joint_kind(), nullptr) << "a copy of the driver's";
}

/// Counts how a program's kernels are launched.
struct Launches {
  int alone = 0, joint = 0, in_joint = 0;
};
class WatchedKernel final : public Kernel {
 public:
  WatchedKernel(std::unique_ptr<Kernel> kernel, Launches& launches) : kernel_(std::move(kernel)), launches_(launches) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::vector<InPlace> in_place() const override { return kernel_->in_place(); }
  void launch(const KernelArguments& arguments) override {
    if (kernel_->joint_kind() != nullptr) ++launches_.alone;
    kernel_->launch(arguments);
  }
  const void* joint_kind() const override { return kernel_->joint_kind(); }
  void launch_joint(std::span<Kernel* const> kernels, std::span<const KernelArguments> arguments) override {
    ++launches_.joint;
    launches_.in_joint += static_cast<int>(kernels.size());
    std::vector<Kernel*> watched;
    for (Kernel* kernel : kernels) watched.push_back(static_cast<WatchedKernel*>(kernel)->kernel_.get());
    kernel_->launch_joint(watched, arguments);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Launches& launches_;
};

/// Steps of a small network with Adam on an emulated GPU.
class JointTraining : public testing::Test {
 protected:
  struct Options {
    bool traced = false, poison = false, records = true;
    EmulatedKernels kernels = EmulatedKernels::cuda;
  };
  /// What three steps leave behind; one_step is what the first of them launched.
  static TrainingState train(const Options& options, Launches& one_step) {
    const EmulatedCuda gpu({.kernels = options.kernels});
    TrainableRandomModel t({.seed = 4, .min_layers = 4, .max_layers = 4});
    Session session(t.graph, {.device = cuda(),
                              .device_memory = 8_MiB,
                              .record_cycles = options.records,
                              .poison = options.poison,
                              .check_schedules = true});
    session.initialize();
    Launches launches;
    const RandomBatch batch = random_batch(t.model, 2, 0);
    Executable& program = engine(session).whole_program({t.model.loss}, batch.types(t.model), t.training);
    for (auto& kernel : program.kernels) kernel = std::make_unique<WatchedKernel>(std::move(kernel), launches);
    Trace trace;
    if (options.traced) session.set_trace(&trace);
    for (std::uint64_t step = 0; step < 3; ++step) {
      (void)session.run(t.model.loss, random_batch(t.model, 2, step).feeds(t.model), t.training);
      if (step == 0) one_step = launches;
    }
    session.set_trace(nullptr);
    return {read_variables(session), {}};
  }
};

TEST_F(JointTraining, TakesFewerLaunchesAndGivesTheSameBytes) {
  Launches alone, joint;
  const TrainingState wanted = train({.traced = true}, alone);
  EXPECT_EQ(alone.joint, 0) << "each step of a trace has times of its own";
  EXPECT_GT(alone.alone, 10);
  for (const bool records : {false, true}) {
    EXPECT_EQ(first_difference(wanted, train({.records = records}, joint)), "");
    EXPECT_EQ(joint.alone + joint.in_joint, alone.alone) << "each once";
    EXPECT_GT(joint.joint, 0);
    EXPECT_LE(joint.alone + joint.joint, alone.alone / 2);
  }
}

TEST_F(JointTraining, PoisonLooksAtEachStepByItself) {
  Launches poisoned, joint;
  const TrainingState wanted = train({.poison = true}, poisoned);
  EXPECT_EQ(poisoned.joint, 0);
  EXPECT_EQ(first_difference(wanted, train({}, joint)), "");
}

TEST_F(JointTraining, KernelsOfTheHostMayBeJoinedInAnyOrderToo) {
  Launches alone, joint;
  const TrainingState wanted = train({.traced = true, .kernels = EmulatedKernels::cpu}, alone);
  EXPECT_EQ(first_difference(wanted, train({.kernels = EmulatedKernels::cpu}, joint)), "");
  EXPECT_EQ(alone.joint, 0);
  EXPECT_GT(joint.joint, 0);
}

}  // namespace
}  // namespace sectionflow
