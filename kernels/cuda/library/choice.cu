#include <cuda_runtime_api.h>
#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "device/device_queues.h"
#include "kernels/cuda/library/choice.h"

namespace sectionflow::gpu {
namespace {

constexpr std::size_t kExecutions = 5;
/// Small numbers that are no zeros, in f32 and bf16: hardware is faster on zeros.
constexpr int kFilling = 0x3C;

/// Bytes for the operands of a trial, filled, lent or allocated until it ends.
class Bench {
 public:
  Bench(Device& device, const Trial& trial) {
    const auto place = [this](std::size_t bytes) {
      const std::size_t offset = bytes_;
      bytes_ += round_up(bytes);
      return offset;
    };
    for (const TensorType& type : trial.inputs) inputs_.push_back(place(type.bytes()));
    for (const TensorType& type : trial.outputs) outputs_.push_back(place(type.bytes()));
    workspace_ = place(trial.workspace_bytes);
    const TrialMemory& memory = device.choices().trial_memory();
    if (memory.lent.size() >= bytes_) {
      base_ = memory.lent.data();
    } else if (memory.most_allocated >= bytes_) {
      allocate(device);
    } else {
      why_not_ = text_of("only ", bytes_text(std::max(memory.lent.size(), memory.most_allocated)), " are to be had");
    }
  }

  bool has_memory() const { return base_ != nullptr; }
  std::size_t num_bytes() const { return bytes_; }
  const std::string& why_not() const { return why_not_; }
  /// Calls visit(arguments) with what an execution is given, on queues that have nothing else to do.
  template <class Visit>
  void use(Device& device, const Visit& visit) {
    DeviceQueues& queues = *device.queues();
    queues.synchronize();
    queues.fill(Queue::compute, base_, kFilling, bytes_);
    const std::vector<const void*> from = inputs();
    const std::vector<void*> to = outputs();
    visit(KernelArguments{.inputs = from,
                          .outputs = to,
                          .updated = {},
                          .workspace = base_ + workspace_,
                          .random = {},
                          .queue = queues.native(Queue::compute)});
    queues.synchronize();
  }

 private:
  std::vector<const void*> inputs() const {
    std::vector<const void*> pointers;
    for (std::size_t offset : inputs_) pointers.push_back(base_ + offset);
    return pointers;
  }
  std::vector<void*> outputs() const {
    std::vector<void*> pointers;
    for (std::size_t offset : outputs_) pointers.push_back(base_ + offset);
    return pointers;
  }

  void allocate(Device& device) {
    try {
      memory_ = device.allocate(bytes_);
      base_ = memory_->data();
    } catch (const DeviceError& error) {
      why_not_ = error.what();
    }
  }

  std::vector<std::size_t> inputs_, outputs_;
  std::size_t workspace_ = 0, bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
  std::byte* base_ = nullptr;
  std::string why_not_;
};

/// The marks between which an execution lies.
class StopWatch {
 public:
  explicit StopWatch(DeviceQueues& queues) : queues_(queues), begin_(queues.make_event()), end_(queues.make_event()) {}

  /// The median of several executions.
  template <class Launch>
  double seconds_of(const Launch& launch) {
    std::array<double, kExecutions> seconds{};
    for (double& each : seconds) {
      queues_.record(*begin_, Queue::compute);
      launch();
      queues_.record(*end_, Queue::compute);
      queues_.synchronize(*end_);
      each = queues_.seconds_between(*begin_, *end_);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kExecutions / 2];
  }

 private:
  DeviceQueues& queues_;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

}  // namespace

std::string text_of_words(std::span<const std::uint64_t> words) {
  std::string text;
  for (std::uint64_t word : words) {
    std::array<char, 20> digits{};
    (void)std::snprintf(digits.data(), digits.size(), "%s%llx", text.empty() ? "" : " ",
                        static_cast<unsigned long long>(word));
    text += digits.data();
  }
  return text;
}

void read_words(const std::string& text, std::span<std::uint64_t> words) {
  const char* next = text.c_str();
  for (std::uint64_t& word : words) {
    char* end = nullptr;
    word = std::strtoull(next, &end, 16);
    SF_CHECK(end != next, InternalError, "'", text, "' is no algorithm of ", words.size(), " numbers");
    next = end;
  }
  SF_CHECK(text_of_words(words) == text, InternalError, "'", text, "' is no algorithm of ", words.size(), " numbers");
}

void warn_of_none(const std::string& problem, const LeftOut& left_out) {
  LOG(WARNING) << "no algorithm of a library is taken, another kernel runs: " << problem << "; "
               << (left_out.text().empty() ? "the library offers none" : left_out.text());
}

std::optional<std::size_t> fastest_of(Device& device, const Trial& trial) {
  Bench bench(device, trial);
  if (!bench.has_memory()) {
    LOG(INFO) << "not timed, the library's guess is taken: " << trial.problem << " needs "
              << bytes_text(bench.num_bytes()) << "; " << bench.why_not();
    return std::nullopt;
  }
  StopWatch watch(*device.queues());
  std::optional<std::size_t> fastest;
  double least = 0;
  bench.use(device, [&](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < trial.num_algorithms; ++i) {
      // The first execution loads the kernel's code.
      if (!trial.launch(i, arguments)) continue;
      const double seconds = watch.seconds_of([&] { (void)trial.launch(i, arguments); });
      if (fastest && seconds >= least) continue;
      fastest = i;
      least = seconds;
    }
  });
  return fastest;
}

bool is_refused(Device& device, const Trial& trial) {
  Bench bench(device, trial);
  bool runs = true;
  if (bench.has_memory()) {
    bench.use(device, [&](const KernelArguments& arguments) { runs = trial.launch(0, arguments); });
  }
  return !runs;
}

void warn_of_refusal(const std::string& problem, const std::string& algorithm) {
  LOG(WARNING) << "a library refuses to run what it has offered, which is not taken: " << problem << "; algorithm "
               << algorithm;
}

void forget_refusal() {
  (void)cudaGetLastError();
}

void fail_as_refused(const std::string& problem, const std::string& algorithm) {
  throw DeviceError(error_text_of(
      "a library refuses to run what it has offered, and what could not be tried while the program was compiled: ",
      problem, "; algorithm ", algorithm,
      hint("start the process again with more device memory, in which algorithms are tried before one is taken")));
}

}  // namespace sectionflow::gpu
